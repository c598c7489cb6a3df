//! The requirements and extras of a tied wheel.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{
    TieInput, TieOptions, VersionPin, binaries::PlannedBinaries, plan::PlannedRequirement,
};
use crate::{
    console::many,
    error::Result,
    framework::{
        device_selector::SelectorPlan,
        facts,
        metadata::HeaderText,
        policy::{FrameworkSpec, RocmDirectoryKey},
        read::FrameworkWheel,
        refusal::{RefusalKind, WheelRefusal},
        rocm::RocmLibraries,
        version,
    },
    package::selector::DeviceSelector,
    set,
    target::Target,
    version::Version,
    wheel::{DistName, RequirementLine},
};

/// What METADATA gains and loses.
#[derive(Debug, Default)]
pub(super) struct PlannedRequirements {
    pub requires: Vec<PlannedRequirement>,
    pub removed: Vec<String>,
    pub extras: Vec<String>,
    pub removed_extras: BTreeSet<String>,
    /// What the wheel requires of ROCm, without device code: `rocm[libraries]==7.14.*`.
    pub requirement: Option<String>,
    pub selector: Option<SelectorPlan>,
    pub warnings: Vec<String>,
    pub refusals: Vec<WheelRefusal>,
}

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

pub(super) struct RequirementPlanner<'a> {
    pub wheel: &'a FrameworkWheel,
    pub input: &'a TieInput,
    pub rocm: &'a RocmLibraries,
    pub row: Option<&'a FrameworkSpec>,
    pub options: &'a TieOptions,
    /// The versions that the wheels of the group will have.
    pub group: &'a BTreeMap<DistName, Version>,
}

