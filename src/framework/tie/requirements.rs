//! The requirements and extras of a tied wheel.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{Tie, VersionPin};
use crate::{
    console::many,
    error::Result,
    framework::{
        device_selector::SelectorPlan,
        facts,
        metadata::HeaderText,
        policy::RocmDirectoryKey,
        read::FrameworkWheel,
        refusal::{RefusalKind, WheelRefusal},
        version,
    },
    package::selector::DeviceSelector,
    set,
    target::Target,
    version::Version,
    wheel::{DistName, RequirementLine},
};

impl VersionPin {
    /// What follows the name in a requirement. `None` if nothing is required.
    pub fn specifier(self, version: &Version) -> Option<String> {
        match self {
            Self::Exact => Some(format!("=={version}")),
            Self::Minor => Some(format!("=={}.*", version.minor())),
            Self::None => None,
        }
    }

    /// The version with which `rocm_sdk` compares its own. Its `*` stands for anything.
    pub fn pattern(self, version: &Version) -> Option<String> {
        self.specifier(version)
            .map(|it| it.trim_start_matches('=').to_owned())
    }

    /// A final release may be replaced by a later patch release, any other build only by itself.
    pub fn usual(version: &Version) -> Self {
        if version.is_final() {
            Self::Minor
        } else {
            Self::Exact
        }
    }
}

/// The requirements of the extras that a split has added.
fn device_lines(wheel: &FrameworkWheel) -> Vec<(&str, RequirementLine<'_>, &str)> {
    let pin = format!("=={}", wheel.name.version);
    let lines = facts::requirements(wheel).filter_map(|(line, requirement)| {
        let extra = requirement.extra?;
        let is_device = extra == "device" || extra.starts_with("device-");
        let is_ours = set::is_ours(&requirement.name);
        let fits = is_device && !is_ours && requirement.specifier == pin;
        fits.then_some((line, requirement, extra))
    });
    lines.collect()
}

