//! What happens to each binary of a wheel: tied, left alone with a reason, or refused.

use std::{borrow::Cow, collections::BTreeSet};

use itertools::Itertools as _;

use super::{Tie, plan::RunPathChange};
use crate::{
    elf::{ElfFacts, ElfKind},
    error::Result,
    framework::{
        facts,
        policy::RocmDirectoryKey,
        providers::LibraryProvider,
        refusal::{RefusalKind, WheelRefusal},
        run_path,
    },
    loader::is_loadable,
    wheel::DistName,
};

const COPIED_BY_AUDITWHEEL: &str = "build the wheel without copies of ROCm: `auditwheel repair` needs `--exclude` for each library";
const COPIED_BY_DELVEWHEEL: &str = "build the wheel without copies of ROCm: `delvewheel repair` needs `--exclude` for each library";
const OTHER_SONAME: &str = "tie it to the set that it was built with";

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

impl Tie<'_> {
    pub(super) fn binaries(&mut self) -> Result<()> {
        let wheel = self.wheel;
        for (path, member, elf) in wheel.elf_files().filter(|it| is_loadable(&it.2.facts)) {
            self.plan.binaries += 1;
            self.elf(path, &member.path, &elf.facts)?;
        }
        for (_, member, elf) in wheel.elf_files() {
            let opened = facts::opened(wheel, &member.path, elf, self.policy);
            let files = opened.map(|name| name.rsplit('/').next().unwrap_or(name));
            let ours = files.filter_map(|it| self.rocm.of_other_version(it));
            self.needs.opened.extend(ours.map(str::to_owned));
        }
        for (path, imports) in wheel.imports() {
            self.plan.binaries += 1;
            match imports {
                Ok(imports) => self.dll(path, imports),
                Err(why) => self.leave(path, why.to_owned()),
            }
        }
        for (path, why) in wheel.unread_binaries() {
            self.warn_of(path, why);
            self.leave(path, why.to_owned());
        }
        // The order of the members in the archive is no part of the result.
        let plan = &mut self.plan;
        plan.record.run_paths.sort();
        plan.record.untied.sort_by(|one, other| one.0.cmp(&other.0));
        plan.run_paths
            .sort_by(|one, other| one.path.cmp(&other.path));
        Ok(())
    }

    fn elf(&mut self, path: &str, member: &str, elf: &ElfFacts) -> Result<()> {
        let options = self.options;
        self.refuse_copy(path, elf);
        if !options.only.is_empty() && !options.only.iter().any(|it| it.matches(path)) {
            self.leave(path, "not chosen by `--only`".to_owned());
            return Ok(());
        }
        let needs = self.sort(path, elf);
        if self.is_left_alone(path, &needs) {
            return Ok(());
        }
        let is_tied = !needs.rocm.is_empty();
        self.needs.neighbours.extend(needs.neighbours);
        let to = run_path::wanted(self.wheel, path, member, elf, self.providers)?;
        for (name, directory) in needs.rocm {
            self.needs.libraries.insert(name.to_owned());
            self.needs.directories.insert(directory);
        }
        if is_tied {
            let kept = options.keep_run_paths.then(|| elf.run_path());
            let run_path = kept.map(|it| it.unwrap_or_default().to_owned());
            let run_path = run_path.unwrap_or_else(|| to.to_string());
            self.plan.record.run_paths.push((path.to_owned(), run_path));
        }
        let is_there =
            elf.runpath.is_none() && elf.rpath.as_deref().unwrap_or_default() == to.to_string();
        // A file that needs no library of the set is only changed if others could choose what it loads.
        let entries = run_path::entries(self.wheel, path, elf, self.providers);
        let is_worth = is_tied || entries.into_iter().any(|(_, leads)| leads.leads_out());
        if is_worth && !is_there && elf.is_searched() && !options.keep_run_paths {
            let (path, from) = (member.to_owned(), elf.run_path().map(str::to_owned));
            self.plan.run_paths.push(RunPathChange { path, from, to });
        }
        Ok(())
    }

    /// A file for Windows. It has no run path: the init module loads what it imports.
    fn dll(&mut self, path: &str, imports: &BTreeSet<String>) {
        let rocm = self.rocm;
        let name = path.rsplit('/').next().unwrap_or(path);
        if let Some((original, _)) = rocm.dll(&without_hash(name)) {
            self.refusals
                .push(grafted(path, original, COPIED_BY_DELVEWHEEL));
        }
        let needed: Vec<_> = imports.iter().filter_map(|it| rocm.dll(it)).collect();
        for name in imports.iter().filter(|it| rocm.dll(it).is_none()) {
            let Some(has) = rocm.dll_of_other_version(name) else {
                continue;
            };
            if needed.is_empty() {
                let why = format!("it needs `{name}`, and the set has `{has}`: another ROCm");
                self.leave(path, why);
                return;
            }
            let message = format!("`{path}` needs `{name}`; the set has `{has}`");
            self.refuse(RefusalKind::OtherSoname, message, OTHER_SONAME);
        }
        for (name, directory) in &needed {
            self.needs.libraries.insert((*name).to_owned());
            self.needs.directories.insert(*directory);
        }
        if !needed.is_empty() {
            let tied = (path.to_owned(), String::new());
            self.plan.record.run_paths.push(tied);
        }
    }

    /// Refuses a library of the set inside of a framework.
    fn refuse_copy(&mut self, path: &str, elf: &ElfFacts) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let original = self.rocm.of_other_version(name);
        let Some(original) = original.filter(|_| elf.kind == ElfKind::SharedObject) else {
            return;
        };
        let directory = self.rocm.library(original).map(|it| it.directory);
        if !directory.is_some_and(RocmDirectoryKey::is_llvm) {
            self.refusals
                .push(grafted(path, original, COPIED_BY_AUDITWHEEL));
        }
    }

    fn sort<'e>(&self, path: &str, elf: &'e ElfFacts) -> SortedNeeds<'e> {
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
    fn is_left_alone(&mut self, path: &str, needs: &SortedNeeds<'_>) -> bool {
        let is_tied = !needs.rocm.is_empty();
        let all = needs.rocm.len() + needs.other_rocm.len();
        for (name, has) in &needs.other_rocm {
            let lacks = has.as_ref().map(|has| format!("has `{has}`"));
            let lacks = lacks.unwrap_or("lacks it".to_owned());
            if !is_tied {
                let why = format!("it needs `{name}`, and the set {lacks}: another ROCm");
                self.warn_of(path, &why);
                self.leave(path, why);
                return true;
            }
            let there = needs.rocm.len();
            let message = format!(
                "`{path}` needs `{name}`; the set {lacks} ({there} of its {all} names of ROCm are there)"
            );
            self.refuse(RefusalKind::OtherSoname, message, OTHER_SONAME);
        }
        if !is_tied && let Some((name, vendor)) = needs.vendors.first() {
            self.leave(path, format!("it needs `{name}` of {vendor}"));
            return true;
        }
        let vendors = needs.vendors.iter().map(|it| it.0);
        let unknown = needs.unknown.iter().copied().chain(vendors).collect_vec();
        if !is_tied && !unknown.is_empty() {
            let names = unknown.iter().join("`, `");
            let why = format!("it needs `{names}`, which nothing provides, and nothing of ROCm");
            self.leave(path, why);
            return true;
        }
        for name in unknown {
            self.refuse(
                RefusalKind::UnknownLibrary,
                format!("`{path}` needs `{name}`, which nothing provides"),
                "ship it in the wheel, name the wheel that has it too, or pass `--host-provides`",
            );
        }
        false
    }

    fn leave(&mut self, path: &str, why: String) {
        self.plan.record.untied.push((path.to_owned(), why));
    }

    fn warn_of(&mut self, path: &str, why: &str) {
        let warning = format!("`{path}` is left alone: {why}");
        self.plan.warnings.push(warning);
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
