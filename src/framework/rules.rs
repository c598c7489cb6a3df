//! The rules of `check --with`: what is wrong with wheels of frameworks on a set.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

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
    check::{
        self, Finding, Rule, SetFacts,
        facts::{DeviceCodeFacts, MemberFacts, WheelFile},
        rule,
    },
    index,
};
use rocwheel_base::{digest::Sha256, error::Result, quantity::many, version::Version};
use rocwheel_elf::loader::{MissingLibrary, missing_libraries};
use rocwheel_wheel::{DistName, Requirement};

/// What the rules judge: wheels of frameworks that are installed together with a set.
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
        let mut set_with_wheels = self.set.clone();
        // A wheel with ROCm in it is not installed together with the packages that are in it.
        if self.bundling().next().is_some() {
            set_with_wheels.wheels.clear();
        }
        let files_of_set = self.files_of_set();
        set_with_wheels.wheels.extend(self.wheels.iter().map(|it| Arc::clone(&it.facts)));
        let missing = missing_libraries(&check::install_tree(&set_with_wheels));
        let wheels = self.wheels.iter().map(|wheel| &*wheel.facts);
        let bundling: Vec<&WheelFile> = check::others_with_rocm(wheels).collect();
        let mut findings = check::conflicting_bundles(&bundling);
        for wheel in self.wheels {
            let mut check = WheelCheck {
                group: self,
                wheel,
                init: facts::find_init(wheel, self.providers.policy)?,
                findings: Vec::new(),
            };
            check.run(&missing, &files_of_set);
            findings.extend(check.findings);
        }
        Ok(findings)
    }

    /// The wheels with ROCm in them.
    fn bundling(&self) -> impl Iterator<Item = &FrameworkWheel> {
        self.wheels.iter().filter(|wheel| !wheel.bundles.is_empty())
    }

    /// The digests of the files that the packages of the set install, by path.
    fn files_of_set(&self) -> BTreeMap<&str, Sha256> {
        let of_wheels = self.set.contents().map(|(_, member, content)| (&*member.path, content));
        let of_sdist = self.set.selector().into_iter().flat_map(|it| &it.contents.files);
        let of_sdist =
            of_sdist.filter_map(|(path, content)| Some((path.strip_prefix("src/")?, content)));
        of_wheels
            .chain(of_sdist)
            .filter_map(|(path, content)| Some((path, content.sha256?)))
            .collect()
    }
}

/// The check of one wheel.
struct WheelCheck<'a> {
    group: &'a FrameworkCheck<'a>,
    wheel: &'a FrameworkWheel,
    init: Option<FoundInit>,
    findings: Vec<Finding>,
}

/// A library that a binary needs.
struct NeededLibrary<'a> {
    /// The path of the binary.
    binary: &'a str,
    name: &'a str,
    provider: LibraryProvider,
}

