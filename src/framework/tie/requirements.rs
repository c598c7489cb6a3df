//! The requirements and extras of a tied wheel.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{RocmBundle, Tie, VersionPin};
use crate::{
    framework::{
        device_selector::SelectorPlan, policy::RocmDirectoryKey, read::FrameworkWheel,
        refusal::RefusalKind, version,
    },
    index,
    policy::selector::DeviceSelector,
};
use rocwheel_base::{error::Result, quantity::many, target::Target, version::Version};
use rocwheel_wheel::{DistName, Requirement};

impl VersionPin {
    /// What follows the name in a requirement. `None` if nothing is required.
    pub fn specifier(self, version: &Version) -> Option<String> {
        Some(format!("=={}", self.pattern(version)?))
    }

    /// The version with which `rocm_sdk` compares its own. Its `*` stands for anything.
    pub fn pattern(self, version: &Version) -> Option<String> {
        match self {
            Self::Exact => Some(version.to_string()),
            Self::Minor => Some(format!("{}.*", version.minor())),
            Self::None => None,
        }
    }

    /// A final release may be replaced by a later patch release, any other build only by itself.
    pub fn usual(version: &Version) -> Self {
        if version.is_final() { Self::Minor } else { Self::Exact }
    }
}

/// A requirement that a split has added, and an extra that it is for.
struct DeviceLine {
    line: String,
    name: DistName,
    extra: String,
}

fn device_lines(wheel: &FrameworkWheel) -> Vec<DeviceLine> {
    wheel
        .requirements()
        .filter(|it| !index::is_ours(&it.name) && it.pin().as_ref() == Some(&wheel.name.version))
        .flat_map(|requirement| {
            let is_for_device = |extra: &&str| *extra == "device" || extra.starts_with("device-");
            let line = |extra: &str| DeviceLine {
                line: requirement.to_string(),
                name: requirement.name.clone(),
                extra: extra.to_owned(),
            };
            requirement.marker.extras().into_iter().filter(is_for_device).map(line).collect_vec()
        })
        .collect()
}

impl<'a> Tie<'a> {
    pub(super) fn plan_requirements(&mut self) -> Result<()> {
        let rocm = self.group.rocm;
        self.remove_requirements();
        self.follow_group();
        let pin = self.group.options.requires.unwrap_or_else(|| VersionPin::usual(&rocm.version));
        let group = self.group;
        match (&group.bundle, pin.specifier(&rocm.version)) {
            (Some(bundle), _) => self.require_bundle(bundle),
            (None, Some(specifier)) => self.require_rocm(&specifier),
            (None, None) => {}
        }
        self.require_neighbours();
        self.require_device_wheels()?;
        let plan = &mut self.plan;
        plan.requires.sort();
        plan.record.extras.sort();
        plan.record.extras.dedup();
        let extras = &plan.record.extras;
        plan.removed_extras.retain(|it| !extras.contains(it));
        Ok(())
    }

    /// Removes the requirements that an earlier tie has added, requirements of ROCm, and requirements that policy
    /// knows to be dead, with the extras that had only these.
    fn remove_requirements(&mut self) {
        let rocm = &self.group.rocm.version;
        let earlier = self.earlier.take();
        // For each extra, whether a requirement of it stays.
        let mut stays_by_extra: BTreeMap<String, bool> = BTreeMap::new();
        for requirement in self.wheel.requirements() {
            let line = requirement.to_string();
            let is_rocm = index::is_ours(&requirement.name);
            let is_dead = self.row.is_some_and(|row| row.is_dead(&requirement.name));
            let is_added = earlier.as_ref().is_some_and(|record| record.requires.contains(&line));
            let is_removed = is_rocm || is_dead || is_added;
            for extra in requirement.marker.extras() {
                *stays_by_extra.entry(extra.to_owned()).or_default() |= !is_removed;
            }
            // A requirement of another ROCm is replaced only if the user says so, or if a tie wrote it.
            if is_rocm
                && !requirement.marker.needs_extra()
                && earlier.is_none()
                && self.group.options.requires.is_none()
                && requirement.allows(rocm) == Some(false)
            {
                self.refuse(
                    RefusalKind::TiedOtherwise,
                    format!("it requires `{line}`, which the set {rocm} is not"),
                    "build it against this set, or pass `--requires` to replace the requirement",
                );
            }
            if is_removed {
                self.plan.removed.push(line);
            }
        }
        let emptied = stays_by_extra.into_iter().filter(|(_, stays)| !stays);
        self.plan.removed_extras.extend(emptied.map(|(extra, _)| extra));
        self.plan.removed_extras.extend(earlier.into_iter().flat_map(|record| record.extras));
    }

