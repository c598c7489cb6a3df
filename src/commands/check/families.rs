//! What was observed of a place: one set, or one for each family.
//!
//! The form of packages without device wheels keeps `rocm` and the development files of several
//! families in a directory each, `dist/gfx94X-dcgpu`, below what they share.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use fs_err as fs;

use super::{
    Look,
    package::{Package, is_package},
    published,
    read::{self, Pass},
    shelf::{Shelf, ShelfKind},
};
use crate::{
    audit::{self, Comparison, Coverage, Demands, Finding, Inventory, SetFacts, WheelFile},
    commands::{
        World,
        args::{AccessArgs, Jobs},
    },
    digest::Sha256,
    error::{Hint as _, Result, ensure},
};

/// How the names of packages begin that have a family in them.
const LIBRARIES: &str = "rocm-sdk-libraries-";

pub(super) struct Observed {
    sets: Vec<(Option<String>, SetFacts)>,
    packages: usize,
}

impl Observed {
    pub(super) fn of(
        place: &Path,
        look: Look,
        access: &AccessArgs,
        jobs: &Jobs,
        world: &World,
    ) -> Result<Self> {
        let shelf = Shelf::open(place, access, &world.stop)?;
        let is_local = matches!(shelf.kind(), ShelfKind::Directory(_));
        let mut found = if is_local && (look == Look::Packages || !has_pages(place)) {
            published::Found {
                packages: directory(place)?,
                ..published::Found::default()
            }
        } else {
            published::find(&shelf)?
        };
        if let Some(version) = &found.chosen {
            world.console.note(format!(
                "the index has several versions, and {version} is the newest: the others are not looked at"
            ));
        }
        let families = if is_local {
            families(place)?
        } else {
            Vec::new()
        };
        let known: BTreeSet<String> = found.packages.iter().map(|it| it.name().into()).collect();
        for (family, packages) in families {
            let packages = packages.into_iter().map(|it| it.in_directory(&family));
            let others = packages.filter(|it| !known.contains(it.name()));
            found.packages.extend(others);
        }
        found
            .packages
            .sort_by(|one, other| one.name().cmp(other.name()));
        let pass = match (found.published.is_some(), is_local) {
            (false, _) => Pass::Portions,
            (true, true) => Pass::Hashed,
            (true, false) => Pass::Whole,
        };
        let title = place.display().to_string();
        let mut facts = read::read(&found.packages, pass, jobs.count(), &title, world)?;
        facts.published = found.published;
        Ok(Self {
            packages: found.packages.len(),
            sets: by_family(facts),
        })
    }

    /// The sdists of a set for another platform are the same.
    pub(super) fn compare(&mut self, siblings: &BTreeMap<String, Sha256>) {
        for (_, set) in &mut self.sets {
            set.siblings = Some(siblings.clone());
        }
    }

    /// Each set, with what families share in all of them.
    pub(super) fn sets(&self) -> Vec<&SetFacts> {
        self.sets.iter().map(|(_, set)| set).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.packages
    }

    /// All that is wrong, and what each library has code for.
    pub(super) fn findings(
        &self,
        demands: &Demands,
        inventory: Option<&Inventory>,
    ) -> (Vec<Finding>, Coverage) {
        let mut all: Vec<(Option<&str>, Vec<Finding>)> = Vec::new();
        let mut coverages = Vec::new();
        for (family, set) in &self.sets {
            let coverage = Coverage::of(set);
            let since = inventory.map(|old| Comparison::new(old, &Inventory::of(set)));
            let findings = audit::findings(set, demands, &coverage, since.as_ref());
            all.push((family.as_deref(), findings));
            coverages.push(coverage);
        }
        let coverage = coverages.into_iter().next().unwrap_or_default();
        (together(&all), coverage)
    }
}

