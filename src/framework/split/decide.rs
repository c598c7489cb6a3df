//! Decides how wheels are split: from facts to plans, without reading anything.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{
    FamilyFiles, SplitInput, WheelSplitOptions,
    base::HostBase,
    observe::FatMember,
    placement::{self, NamedBundles, PlacedArchive, PlacedBinary},
    plan::{
        DeviceScope, DeviceWheelPlan, DroppedTarget, KeptCode, LightenedBinary, SplitWheelPlan,
    },
    texts::{self, DeviceMetadata, HostExtras},
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
    target::{Scope, Target, TargetTable},
    wheel::{DistName, PackageFilename},
};

/// A wheel to split, its device code, and how it is tied in the same step.
pub type ToSplit<'a> = (&'a FrameworkWheel, &'a SplitInput, Option<&'a TiePlan>);

/// A plan for each wheel, or everything that is in the way.
pub fn decide(
    wheels: &[ToSplit<'_>],
    rocm: Option<&RocmLibraries>,
    policy: &Frameworks,
    options: &WheelSplitOptions,
) -> Result<Result<Vec<SplitWheelPlan>, Vec<WheelRefusal>>> {
    let (mut plans, mut refusals) = (Vec::new(), Vec::new());
    let mut names: BTreeSet<DistName> = wheels.iter().map(|it| it.0.name.name.clone()).collect();
    for &(wheel, input, tied) in wheels {
        let row = policy.of(&wheel.name.name);
        let context = || format!("failed to plan `{}`", wheel.name);
        let base = match tied {
            Some(tied) => HostBase::tied(wheel, tied),
            None => HostBase::of_wheel(wheel, row, rocm, options),
        };
        let one = OneSplit {
            wheel,
            input,
            base: &base.with_context(context)?,
            rocm,
            row,
            options,
        };
        let mut refused = one.refusals();
        if refused.is_empty() {
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
        let file = wheel.name.to_string();
        refusals.extend(refused.into_iter().map(|it| WheelRefusal {
            file: file.clone(),
            ..it
        }));
    }
    Ok(if refusals.is_empty() {
        Ok(plans)
    } else {
        Err(refusals)
    })
}

/// The members that move, by what they are for.
type FilesFor<T> = BTreeMap<T, Vec<String>>;

struct OneSplit<'a> {
    wheel: &'a FrameworkWheel,
    input: &'a SplitInput,
    base: &'a HostBase<'a>,
    rocm: Option<&'a RocmLibraries>,
    row: Option<&'a FrameworkSpec>,
    options: &'a WheelSplitOptions,
}

impl OneSplit<'_> {
    /// What keeps the wheel from being split at all.
    fn refusals(&self) -> Vec<WheelRefusal> {
        let input = self.input;
        let mut refusals = WheelRefusal::of_damage(self.wheel);
        refusals.extend(input.split.iter().map(|path| {
            WheelRefusal::new(
                RefusalKind::AlreadySplit,
                format!("the device code of `{path}` was taken out before"),
                "put it back with `rocwheel framework split --merge`, or pass the wheel as it was built",
            )
        }));
        if input.fat.is_empty() && refusals.is_empty() {
            let why = input.stuck.first();
            let why = why.map_or("no binary has device code".to_owned(), |(path, why)| {
                format!("the device code of `{path}` cannot be taken out: {why}")
            });
            refusals.push(WheelRefusal::new(
                RefusalKind::NoDeviceCode,
                why,
                "publish the wheel as it is",
            ));
        }
        let known: BTreeSet<&Target> = TargetTable::builtin()
            .known()
            .chain(self.rocm.iter().flat_map(|it| &it.targets))
            .collect();
        let unknown = self.targets();
        let unknown = unknown
            .iter()
            .filter(|it| !known.contains(it) && self.is_wanted(it));
        refusals.extend(unknown.map(|target| {
            WheelRefusal::new(
                RefusalKind::UnknownTarget,
                format!("it has device code for {target}, which is no known target"),
                "leave its code out with `--targets`, or use a newer rocwheel",
            )
        }));
        refusals
    }

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
        let families = self.families();
        let record = base.record.as_ref();
        let devices = self.devices(host, &archives, (&databases, &families))?;
        let targets: Vec<&Target> = devices.iter().filter_map(|it| it.scope.target()).collect();
        let selector = self.selector(host, &targets)?;
        let selected = selector.as_ref().map(SelectorPlan::project);
        let names = devices.iter().map(|it| {
            let needing = targets
                .iter()
                .copied()
                .filter(|target| it.scope.has(target));
            (needing.collect(), &it.name.name)
        });
        let names: Vec<(Vec<&Target>, &DistName)> = names.collect();
        let extras = HostExtras::new(&names, selected, &host.version, record);
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
        let moved = moved.map(|it| it.1).chain(families.values());
        let moved = moved.flatten().cloned().collect();
        Ok(SplitWheelPlan {
            file: wheel.name.to_string(),
            host: host.clone(),
            binaries: input.fat.iter().map(LightenedBinary::of).collect(),
            kept: input.stuck.iter().map(KeptCode::of).collect(),
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
    fn databases(&self) -> FilesFor<Target> {
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

    /// The members with kernels for several targets, by the family that gets a wheel.
    fn families(&self) -> FilesFor<&'static str> {
        let Some(row) = self
            .row
            .filter(|_| self.options.families == FamilyFiles::Packages)
        else {
            return BTreeMap::new();
        };
        let code = self.targets();
        let owned = self.wheel.installed().filter_map(|(path, member)| {
            let (library, family) = databases::family(&path.parse().ok()?)?;
            let scope = DeviceScope::Family(family);
            let is_used = row.moves(library) && code.iter().any(|it| scope.has(it));
            is_used.then(|| (family, member.path.clone()))
        });
        let mut families: BTreeMap<_, Vec<String>> = owned.into_group_map().into_iter().collect();
        for it in families.values_mut() {
            it.sort();
        }
        families
    }

    /// The sdist that selects a device wheel.
    fn selector(
        &self,
        host: &PackageFilename,
        targets: &[&Target],
    ) -> Result<Option<SelectorPlan>> {
        if !self.options.selector || targets.is_empty() {
            return Ok(None);
        }
        let prefix = self.prefix()?;
        let targets: Vec<Target> = targets.iter().copied().cloned().collect();
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
        (databases, families): (&FilesFor<Target>, &FilesFor<&'static str>),
    ) -> Result<Vec<DeviceWheelPlan>> {
        let prefix = self.prefix()?;
        let mut by_target: BTreeMap<&Target, Vec<String>> = BTreeMap::new();
        for (path, archive) in archives {
            if let Scope::Target(target) = &archive.scope {
                let paths = by_target.entry(target).or_default();
                paths.push(path.to_string());
            }
        }
        // Files for a family that no device wheel would ask for are left out.
        let mut families: Vec<(DeviceScope, DistName, &Vec<String>)> = families
            .iter()
            .map(|(family, files)| {
                let name = format!("{prefix}-{family}").parse()?;
                Ok((DeviceScope::Family(family), name, files))
            })
            .collect::<Result<_>>()?;
        families.retain(|(family, ..)| by_target.keys().any(|it| family.has(it)));
        let mut devices = Vec::new();
        for (target, archives) in by_target {
            let of = families.iter().filter(|it| it.0.has(target));
            let of: Vec<DistName> = of.map(|it| it.1.clone()).collect();
            let name = format!("{prefix}-{target}").parse()?;
            let scope = DeviceScope::Target(target.clone());
            let databases = databases.get(target).cloned().unwrap_or_default();
            devices.push(self.device(host, (scope, name), &of, (archives, databases)));
        }
        for (family, name, files) in families {
            let files = (Vec::new(), files.clone());
            devices.push(self.device(host, (family, name), &[], files));
        }
        Ok(devices)
    }

    fn device(
        &self,
        host: &PackageFilename,
        (scope, name): (DeviceScope, DistName),
        families: &[DistName],
        (archives, databases): (Vec<String>, Vec<String>),
    ) -> DeviceWheelPlan {
        let rocm = scope.target().and_then(|it| self.rocm_of(it));
        let metadata = DeviceMetadata {
            name: &name,
            host,
            scope: &scope,
            rocm: rocm.map(|it| &it.version),
            families,
        };
        let metadata = metadata.render();
        let file = PackageFilename::new(name, &host.version, host.tag.as_ref());
        let top = file.dist_info();
        DeviceWheelPlan {
            scope,
            file: file.to_string(),
            archives,
            databases,
            name: file,
            texts: vec![
                (format!("{top}/METADATA"), metadata),
                (
                    format!("{top}/WHEEL"),
                    texts::device_wheel(&self.base.wheel_text),
                ),
            ],
        }
    }

    /// The set, if it has device code for a target and the wheel uses the libraries that have some.
    fn rocm_of(&self, target: &Target) -> Option<&RocmLibraries> {
        let rocm = self.rocm.filter(|it| it.targets.contains(target))?;
        let mut needed = self.wheel.elf_files().flat_map(|it| &it.2.facts.needed);
        let uses = needed.any(|name| {
            let library = rocm.library(name);
            library.is_some_and(|it| it.directory == RocmDirectoryKey::M)
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

impl DeviceScope {
    pub(super) fn target(&self) -> Option<&Target> {
        match self {
            Self::Target(target) => Some(target),
            Self::Family(_) => None,
        }
    }

    /// Whether a GPU of a target needs the wheel.
    fn has(&self, target: &Target) -> bool {
        match self {
            Self::Target(own) => own == target,
            Self::Family(family) => TargetTable::builtin().sub_family_has(family, target),
        }
    }
}
