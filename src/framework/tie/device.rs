//! Device wheels of a wheel that was split: they follow their host wheel. They get its version and tag,
//! and require it, and the device code of the set, in the new versions.

use super::plan::TiePlan;
use crate::{
    error::{Context as _, Result},
    framework::{
        facts,
        providers::Providers,
        read::FrameworkWheel,
        refusal::{RefusalKind, WheelRefusal},
        rocm::RocmLibraries,
    },
    target::Target,
    wheel::PackageFilename,
};

/// The beginning of the names of packages with device code of ROCm.
const ROCM: &str = "rocm-sdk-device-";

/// The host wheel of a device wheel, if it is in the group.
pub(super) fn host_of<'a>(
    wheel: &FrameworkWheel,
    wheels: &'a [FrameworkWheel],
) -> Option<&'a FrameworkWheel> {
    let has_archives = wheel.installed().any(|(path, _)| path.contains(".kpack/"));
    if wheel.elf_files().next().is_some() || !has_archives {
        return None;
    }
    facts::requirements(wheel).find_map(|(_, it)| {
        let pin = it.specifier.strip_prefix("==")?.trim();
        wheels.iter().find(|host| {
            let is_it = host.name.name == it.name && pin == host.name.version.to_string();
            is_it && host.elf_files().next().is_some()
        })
    })
}

/// The plan for a device wheel. `tied` is that for its host wheel.
pub(super) fn plan(
    wheel: &FrameworkWheel,
    host: &FrameworkWheel,
    tied: &TiePlan,
    providers: &Providers<'_>,
    rocm: &RocmLibraries,
) -> Result<(TiePlan, Vec<WheelRefusal>)> {
    let version = &tied.result.version;
    let (mut plan, mut refusals) = (TiePlan::new(wheel, rocm), Vec::new());
    plan.follows = Some(host.name.name.to_string());
    for (line, requirement) in facts::requirements(wheel) {
        let name = requirement.name.normalized();
        if requirement.name == host.name.name {
            plan.require(format!("{name}=={version}"), "its host wheel");
        } else if let Some(target) = name.strip_prefix(ROCM) {
            let target: Target = target.parse()?;
            if !rocm.targets.contains(&target) {
                refusals.push(WheelRefusal::new(
                    RefusalKind::UnknownTarget,
                    format!("the set has no device code for {target}"),
                    "leave the wheel out of the group, or tie to a set with its target",
                ));
            }
            plan.require(
                format!("{name}=={}", rocm.version),
                "device code of the set",
            );
        } else {
            continue;
        }
        plan.removed.push(line.to_owned());
    }
    plan.requires
        .sort_by(|one, other| one.line.cmp(&other.line));
    let tag = tied.result.tag.as_ref().context("a wheel without a tag")?;
    plan.result = PackageFilename::new(wheel.name.name.clone(), version, Some(tag));
    plan.record.proved_tag = Some(facts::proved_tag(wheel, providers).policy);
    plan.finish(wheel, tag)?;
    Ok((plan, refusals))
}