impl Tie<'_> {
    pub(super) fn requirements(&mut self) -> Result<()> {
        self.remove();
        self.follow();
        let pin = self.options.requires;
        let pin = pin.unwrap_or_else(|| VersionPin::usual(&self.rocm.version));
        if let Some(specifier) = pin.specifier(&self.rocm.version) {
            self.require(&specifier);
        }
        self.neighbours();
        self.devices()?;
        let plan = &mut self.plan;
        plan.requires
            .sort_by(|one, other| one.line.cmp(&other.line));
        plan.record.extras.sort();
        plan.record.extras.dedup();
        let extras = &plan.record.extras;
        plan.removed_extras.retain(|it| !extras.contains(it));
        Ok(())
    }

    /// Removes what an earlier tie has added, what is required of another ROCm, and what policy knows
    /// to be dead, with the extras that only these had.
    fn remove(&mut self) {
        let record = self.earlier.as_ref();
        let is_added =
            |line: &str| record.is_some_and(|it| it.requires.iter().any(|own| own == line));
        let mut extras: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (line, requirement) in facts::requirements(self.wheel) {
            let is_rocm = set::is_ours(&requirement.name);
            let is_dead = self.row.is_some_and(|row| row.is_dead(&requirement.name));
            let is_gone = is_rocm || is_dead || is_added(line);
            if is_rocm
                && requirement.extra.is_none()
                && record.is_none()
                && self.options.requires.is_none()
            {
                let fits = self.rocm.version.fulfils(requirement.specifier);
                if fits == Some(false) {
                    let message = format!(
                        "it requires `{line}`, which the set {} is not",
                        self.rocm.version
                    );
                    self.refusals.push(WheelRefusal::new(
                        RefusalKind::TiedOtherwise,
                        message,
                        "build it against this set, or pass `--requires` to replace the requirement",
                    ));
                }
            }
            if let Some(extra) = requirement.extra {
                let counts = extras.entry(extra).or_default();
                counts.0 += 1;
                counts.1 += usize::from(is_gone);
            }
            if is_gone {
                self.plan.removed.push(line.to_owned());
            }
        }
        let emptied = extras.into_iter().filter(|(_, (all, gone))| all == gone);
        let removed = &mut self.plan.removed_extras;
        removed.extend(emptied.map(|(extra, _)| extra.to_owned()));
        removed.extend(record.iter().flat_map(|it| &it.extras).cloned());
    }

    /// Follows the frameworks of the group that are for another ROCm now: what pins one of them
    /// exactly gets its new version.
    fn follow(&mut self) {
        let devices = device_lines(self.wheel);
        for (line, requirement) in facts::requirements(self.wheel) {
            if devices.iter().any(|it| it.0 == line) {
                continue;
            }
            let Some(was) = requirement
                .pin()
                .and_then(|pin| pin.parse::<Version>().ok())
            else {
                continue;
            };
            let now = self.group.get(&requirement.name).filter(|now| {
                **now != was && version::without_rocm(now) == version::without_rocm(&was)
            });
            let plan = &mut self.plan;
            let now = now.filter(|_| !plan.removed.iter().any(|it| it == line));
            if let Some(now) = now.and_then(|now| requirement.with_pin(now)) {
                plan.removed.push(line.to_owned());
                plan.require(now, format!("{} is in the group", requirement.name));
            }
        }
    }

    /// Requires ROCm, and forwards its extras for device code.
    fn require(&mut self, specifier: &str) {
        let plan = &mut self.plan;
        let mut extras: BTreeSet<&str> = self.options.extras.iter().map(String::as_str).collect();
        extras.extend(
            self.row
                .iter()
                .flat_map(|row| &row.extras)
                .map(String::as_str),
        );
        if self.needs.directories.contains(&RocmDirectoryKey::Math) {
            extras.insert("libraries");
        }
        let extras: Vec<&str> = extras.into_iter().collect();
        let named = if extras.is_empty() {
            String::new()
        } else {
            format!("[{}]", extras.join(","))
        };
        let line = format!("rocm{named}{specifier}");
        let tied = plan.record.run_paths.len();
        let why = if tied == 0 {
            self.row.map_or("named by a flag".to_owned(), |row| {
                format!("policy: {}", row.why)
            })
        } else {
            format!("libraries of {}", many(tied, "binary"))
        };
        plan.record.requirement = Some(line.clone());
        plan.require(line, why);
        let is_split = !device_lines(self.wheel).is_empty();
        if !self.options.device_extras || self.rocm.targets.is_empty() || is_split {
            return;
        }
        let own = HeaderText::parse(&self.wheel.metadata_text);
        let own: BTreeSet<&str> = own.values("Provides-Extra").collect();
        let targets = self
            .rocm
            .targets
            .iter()
            .map(|target| format!("device-{target}"));
        for extra in ["device".to_owned(), "device-all".to_owned()]
            .into_iter()
            .chain(targets)
        {
            if own.contains(&*extra) && !plan.removed_extras.contains(&extra) {
                let warning =
                    format!("its extra `{extra}` is its own, so that of `rocm` is not forwarded");
                plan.warnings.push(warning);
                continue;
            }
            let line = format!("rocm[{extra}]{specifier}; extra == \"{extra}\"");
            plan.require(line, "device code of the set");
            plan.record.extras.push(extra);
        }
    }

    /// The device wheels of a wheel that was split follow it. Extras for device wheels that are not in
    /// the group go, because none of the new version will exist.
    fn devices(&mut self) -> Result<()> {
        let Some(version) = self.group.get(&self.wheel.name.name) else {
            return Ok(());
        };
        let lines = device_lines(self.wheel);
        let names = lines.iter().map(|(_, it, _)| &it.name);
        let there: BTreeSet<&DistName> = names.filter(|it| self.group.contains_key(*it)).collect();
        let is_renamed = *version != self.wheel.name.version;
        if lines.is_empty() {
            return Ok(());
        }
        if there.is_empty() {
            if is_renamed {
                self.refuse(
                    RefusalKind::DeviceWheels,
                    format!(
                        "its extras require device wheels of version {}",
                        self.wheel.name.version
                    ),
                    "name its device wheels too, which get the new version with it",
                );
            } else {
                self.plan.warnings.push(
                    "its device wheels are not in the group, and keep what they require of ROCm"
                        .to_owned(),
                );
            }
            return Ok(());
        }
        for (line, requirement, extra) in &lines {
            let name = &requirement.name;
            let plan = &mut self.plan;
            plan.removed.push((*line).to_owned());
            plan.removed_extras.insert((*extra).to_owned());
            if *extra == "device" || there.contains(name) {
                let line = format!("{name}=={version}; extra == \"{extra}\"");
                plan.require(line, "device wheels of the group");
                plan.record.extras.push((*extra).to_owned());
            }
        }
        if let Some((_, selector, _)) = lines.iter().find(|it| it.2 == "device") {
            let there = lines.iter().filter(|it| there.contains(&it.1.name));
            let extras = there.filter_map(|it| it.2.strip_prefix("device-"));
            let targets: Vec<Target> = extras.filter_map(|it| it.parse().ok()).sorted().collect();
            self.plan.selector = Some(SelectorPlan::of(&DeviceSelector {
                name: &selector.name,
                version,
                host: &self.wheel.name.name,
                targets: &targets,
            })?);
        }
        Ok(())
    }

    /// Requires the frameworks whose libraries it needs, exactly, as far as they are in the group.
    fn neighbours(&mut self) {
        let plan = &mut self.plan;
        let known = self.row.iter().flat_map(|row| &row.needs);
        let neighbours: BTreeSet<&DistName> = self.needs.neighbours.iter().chain(known).collect();
        for name in neighbours {
            let kept = facts::requirements(self.wheel).filter(|(line, it)| {
                it.name == *name
                    && it.extra.is_none()
                    && !plan.removed.iter().any(|gone| gone == line)
            });
            let pins: Vec<(&str, bool)> = kept
                .map(|(line, it)| {
                    let pin = it
                        .specifier
                        .strip_prefix("==")
                        .filter(|pin| !pin.contains(['*', ',']));
                    let fits = pin.and_then(|pin| pin.trim().parse().ok())
                        == self.group.get(name).cloned();
                    (
                        line,
                        pin.is_some() && (fits || !self.group.contains_key(name)),
                    )
                })
                .collect();
            if pins.iter().any(|it| it.1) {
                continue;
            }
            match self.group.get(name) {
                Some(version) => {
                    let line = format!("{name}=={version}");
                    let why = format!("libraries of {name}, which is in the group");
                    plan.require(line, why);
                }
                None => plan.warnings.push(format!(
                    "it needs {name} and does not require one version of it: name the wheel of {name} too"
                )),
            }
        }
    }
}