    fn is_removed(&self, line: &str) -> bool {
        self.plan.removed.iter().any(|it| it == line)
    }

    /// Follows the frameworks of the group that are for another ROCm now: a requirement of one version of such a
    /// framework gets its new version.
    fn follow_group(&mut self) {
        let device_lines = device_lines(self.wheel);
        for requirement in self.wheel.requirements() {
            let line = requirement.to_string();
            let Some(old) = requirement.pin() else {
                continue;
            };
            let Some(new) = self.group.versions.get(&requirement.name) else {
                continue;
            };
            // The wheel in the group may be another release of the framework, for which this one is not built.
            let is_same_release = version::without_rocm(new) == version::without_rocm(&old);
            let is_device_line = device_lines.iter().any(|it| it.line == line);
            if *new == old || !is_same_release || is_device_line || self.is_removed(&line) {
                continue;
            }
            if let Some(new_line) = requirement.with_pin(new) {
                self.plan.removed.push(line);
                let why = format!("{} is in the group", requirement.name);
                self.plan.require(new_line, why);
            }
        }
    }

    /// The extras of ROCm that the wheel needs, without those for device code.
    pub(super) fn rocm_extras(&self) -> BTreeSet<&'a str> {
        let by_policy = self.row.into_iter().flat_map(|row| &row.extras);
        let by_flag = &self.group.options.extras;
        let mut extras: BTreeSet<&str> =
            by_flag.iter().chain(by_policy).map(String::as_str).collect();
        if self.needs.directories.contains(&RocmDirectoryKey::Math) {
            extras.insert("libraries");
        }
        extras
    }

    /// Requires what has the files of ROCm: the wheel itself, which then needs what ROCm needs of others, or the wheel of
    /// the group that they join.
    fn require_bundle(&mut self, bundle: &RocmBundle) {
        let project = &bundle.project;
        if *project == self.wheel.name.name {
            for line in &bundle.requires {
                self.plan.require(line.clone(), "ROCm needs it");
            }
            return;
        }
        // `require_neighbours` adds it only if the wheel needs it.
        self.needs.neighbours.insert(project.clone());
    }

    /// Requires ROCm, and forwards its extras for device code.
    fn require_rocm(&mut self, specifier: &str) {
        let rocm = self.group.rocm;
        let extras = self.rocm_extras();
        let plan = &mut self.plan;
        let name = &rocm.names.selector;
        let line = if extras.is_empty() {
            format!("{name}{specifier}")
        } else {
            format!("{name}[{}]{specifier}", extras.iter().join(","))
        };
        let why = match (plan.record.run_paths.len(), self.row) {
            (0, None) => "named by a flag".to_owned(),
            (0, Some(row)) => format!("policy: {}", row.why),
            (tied, _) => format!("libraries of {}", many(tied, "binary")),
        };
        plan.record.requirement = Some(line.clone());
        plan.require(line, why);
        // The device wheels of a wheel that was split require the device code of the set.
        let is_split = !device_lines(self.wheel).is_empty();
        if rocm.targets.is_empty() || is_split {
            return;
        }
        let targets = rocm.targets.iter().map(|target| format!("device-{target}"));
        for extra in ["device", "device-all"].map(str::to_owned).into_iter().chain(targets) {
            let is_own = self.wheel.metadata.provides_extra.contains(&extra);
            if is_own && !plan.removed_extras.contains(&extra) {
                let warning = format!(
                    "it has an extra `{extra}` of its own, so the extra `{extra}` of `{name}` is not forwarded"
                );
                plan.warnings.push(warning);
                continue;
            }
            let line = format!("{name}[{extra}]{specifier}; extra == \"{extra}\"");
            plan.require(line, "device code of the set");
            plan.record.extras.push(extra);
        }
    }

    /// The device wheels of a wheel that was split follow it. Extras for device wheels that are not in
    /// the group go, because none of the new version will exist.
    fn require_device_wheels(&mut self) -> Result<()> {
        let wheel = self.wheel;
        let versions = &self.group.versions;
        let lines = device_lines(wheel);
        let Some(version) = versions.get(&wheel.name.name).filter(|_| !lines.is_empty()) else {
            return Ok(());
        };
        let is_in_group = |line: &DeviceLine| versions.contains_key(&line.name);
        if !lines.iter().any(is_in_group) {
            let old_version = &wheel.name.version;
            if version == old_version {
                self.warn(
                    "its device wheels are not in the group, and keep what they require of ROCm",
                );
            } else {
                self.refuse(
                    RefusalKind::DeviceWheels,
                    format!("its extras require device wheels of version {old_version}"),
                    "name its device wheels too, which get the new version with it",
                );
            }
            return Ok(());
        }
        for device_line in &lines {
            let DeviceLine { line, name, extra } = device_line;
            // A line may be for several extras, and is removed once.
            if !self.is_removed(line) {
                self.plan.removed.push(line.clone());
            }
            let plan = &mut self.plan;
            plan.removed_extras.insert(extra.clone());
            // The selector, which `device` requires, is made again with each tie.
            if extra == "device" || is_in_group(device_line) {
                let new_line = format!("{name}=={version}; extra == \"{extra}\"");
                plan.require(new_line, "device wheels of the group");
                plan.record.extras.push(extra.clone());
            }
        }
        if let Some(selector) = lines.iter().find(|line| line.extra == "device") {
            let targets: Vec<Target> = lines
                .iter()
                .filter(|line| is_in_group(line))
                .filter_map(|line| line.extra.strip_prefix("device-")?.parse().ok())
                .sorted()
                .collect();
            self.plan.selector = Some(SelectorPlan::of(&DeviceSelector {
                name: &selector.name,
                version,
                host: &wheel.name.name,
                targets: &targets,
            })?);
        }
        Ok(())
    }

    /// Refuses a requirement of another version of a framework than the version in the group: no installer could meet both.
    fn refuse_other_pins(&mut self, name: &DistName, version: &Version) {
        let platform = self.group.rocm.platform.sys_platform();
        let others = self.wheel.requirements().filter(|requirement| {
            requirement.name == *name
                && requirement.marker.may_hold_with(platform, &[])
                && requirement.allows(version) == Some(false)
        });
        let lines = others.map(|it| it.to_string()).filter(|line| !self.is_removed(line));
        for line in lines.collect_vec() {
            self.refuse(
                RefusalKind::TiedOtherwise,
                format!("it requires `{line}`, and {name} {version} is in the group"),
                "name the wheel of the version that it requires, or build it against the wheel of the group",
            );
        }
    }

    /// Requires one version of each framework whose libraries the wheel needs, if the framework is in the group.
    fn require_neighbours(&mut self) {
        let by_policy = self.row.iter().flat_map(|row| row.needs.iter().cloned());
        let neighbours: BTreeSet<DistName> =
            self.needs.neighbours.iter().cloned().chain(by_policy).collect();
        for name in neighbours {
            let version = self.group.versions.get(&name);
            let has_pin = |requirement: &Requirement| {
                requirement.pin().is_some_and(|pin| version.is_none_or(|version| pin == *version))
            };
            let is_pinned = self.wheel.requirements().any(|requirement| {
                requirement.name == name
                    && !requirement.marker.needs_extra()
                    && !self.is_removed(&requirement.to_string())
                    && has_pin(&requirement)
            });
            if let Some(version) = version {
                self.refuse_other_pins(&name, version);
            }
            match version {
                _ if is_pinned => {}
                Some(version) => {
                    let has_rocm = self.group.bundle.as_ref().is_some_and(|it| it.project == name);
                    let why = if has_rocm {
                        format!("{name} has ROCm in it")
                    } else {
                        format!("libraries of {name}, which is in the group")
                    };
                    self.plan.require(format!("{name}=={version}"), why);
                }
                None => self.warn(format!(
                    "it needs {name} and does not require one version of it: name the wheel of {name} too"
                )),
            }
        }
    }
}