impl RequirementPlanner<'_> {
    pub(super) fn plan(&self, binaries: &PlannedBinaries) -> Result<PlannedRequirements> {
        let mut planned = PlannedRequirements::default();
        self.remove(&mut planned);
        self.follow(&mut planned);
        let pin = self
            .options
            .requires
            .unwrap_or_else(|| VersionPin::usual(&self.rocm.version));
        if let Some(specifier) = pin.specifier(&self.rocm.version) {
            self.require(&specifier, binaries, &mut planned);
        }
        self.neighbours(binaries, &mut planned);
        self.devices(&mut planned)?;
        planned
            .requires
            .sort_by(|one, other| one.line.cmp(&other.line));
        planned
            .removed_extras
            .retain(|it| !planned.extras.contains(it));
        planned.extras.sort();
        Ok(planned)
    }

    /// Removes what an earlier tie has added, what is required of another ROCm, and what policy knows
    /// to be dead, with the extras that only these had.
    fn remove(&self, planned: &mut PlannedRequirements) {
        let record = self.input.record.as_ref();
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
                    planned.refusals.push(WheelRefusal::new(
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
                planned.removed.push(line.to_owned());
            }
        }
        let emptied = extras.into_iter().filter(|(_, (all, gone))| all == gone);
        planned
            .removed_extras
            .extend(emptied.map(|(extra, _)| extra.to_owned()));
        let added = record.iter().flat_map(|it| &it.extras);
        planned.removed_extras.extend(added.cloned());
    }

    /// Follows the frameworks of the group that are for another ROCm now: what pins one of them
    /// exactly gets its new version.
    fn follow(&self, planned: &mut PlannedRequirements) {
        let devices: Vec<&str> = self.device_lines().map(|(line, ..)| line).collect();
        for (line, requirement) in facts::requirements(self.wheel) {
            if devices.contains(&line) {
                continue;
            }
            let pin = requirement.specifier.strip_prefix("==").map(str::trim);
            let was = pin.and_then(|pin| pin.parse::<Version>().ok());
            let (Some(pin), Some(was)) = (pin, was) else {
                continue;
            };
            let now = self.group.get(&requirement.name).filter(|now| {
                **now != was && version::without_rocm(now) == version::without_rocm(&was)
            });
            if let Some(now) = now.filter(|_| !planned.removed.iter().any(|it| it == line)) {
                planned.removed.push(line.to_owned());
                planned.requires.push(PlannedRequirement {
                    line: line.replacen(pin, &now.to_string(), 1),
                    why: format!("{} is in the group", requirement.name),
                });
            }
        }
    }

    /// Requires ROCm, and forwards its extras for device code.
    fn require(
        &self,
        specifier: &str,
        binaries: &PlannedBinaries,
        planned: &mut PlannedRequirements,
    ) {
        let mut extras: BTreeSet<&str> = self.options.extras.iter().map(String::as_str).collect();
        extras.extend(
            self.row
                .iter()
                .flat_map(|row| &row.extras)
                .map(String::as_str),
        );
        if binaries.directories.contains(&RocmDirectoryKey::M) {
            extras.insert("libraries");
        }
        let extras: Vec<&str> = extras.into_iter().collect();
        let named = if extras.is_empty() {
            String::new()
        } else {
            format!("[{}]", extras.join(","))
        };
        let line = format!("rocm{named}{specifier}");
        let why = if binaries.tied.is_empty() {
            self.row.map_or("named by a flag".to_owned(), |row| {
                format!("policy: {}", row.why)
            })
        } else {
            format!("libraries of {}", many(binaries.tied.len(), "binary"))
        };
        planned.requirement = Some(line.clone());
        planned.requires.push(PlannedRequirement { line, why });
        let is_split = self.device_lines().next().is_some();
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
            if own.contains(&*extra) && !planned.removed_extras.contains(&extra) {
                let warning =
                    format!("its extra `{extra}` is its own, so that of `rocm` is not forwarded");
                planned.warnings.push(warning);
                continue;
            }
            let line = format!("rocm[{extra}]{specifier}; extra == \"{extra}\"");
            let why = "device code of the set".to_owned();
            planned.requires.push(PlannedRequirement { line, why });
            planned.extras.push(extra);
        }
    }

    /// The requirements of the extras that a split has added.
    fn device_lines(&self) -> impl Iterator<Item = (&str, RequirementLine<'_>, &str)> {
        let pin = format!("=={}", self.wheel.name.version);
        facts::requirements(self.wheel).filter_map(move |(line, requirement)| {
            let extra = requirement.extra?;
            let is_device = extra == "device" || extra.starts_with("device-");
            let is_ours = set::is_ours(&requirement.name);
            let fits = is_device && !is_ours && requirement.specifier == pin;
            fits.then_some((line, requirement, extra))
        })
    }

    /// The device wheels of a wheel that was split follow it. Extras for device wheels that are not in
    /// the group go, because none of the new version will exist.
    fn devices(&self, planned: &mut PlannedRequirements) -> Result<()> {
        let Some(version) = self.group.get(&self.wheel.name.name) else {
            return Ok(());
        };
        let lines: Vec<(&str, RequirementLine<'_>, &str)> = self.device_lines().collect();
        let names = lines.iter().map(|(_, it, _)| &it.name);
        let there: BTreeSet<&DistName> = names.filter(|it| self.group.contains_key(*it)).collect();
        let is_renamed = *version != self.wheel.name.version;
        if lines.is_empty() {
            return Ok(());
        }
        if there.is_empty() {
            if is_renamed {
                planned.refusals.push(WheelRefusal::new(
                    RefusalKind::DeviceWheels,
                    format!(
                        "its extras require device wheels of version {}",
                        self.wheel.name.version
                    ),
                    "name its device wheels too, which get the new version with it",
                ));
            } else {
                planned.warnings.push(
                    "its device wheels are not in the group, and keep what they require of ROCm"
                        .to_owned(),
                );
            }
            return Ok(());
        }
        // The wheel for a family alone has too little: that for the target must be there, too.
        let is_whole = |extra: &str| match extra.strip_prefix("device-") {
            None | Some("all") => true,
            Some(target) => there.iter().any(|it| is_for(it, target)),
        };
        for (line, requirement, extra) in &lines {
            let name = &requirement.name;
            planned.removed.push((*line).to_owned());
            planned.removed_extras.insert((*extra).to_owned());
            if *extra == "device" || there.contains(name) && is_whole(extra) {
                planned.requires.push(PlannedRequirement {
                    line: format!("{name}=={version}; extra == \"{extra}\""),
                    why: "device wheels of the group".to_owned(),
                });
                planned.extras.push((*extra).to_owned());
            }
        }
        planned.extras.sort();
        planned.extras.dedup();
        if let Some((_, selector, _)) = lines.iter().find(|it| it.2 == "device") {
            let extras = lines.iter().filter_map(|it| it.2.strip_prefix("device-"));
            let targets = extras.filter(|extra| there.iter().any(|it| is_for(it, extra)));
            let targets = targets.filter_map(|it| it.parse().ok()).unique();
            let targets: Vec<Target> = targets.sorted().collect();
            planned.selector = Some(SelectorPlan::of(&DeviceSelector {
                name: &selector.name,
                version,
                host: &self.wheel.name.name,
                targets: &targets,
            })?);
        }
        Ok(())
    }

    /// Requires the frameworks whose libraries it needs, exactly, as far as they are in the group.
    fn neighbours(&self, binaries: &PlannedBinaries, planned: &mut PlannedRequirements) {
        let known = self.row.iter().flat_map(|row| &row.needs);
        let neighbours: BTreeSet<&DistName> = binaries.neighbours.iter().chain(known).collect();
        for name in neighbours {
            let kept = facts::requirements(self.wheel).filter(|(line, it)| {
                it.name == *name
                    && it.extra.is_none()
                    && !planned.removed.iter().any(|gone| gone == line)
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
                    planned.requires.push(PlannedRequirement { line, why });
                }
                None => planned.warnings.push(format!(
                    "it needs {name} and does not require one version of it: name the wheel of {name} too"
                )),
            }
        }
    }
}

/// Whether a device wheel is that for one target, and not for its family.
fn is_for(device: &DistName, target: &str) -> bool {
    let prefix = device.normalized().strip_suffix(target);
    prefix.is_some_and(|it| it.ends_with('-'))
}
