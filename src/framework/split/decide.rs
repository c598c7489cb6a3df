//! Decides how wheels are split: from facts to plans, without reading anything.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{
    ToSplit, WheelSplitOptions,
    placement::PlacedArchive,
    plan::{DeviceWheelPlan, LightenedBinary, SplitWheelPlan},
};
use crate::{
    framework::{
        device_selector::SelectorPlan,
        metadata::MetadataEdit,
        policy::{FrameworkSpec, Frameworks, RocmDirectoryKey},
        read::FrameworkWheel,
        refusal::{RefusalKind, WheelRefusal},
        rocm::RocmLibraries,
        tie::{self, TieRecord},
    },
    policy::{DistNames, selector::DeviceSelector},
};
use rocwheel_base::{
    error::{Context as _, Result},
    relpath::RelPath,
    target::{Scope, Target, TargetTable},
    version::Version,
};
use rocwheel_kpack::databases;
use rocwheel_wheel::{DistName, Headers, PackageFilename, Requirement};

/// Makes a plan for each wheel, or refuses and lists every reason.
pub fn decide(
    wheels: &[ToSplit<'_>],
    rocm: Option<&RocmLibraries>,
    policy: &Frameworks,
    options: &WheelSplitOptions,
) -> Result<Vec<SplitWheelPlan>> {
    let mut plans = Vec::new();
    let mut refusals = Vec::new();
    let mut names: BTreeSet<DistName> =
        wheels.iter().map(|input| input.wheel.name.name.clone()).collect();
    let chosen = chosen_targets(options)?;
    for input in wheels {
        let wheel = input.wheel;
        let mut refused = WheelRefusal::of_damage(wheel);
        if input.passed_on().is_some() || !refused.is_empty() {
            plans.push(SplitWheelPlan::new(wheel, input.passed_on()));
        } else {
            let mut split = Split {
                wheel,
                input,
                rocm,
                row: policy.of(&wheel.name.name),
                options,
                chosen: chosen.as_ref(),
                plan: SplitWheelPlan::new(wheel, None),
                refusals: &mut refused,
            };
            split.decide().with_context(|| format!("failed to plan `{}`", wheel.name))?;
            let plan = split.plan;
            let device_names = plan.devices.iter().map(|device| &device.name.name);
            let selector_name = plan.selector.iter().map(SelectorPlan::project);
            for name in device_names.chain(selector_name) {
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
        refusals.extend(refused.into_iter().map(|refusal| refusal.in_wheel(wheel)));
    }
    WheelRefusal::ensure_none("split", &refusals)?;
    Ok(plans)
}

fn chosen_targets(options: &WheelSplitOptions) -> Result<Option<BTreeSet<Target>>> {
    if options.targets.is_none() {
        return Ok(None);
    }
    let targets = TargetTable::builtin().select(options.targets.as_slice())?;
    Ok(Some(targets.iter().map(Target::base).collect()))
}

/// One wheel on the way to its plan.
struct Split<'a> {
    wheel: &'a FrameworkWheel,
    input: &'a ToSplit<'a>,
    rocm: Option<&'a RocmLibraries>,
    row: Option<&'a FrameworkSpec>,
    options: &'a WheelSplitOptions,
    /// The targets that get a device wheel, without features; `None` for all that have code.
    chosen: Option<&'a BTreeSet<Target>>,
    plan: SplitWheelPlan,
    refusals: &'a mut Vec<WheelRefusal>,
}

impl Split<'_> {
    fn decide(&mut self) -> Result<()> {
        let wheel = self.wheel;
        let input = self.input;
        let mut record = self.plan_version()?;
        self.plan.archives = self.archives()?;
        let databases = self.databases();
        self.plan.binaries = input
            .fat
            .iter()
            .map(|binary| LightenedBinary {
                path: binary.member.installed.to_string(),
                bundles: binary.member.bundles.len(),
                code_objects: binary.member.bundles.iter().map(BTreeMap::len).sum(),
            })
            .collect();
        self.plan.kept.clone_from(&input.unsplittable);
        self.plan.dropped = self.dropped();
        self.plan.warnings = self.warnings();
        self.plan.devices = self.plan_devices(&databases)?;
        // A target that is left out has code, and gets no device wheel. Its databases leave the host wheel, too.
        // Databases of a target without code stay.
        let targets = self.targets();
        for (target, files) in &databases {
            if targets.contains(target) {
                self.plan.moved.extend(files.iter().cloned());
            }
        }
        self.plan_selector()?;
        self.plan_extras();
        let (removed, removed_extras) =
            record.as_mut().map(TieRecord::take_extras).unwrap_or_default();
        let plan = &mut self.plan;
        let top = wheel.dist_info_of(&plan.host);
        let metadata = plan
            .texts
            .entry(format!("{top}/METADATA"))
            .or_insert_with(|| wheel.metadata_text.clone());
        let headers: Headers = metadata.parse()?;
        let clash = headers.all("Provides-Extra").find(|extra| {
            plan.extras.iter().any(|new| new == extra) && !removed_extras.contains(*extra)
        });
        if let Some(extra) = clash {
            self.refusals.push(WheelRefusal::new(
                RefusalKind::NameTaken,
                format!("it has an extra `{extra}` of its own"),
                "remove the extra from its build",
            ));
        }
        let edit = MetadataEdit {
            requires: plan.requires.clone(),
            extras: plan.extras.clone(),
            removed: removed.clone(),
            removed_extras,
            version: plan.host.version.clone(),
            license_files: Vec::new(),
            licenses: Vec::new(),
            requires_python: Vec::new(),
        };
        *metadata = edit.apply(metadata)?;
        plan.removed = removed;
        if let Some(record) = record {
            let path = format!("{top}/{}", TieRecord::FILE);
            plan.texts.insert(path, record.render()?);
        }
        Ok(())
    }

    /// Plans the version of the host wheel, and the files that name it. Returns what a tie has recorded.
    fn plan_version(&mut self) -> Result<Option<TieRecord>> {
        let wheel = self.wheel;
        let plan = &mut self.plan;
        let rocm = self.rocm.map(|rocm| &rocm.version);
        let (version, suffix) = tie::version_of(wheel, self.row, &self.options.suffix, rocm)?;
        let files = tie::version_files(wheel, self.row, &version, self.refusals)?;
        plan.host = tie::result(wheel, &version, wheel.tag()?);
        plan.texts.extend(files);
        let mut record = TieRecord::read(wheel)?;
        if let Some(record) = &mut record {
            record.version_suffix = suffix;
        }
        Ok(record)
    }

    /// The targets that have code, without features.
    fn targets(&self) -> BTreeSet<Target> {
        self.input
            .fat
            .iter()
            .flat_map(|binary| &binary.member.bundles)
            .flat_map(BTreeMap::keys)
            .filter_map(|code_target| code_target.base().target())
            .collect()
    }

    fn is_wanted(&self, target: &Target) -> bool {
        self.chosen.is_none_or(|chosen| chosen.contains(target))
    }

    /// The archives for generic targets and for the chosen targets.
    fn archives(&self) -> Result<BTreeMap<RelPath, PlacedArchive>> {
        let mut archives: BTreeMap<RelPath, PlacedArchive> = BTreeMap::new();
        for binary in &self.input.fat {
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
        let owned = self.wheel.installed().filter_map(|(path, member)| {
            let (library, target) = databases::owner(&path.parse().ok()?)?;
            let is_moved = self.row?.moves(library);
            is_moved.then(|| (target.base(), member.path.clone()))
        });
        let mut databases: BTreeMap<Target, Vec<String>> =
            owned.into_group_map().into_iter().collect();
        for files in databases.values_mut() {
            files.sort();
        }
        databases
    }

    /// The beginning of the names of device wheels.
    fn prefix(&self) -> Result<DistName> {
        match &self.options.device_prefix {
            Some(prefix) => Ok(prefix.clone()),
            None => FrameworkSpec::device_prefix(self.row, &self.wheel.name.name),
        }
    }

    fn plan_devices(
        &self,
        databases: &BTreeMap<Target, Vec<String>>,
    ) -> Result<Vec<DeviceWheelPlan>> {
        let prefix = self.prefix()?;
        let host = &self.plan.host;
        let host_path = format!("{}/WHEEL", self.wheel.dist_info_of(host));
        let host_text = self.plan.texts.get(&host_path).unwrap_or(&self.wheel.wheel_text);
        let wheel_text = device_wheel(host_text)?;
        let archives_by_target = self
            .plan
            .archives
            .iter()
            .filter_map(|(path, archive)| match &archive.scope {
                Scope::Target(target) => Some((target, path.to_string())),
                // Code for a generic target stays in the host wheel.
                _ => None,
            })
            .into_group_map();
        let mut devices = Vec::new();
        for (target, archives) in archives_by_target.into_iter().sorted() {
            let project: DistName = format!("{prefix}-{target}").parse()?;
            let rocm = self.rocm_of(target).map(|rocm| (&rocm.names, &rocm.version));
            let metadata = device_metadata(&project, host, target, rocm);
            let name = PackageFilename::new(project, &host.version, host.tag.as_ref());
            let dist_info = name.dist_info();
            devices.push(DeviceWheelPlan {
                target: target.clone(),
                file: name.to_string(),
                archives,
                databases: databases.get(target).cloned().unwrap_or_default(),
                name,
                texts: vec![
                    (format!("{dist_info}/METADATA"), metadata),
                    (format!("{dist_info}/WHEEL"), wheel_text.clone()),
                ],
            });
        }
        Ok(devices)
    }

    /// The set, if it has device code for a target and the wheel uses the libraries that have device code.
    fn rocm_of(&self, target: &Target) -> Option<&RocmLibraries> {
        let rocm = self.rocm.filter(|rocm| rocm.targets.contains(target))?;
        let has_device_code = |name: &String| {
            rocm.library(name).is_some_and(|library| library.directory == RocmDirectoryKey::Math)
        };
        let mut needed = self.wheel.elf_files().flat_map(|elf| &elf.facts.needed);
        needed.any(has_device_code).then_some(rocm)
    }

    /// Plans the sdist that selects a device wheel.
    fn plan_selector(&mut self) -> Result<()> {
        let targets: Vec<Target> =
            self.plan.devices.iter().map(|device| device.target.clone()).collect();
        if !self.options.no_selector && !targets.is_empty() {
            self.plan.selector = Some(SelectorPlan::of(&DeviceSelector {
                name: &self.prefix()?,
                version: &self.plan.host.version,
                host: &self.plan.host.name,
                targets: &targets,
            })?);
        }
        Ok(())
    }

    /// Plans the extras of the host wheel, and what they require.
    fn plan_extras(&mut self) {
        let plan = &mut self.plan;
        let mut extras: Vec<(String, &DistName)> = Vec::new();
        for device in &plan.devices {
            extras.push((format!("device-{}", device.target), &device.name.name));
            extras.push(("device-all".to_owned(), &device.name.name));
        }
        if let Some(selector) = &plan.selector {
            extras.push(("device".to_owned(), selector.project()));
        }
        let version = &plan.host.version;
        plan.requires = extras
            .iter()
            .map(|(extra, name)| format!("{name}=={version}; extra == \"{extra}\""))
            .sorted()
            .collect();
        plan.extras = extras.into_iter().map(|(extra, _)| extra).sorted().dedup().collect();
    }

    fn dropped(&self) -> Vec<String> {
        self.targets()
            .into_iter()
            .filter(|target| !self.is_wanted(target))
            .map(|target| target.to_string())
            .collect()
    }

    fn warnings(&self) -> Vec<String> {
        let available = self.targets();
        let without_code = self
            .chosen
            .into_iter()
            .flatten()
            .filter(|target| !available.contains(target))
            .join(", ");
        if without_code.is_empty() {
            return Vec::new();
        }
        vec![format!("it has no device code for {without_code}")]
    }
}

/// METADATA of a device wheel. `rocm` is the set whose device code it goes with: the names of its packages,
/// and its version.
fn device_metadata(
    name: &DistName,
    host: &PackageFilename,
    target: &Target,
    rocm: Option<(&DistNames, &Version)>,
) -> String {
    let project = &host.name;
    let version = &host.version;
    let requires_rocm = match rocm {
        Some((names, rocm)) => format!("Requires-Dist: {}=={rocm}\n", names.device(target)),
        None => String::new(),
    };
    format!(
        "Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\
         Summary: Device code of {project} for {target}\n\
         Requires-Dist: {project}=={version}\n{requires_rocm}"
    )
}

/// WHEEL of a device wheel, made from WHEEL of its host wheel: both are installed into the same directory, on
/// the same platforms.
fn device_wheel(host: &str) -> Result<String> {
    let mut headers: Headers = host.parse()?;
    let generator = format!("rocwheel ({})", env!("CARGO_PKG_VERSION"));
    headers.set("Generator", &generator);
    // A build number stands in the file name of the host wheel, and not in the name of the device wheel.
    headers.remove("Build", |_| true);
    Ok(headers.to_string())
}

impl TieRecord {
    /// Takes the extras that the tie forwarded to `rocm`, and their requirements. The extras of the device wheels
    /// replace them, and another tie must leave those alone. Returns the requirements and the extras.
    fn take_extras(&mut self) -> (Vec<String>, BTreeSet<String>) {
        let extras: BTreeSet<String> = self.extras.drain(..).collect();
        let is_forwarded = |line: &String| {
            line.parse().is_ok_and(|requirement: Requirement| {
                requirement.marker.extras().iter().any(|it| extras.contains(*it))
            })
        };
        let (removed, kept) = self.requires.drain(..).partition(is_forwarded);
        self.requires = kept;
        (removed, extras)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Catalog;

    #[test]
    fn a_device_wheel_requires_its_host_and_the_device_code_of_the_set() {
        let host = "fw-1.0-py3-none-any.whl".parse().unwrap();
        let (target, version) = ("gfx942".parse().unwrap(), "7.14.0".parse().unwrap());
        let name = "amd-fw-device-gfx942".parse().unwrap();
        let rocm = (DistNames::built_in(), &version);
        let text = device_metadata(&name, &host, &target, Some(rocm));
        insta::assert_snapshot!(text, @"
        Metadata-Version: 2.4
        Name: amd-fw-device-gfx942
        Version: 1.0
        Summary: Device code of fw for gfx942
        Requires-Dist: fw==1.0
        Requires-Dist: rocm-sdk-device-gfx942==7.14.0
        ");
    }

    #[test]
    fn a_renamed_distribution_passes_through() {
        let text = include_str!("../../policy/packages.toml").replace("\"rocm-sdk-", "\"sdk-");
        let names = DistNames::of(&Catalog::parse(&text).unwrap()).unwrap();
        let (target, version) = ("gfx942".parse().unwrap(), "7.14.0".parse().unwrap());
        let host = "fw-1.0-py3-none-any.whl".parse().unwrap();
        let name = "amd-fw-device-gfx942".parse().unwrap();
        let text = device_metadata(&name, &host, &target, Some((&names, &version)));
        assert!(text.contains("Requires-Dist: sdk-device-gfx942==7.14.0\n"), "{text}");
        let required = "sdk-device-gfx942".parse().unwrap();
        assert_eq!(names.device_target(&required), Some(target));
    }

    #[test]
    fn the_extras_of_a_tie_are_replaced() {
        let mut record = TieRecord::new(&"7.14.0".parse().unwrap());
        record.extras = vec!["device".to_owned(), "device-gfx942".to_owned()];
        record.requires = [
            "rocm[libraries]==7.14.*",
            "rocm[device]==7.14.*; extra == \"device\"",
            "rocm[device-gfx942]==7.14.*; extra == \"device-gfx942\"",
        ]
        .map(str::to_owned)
        .to_vec();
        let (removed, extras) = record.take_extras();
        assert_eq!((removed.len(), extras.len()), (2, 2));
        assert_eq!(record.requires, ["rocm[libraries]==7.14.*"]);
        assert!(record.extras.is_empty());
    }
}
