//! Decides how wheels are split: from facts to plans, without reading anything.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{
    SplitInput, WheelSplitOptions,
    base::HostBase,
    observe::FatMember,
    placement::{self, NamedBundles, PlacedArchive, PlacedBinary},
    plan::{DeviceWheelPlan, DroppedTarget, KeptCode, LightenedBinary, SplitWheelPlan},
    texts::{self, HostExtras},
};
use crate::{
    error::{Context as _, Result},
    framework::{
        device_selector::SelectorPlan,
        facts,
        metadata::HeaderText,
        policy::{FrameworkSpec, Frameworks, RocmDirectoryKey},
        read::FrameworkWheel,
        refusal::{RefusalKind, WheelRefusal},
        rocm::RocmLibraries,
        tie::{TiePlan, TieRecord},
    },
    kpack::{CodeTarget, databases},
    package::selector::DeviceSelector,
    relpath::RelPath,
    target::{Scope, Target},
    wheel::{DistName, PackageFilename},
};

/// A wheel to split, its device code, and how it is tied in the same step.
#[derive(Clone, Copy)]
pub struct ToSplit<'a> {
    pub wheel: &'a FrameworkWheel,
    pub code: &'a SplitInput,
    pub tied: Option<&'a TiePlan>,
}

/// A plan for each wheel, or an error with everything that is in the way.
pub fn decide(
    wheels: &[ToSplit<'_>],
    rocm: Option<&RocmLibraries>,
    policy: &Frameworks,
    options: &WheelSplitOptions,
) -> Result<Vec<SplitWheelPlan>> {
    let (mut plans, mut refusals) = (Vec::new(), Vec::new());
    let mut names: BTreeSet<DistName> =
        wheels.iter().map(|it| it.wheel.name.name.clone()).collect();
    for &ToSplit { wheel, code, tied } in wheels {
        let row = policy.of(&wheel.name.name);
        let context = || format!("failed to plan `{}`", wheel.name);
        let base = match tied {
            Some(tied) => HostBase::tied(wheel, tied),
            None => HostBase::of_wheel(wheel, row, rocm, options),
        };
        let one = OneSplit {
            wheel,
            input: code,
            base: &base.with_context(context)?,
            rocm,
            row,
            options,
        };
        let mut refused = WheelRefusal::of_damage(wheel);
        if let Some(why) = code.passed_on() {
            plans.push(SplitWheelPlan::passed_on(wheel, why));
        } else if refused.is_empty() {
            let plan = one.plan(&mut refused).with_context(context)?;
            let devices = plan.devices.iter().map(|it| &it.name.name);
            let selector = plan.selector.iter().map(SelectorPlan::project);
            for name in devices.chain(selector) {
                if !names.insert(name.clone()) {
                    refused.push(WheelRefusal::new(
                        RefusalKind::NameTaken,
                        format!("another wheel of the group has the name `{name}`"),
                        "pass `--device-prefix`, or split the wheels one by one",
                    ));
                }
            }
            plans.push(plan);
        }
        refusals.extend(refused.into_iter().map(|it| it.in_wheel(wheel)));
    }
    if refusals.is_empty() {
        Ok(plans)
    } else {
        Err(WheelRefusal::all("split", &refusals))
    }
}

struct OneSplit<'a> {
    wheel: &'a FrameworkWheel,
    input: &'a SplitInput,
    base: &'a HostBase<'a>,
    rocm: Option<&'a RocmLibraries>,
    row: Option<&'a FrameworkSpec>,
    options: &'a WheelSplitOptions,
}

