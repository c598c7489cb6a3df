//! What was observed of a place.
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
    parts, published,
    read::{self, Pass},
    shelf::{Shelf, ShelfKind},
};
use crate::{
    check::{self, Comparison, Coverage, Demands, Finding, Inventory, SetFacts},
    commands::{
        World,
        args::{AccessArgs, Jobs},
    },
    digest::Sha256,
    error::{Hint as _, Result, ensure},
};

/// Every package of a place, and what its pages say.
pub(super) struct Observed {
    set: SetFacts,
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
        } else if look == Look::Packages {
            published::unpublished(&shelf, published::lying(&shelf)?)?
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
        let mut set = read::read(&found.packages, pass, jobs.count(), &title, world)?;
        set.published = found.published.map(Arc::new);
        Ok(Self { set })
    }

    /// The sdists of a set for another platform are the same.
    pub(super) fn compare(&mut self, siblings: &BTreeMap<String, Sha256>) {
        self.set.siblings = Some(siblings.clone());
    }

    pub(super) fn set(&self) -> &SetFacts {
        &self.set
    }

    pub(super) fn len(&self) -> usize {
        self.set.len()
    }

    /// All that is wrong, and what each library has code for.
    pub(super) fn findings(
        &self,
        demands: &Demands,
        inventory: Option<&Inventory>,
    ) -> (Vec<Finding>, Coverage) {
        let since = inventory.map(|old| Comparison::new(old, &Inventory::of(&self.set)));
        let parts = parts::of(&self.set);
        if let [_] = parts.as_slice() {
            let coverage = Coverage::of(&self.set.ours());
            let findings = check::findings(&self.set, demands, &coverage, since.as_ref());
            return (findings, coverage);
        }
        let demands = Demands {
            // What one part covers, others need not.
            targets: parts::uncovered(&parts, &demands.targets),
            ..demands.clone()
        };
        let mut coverage = Coverage::default();
        let mut all = Vec::new();
        for part in &parts {
            let own = Coverage::of(&part.set.ours());
            all.push(check::findings_of_part(&part.set, &demands, &own));
            coverage.extend(own, |library| part.name(library));
        }
        let mut findings = parts::together(&parts, &all);
        findings.extend(check::findings_of_all(&self.set, &demands, since.as_ref()));
        check::sort(&mut findings);
        (findings, coverage)
    }
}

/// Whether anything in a directory says what is in it.
fn has_pages(place: &Path) -> bool {
    place.is_file()
        || ["set.json", "simple", "SHA256SUMS", "index.html"]
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
