//! What happens to each binary of a wheel: tied, left alone with a reason, or refused.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use itertools::Itertools as _;

use super::{Tie, plan::RunPathChange};
use crate::framework::{
    facts,
    policy::RocmDirectoryKey,
    providers::LibraryProvider,
    read::ElfMember,
    refusal::{RefusalKind, WheelRefusal},
    run_path,
};
use rocwheel_base::{error::Result, quantity::many, relpath};
use rocwheel_wheel::DistName;

/// The libraries that a binary needs, by who provides them.
#[derive(Default)]
struct SortedNeeds<'a> {
    rocm: Vec<(&'a str, RocmDirectoryKey)>,
    /// Libraries of another ROCm, each with the library that the set has instead.
    other_rocm: Vec<(&'a str, Option<String>)>,
    vendors: Vec<(&'a str, String)>,
    unknown: Vec<&'a str>,
    neighbours: Vec<DistName>,
}

/// Libraries that files of a wheel need and do not get, by their names. Each is one refusal, however many files need
/// it.
#[derive(Debug, Default)]
pub(super) struct UnmetNeeds(BTreeMap<String, UnmetNeed>);

#[derive(Debug)]
struct UnmetNeed {
    /// Why the files do not get the library, as the end of a sentence.
    why: String,
    /// What only matters if one file needs it.
    detail: String,
    files: Vec<String>,
    kind: RefusalKind,
    hint: &'static str,
}

impl UnmetNeeds {
    /// Adds a file that needs a library.
    fn add(&mut self, name: &str, path: &str, need: impl FnOnce() -> UnmetNeed) {
        self.0.entry(name.to_owned()).or_insert_with(need).files.push(path.to_owned());
    }

    fn refusals(self) -> impl Iterator<Item = WheelRefusal> {
        self.0.into_iter().map(|(name, need)| {
            let UnmetNeed { why, detail, files, kind, hint } = need;
            let message = match &files[..] {
                [path] => format!("`{path}` needs `{name}`{why}{detail}"),
                files => {
                    let first = files.iter().min().map_or("", String::as_str);
                    let count = many(files.len(), "file");
                    let more = files.len().saturating_sub(1);
                    format!("{count} need `{name}`{why}: `{first}` and {more} more")
                }
            };
            WheelRefusal::new(kind, message, hint)
        })
    }
}

impl UnmetNeed {
    fn of_other_soname(set: &str, detail: String) -> Self {
        Self {
            why: format!("; the set {set}"),
            detail,
            files: Vec::new(),
            kind: RefusalKind::OtherSoname,
            hint: "tie it to the set that it was built with",
        }
    }

    fn of_unknown_library() -> Self {
        Self {
            why: ", which nothing provides".to_owned(),
            detail: String::new(),
            files: Vec::new(),
            kind: RefusalKind::UnknownLibrary,
            hint: "ship it in the wheel, name the wheel that has it too, or pass `--host-provides`",
        }
    }
}

impl Tie<'_> {
    pub(super) fn plan_binaries(&mut self) -> Result<()> {
        let wheel = self.wheel;
        let group = self.group;
        for elf in wheel.host_files() {
            self.plan.binaries += 1;
            self.plan_elf_file(elf)?;
        }
        for elf in wheel.elf_files() {
            // The wheel opens these libraries by name while it runs, so the wheel needs their package.
            let opened = facts::opened_rocm_libraries(wheel, elf, group.providers.policy)
                .filter_map(|name| group.rocm.of_other_version(relpath::split(name).1));
            self.needs.opened.extend(opened.map(|library| library.name.clone()));
        }
        for (path, imports) in wheel.imports() {
            self.plan.binaries += 1;
            match imports {
                Ok(imports) => self.plan_windows_file(path, imports),
                Err(why) => self.leave(path, why.to_owned()),
            }
        }
        for (path, why) in wheel.unread_binaries() {
            self.warn(format!("`{path}` is left alone: {why}"));
            self.leave(path, why.to_owned());
        }
        self.refusals.extend(mem::take(&mut self.unmet).refusals());
        // The order of the members in the archive is no part of the result.
        let plan = &mut self.plan;
        plan.record.run_paths.sort();
        plan.record.untied.sort_by(|a, b| a.0.cmp(&b.0));
        plan.run_paths.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    fn plan_elf_file(&mut self, elf: ElfMember<'_>) -> Result<()> {
        let ElfMember { path, facts, .. } = elf;
        let wheel = self.wheel;
        let group = self.group;
        if let Some(copy) = facts::copy_of(elf, group.rocm) {
            self.refuse(
                RefusalKind::Grafted,
                format!("it holds `{path}`, which is {copy}"),
                "build the wheel without copies of ROCm: `auditwheel repair` needs `--exclude` for each library",
            );
        }
        let needs = self.sort(elf);
        if self.is_left_alone(path, &needs) {
            return Ok(());
        }
        let is_tied = !needs.rocm.is_empty();
        self.needs.neighbours.extend(needs.neighbours);
        for (name, directory) in needs.rocm {
            self.needs.libraries.insert(name.to_owned());
            self.needs.directories.insert(directory);
        }
        let to = run_path::wanted(wheel, elf, group.providers)?;
        if is_tied {
            self.plan.record.run_paths.push((path.to_owned(), to.to_string()));
        }
        // A file that needs no library of the set is only changed if others could choose what it loads.
        let entries = run_path::entries(wheel, elf, group.providers);
        let should_change = is_tied || entries.iter().any(|(_, leads)| leads.leads_out());
        if should_change && !facts.has_rpath(&to) && facts.uses_run_path() {
            self.plan.run_paths.push(RunPathChange {
                path: elf.member.path.clone(),
                from: facts.run_path().map(str::to_owned),
                to,
            });
        }
        Ok(())
    }

    /// Plans a file for Windows. It has no run path: the init module loads what it imports.
    fn plan_windows_file(&mut self, path: &str, imports: &BTreeSet<String>) {
        let rocm = self.group.rocm;
        let needed = imports.iter().filter_map(|name| rocm.library(name)).collect_vec();
        for name in imports.iter().filter(|name| rocm.library(name).is_none()) {
            let Some(other) = rocm.of_other_version(name) else {
                continue;
            };
            let in_set = &other.name;
            // A file that needs no library of this set is for another ROCm as a whole.
            if needed.is_empty() {
                let why = format!("it needs `{name}`, and the set has `{in_set}`: another ROCm");
                return self.leave(path, why);
            }
            let set = format!("has `{in_set}`");
            self.unmet.add(name, path, || UnmetNeed::of_other_soname(&set, String::new()));
        }
        if !needed.is_empty() {
            // The record names the file as tied, and the file has no run path.
            self.plan.record.run_paths.push((path.to_owned(), String::new()));
        }
        for library in needed {
            self.needs.libraries.insert(library.name.clone());
            self.needs.directories.insert(library.directory);
        }
    }

    fn sort<'e>(&self, elf: ElfMember<'e>) -> SortedNeeds<'e> {
        let mut needs = SortedNeeds::default();
        for (name, by) in self.group.providers.needs(self.wheel, elf) {
            match by {
                LibraryProvider::Rocm(directory) => needs.rocm.push((name, directory)),
                LibraryProvider::OtherRocm(has) => needs.other_rocm.push((name, has)),
                LibraryProvider::Vendor(vendor) => needs.vendors.push((name, vendor)),
                LibraryProvider::Unknown => needs.unknown.push(name),
                LibraryProvider::Own(_) | LibraryProvider::Host => {}
                other => needs.neighbours.extend(other.framework()),
            }
        }
        needs
    }

    /// Whether a binary is not for this set: then it stays as it is, and the plan says why. If it is
    /// for this set, but something is missing, that is a refusal.
    fn is_left_alone(&mut self, path: &str, needs: &SortedNeeds<'_>) -> bool {
        let provided = needs.rocm.len();
        let is_tied = provided > 0;
        let all = provided + needs.other_rocm.len();
        for (name, other) in &needs.other_rocm {
            let set = match other {
                Some(other) => format!("has `{other}`"),
                None => "lacks it".to_owned(),
            };
            if !is_tied {
                let why = format!("it needs `{name}`, and the set {set}: another ROCm");
                self.warn(format!("`{path}` is left alone: {why}"));
                self.leave(path, why);
                return true;
            }
            let detail = format!(" ({provided} of its {all} names of ROCm are there)");
            self.unmet.add(name, path, || UnmetNeed::of_other_soname(&set, detail));
        }
        if !is_tied && let Some((name, vendor)) = needs.vendors.first() {
            self.leave(path, format!("it needs `{name}` of {vendor}"));
            return true;
        }
        // A binary that needs ROCm and another vendor's library cannot be tied: nothing in the group provides that
        // library. So it is refused like an unknown library.
        let of_vendors = needs.vendors.iter().map(|(name, _)| *name);
        let unknown = needs.unknown.iter().copied().chain(of_vendors).collect_vec();
        if !is_tied && !unknown.is_empty() {
            let names = unknown.iter().join("`, `");
            let why = format!("it needs `{names}`, which nothing provides, and nothing of ROCm");
            self.leave(path, why);
            return true;
        }
        for name in unknown {
            self.unmet.add(name, path, UnmetNeed::of_unknown_library);
        }
        false
    }

    fn leave(&mut self, path: &str, why: String) {
        self.plan.record.untied.push((path.to_owned(), why));
    }
}
