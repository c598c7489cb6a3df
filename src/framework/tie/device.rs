//! Device wheels of a wheel that was split: they follow their host wheel. They get its version and tag,
//! and require it, and the device code of the set, in the new versions.

use super::{Group, plan::TiePlan};
use crate::framework::{
    facts,
    read::FrameworkWheel,
    refusal::{RefusalKind, WheelRefusal},
};
use rocwheel_base::error::Result;
use rocwheel_wheel::PackageFilename;

impl Group<'_> {
    /// The index of the host wheel of a device wheel, if it is in the group.
    pub(super) fn host_of(&self, wheel: &FrameworkWheel) -> Option<usize> {
        let has_archives = wheel.installed().any(|(path, _)| path.contains(".kpack/"));
        if wheel.elf_files().next().is_some() || !has_archives {
            return None;
        }
        wheel.requirements().find_map(|requirement| {
            let pin = requirement.pin()?;
            self.wheels.iter().position(|host| {
                host.name.name == requirement.name
                    && pin == host.name.version
                    && host.elf_files().next().is_some()
            })
        })
    }

    /// Plans a device wheel after its host wheel.
    pub(super) fn plan_device_wheel(
        &self,
        wheel: &FrameworkWheel,
        host: &FrameworkWheel,
        host_plan: &TiePlan,
    ) -> Result<(TiePlan, Vec<WheelRefusal>)> {
        let rocm = self.rocm;
        let version = &host_plan.result.version;
        let mut plan = TiePlan::new(wheel, rocm);
        let mut refusals = Vec::new();
        plan.follows = Some(host.name.name.to_string());
        for requirement in wheel.requirements() {
            let name = &requirement.name;
            if *name == host.name.name {
                plan.require(format!("{name}=={version}"), "its host wheel");
            } else if let Some(target) = rocm.names.device_target(name) {
                let bundle = self.bundle.as_ref();
                let (place, targets) = match bundle {
                    Some(bundle) => ("the bundle", &bundle.targets),
                    None => ("the set", &rocm.targets),
                };
                if !targets.contains(&target) {
                    let hint = match bundle {
                        Some(_) => "leave the wheel out of the group, or name its target, too",
                        None => "leave the wheel out of the group, or tie to a set with its target",
                    };
                    let refusal = format!("{place} has no device code for {target}");
                    refusals.push(WheelRefusal::new(RefusalKind::UnknownTarget, refusal, hint));
                }
                if bundle.is_none() {
                    let line = format!("{name}=={}", rocm.version);
                    plan.require(line, "device code of the set");
                }
            } else {
                continue;
            }
            plan.removed.push(requirement.to_string());
        }
        plan.requires.sort();
        let tag = host_plan.result.tag.as_ref().unwrap_or(wheel.tag()?);
        plan.result = PackageFilename::new(wheel.name.name.clone(), version, Some(tag));
        plan.record.proved_tag = facts::proved_tag(wheel, self.providers).map(|tag| tag.policy);
        plan.finish(wheel, tag)?;
        Ok((plan, refusals))
    }
}
