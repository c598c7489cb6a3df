//! What happens to each binary of a wheel: tied, left alone with a reason, or refused.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use itertools::Itertools as _;

use super::{
    TieInput, TieOptions,
    plan::{RunPathChange, UntiedFile},
};
use crate::{
    elf::{ElfFacts, ElfKind},
    error::Result,
    framework::{
        facts,
        policy::{Frameworks, RocmDirectoryKey},
        providers::{LibraryProvider, Providers},
        read::FrameworkWheel,
        refusal::{RefusalKind, WheelRefusal},
        rocm::RocmLibraries,
        run_path,
    },
    loader::is_loadable,
    wheel::DistName,
};

const COPIED_BY_AUDITWHEEL: &str = "build the wheel without copies of ROCm: `auditwheel repair` needs `--exclude` for each library";
const COPIED_BY_DELVEWHEEL: &str = "build the wheel without copies of ROCm: `delvewheel repair` needs `--exclude` for each library";

/// What the binaries of a wheel need, and which of them change.
#[derive(Debug, Default)]
pub(super) struct PlannedBinaries {
    pub changes: Vec<RunPathChange>,
    /// The paths of the members that need the set, with the run paths that they get.
    pub tied: Vec<(String, String)>,
    pub untied: Vec<UntiedFile>,
    pub count: usize,
    /// The libraries of the set that are needed, with the number of binaries that need each.
    pub libraries: BTreeMap<String, usize>,
    /// The directories of the set that are needed.
    pub directories: BTreeSet<RocmDirectoryKey>,
    /// The libraries of the set that are opened by name.
    pub opened: BTreeSet<String>,
    /// The other frameworks whose libraries are needed.
    pub neighbours: BTreeSet<DistName>,
    pub warnings: Vec<String>,
    pub refusals: Vec<WheelRefusal>,
}