impl WheelCheck<'_> {
    fn run(&mut self, missing: &[MissingLibrary], files_of_set: &BTreeMap<&str, Sha256>) {
        let wheel = self.wheel;
        for damage in &wheel.damage {
            self.add(rule::DAMAGED_FOREIGN_PACKAGE, damage);
        }
        let group = self.group;
        // A file of the set that joined the wheel is the same file there.
        let may_have = |path: &str, member: &MemberFacts| {
            let sha256 = member.content.as_ref().ok().and_then(|content| content.sha256);
            wheel.is_bundled(path) && sha256.is_some() && files_of_set.get(path) == sha256.as_ref()
        };
        self.findings.extend(check::defects_beside_ours(&wheel.facts, &may_have));
        if let Some(mismatch) = facts::not_for_set(wheel, group.providers, group.rocm) {
            self.add(rule::NOT_FOR_SET, mismatch.reason);
        }
        self.check_libraries(missing);
        self.check_requirements();
        self.check_neighbours();
        self.check_init();
        // Files of the set are judged with the set.
        for elf in wheel.host_files().filter(|elf| !wheel.is_bundled(elf.path)) {
            self.check_binary(elf);
        }
        self.check_tags();
        self.check_index();
    }

    fn add(&mut self, rule: &'static Rule, fact: impl Into<String>) {
        let finding = Finding::new(rule, fact).in_file(&self.wheel.facts.package.file);
        self.findings.push(finding);
    }

    fn add_at(&mut self, rule: &'static Rule, member: &str, fact: impl Into<String>) {
        let finding = Finding::new(rule, fact).in_file(&self.wheel.facts.package.file);
        self.findings.push(finding.at(member));
    }

    /// The libraries of the set that the init module has loaded before any extension. Without a hook, nothing
    /// calls the module.
    fn preloaded_libraries(&self) -> BTreeSet<&str> {
        let Some(FoundInit { module: Some(InitModule::Known(call)), hook: Some(_), .. }) =
            &self.init
        else {
            return BTreeSet::new();
        };
        let rocm = self.group.rocm;
        let libraries = call.preload.iter().filter_map(|name| rocm.of_short_name(name));
        libraries.flat_map(|library| rocm.closure(library)).collect()
    }

    /// Whether any binary needs a library of ROCm.
    fn needs_rocm(&self) -> bool {
        self.needed_libraries().any(|it| matches!(it.provider, LibraryProvider::Rocm(_)))
    }

    /// The libraries that all binaries need.
    fn needed_libraries(&self) -> impl Iterator<Item = NeededLibrary<'_>> {
        let wheel = self.wheel;
        let providers = self.group.providers;
        wheel.host_files().flat_map(move |elf| {
            let needs = providers.needs(wheel, elf);
            needs.map(move |(name, provider)| NeededLibrary { binary: elf.path, name, provider })
        })
    }

    fn check_libraries(&mut self, missing: &[MissingLibrary]) {
        let preloaded = self.preloaded_libraries();
        let missing: BTreeSet<(&str, &str)> =
            missing.iter().map(|it| (it.path.as_str(), it.name.as_str())).collect();
        let mut defects = Vec::new();
        for NeededLibrary { binary, name, provider } in self.needed_libraries() {
            match provider {
                LibraryProvider::Rocm(_)
                    if missing.contains(&(binary, name)) && !preloaded.contains(name) =>
                {
                    let fact =
                        format!("`{name}` is found neither by its run path nor by the init module");
                    defects.push((rule::UNTIED_LIBRARY, binary.to_owned(), fact));
                }
                LibraryProvider::OtherRocm(other) => {
                    let set = match other {
                        Some(other) => format!("has `{other}`"),
                        None => "lacks it".to_owned(),
                    };
                    let fact = format!("it needs `{name}`, and the set {set}");
                    defects.push((rule::OTHER_ROCM, binary.to_owned(), fact));
                }
                _ => {}
            }
        }
        for (rule, binary, fact) in defects {
            self.add_at(rule, &binary, fact);
        }
    }

    fn check_requirements(&mut self) {
        let wheel = self.wheel;
        let rocm = self.group.rocm;
        let row = self.group.providers.policy.of(&wheel.name.name);
        let packages: BTreeSet<&DistName> = self
            .group
            .set
            .packages()
            .filter_map(|package| package.filename())
            .map(|identity| &identity.name)
            .collect();
        let on_rocm = wheel
            .requirements()
            .filter(|it| !it.marker.needs_extra() && index::is_ours(&it.name))
            .collect_vec();
        // The wheel, or a wheel that it requires, has ROCm in it.
        let brings_rocm = self.group.bundling().any(|bundling| {
            let name = &bundling.name.name;
            *name == wheel.name.name || wheel.requirements().any(|it| it.name == *name)
        });
        let uses_rocm = self.needs_rocm() || row.is_some_and(|row| row.runs_rocm);
        let runs_rocm = uses_rocm && !brings_rocm;
        let selector = &rocm.names.selector;
        if on_rocm.is_empty() && runs_rocm {
            let fact = format!("its binaries need ROCm, and it does not require `{selector}`");
            self.add(rule::UNREQUIRED_SET, fact);
        }
        let mut bundling =
            self.group.bundling().map(|it| &it.name).filter(|it| it.name != wheel.name.name);
        if let (Some(other), Some(requirement)) = (bundling.next(), on_rocm.first()) {
            let fact = format!(
                "it requires `{requirement}`, and installers would write its files over those in `{other}`: tie both in one \
                 command, with `--bundle`"
            );
            self.add(rule::CONFLICTING_PATH, fact);
        }
        for requirement in on_rocm {
            if requirement.allows(&rocm.version) == Some(false) {
                let fact = format!("it requires `{requirement}`, and the set is {}", rocm.version);
                self.add(rule::OTHER_SET, fact);
            }
        }
        for requirement in wheel.requirements() {
            let name = &requirement.name;
            let is_missing =
                index::is_ours(name) && name.normalized() != selector && !packages.contains(name);
            if is_missing || row.is_some_and(|row| row.is_dead(name)) {
                for extra in requirement.marker.extras() {
                    let fact = format!(
                        "its extra `{extra}` requires `{requirement}`, which is not in the set"
                    );
                    self.add(rule::DEAD_EXTRA, fact);
                }
            }
        }
    }

    fn check_neighbours(&mut self) {
        let row = self.group.providers.policy.of(&self.wheel.name.name);
        let by_policy = row.into_iter().flat_map(|row| row.needs.iter().cloned());
        let by_binaries = self.needed_libraries().filter_map(|it| it.provider.framework());
        let neighbours: BTreeSet<DistName> = by_binaries.chain(by_policy).collect();
        for name in neighbours {
            let wheel = self.wheel;
            let on_name = wheel.requirements().filter(|requirement| {
                requirement.name == name && !requirement.marker.needs_extra()
            });
            let pins = on_name.filter(|it| it.pin().is_some()).collect_vec();
            let is_met =
                |version: Version| pins.iter().all(|it| it.allows(&version) != Some(false));
            let requires_rocm =
                wheel.requirements().any(|it| !it.marker.needs_extra() && index::is_ours(&it.name));
            // RW113 says that both cannot be installed.
            let has_other_rocm =
                requires_rocm && self.group.bundling().any(|it| it.name.name == name);
            if !pins.is_empty() && !pins.iter().filter_map(Requirement::pin).any(is_met) {
                let listed = pins.iter().map(|pin| format!("`{pin}`")).join(" and ");
                self.add(rule::UNPINNED_NEIGHBOUR, format!("no version of {name} is {listed}"));
            } else if pins.is_empty() && !has_other_rocm {
                let fact = format!("it needs {name}, and does not require one version of it");
                self.add(rule::UNPINNED_NEIGHBOUR, fact);
            }
        }
    }

    fn check_init(&mut self) {
        let mut preloads = false;
        // Taken, because adding a finding borrows the check. No later step reads it.
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
                let rocm = self.group.rocm;
                let unknown =
                    call.preload.iter().filter(|it| rocm.of_short_name(it).is_none()).join(", ");
                if !unknown.is_empty() {
                    let fact = format!("it loads {unknown}, which the set does not have");
                    self.add_at(rule::UNKNOWN_PRELOAD, &module, fact);
                }
                let version = rocm.version.to_string();
                let fits = |wanted: &str| match wanted.split_once('*') {
                    None => version == wanted,
                    Some((start, end)) => version.starts_with(start) && version.ends_with(end),
                };
                if let Some(wanted) = &call.check_version
                    && !fits(wanted)
                {
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

    fn check_binary(&mut self, elf: ElfMember<'_>) {
        let path = elf.path;
        let FrameworkCheck { providers, rocm, .. } = *self.group;
        let entries = run_path::entries(self.wheel, elf, providers);
        let dead = entries
            .iter()
            .filter(|(_, leads)| *leads == RunPathEntry::Dead || leads.leads_out())
            .collect_vec();
        if let Some((first, _)) = dead.first() {
            let fact = format!(
                "{} of {} on its run path lead nowhere, such as `{first}`",
                dead.len(),
                many(entries.len(), "entry")
            );
            self.add_at(rule::DEAD_RUN_PATH, path, fact);
        }
        if let Some(copy) = facts::copy_of(elf, rocm) {
            self.add_at(rule::GRAFTED_LIBRARY, path, format!("it is {copy}"));
        }
        // The packages have libraries under their SONAMEs only, and below no absolute path.
        let unfound = facts::opened_rocm_libraries(self.wheel, elf, providers.policy)
            .filter(|name| name.starts_with('/') || !name.contains(".so."))
            .join(", ");
        if !unfound.is_empty() {
            let fact = format!("it opens {unfound}, which no ROCm package has under this name");
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

    fn check_tags(&mut self) {
        let Some(proved) = facts::proved_tag(self.wheel, self.group.providers) else {
            return;
        };
        let claimed = self.wheel.platform();
        let is_too_old = |it: &str| Manylinux::builtin().is_proved(it, &proved) == Some(false);
        if claimed.split('.').any(is_too_old) {
            let policy = &proved.policy;
            let why = proved.reason(": ");
            let fact = format!("its tag is `{claimed}`, and its symbols prove `{policy}`{why}");
            self.add(rule::TAG_TOO_OLD, fact);
        }
    }

    /// Looks for versions of the wheel in the index that installers would prefer.
    fn check_index(&mut self) {
        let name = &self.wheel.name.name;
        let version = &self.wheel.name.version;
        let newest = self
            .group
            .published
            .iter()
            .filter(|(project, published)| project == name && version.sorts_below(published))
            .map(|(_, published)| published)
            .max();
        if let Some(newest) = newest {
            let fact = format!(
                "{version} sorts below {newest}, which is there: installers take it for older"
            );
            self.add(rule::SORTS_BELOW, fact);
        }
    }
}
