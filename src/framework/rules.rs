//! The rules of `check --with`: what is wrong with wheels of frameworks on a set.

use std::{collections::BTreeSet, sync::Arc};

use itertools::Itertools as _;

use super::{
    facts::{self, FoundInit},
    init_module::InitModule,
    policy::{Frameworks, RocmDirectoryKey},
    providers::{LibraryProvider, Providers},
    read::FrameworkWheel,
    rocm::RocmLibraries,
    run_path::{self, RunPathEntry},
    tags::Manylinux,
};
use crate::{
    check::{
        self, Finding, Rule, SetFacts,
        facts::{DeviceCodeFacts, ElfFile, MemberFacts},
        rule,
    },
    console::{many, size},
    elf::ElfKind,
    error::Result,
    loader::{MissingLibrary, is_loadable, missing_libraries},
    set,
    version::Version,
    wheel::DistName,
};

/// What the rules look at.
pub struct FrameworkCheck<'a> {
    pub wheels: &'a [FrameworkWheel],
    pub providers: &'a Providers<'a>,
    pub rocm: &'a RocmLibraries,
    pub policy: &'a Frameworks,
    pub set: &'a SetFacts,
    /// The packages of the baseline.
    pub published: &'a [(DistName, Version)],
    /// The longest file that the index takes for which the wheels are, if they are for one.
    pub largest: Option<u64>,
}

impl FrameworkCheck<'_> {
    /// The findings about all wheels.
    pub fn findings(&self) -> Result<Vec<Finding>> {
        let mut all = self.set.clone();
        all.wheels
            .extend(self.wheels.iter().map(|it| Arc::clone(&it.facts)));
        let missing = missing_libraries(&check::installed(&all));
        let mut findings = Vec::new();
        for wheel in self.wheels {
            let init = facts::init(wheel, self.policy)?;
            let one = OneWheel {
                check: self,
                wheel,
                init,
                found: Vec::new(),
            };
            findings.extend(one.find(&missing));
        }
        Ok(findings)
    }
}

struct OneWheel<'a> {
    check: &'a FrameworkCheck<'a>,
    wheel: &'a FrameworkWheel,
    init: Option<FoundInit>,
    found: Vec<Finding>,
}