/// The libraries that a binary needs, by who provides them.
#[derive(Default)]
struct SortedNeeds<'a> {
    rocm: Vec<(&'a str, RocmDirectoryKey)>,
    /// With what the set has instead.
    other_rocm: Vec<(&'a str, Option<String>)>,
    vendors: Vec<(&'a str, String)>,
    unknown: Vec<&'a str>,
    neighbours: Vec<DistName>,
}

pub(super) struct BinaryPlanner<'a> {
    pub wheel: &'a FrameworkWheel,
    pub input: &'a TieInput,
    pub providers: &'a Providers<'a>,
    pub rocm: &'a RocmLibraries,
    pub policy: &'a Frameworks,
    pub options: &'a TieOptions,
}

impl BinaryPlanner<'_> {
    pub(super) fn plan(&self) -> Result<PlannedBinaries> {
        let mut planned = PlannedBinaries::default();
        let files = self
            .wheel
            .elf_files()
            .filter(|(_, _, elf)| is_loadable(&elf.facts));
        for (path, member, elf) in files {
            planned.count += 1;
            let elf = &elf.facts;
            self.refuse_copy(path, elf, &mut planned);
            let is_chosen =
                self.options.only.is_empty() || self.options.only.iter().any(|it| it.matches(path));
            if !is_chosen {
                planned.leave(path, "not chosen by `--only`".to_owned());
                continue;
            }
            let needs = self.sort(path, elf);
            let is_tied = !needs.rocm.is_empty();
            if Self::is_left_alone(path, &needs, &mut planned) {
                continue;
            }
            planned.neighbours.extend(needs.neighbours);
            let to = run_path::wanted(&self.wheel.name.name, path, elf, self.providers)?;
            if is_tied {
                for (name, directory) in needs.rocm {
                    *planned.libraries.entry(name.to_owned()).or_default() += 1;
                    planned.directories.insert(directory);
                }
                let run_path = if self.options.keep_run_paths {
                    elf.run_path().unwrap_or_default().to_owned()
                } else {
                    to.to_string()
                };
                planned.tied.push((path.to_owned(), run_path));
            }
            let is_there =
                elf.runpath.is_none() && elf.rpath.as_deref().unwrap_or_default() == to.to_string();
            if !is_there && elf.is_searched() && !self.options.keep_run_paths {
                let (path, from) = (member.path.clone(), elf.run_path().map(str::to_owned));
                planned.changes.push(RunPathChange { path, from, to });
            }
        }
        for (_, member, elf) in self.wheel.elf_files() {
            let opened = facts::opened(self.wheel, &member.path, elf, self.policy);
            let files = opened.map(|name| name.rsplit('/').next().unwrap_or(name));
            planned.opened.extend(
                files
                    .filter_map(|it| self.rocm.of_other_version(it))
                    .map(str::to_owned),
            );
        }
        for (path, imports) in &self.input.imports {
            planned.count += 1;
            match imports {
                Ok(imports) => self.of_windows(path, imports, &mut planned),
                Err(why) => planned.leave(path, why.clone()),
            }
        }
        for (path, why) in self.wheel.unread_binaries() {
            planned
                .warnings
                .push(format!("`{path}` is left alone: {why}"));
            planned.leave(path, why.to_owned());
        }
        // The order of the members in the archive is no part of the result.
        planned.tied.sort();
        planned
            .changes
            .sort_by(|one, other| one.path.cmp(&other.path));
        planned
            .untied
            .sort_by(|one, other| one.path.cmp(&other.path));
        Ok(planned)
    }

    /// A file for Windows. It has no run path: the init module loads what it imports.
    fn of_windows(&self, path: &str, imports: &BTreeSet<String>, planned: &mut PlannedBinaries) {
        let name = path.rsplit('/').next().unwrap_or(path);
        if let Some((original, _)) = self.rocm.dll(&without_hash(name)) {
            planned
                .refusals
                .push(grafted(path, original, COPIED_BY_DELVEWHEEL));
        }
        let needed: Vec<_> = imports.iter().filter_map(|it| self.rocm.dll(it)).collect();
        for name in imports.iter().filter(|it| self.rocm.dll(it).is_none()) {
            let Some(has) = self.rocm.dll_of_other_version(name) else {
                continue;
            };
            if needed.is_empty() {
                planned.leave(
                    path,
                    format!("it needs `{name}`, and the set has `{has}`: another ROCm"),
                );
                return;
            }
            planned.refusals.push(WheelRefusal::new(
                RefusalKind::OtherSoname,
                format!("`{path}` needs `{name}`; the set has `{has}`"),
                "tie it to the set that it was built with",
            ));
        }
        for (name, directory) in &needed {
            *planned.libraries.entry((*name).to_owned()).or_default() += 1;
            planned.directories.insert(*directory);
        }
        if !needed.is_empty() {
            planned.tied.push((path.to_owned(), String::new()));
        }
    }

    /// Refuses a library of the set inside of a framework.
    fn refuse_copy(&self, path: &str, elf: &ElfFacts, planned: &mut PlannedBinaries) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let original = self
            .rocm
            .of_other_version(name)
            .filter(|_| elf.kind == ElfKind::SharedObject);
        let directory = original
            .and_then(|it| self.rocm.library(it))
            .map(|it| it.directory);
        // Frameworks may bring their own OpenMP.
        if let Some(original) = original.filter(|_| directory != Some(RocmDirectoryKey::L)) {
            planned
                .refusals
                .push(grafted(path, original, COPIED_BY_AUDITWHEEL));
        }
    }

    fn sort<'a>(&self, path: &str, elf: &'a ElfFacts) -> SortedNeeds<'a> {
        let mut needs = SortedNeeds::default();
        for name in &elf.needed {
            match self.providers.of(&self.wheel.name.name, path, elf, name) {
                LibraryProvider::Rocm(directory) => needs.rocm.push((name, directory)),
                LibraryProvider::OtherRocm(has) => needs.other_rocm.push((name, has)),
                LibraryProvider::Vendor(vendor) => needs.vendors.push((name, vendor)),
                LibraryProvider::Unknown => needs.unknown.push(name),
                LibraryProvider::Group { wheel, .. } => needs.neighbours.push(wheel),
                LibraryProvider::Neighbour { framework, .. } => {
                    needs.neighbours.extend(framework.parse().ok());
                }
                LibraryProvider::Own(_) | LibraryProvider::Host => {}
            }
        }
        needs
    }

    /// Whether a binary is not for this set: then it stays as it is, and the plan says why. If it is
    /// for this set, but something is missing, that is a refusal.
    fn is_left_alone(path: &str, needs: &SortedNeeds<'_>, planned: &mut PlannedBinaries) -> bool {
        let is_tied = !needs.rocm.is_empty();
        if let Some((name, has)) = needs.other_rocm.first() {
            let lacks = has
                .as_ref()
                .map_or("lacks it".to_owned(), |has| format!("has `{has}`"));
            if !is_tied {
                let why = format!("it needs `{name}`, and the set {lacks}: another ROCm");
                planned
                    .warnings
                    .push(format!("`{path}` is left alone: {why}"));
                planned.leave(path, why);
                return true;
            }
            let all = needs.rocm.len() + needs.other_rocm.len();
            for (name, has) in &needs.other_rocm {
                let lacks = has
                    .as_ref()
                    .map_or("lacks it".to_owned(), |has| format!("has `{has}`"));
                let message = format!(
                    "`{path}` needs `{name}`; the set {lacks} ({} of its {all} names of ROCm are there)",
                    needs.rocm.len()
                );
                planned.refusals.push(WheelRefusal::new(
                    RefusalKind::OtherSoname,
                    message,
                    "tie it to the set that it was built with",
                ));
            }
        }
        if !is_tied && let Some((name, vendor)) = needs.vendors.first() {
            planned.leave(path, format!("it needs `{name}` of {vendor}"));
            return true;
        }
        let unknown = needs
            .unknown
            .iter()
            .copied()
            .chain(needs.vendors.iter().map(|it| it.0))
            .collect_vec();
        if !is_tied && !unknown.is_empty() {
            let why = format!(
                "it needs `{}`, which nothing provides, and nothing of ROCm",
                unknown.iter().join("`, `")
            );
            planned.leave(path, why);
            return true;
        }
        for name in unknown {
            let message = format!("`{path}` needs `{name}`, which nothing provides");
            planned.refusals.push(WheelRefusal::new(
                RefusalKind::UnknownLibrary,
                message,
                "ship it in the wheel, name the wheel that has it too, or pass `--host-provides`",
            ));
        }
        false
    }
}

fn grafted(path: &str, original: &str, hint: &'static str) -> WheelRefusal {
    WheelRefusal::new(
        RefusalKind::Grafted,
        format!("it holds `{path}`, which is `{original}` of the set"),
        hint,
    )
}

/// The name of a library without the digest that `delvewheel` puts into the names of its copies:
/// `hipblas.dll` for `hipblas-8f141b4454fa78db34bc1f28c571b9c4.dll`.
fn without_hash(name: &str) -> Cow<'_, str> {
    let is_hash = |it: &str| it.len() == 32 && it.bytes().all(|byte| byte.is_ascii_hexdigit());
    let stem = name.rsplit_once('.').and_then(|(stem, extension)| {
        let (plain, hash) = stem.rsplit_once('-')?;
        is_hash(hash).then(|| format!("{plain}.{extension}"))
    });
    stem.map_or(Cow::Borrowed(name), Cow::Owned)
}

impl PlannedBinaries {
    fn leave(&mut self, path: &str, why: String) {
        let path = path.to_owned();
        self.untied.push(UntiedFile { path, why });
    }
}
