//! The requirements and extras of a tied wheel.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{Tie, VersionPin};
use crate::{
    console::many,
    error::Result,
    framework::{
        device_selector::SelectorPlan, policy::RocmDirectoryKey, read::FrameworkWheel,
        refusal::RefusalKind, version,
    },
    index,
    policy::selector::DeviceSelector,
    target::Target,
    version::Version,
    wheel::{DistName, Requirement},
};

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

impl Tie<'_> {
    pub(super) fn requirements(&mut self) -> Result<()> {
        let (options, rocm) = (self.group.options, self.group.rocm);
        self.remove();
        self.follow();
        let pin = options.requires;
        let pin = pin.unwrap_or_else(|| VersionPin::usual(&rocm.version));
        if let Some(specifier) = pin.specifier(&rocm.version) {
            self.require_rocm(&specifier);
        }
        self.neighbours();
        self.devices()?;
        let plan = &mut self.plan;
        plan.requires.sort();
        plan.record.extras.sort();
        plan.record.extras.dedup();
        let extras = &plan.record.extras;
        plan.removed_extras.retain(|it| !extras.contains(it));
        Ok(())
    }

    /// Removes what an earlier tie has added, what is required of another ROCm, and what policy knows
    /// to be dead, with the extras that only these had.
    fn remove(&mut self) {
        let rocm = &self.group.rocm.version;
        let earlier = self.earlier.take();
        // The number of requirements of each extra, and how many of them go.
        let mut extras: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for requirement in self.wheel.requirements() {
            let line = requirement.to_string();
            let is_rocm = index::is_ours(&requirement.name);
            let is_dead = self.row.is_some_and(|row| row.is_dead(&requirement.name));
            let is_added = earlier.as_ref().is_some_and(|it| it.requires.contains(&line));
            let is_gone = is_rocm || is_dead || is_added;
            for extra in requirement.marker.extras() {
                let counts = extras.entry(extra.to_owned()).or_default();
                counts.0 += 1;
                counts.1 += usize::from(is_gone);
            }
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
            if is_gone {
                self.plan.removed.push(line);
            }
        }
        let emptied = extras.into_iter().filter(|(_, (all, gone))| all == gone);
        let removed = &mut self.plan.removed_extras;
        removed.extend(emptied.map(|(extra, _)| extra));
        removed.extend(earlier.into_iter().flat_map(|it| it.extras));
    }

    fn is_removed(&self, line: &str) -> bool {
        self.plan.removed.iter().any(|it| it == line)
    }

    /// Follows the frameworks of the group that are for another ROCm now: what pins one of them
    /// exactly gets its new version.
    fn follow(&mut self) {
        let devices = device_lines(self.wheel);
        for requirement in self.wheel.requirements() {
            let line = requirement.to_string();
            let pin = requirement.pin();
            let now = self.group.versions.get(&requirement.name);
            let (Some(was), Some(now)) = (pin, now) else {
                continue;
            };
            let is_same = version::without_rocm(now) == version::without_rocm(&was);
            let is_device = devices.iter().any(|it| it.line == line);
            if *now == was || !is_same || is_device || self.is_removed(&line) {
                continue;
            }
            if let Some(now) = requirement.with_pin(now) {
                self.plan.removed.push(line);
                let why = format!("{} is in the group", requirement.name);
                self.plan.require(now, why);
            }
        }
    }

    /// Requires ROCm, and forwards its extras for device code.
    fn require_rocm(&mut self, specifier: &str) {
        let (options, rocm, plan) = (self.group.options, self.group.rocm, &mut self.plan);
        let known = self.row.iter().flat_map(|row| &row.extras);
        let mut extras: BTreeSet<&str> =
            options.extras.iter().chain(known).map(String::as_str).collect();
        if self.needs.directories.contains(&RocmDirectoryKey::Math) {
            extras.insert("libraries");
        }
        let name = &rocm.names.selector;
        let extras = extras.iter().join(",");
        let extras = if extras.is_empty() { extras } else { format!("[{extras}]") };
        let line = format!("{name}{extras}{specifier}");
        let why = match (plan.record.run_paths.len(), self.row) {
            (0, None) => "named by a flag".to_owned(),
            (0, Some(row)) => format!("policy: {}", row.why),
            (tied, _) => format!("libraries of {}", many(tied, "binary")),
        };
        plan.record.requirement = Some(line.clone());
        plan.require(line, why);
        let is_split = !device_lines(self.wheel).is_empty();
        if rocm.targets.is_empty() || is_split {
            return;
        }
        let targets = rocm.targets.iter().map(|target| format!("device-{target}"));
        for extra in ["device", "device-all"].map(str::to_owned).into_iter().chain(targets) {
            let is_own = self.wheel.metadata.provides_extra.contains(&extra);
            if is_own && !plan.removed_extras.contains(&extra) {
                let warning =
                    format!("its extra `{extra}` is its own, so that of `{name}` is not forwarded");
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
    fn devices(&mut self) -> Result<()> {
        let (wheel, versions) = (self.wheel, &self.group.versions);
        let lines = device_lines(wheel);
        let Some(version) = versions.get(&wheel.name.name).filter(|_| !lines.is_empty()) else {
            return Ok(());
        };
        let is_there = |it: &DeviceLine| versions.contains_key(&it.name);
        if !lines.iter().any(is_there) {
            let was = &wheel.name.version;
            if version == was {
                self.warn(
                    "its device wheels are not in the group, and keep what they require of ROCm",
                );
            } else {
                self.refuse(
                    RefusalKind::DeviceWheels,
                    format!("its extras require device wheels of version {was}"),
                    "name its device wheels too, which get the new version with it",
                );
            }
            return Ok(());
        }
        for it in &lines {
            let DeviceLine { line, name, extra } = it;
            // Once for each line, which may be for several extras.
            if !self.is_removed(line) {
                self.plan.removed.push(line.clone());
            }
            let plan = &mut self.plan;
            plan.removed_extras.insert(extra.clone());
            if extra == "device" || is_there(it) {
                let line = format!("{name}=={version}; extra == \"{extra}\"");
                plan.require(line, "device wheels of the group");
                plan.record.extras.push(extra.clone());
            }
        }
        if let Some(selector) = lines.iter().find(|it| it.extra == "device") {
            let there = lines.iter().filter(|it| is_there(it));
            let targets = there.filter_map(|it| it.extra.strip_prefix("device-")?.parse().ok());
            let targets: Vec<Target> = targets.sorted().collect();
            self.plan.selector = Some(SelectorPlan::of(&DeviceSelector {
                name: &selector.name,
                version,
                host: &wheel.name.name,
                targets: &targets,
            })?);
        }
        Ok(())
    }

    /// Requires the frameworks whose libraries it needs, exactly, as far as they are in the group.
    fn neighbours(&mut self) {
        let known = self.row.iter().flat_map(|row| row.needs.iter().cloned());
        let neighbours: BTreeSet<DistName> =
            self.needs.neighbours.iter().cloned().chain(known).collect();
        for name in neighbours {
            let version = self.group.versions.get(&name);
            let fits = |it: &Requirement| {
                it.pin().is_some_and(|pin| version.is_none_or(|version| pin == *version))
            };
            let is_pinned = self.wheel.requirements().any(|it| {
                it.name == name
                    && !it.marker.needs_extra()
                    && !self.is_removed(&it.to_string())
                    && fits(&it)
            });
            match version {
                _ if is_pinned => {}
                Some(version) => {
                    let why = format!("libraries of {name}, which is in the group");
                    self.plan.require(format!("{name}=={version}"), why);
                }
                None => self.warn(format!(
                    "it needs {name} and does not require one version of it: name the wheel of {name} too"
                )),
            }
        }
    }
}