/// What is found in every family is said once; what is not says where.
fn together(all: &[(Option<&str>, Vec<Finding>)]) -> Vec<Finding> {
    if let [(_, only)] = all {
        return only.clone();
    }
    let everywhere = |finding: &Finding| all.iter().all(|(_, found)| found.contains(finding));
    let mut findings: Vec<Finding> = Vec::new();
    for (family, found) in all {
        for finding in found {
            if everywhere(finding) {
                findings.push(finding.clone());
                continue;
            }
            let family = family.unwrap_or_default();
            let own = format!("{family}/");
            let is_own = finding.file.as_ref().is_some_and(|it| it.starts_with(&own));
            let mut finding = finding.clone();
            if !is_own {
                finding.fact = format!("{}, in the set of `{family}`", finding.fact);
            }
            findings.push(finding);
        }
    }
    findings.sort_by(|one, other| one.order().cmp(&other.order()));
    findings.dedup();
    findings
}

/// Parts the facts: each family has what all share, what lies in its directory, and its libraries.
fn by_family(facts: SetFacts) -> Vec<(Option<String>, SetFacts)> {
    let directory = |file: &str| {
        file.split_once('/')
            .map(|(directory, _)| directory.to_owned())
    };
    let files = facts.wheels.iter().map(|it| it.file.as_str());
    let files = files.chain(facts.sdists.iter().map(|it| it.file.as_str()));
    let families: BTreeSet<String> = files.filter_map(directory).collect();
    if families.is_empty() {
        return vec![(None, facts)];
    }
    let mut sets: Vec<(Option<String>, SetFacts)> = Vec::new();
    for family in &families {
        let is_shared = |wheel: &Arc<WheelFile>| match directory(&wheel.file) {
            Some(own) => own == *family,
            None => families
                .iter()
                .all(|other| other == family || !is_library_of(wheel, other)),
        };
        let wheels = facts.wheels.iter().filter(|it| is_shared(it)).cloned();
        let set = SetFacts {
            wheels: wheels.collect(),
            ..SetFacts::default()
        };
        sets.push((Some(family.clone()), set));
    }
    for sdist in facts.sdists {
        let family = directory(&sdist.file);
        let set = sets.iter_mut().find(|(own, _)| *own == family);
        if let Some((_, set)) = set {
            set.sdists.push(sdist);
        } else if let Some((_, first)) = sets.first_mut() {
            first.sdists.push(sdist);
        }
    }
    for (family, set) in &mut sets {
        let published = facts.published.as_ref();
        set.published = published.map(|it| it.of_family(family.as_deref().unwrap_or_default()));
    }
    sets
}

fn is_library_of(wheel: &WheelFile, family: &str) -> bool {
    let name = wheel.name.as_ref().map(|name| name.name().normalized());
    let suffix = name.ok().and_then(|name| name.strip_prefix(LIBRARIES));
    suffix.is_some_and(|suffix| suffix == family.to_lowercase())
}

/// Whether anything in a directory says what is in it.
fn has_pages(place: &Path) -> bool {
    place.is_file()
        || ["set.json", "simple", "SHA256SUMS"]
            .iter()
            .any(|name| place.join(name).exists())
}

/// The packages of a directory or its `dist`, by name.
fn directory(place: &Path) -> Result<Vec<Package>> {
    let found = packages(&dist(place))?;
    let check = || -> Result<()> {
        ensure!(
            !found.is_empty(),
            "no wheel or sdist in `{}`",
            dist(place).display()
        );
        Ok(())
    };
    check().hint(ADVICE)?;
    Ok(found)
}

const ADVICE: &str = "pass the directory that `rocwheel build` wrote to";

fn dist(place: &Path) -> std::path::PathBuf {
    let dist = place.join("dist");
    if dist.is_dir() {
        dist
    } else {
        place.to_owned()
    }
}

fn packages(directory: &Path) -> Result<Vec<Package>> {
    let mut packages = Vec::new();
    for entry in fs::read_dir(directory).hint(ADVICE)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // A link to a file will do.
        if is_package(&name) && path.is_file() {
            packages.push(Package::file(&path, &name)?);
        }
    }
    Ok(packages)
}

/// The packages of each family that has a directory of its own.
fn families(place: &Path) -> Result<Vec<(String, Vec<Package>)>> {
    let dist = place.join("dist");
    let mut found = Vec::new();
    if !dist.is_dir() {
        return Ok(found);
    }
    for entry in fs::read_dir(&dist)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with('.') && path.is_dir() {
            let packages = packages(&path)?;
            if !packages.is_empty() {
                found.push((name.into_owned(), packages));
            }
        }
    }
    Ok(found)
}