impl OneSplit<'_> {
    /// The targets that have code, without features.
    fn targets(&self) -> BTreeSet<Target> {
        let bundles = self.input.fat.iter().flat_map(|it| &it.bundles);
        let targets = bundles.flat_map(BTreeMap::keys);
        targets.filter_map(|it| it.base().target()).collect()
    }

    fn is_wanted(&self, target: &Target) -> bool {
        let chosen = self.options.targets.as_ref();
        chosen.is_none_or(|chosen| chosen.contains(target))
    }

    fn plan(&self, refusals: &mut Vec<WheelRefusal>) -> Result<SplitWheelPlan> {
        let Self {
            wheel, input, base, ..
        } = *self;
        let host = &base.name;
        let targets = |it: &BTreeMap<CodeTarget, u64>| -> BTreeSet<CodeTarget> {
            it.keys().cloned().collect()
        };
        let binaries = input.fat.iter();
        let binaries: Vec<NamedBundles<'_>> = binaries
            .map(|it| (&it.installed, it.bundles.iter().map(targets).collect()))
            .collect();
        let packages = facts::packages(wheel);
        let placed = placement::place(&wheel.name.name, &packages, binaries)?;
        let archives = self.archives(&placed)?;
        let databases = self.databases();
        let record = base.record.as_ref();
        let devices = self.devices(host, &archives, &databases)?;
        let selector = self.selector(host, &devices)?;
        let selected = selector.as_ref().map(SelectorPlan::project);
        let extras = HostExtras::new(&devices, selected, &host.version, record);
        self.refuse_own_extras(&extras, refusals);
        refusals.extend(base.refusals.iter().cloned());
        let mut texts = base.texts.clone();
        let top = &wheel.dist_info_of(host);
        texts.insert(format!("{top}/METADATA"), extras.metadata(wheel, base));
        if let Some(mut record) = record.cloned() {
            record.version_suffix.clone_from(&base.suffix);
            texts.insert(format!("{top}/{}", TieRecord::FILE), extras.record(record)?);
        }
        // Databases of targets that are left out are left out, too.
        let code = self.targets();
        let moved = databases.iter().filter(|(it, _)| code.contains(*it));
        let moved = moved.flat_map(|it| it.1).cloned().collect();
        Ok(SplitWheelPlan {
            file: wheel.name.to_string(),
            passed_on: None,
            host: host.clone(),
            binaries: input.fat.iter().map(LightenedBinary::of).collect(),
            kept: input.unsplittable.iter().map(KeptCode::of).collect(),
            dropped: self.dropped(),
            removed: extras.replaced.requires,
            requires: extras.requires,
            extras: extras.extras,
            warnings: self.warnings(&databases),
            devices,
            selector,
            placed,
            archives,
            moved,
            texts,
        })
    }

    /// The archives that are written: those for generic targets and for the chosen ones.
    fn archives(&self, placed: &[PlacedBinary]) -> Result<BTreeMap<RelPath, PlacedArchive>> {
        let mut archives = BTreeMap::new();
        for binary in placed {
            archives.extend(binary.archives()?);
        }
        archives.retain(|_, archive| match &archive.scope {
            Scope::Target(target) => self.is_wanted(target),
            _ => true,
        });
        Ok(archives)
    }

    /// The members with kernels for one target, as far as policy says that they move.
    fn databases(&self) -> BTreeMap<Target, Vec<String>> {
        let Some(row) = self.row else {
            return BTreeMap::new();
        };
        let owned = self.wheel.installed().filter_map(|(path, member)| {
            let (library, target) = databases::owner(&path.parse().ok()?)?;
            row.moves(library)
                .then(|| (target.base(), member.path.clone()))
        });
        let mut databases: BTreeMap<Target, Vec<String>> =
            owned.into_group_map().into_iter().collect();
        for it in databases.values_mut() {
            it.sort();
        }
        databases
    }

    /// The sdist that selects a device wheel.
    fn selector(
        &self,
        host: &PackageFilename,
        devices: &[DeviceWheelPlan],
    ) -> Result<Option<SelectorPlan>> {
        if !self.options.selector || devices.is_empty() {
            return Ok(None);
        }
        let prefix = self.prefix()?;
        let targets: Vec<Target> = devices.iter().map(|it| it.target.clone()).collect();
        let selector = DeviceSelector {
            name: &prefix,
            version: &host.version,
            host: &host.name,
            targets: &targets,
        };
        SelectorPlan::of(&selector).map(Some)
    }

    /// The beginning of the names of device wheels.
    fn prefix(&self) -> Result<DistName> {
        match &self.options.prefix {
            Some(prefix) => Ok(prefix.clone()),
            None => FrameworkSpec::device_prefix(self.row, &self.wheel.name.name),
        }
    }

    fn devices(
        &self,
        host: &PackageFilename,
        archives: &BTreeMap<RelPath, PlacedArchive>,
        databases: &BTreeMap<Target, Vec<String>>,
    ) -> Result<Vec<DeviceWheelPlan>> {
        let prefix = self.prefix()?;
        let mut by_target: BTreeMap<&Target, Vec<String>> = BTreeMap::new();
        for (path, archive) in archives {
            if let Scope::Target(target) = &archive.scope {
                let paths = by_target.entry(target).or_default();
                paths.push(path.to_string());
            }
        }
        let devices = by_target.into_iter().map(|(target, archives)| {
            let name: DistName = format!("{prefix}-{target}").parse()?;
            let rocm = self.rocm_of(target).map(|it| &it.version);
            let metadata = texts::device_metadata(&name, host, target, rocm);
            let name = PackageFilename::new(name, &host.version, host.tag.as_ref());
            let top = name.dist_info();
            Ok(DeviceWheelPlan {
                target: target.clone(),
                file: name.to_string(),
                archives,
                databases: databases.get(target).cloned().unwrap_or_default(),
                name,
                texts: vec![
                    (format!("{top}/METADATA"), metadata),
                    (
                        format!("{top}/WHEEL"),
                        texts::device_wheel(&self.base.wheel_text),
                    ),
                ],
            })
        });
        devices.collect()
    }

    /// The set, if it has device code for a target and the wheel uses the libraries that have some.
    fn rocm_of(&self, target: &Target) -> Option<&RocmLibraries> {
        let rocm = self.rocm.filter(|it| it.targets.contains(target))?;
        let mut needed = self.wheel.elf_files().flat_map(|it| &it.2.facts.needed);
        let uses = needed.any(|name| {
            let library = rocm.library(name);
            library.is_some_and(|it| it.directory == RocmDirectoryKey::Math)
        });
        uses.then_some(rocm)
    }

    /// An extra of the wheel itself would ask for device wheels, too.
    fn refuse_own_extras(&self, extras: &HostExtras, refusals: &mut Vec<WheelRefusal>) {
        let text = HeaderText::parse(&self.base.metadata);
        let mut own = text.values("Provides-Extra");
        let clash = own.find(|it| {
            let is_new = extras.extras.iter().any(|new| new == it);
            is_new && !extras.replaced.extras.contains(*it)
        });
        if let Some(extra) = clash {
            refusals.push(WheelRefusal::new(
                RefusalKind::NameTaken,
                format!("it has an extra `{extra}` of its own"),
                "remove the extra from its build",
            ));
        }
    }

    fn dropped(&self) -> Vec<DroppedTarget> {
        let targets = self.targets().into_iter();
        let targets = targets.filter(|target| !self.is_wanted(target));
        let dropped = targets.map(|target| {
            let bundles = self.input.fat.iter().flat_map(|it| &it.bundles);
            let code = bundles.flatten();
            let sizes: Vec<u64> = code
                .filter(|(it, _)| it.base().target().as_ref() == Some(&target))
                .map(|(_, size)| *size)
                .collect();
            DroppedTarget {
                target,
                code_objects: sizes.len(),
                bytes: sizes.iter().sum(),
            }
        });
        dropped.collect()
    }

    fn warnings(&self, databases: &BTreeMap<Target, Vec<String>>) -> Vec<String> {
        let code = self.targets();
        let mut warnings = Vec::new();
        // Without an archive there is no wheel that could have them.
        for (target, files) in databases.iter().filter(|(it, _)| !code.contains(*it)) {
            warnings.push(format!(
                "{} database files for {target} stay in the host wheel, since no binary has code for it",
                files.len()
            ));
        }
        let wanted = self.options.targets.iter().flatten();
        let absent = wanted.filter(|target| !code.contains(*target)).join(", ");
        if !absent.is_empty() {
            warnings.push(format!("it has no device code for {absent}"));
        }
        warnings
    }
}

impl LightenedBinary {
    fn of(member: &FatMember) -> Self {
        Self {
            path: member.installed.to_string(),
            bundles: member.bundles.len(),
            code_objects: member.bundles.iter().map(BTreeMap::len).sum(),
        }
    }
}

impl KeptCode {
    fn of((path, why): &(String, String)) -> Self {
        Self {
            path: path.clone(),
            why: why.clone(),
        }
    }
}