impl OneWheel<'_> {
    fn find(mut self, missing: &[MissingLibrary]) -> Vec<Finding> {
        for damage in &self.wheel.damage {
            self.add(rule::DAMAGED_FOREIGN_PACKAGE, None, damage.clone());
        }
        let wheel = self.wheel;
        if let Some(why) = facts::not_for_set(wheel, self.check.providers, self.check.rocm) {
            self.add(rule::NOT_FOR_SET, None, why);
        }
        self.libraries(missing);
        self.requirements();
        self.init();
        for (path, member, elf) in wheel.elf_files().filter(|it| is_loadable(&it.2.facts)) {
            self.binary(path, member, elf);
        }
        self.tags();
        self.index();
        self.found
    }

    fn add(&mut self, rule: &'static Rule, member: Option<&str>, fact: impl Into<String>) {
        let finding = Finding::new(rule, fact).in_file(&self.wheel.facts.file);
        self.found.push(match member {
            Some(member) => finding.at(member),
            None => finding,
        });
    }

    /// The libraries of the set that the init module has loaded before any extension.
    fn preloaded(&self) -> BTreeSet<&str> {
        let rocm = self.check.rocm;
        let hooked = self.init.iter().filter(|it| it.hook.is_some());
        let calls = hooked.filter_map(|it| match &it.module {
            Some(InitModule::Known(call)) => Some(&call.preload),
            _ => None,
        });
        let libraries = calls.flatten().filter_map(|name| rocm.of_short_name(name));
        libraries
            .flat_map(|library| rocm.closure(library))
            .collect()
    }

    /// Whether any binary needs a library of ROCm.
    fn needs_rocm(&self) -> bool {
        self.needs()
            .any(|it| matches!(it.2, LibraryProvider::Rocm(_)))
    }

    /// Each library that a binary needs, with the path of the binary.
    fn needs(&self) -> impl Iterator<Item = (&str, &str, LibraryProvider)> {
        let files = self.wheel.elf_files().filter(|it| is_loadable(&it.2.facts));
        files.flat_map(move |(path, _, elf)| {
            elf.facts.needed.iter().map(move |name| {
                let by = self
                    .check
                    .providers
                    .of(&self.wheel.name.name, path, &elf.facts, name);
                (path, name.as_str(), by)
            })
        })
    }

    fn libraries(&mut self, missing: &[MissingLibrary]) {
        let preloaded = self.preloaded();
        let missing: BTreeSet<(&str, &str)> = missing
            .iter()
            .map(|it| (it.path.as_str(), it.name.as_str()))
            .collect();
        let mut found = Vec::new();
        for (path, name, by) in self.needs() {
            match by {
                LibraryProvider::Rocm(_)
                    if missing.contains(&(path, name)) && !preloaded.contains(name) =>
                {
                    let fact =
                        format!("`{name}` is found neither by its run path nor by the init module");
                    found.push((rule::UNTIED_LIBRARY, path.to_owned(), fact));
                }
                LibraryProvider::OtherRocm(has) => {
                    let has = has.map_or("lacks it".to_owned(), |has| format!("has `{has}`"));
                    found.push((
                        rule::OTHER_ROCM,
                        path.to_owned(),
                        format!("it needs `{name}`, and the set {has}"),
                    ));
                }
                _ => {}
            }
        }
        for (rule, path, fact) in found {
            self.add(rule, Some(&path), fact);
        }
    }

    fn requirements(&mut self) {
        let (wheel, rocm) = (self.wheel, self.check.rocm);
        let row = self.check.policy.of(&wheel.name.name);
        let packages = self.check.set.packages().filter_map(|it| it.identity());
        let packages: BTreeSet<&DistName> = packages.map(|it| &it.name).collect();
        let plain = facts::requirements(wheel).filter(|it| it.1.extra.is_none());
        let on_rocm: Vec<_> = plain.filter(|it| set::is_ours(&it.1.name)).collect();
        let runs_rocm = self.needs_rocm() || row.is_some_and(|row| row.runs_rocm);
        if on_rocm.is_empty() && runs_rocm {
            self.add(
                rule::UNREQUIRED_SET,
                None,
                "its binaries need ROCm, and it does not require `rocm`",
            );
        }
        for (line, requirement) in on_rocm {
            if rocm.version.fulfils(requirement.specifier) == Some(false) {
                self.add(
                    rule::OTHER_SET,
                    None,
                    format!("it requires `{line}`, and the set is {}", rocm.version),
                );
            }
        }
        for (line, requirement) in facts::requirements(wheel) {
            let Some(extra) = requirement.extra else {
                continue;
            };
            let is_lost = set::is_ours(&requirement.name)
                && requirement.name.normalized() != "rocm"
                && !packages.contains(&requirement.name);
            if is_lost || row.is_some_and(|row| row.is_dead(&requirement.name)) {
                self.add(
                    rule::DEAD_EXTRA,
                    None,
                    format!("its extra `{extra}` requires `{line}`, which is not in the set"),
                );
            }
        }
        let mut neighbours: BTreeSet<DistName> = row
            .iter()
            .flat_map(|row| row.needs.iter().cloned())
            .collect();
        neighbours.extend(self.needs().filter_map(|(_, _, by)| match by {
            LibraryProvider::Group { wheel, .. } => Some(wheel),
            LibraryProvider::Neighbour { framework, .. } => framework.parse().ok(),
            _ => None,
        }));
        for name in neighbours {
            let is_pinned = facts::requirements(wheel).any(|(_, it)| {
                it.name == name && it.specifier.starts_with("==") && !it.specifier.contains('*')
            });
            if !is_pinned {
                self.add(
                    rule::UNPINNED_NEIGHBOUR,
                    None,
                    format!("it needs {name}, and does not require one version of it"),
                );
            }
        }
    }

    fn init(&mut self) {
        let Some(init) = self.init.clone() else {
            return self.two_sites(false);
        };
        let module = format!("{}/{}", init.root, super::init_module::FILE);
        let mut preloads = false;
        match (&init.module, &init.hook) {
            (Some(_), None) => self.add(rule::UNHOOKED_INIT, Some(&module), "nothing imports it"),
            (None, Some(hook)) if !hook.catches_absence() => {
                let caught = hook.catches.clone().unwrap_or_default().join(", ");
                let caught = if caught.is_empty() {
                    "nothing".to_owned()
                } else {
                    caught
                };
                let fact = format!(
                    "it is imported and absent, and the import catches {caught}, not ImportError"
                );
                self.add(rule::UNHOOKED_INIT, Some(&module), fact);
            }
            _ => {}
        }
        if let Some(InitModule::Known(call)) = &init.module {
            preloads = init.hook.is_some() && !call.preload.is_empty();
            let rocm = self.check.rocm;
            let unknown: Vec<&String> = call
                .preload
                .iter()
                .filter(|it| rocm.of_short_name(it).is_none())
                .collect();
            if !unknown.is_empty() {
                let fact = format!(
                    "it loads {}, which the set does not have",
                    unknown.iter().join(", ")
                );
                self.add(rule::UNKNOWN_PRELOAD, Some(&module), fact);
            }
            let version = rocm.version.to_string();
            let fits = |wanted: &str| match wanted.split_once('*') {
                None => version == wanted,
                Some((start, end)) => version.starts_with(start) && version.ends_with(end),
            };
            if let Some(wanted) = call.check_version.as_ref().filter(|it| !fits(it)) {
                self.add(
                    rule::OTHER_SET,
                    Some(&module),
                    format!("it wants ROCm {wanted}, and the set is {version}"),
                );
            }
        }
        self.two_sites(preloads);
    }

    fn two_sites(&mut self, preloads: bool) {
        if !self.wheel.wheel.root_is_purelib && !preloads && self.needs_rocm() {
            let fact = "`Root-Is-Purelib` is `false`: where purelib and platlib differ, no run path leads to ROCm, and nothing loads it";
            self.add(rule::TWO_SITES, None, fact);
        }
    }

    fn binary(&mut self, path: &str, member: &MemberFacts, elf: &ElfFile) {
        let (wheel, check) = (self.wheel, self.check);
        let entries = run_path::entries(wheel, path, &elf.facts, check.providers);
        let leads_nowhere = |it: RunPathEntry| it == RunPathEntry::Dead || it.leads_out();
        let dead = entries.iter().filter(|(_, leads)| leads_nowhere(*leads));
        let dead: Vec<&str> = dead.map(|(entry, _)| *entry).collect();
        if let Some(first) = dead.first() {
            let fact = format!(
                "{} of {} on its run path lead nowhere, such as `{first}`",
                dead.len(),
                many(entries.len(), "entry")
            );
            self.add(rule::DEAD_RUN_PATH, Some(path), fact);
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let original = check
            .rocm
            .of_other_version(name)
            .filter(|_| elf.facts.kind == ElfKind::SharedObject);
        let directory = original
            .and_then(|it| check.rocm.library(it))
            .map(|it| it.directory);
        if let Some(original) =
            original.filter(|_| !directory.is_some_and(RocmDirectoryKey::is_llvm))
        {
            self.add(
                rule::GRAFTED_LIBRARY,
                Some(path),
                format!("it is `{original}` of the set"),
            );
        }
        let opened = facts::opened(wheel, &member.path, elf, check.policy);
        let fragile = opened.filter(|name| name.starts_with('/') || !name.contains(".so."));
        let fragile: Vec<&str> = fragile.collect();
        if !fragile.is_empty() {
            let fact = format!(
                "it opens {}, which no ROCm package has under this name",
                fragile.join(", ")
            );
            self.add(rule::RUN_TIME_NAME, Some(path), fact);
        }
        if let Some(DeviceCodeFacts::Fat(code)) = member.content.as_ref().ok().map(|it| &it.code) {
            let targets: BTreeSet<_> = code.keys().map(ToString::to_string).collect();
            if targets.len() > 1 {
                let fact = format!("it has device code for {}", many(targets.len(), "target"));
                self.add(rule::FAT_FRAMEWORK, Some(path), fact);
            }
        }
    }

    /// What an index would refuse, and what it has that installers would prefer.
    fn index(&mut self) {
        let wheel = self.wheel;
        let version = &wheel.name.version;
        let there = self.check.published.iter();
        let newer = there.filter(|(name, there)| *name == wheel.name.name && version < there);
        if let Some(newest) = newer.map(|it| &it.1).max() {
            let fact = format!(
                "{version} sorts below {newest}, which is there: installers take it for older"
            );
            self.add(rule::SORTS_BELOW, None, fact);
        }
        let Some(most) = self.check.largest else {
            return;
        };
        if version.to_string().contains('+') {
            let fact = format!("it has a local version, {version}");
            self.add(rule::UNPUBLISHABLE, None, fact);
        }
        if wheel
            .platform()
            .split('.')
            .any(|it| it.starts_with("linux_"))
        {
            let fact = format!("its tag is `{}`", wheel.platform());
            self.add(rule::UNPUBLISHABLE, None, fact);
        }
        if wheel.facts.size > most {
            let (has, most) = (size(wheel.facts.size), size(most));
            let fact = format!("it has {has}, and a file may have {most}");
            self.add(rule::UNPUBLISHABLE, None, fact);
        }
    }

    fn tags(&mut self) {
        let proved = facts::proved_tag(self.wheel, self.check.providers);
        let claimed = self.wheel.platform().to_owned();
        let is_too_old = |it: &str| Manylinux::builtin().is_proved(it, &proved) == Some(false);
        if claimed.split('.').any(is_too_old) {
            let because = proved.because.as_ref();
            let because = because.map(|(file, needs)| format!(": `{file}` needs {needs}"));
            let fact = format!(
                "its tag is `{claimed}`, and its symbols prove `{}`{}",
                proved.policy,
                because.unwrap_or_default()
            );
            self.add(rule::TAG_TOO_OLD, None, fact);
        }
    }
}
