//! The rules of `check --with`: what is wrong with wheels of frameworks on a set.

use std::{collections::BTreeSet, sync::Arc};

use itertools::Itertools as _;

use super::{
    facts::{self, FoundInit},
    init_module::{self, InitModule},
    providers::{LibraryProvider, Providers},
    read::{ElfMember, FrameworkWheel},
    rocm::RocmLibraries,
    run_path::{self, RunPathEntry},
    tags::Manylinux,
};
use crate::{
    check::{self, Finding, Rule, SetFacts, facts::DeviceCodeFacts, rule},
    console::many,
    error::Result,
    index,
    loader::{MissingLibrary, missing_libraries},
    version::Version,
    wheel::DistName,
};

/// What the rules are about.
pub struct FrameworkCheck<'a> {
    pub wheels: &'a [FrameworkWheel],
    pub providers: &'a Providers<'a>,
    pub rocm: &'a RocmLibraries,
    pub set: &'a SetFacts,
    /// The packages of the baseline.
    pub published: &'a [(DistName, Version)],
}

impl FrameworkCheck<'_> {
    /// The findings about all wheels.
    pub fn findings(&self) -> Result<Vec<Finding>> {
        let mut all = self.set.clone();
        all.wheels.extend(self.wheels.iter().map(|it| Arc::clone(&it.facts)));
        let missing = missing_libraries(&check::installed(&all));
        let mut findings = Vec::new();
        for wheel in self.wheels {
            let mut one = OneWheel {
                check: self,
                wheel,
                init: facts::init(wheel, self.providers.policy)?,
                found: Vec::new(),
            };
            one.find(&missing);
            findings.extend(one.found);
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
    fn find(&mut self, missing: &[MissingLibrary]) {
        let (wheel, check) = (self.wheel, self.check);
        for damage in &wheel.damage {
            self.add(rule::DAMAGED_FOREIGN_PACKAGE, damage);
        }
        self.found.extend(check::beside_ours(&wheel.facts));
        if let Some(why) = facts::not_for_set(wheel, check.providers, check.rocm) {
            self.add(rule::NOT_FOR_SET, why);
        }
        self.libraries(missing);
        self.requirements();
        self.neighbours();
        self.init();
        for elf in wheel.host_files() {
            self.binary(elf);
        }
        self.tags();
        self.index();
    }

    fn add(&mut self, rule: &'static Rule, fact: impl Into<String>) {
        let finding = Finding::new(rule, fact).in_file(&self.wheel.facts.package.file);
        self.found.push(finding);
    }

    fn add_at(&mut self, rule: &'static Rule, member: &str, fact: impl Into<String>) {
        let finding = Finding::new(rule, fact).in_file(&self.wheel.facts.package.file);
        self.found.push(finding.at(member));
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
        libraries.flat_map(|library| rocm.closure(library)).collect()
    }

    /// Whether any binary needs a library of ROCm.
    fn needs_rocm(&self) -> bool {
        self.needs().any(|it| matches!(it.2, LibraryProvider::Rocm(_)))
    }

    /// Each library that a binary needs, with the path of the binary.
    fn needs(&self) -> impl Iterator<Item = (&str, &str, LibraryProvider)> {
        let (wheel, providers) = (self.wheel, self.check.providers);
        wheel.host_files().flat_map(move |elf| {
            let needs = providers.needs(wheel, elf);
            needs.map(move |(name, by)| (elf.path, name, by))
        })
    }

    fn libraries(&mut self, missing: &[MissingLibrary]) {
        let preloaded = self.preloaded();
        let missing = missing.iter().map(|it| (&*it.path, &*it.name));
        let missing: BTreeSet<(&str, &str)> = missing.collect();
        let found = self.needs().filter_map(|(path, name, by)| match by {
            LibraryProvider::Rocm(_)
                if missing.contains(&(path, name)) && !preloaded.contains(name) =>
            {
                let fact =
                    format!("`{name}` is found neither by its run path nor by the init module");
                Some((rule::UNTIED_LIBRARY, path.to_owned(), fact))
            }
            LibraryProvider::OtherRocm(has) => {
                let has = has.map_or("lacks it".to_owned(), |has| format!("has `{has}`"));
                let fact = format!("it needs `{name}`, and the set {has}");
                Some((rule::OTHER_ROCM, path.to_owned(), fact))
            }
            _ => None,
        });
        for (rule, path, fact) in found.collect_vec() {
            self.add_at(rule, &path, fact);
        }
    }

    fn requirements(&mut self) {
        let (wheel, check, rocm) = (self.wheel, self.check, self.check.rocm);
        let row = check.providers.policy.of(&wheel.name.name);
        let packages = check.set.packages().filter_map(|it| it.identity());
        let packages: BTreeSet<&DistName> = packages.map(|it| &it.name).collect();
        let plain = wheel.requirements().filter(|it| !it.marker.needs_extra());
        let on_rocm = plain.filter(|it| index::is_ours(&it.name)).collect_vec();
        let runs_rocm = self.needs_rocm() || row.is_some_and(|row| row.runs_rocm);
        let selector = &rocm.names.selector;
        if on_rocm.is_empty() && runs_rocm {
            let fact = format!("its binaries need ROCm, and it does not require `{selector}`");
            self.add(rule::UNREQUIRED_SET, fact);
        }
        for requirement in on_rocm {
            if requirement.allows(&rocm.version) == Some(false) {
                let fact = format!("it requires `{requirement}`, and the set is {}", rocm.version);
                self.add(rule::OTHER_SET, fact);
            }
        }
        for requirement in wheel.requirements() {
            let name = &requirement.name;
            let is_lost =
                index::is_ours(name) && name.normalized() != selector && !packages.contains(name);
            if is_lost || row.is_some_and(|row| row.is_dead(name)) {
                for extra in requirement.marker.extras() {
                    let fact = format!(
                        "its extra `{extra}` requires `{requirement}`, which is not in the set"
                    );
                    self.add(rule::DEAD_EXTRA, fact);
                }
            }
        }
    }

    fn neighbours(&mut self) {
        let row = self.check.providers.policy.of(&self.wheel.name.name);
        let known = row.into_iter().flat_map(|row| row.needs.iter().cloned());
        let needed = self.needs().filter_map(|(_, _, by)| by.framework());
        let neighbours: BTreeSet<DistName> = needed.chain(known).collect();
        for name in neighbours {
            let mut requirements = self.wheel.requirements();
            if !requirements.any(|it| it.name == name && it.pin().is_some()) {
                let fact = format!("it needs {name}, and does not require one version of it");
                self.add(rule::UNPINNED_NEIGHBOUR, fact);
            }
        }
    }

    fn init(&mut self) {
        let mut preloads = false;
        if let Some(init) = self.init.take() {
            let module = format!("{}/{}", init.root, init_module::FILE);
            match (&init.module, &init.hook) {
                (Some(_), None) => self.add_at(rule::UNHOOKED_INIT, &module, "nothing imports it"),
                (None, Some(hook)) if !hook.catches_absence => {
                    let fact =
                        "it is imported and absent, and the import does not catch ImportError";
                    self.add_at(rule::UNHOOKED_INIT, &module, fact);
                }
                _ => {}
            }
            if let Some(InitModule::Known(call)) = &init.module {
                preloads = init.hook.is_some() && !call.preload.is_empty();
                let rocm = self.check.rocm;
                let mut unknown =
                    call.preload.iter().filter(|it| rocm.of_short_name(it).is_none()).peekable();
                if unknown.peek().is_some() {
                    let unknown = unknown.join(", ");
                    let fact = format!("it loads {unknown}, which the set does not have");
                    self.add_at(rule::UNKNOWN_PRELOAD, &module, fact);
                }
                let version = rocm.version.to_string();
                let fits = |wanted: &str| match wanted.split_once('*') {
                    None => version == wanted,
                    Some((start, end)) => version.starts_with(start) && version.ends_with(end),
                };
                if let Some(wanted) = call.check_version.as_ref().filter(|it| !fits(it)) {
                    let fact = format!("it wants ROCm {wanted}, and the set is {version}");
                    self.add_at(rule::OTHER_SET, &module, fact);
                }
            }
        }
        if !self.wheel.wheel.root_is_purelib && !preloads && self.needs_rocm() {
            let fact = "`Root-Is-Purelib` is `false`: where purelib and platlib differ, no run path leads to ROCm, and nothing loads it";
            self.add(rule::TWO_SITES, fact);
        }
    }

    fn binary(&mut self, elf: ElfMember<'_>) {
        let (wheel, check, path) = (self.wheel, self.check, elf.path);
        let entries = run_path::entries(wheel, elf, check.providers);
        let dead = entries
            .iter()
            .filter(|(_, leads)| *leads == RunPathEntry::Dead || leads.leads_out())
            .collect_vec();
        if let Some((first, _)) = dead.first() {
            let (dead, all) = (dead.len(), many(entries.len(), "entry"));
            let fact = format!("{dead} of {all} on its run path lead nowhere, such as `{first}`");
            self.add_at(rule::DEAD_RUN_PATH, path, fact);
        }
        if let Some(original) = facts::copy_of(elf, check.rocm) {
            let fact = format!("it is `{original}` of the set");
            self.add_at(rule::GRAFTED_LIBRARY, path, fact);
        }
        let opened = facts::opened(wheel, elf, check.providers.policy);
        let mut fragile =
            opened.filter(|name| name.starts_with('/') || !name.contains(".so.")).peekable();
        if fragile.peek().is_some() {
            let names = fragile.join(", ");
            let fact = format!("it opens {names}, which no ROCm package has under this name");
            self.add_at(rule::RUN_TIME_NAME, path, fact);
        }
        if let Ok(content) = &elf.member.content
            && let DeviceCodeFacts::Fat(code) = &content.code
            && code.len() > 1
        {
            let fact = format!("it has device code for {}", many(code.len(), "target"));
            self.add_at(rule::FAT_FRAMEWORK, path, fact);
        }
    }

    fn tags(&mut self) {
        let proved = facts::proved_tag(self.wheel, self.check.providers);
        let claimed = self.wheel.platform();
        let is_too_old = |it: &str| Manylinux::builtin().is_proved(it, &proved) == Some(false);
        if claimed.split('.').any(is_too_old) {
            let (policy, why) = (&proved.policy, proved.reason(": "));
            let fact = format!("its tag is `{claimed}`, and its symbols prove `{policy}`{why}");
            self.add(rule::TAG_TOO_OLD, fact);
        }
    }

    /// What the index has that installers would prefer.
    fn index(&mut self) {
        let wheel = self.wheel;
        let version = &wheel.name.version;
        let there = self.check.published.iter();
        let newer =
            there.filter(|(name, there)| *name == wheel.name.name && version.sorts_below(there));
        if let Some(newest) = newer.map(|it| &it.1).max() {
            let fact = format!(
                "{version} sorts below {newest}, which is there: installers take it for older"
            );
            self.add(rule::SORTS_BELOW, fact);
        }
    }
}
