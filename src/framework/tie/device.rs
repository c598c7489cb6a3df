//! Device wheels of a wheel that was split: they follow their host wheel. They get its version and tag,
//! and require it, and the device code of the set, in the new versions.

use std::collections::BTreeMap;

use super::{
    plan::{PlannedRequirement, TiePlan},
    record::TieRecord,
};
use crate::{
    error::{Context as _, Result},
    framework::{
        facts,
        metadata::{self, MetadataEdit},
        providers::Providers,
        read::FrameworkWheel,
        refusal::{RefusalKind, WheelRefusal},
        rocm::RocmLibraries,
    },
    target::Target,
    version::Version,
    wheel::{DistName, PackageFilename},
};

/// The beginning of the names of packages with device code of ROCm.
const ROCM: &str = "rocm-sdk-device-";

/// The host wheel of a device wheel, if it is in the group.
pub(super) fn host_of<'a>(
    wheel: &FrameworkWheel,
    wheels: &'a [FrameworkWheel],
) -> Option<&'a FrameworkWheel> {
    if wheel.elf_files().next().is_some() {
        return None;
    }
    let is_archive = |path: &str| path.contains(".kpack/");
    let has_archives = wheel.installed().any(|(path, _)| is_archive(path));
    // A wheel for a family has no archive.
    let is_offered = |host: &FrameworkWheel| {
        facts::requirements(host).any(|(_, it)| {
            let is_device = it.extra.is_some_and(|extra| extra.starts_with("device-"));
            is_device && it.name == wheel.name.name
        })
    };
    let mut requirements = facts::requirements(wheel);
    requirements.find_map(|(_, it)| {
        let pin = it.specifier.strip_prefix("==")?;
        wheels.iter().find(|host| {
            let is_it = host.name.name == it.name && pin.trim() == host.name.version.to_string();
            // Device wheels also require those for their families.
            let has_binaries = host.elf_files().next().is_some();
            is_it && has_binaries && (has_archives || is_offered(host))
        })
    })
}

/// Whether two device wheels are of one host wheel: their names begin alike, as in `amd-torch-device`.
fn is_of_split(one: &DistName, other: &DistName) -> bool {
    let [one, other] = [one, other].map(|it| it.normalized().rsplit_once("-gfx"));
    one.zip(other).is_some_and(|(one, other)| one.0 == other.0)
}

/// The plan for a device wheel. `host` is that of its host wheel.
pub(super) fn plan(
    wheel: &FrameworkWheel,
    (host, tied): (&FrameworkWheel, &TiePlan),
    group: &BTreeMap<DistName, Version>,
    providers: &Providers<'_>,
    rocm: &RocmLibraries,
) -> Result<(TiePlan, Vec<WheelRefusal>)> {
    let version = &tied.result.version;
    let (mut removed, mut requires, mut refusals) = (Vec::new(), Vec::new(), Vec::new());
    for (line, requirement) in facts::requirements(wheel) {
        let name = requirement.name.normalized();
        if requirement.name == host.name.name {
            requires.push(PlannedRequirement {
                line: format!("{name}=={version}"),
                why: "its host wheel".to_owned(),
            });
        } else if is_of_split(&requirement.name, &wheel.name.name) {
            if !group.contains_key(&requirement.name) {
                refusals.push(WheelRefusal::new(
                    RefusalKind::DeviceWheels,
                    format!("it requires `{line}`, which is not in the group"),
                    "name the wheels for families of targets, too",
                ));
            }
            requires.push(PlannedRequirement {
                line: format!("{name}=={version}"),
                why: "device code for its family".to_owned(),
            });
        } else if let Some(target) = name.strip_prefix(ROCM) {
            let target: Target = target.parse()?;
            if !rocm.targets.contains(&target) {
                refusals.push(WheelRefusal::new(
                    RefusalKind::UnknownTarget,
                    format!("the set has no device code for {target}"),
                    "leave the wheel out of the group, or tie to a set with its target",
                ));
            }
            requires.push(PlannedRequirement {
                line: format!("{name}=={}", rocm.version),
                why: "device code of the set".to_owned(),
            });
        } else {
            continue;
        }
        removed.push(line.to_owned());
    }
    requires.sort_by(|one, other| one.line.cmp(&other.line));
    let tag = tied.result.tag.as_ref().context("a wheel without a tag")?;
    let result = PackageFilename::new(wheel.name.name.clone(), version, Some(tag));
    let mut record = TieRecord::new(&rocm.version);
    record.proved_tag = Some(facts::proved_tag(wheel, providers).policy);
    let mut plan = TiePlan {
        file: wheel.name.to_string(),
        result,
        set: rocm.version.to_string(),
        follows: Some(host.name.name.to_string()),
        requires,
        removed,
        extras: Vec::new(),
        removed_extras: Vec::new(),
        run_paths: Vec::new(),
        tied: 0,
        binaries: 0,
        untied: Vec::new(),
        init: None,
        tag: None,
        selector: None,
        warnings: Vec::new(),
        texts: BTreeMap::new(),
        record,
    };
    let edit = MetadataEdit {
        requires: plan.requires.iter().map(|it| it.line.clone()).collect(),
        removed: plan.removed.clone(),
        version: (*version != wheel.name.version).then(|| version.clone()),
        ..MetadataEdit::default()
    };
    let top = plan.dist_info(wheel);
    let metadata = edit.apply(&wheel.metadata_text);
    plan.texts.insert(format!("{top}/METADATA"), metadata);
    let text = metadata::wheel_text(&wheel.wheel_text, tag)?;
    plan.texts.insert(format!("{top}/WHEEL"), text);
    plan.settle();
    Ok((plan, refusals))
}
