//! Decides which versions of a stream are removed. Pure: from what places have to a plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    num::NonZeroUsize,
};

use itertools::Itertools as _;
use serde::{Serialize, Serializer};
use time::{Date, Duration};

use crate::{
    console::{many, size},
    error::{Hint as _, No, Result, anyhow},
    version::{ReleaseStream, Version},
    wheel::DistName,
};

/// What is kept of a stream.
#[derive(Clone, Debug)]
pub struct PruneRule {
    pub stream: ReleaseStream,
    /// The newest complete versions. Those between them are kept too.
    pub keep: Option<NonZeroUsize>,
    /// Versions that are younger, in days.
    pub days: Option<u16>,
    /// Versions that people named.
    pub versions: Vec<Version>,
    /// Days from the moment when the pages no longer name a file to its removal.
    pub grace: u16,
    /// The largest part of the bytes of the stream that may go at once.
    pub most_percent: u8,
    /// Instead of removing files, pages say that they are yanked, for this reason.
    pub yank: Option<String>,
}

/// A wheel or sdist for a version of ROCm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredPackage {
    /// The number of its place.
    pub(super) place: usize,
    pub(super) path: String,
    pub(super) project: DistName,
    pub(super) version: Version,
    /// The version of ROCm that it is, or that it is for.
    pub(super) rocm: Version,
    /// With its sidecar.
    pub(super) bytes: u64,
    pub(super) uploaded: Option<Date>,
    /// Whether the page of its project names it, and as one that is not yanked.
    pub(super) is_listed: bool,
    pub(super) is_yanked: bool,
    /// A page of another index that names it.
    pub(super) named_by: Option<String>,
    /// Since when no page of its project names it, as an earlier `prune` recorded.
    pub(super) unlisted: Option<Date>,
    /// What it requires in one version only.
    pub(super) pins: Vec<(DistName, Version)>,
}

/// Why a version is kept although it is old.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "because")]
enum KeepReason {
    /// It is among the newest.
    New,
    Named,
    Released,
    Required {
        by: String,
    },
}

/// What happens to a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "action")]
pub(super) enum PruneStep {
    /// Its page no longer names it. The file goes after the time of grace.
    Unlist {
        #[serde(serialize_with = "as_text")]
        until: Date,
    },
    /// Its page no longer names it, and the file goes.
    UnlistAndDelete,
    Delete,
    /// It is in its time of grace.
    Wait {
        #[serde(serialize_with = "as_text")]
        until: Date,
    },
    /// A page of another index names it.
    Named,
    Yank,
    /// It is yanked already.
    Nothing,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct PrunedFile {
    #[serde(skip)]
    pub(super) place: usize,
    pub(super) path: String,
    #[serde(flatten)]
    pub(super) step: PruneStep,
    pub(super) bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
struct KeptVersion {
    version: Version,
    #[serde(flatten)]
    reason: KeepReason,
}

#[derive(Clone, Debug, Serialize)]
struct RemovedVersion {
    version: Version,
    bytes: u64,
    files: Vec<PrunedFile>,
    /// The pages of other indexes that still name its files.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    named_by: BTreeSet<String>,
}

/// What `prune` does.
#[derive(Clone, Debug, Serialize)]
pub struct PrunePlan {
    schema: &'static str,
    stream: ReleaseStream,
    /// From the newest on.
    kept: Vec<KeptVersion>,
    removed: Vec<RemovedVersion>,
    #[serde(skip)]
    is_yank: bool,
}

/// The packages of one version of ROCm.
#[derive(Default)]
struct VersionFiles<'a> {
    packages: Vec<&'a StoredPackage>,
}

impl VersionFiles<'_> {
    /// When the version was made: what it says itself, or else its last upload.
    fn day(&self, version: &Version) -> Option<Date> {
        let uploads = self.packages.iter().filter_map(|it| it.uploaded);
        version.day().or_else(|| uploads.max())
    }

    /// Whether a platform has the parts without which ROCm is of no use.
    fn is_complete(&self) -> bool {
        let parts = self.packages.iter().map(|it| {
            let platform = it.path.rsplit('-').next().unwrap_or_default();
            (platform, it.project.normalized())
        });
        let by_platform = parts.into_group_map();
        by_platform.values().any(|parts| {
            let has = |name: &str| parts.iter().any(|it| it.starts_with(name));
            has("rocm-sdk-core") && has("rocm-sdk-libraries") && has("rocm-sdk-device-")
        })
    }

    fn bytes(&self) -> u64 {
        self.packages.iter().map(|it| it.bytes).sum()
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn as_text<S: Serializer>(day: &Date, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(day)
}

/// Decides what happens to the versions of a stream. `released` are the candidates of releases.
pub(super) fn decide(
    packages: &[StoredPackage],
    rule: &PruneRule,
    released: &BTreeSet<Version>,
    today: Date,
) -> Result<PrunePlan> {
    let mut groups: BTreeMap<&Version, VersionFiles> = BTreeMap::new();
    for package in packages.iter().filter(|it| it.rocm.stream() == rule.stream) {
        groups
            .entry(&package.rocm)
            .or_default()
            .packages
            .push(package);
    }
    let groups: Vec<(&Version, VersionFiles)> = groups
        .into_iter()
        .sorted_by_key(|(version, group)| (group.day(version), (*version).clone()))
        .rev()
        .collect();
    let mut kept = by_rule(&groups, rule, released, today)?;
    hold_required(packages, rule.stream, &mut kept);
    let plan = PrunePlan {
        schema: "rocwheel-prune-plan-v1",
        stream: rule.stream,
        kept: groups
            .iter()
            .filter_map(|(version, _)| {
                let (version, reason) = kept.get_key_value(*version)?;
                let (version, reason) = (version.clone(), reason.clone());
                Some(KeptVersion { version, reason })
            })
            .collect(),
        removed: groups
            .iter()
            .filter(|(version, _)| !kept.contains_key(*version))
            .map(|(version, group)| removed(version, group, rule, today))
            .collect(),
        is_yank: rule.yank.is_some(),
    };
    plan.ensure_moderate(&groups, rule)?;
    Ok(plan)
}

/// The versions that the rule keeps. It is an error if it keeps none.
fn by_rule(
    groups: &[(&Version, VersionFiles)],
    rule: &PruneRule,
    released: &BTreeSet<Version>,
    today: Date,
) -> Result<BTreeMap<Version, KeepReason>> {
    let mut kept = BTreeMap::new();
    let mut missing = rule.keep.map_or(0, NonZeroUsize::get);
    for (version, group) in groups {
        let is_among = missing > 0;
        if is_among && group.is_complete() {
            missing -= 1;
        }
        let is_young = rule.days.is_some_and(|days| {
            let age = group.day(version).map(|day| today - day);
            // One without a date may be of today.
            age.is_none_or(|age| age < Duration::days(days.into()))
        });
        let reason = if is_among || is_young {
            KeepReason::New
        } else if rule.versions.contains(version) {
            KeepReason::Named
        } else if released.contains(*version) {
            KeepReason::Released
        } else {
            continue;
        };
        kept.insert((*version).clone(), reason);
    }
    if rule.keep.is_some_and(|keep| keep.get() == missing) && !groups.is_empty() {
        let stream = rule.stream;
        let error = anyhow!(No(format!("no version of `{stream}` is complete there")));
        return Err(error).hint(
            "name the places of all products; a version is complete with its core, its libraries and a device package for one platform",
        );
    }
    if kept.is_empty() && !groups.is_empty() {
        let error = anyhow!(No(format!("no version of `{}` would be kept", rule.stream)));
        return Err(error).hint("pass `--keep` or a larger `--days`");
    }
    Ok(kept)
}

/// Keeps what a kept package, also one of another stream, requires in one version only.
fn hold_required(
    packages: &[StoredPackage],
    stream: ReleaseStream,
    kept: &mut BTreeMap<Version, KeepReason>,
) {
    let mut by_release: BTreeMap<(&DistName, &Version), BTreeSet<&Version>> = BTreeMap::new();
    for it in packages.iter().filter(|it| it.rocm.stream() == stream) {
        let release = by_release.entry((&it.project, &it.version)).or_default();
        release.insert(&it.rocm);
    }
    loop {
        let is_kept =
            |it: &&StoredPackage| it.rocm.stream() != stream || kept.contains_key(&it.rocm);
        let mut held = BTreeMap::new();
        for package in packages.iter().filter(is_kept) {
            for (project, version) in &package.pins {
                let required = by_release.get(&(project, version)).into_iter().flatten();
                for rocm in required.filter(|it| !kept.contains_key(**it)) {
                    let by = format!("{} {}", package.project, package.version);
                    held.insert((*rocm).clone(), KeepReason::Required { by });
                }
            }
        }
        if held.is_empty() {
            return;
        }
        kept.extend(held);
    }
}

fn removed(
    version: &Version,
    group: &VersionFiles,
    rule: &PruneRule,
    today: Date,
) -> RemovedVersion {
    let packages = group.packages.iter();
    let files = packages.clone().map(|it| PrunedFile {
        place: it.place,
        path: it.path.clone(),
        step: step(it, rule, today),
        bytes: it.bytes,
    });
    RemovedVersion {
        version: version.clone(),
        bytes: group.bytes(),
        files: files.collect(),
        named_by: packages.filter_map(|it| it.named_by.clone()).collect(),
    }
}

fn step(package: &StoredPackage, rule: &PruneRule, today: Date) -> PruneStep {
    if rule.yank.is_some() {
        return if package.is_listed && !package.is_yanked {
            PruneStep::Yank
        } else {
            PruneStep::Nothing
        };
    }
    let until = |from: Date| from.saturating_add(Duration::days(rule.grace.into()));
    let is_named = package.named_by.is_some();
    match package.unlisted.filter(|_| !package.is_listed) {
        None if rule.grace > 0 || is_named => PruneStep::Unlist {
            until: until(today),
        },
        None if package.is_listed => PruneStep::UnlistAndDelete,
        Some(_) if is_named => PruneStep::Named,
        Some(from) if until(from) > today => PruneStep::Wait { until: until(from) },
        None | Some(_) => PruneStep::Delete,
    }
}

impl PrunePlan {
    /// What happens to each package that goes.
    pub(super) fn packages(&self) -> impl Iterator<Item = &PrunedFile> {
        self.removed.iter().flat_map(|it| &it.files)
    }

    /// Whether there is nothing to do now.
    pub fn is_done(&self) -> bool {
        let waits = |step: PruneStep| step.stays() || matches!(step, PruneStep::Wait { .. });
        self.packages().all(|it| waits(it.step))
    }

    /// A wrong rule, or a clock that is wrong, would remove much at once.
    fn ensure_moderate(&self, groups: &[(&Version, VersionFiles)], rule: &PruneRule) -> Result<()> {
        let all: u64 = groups.iter().map(|(_, group)| group.bytes()).sum();
        let gone = self.packages().filter(|it| !it.step.stays());
        let gone: u64 = gone.map(|it| it.bytes).sum();
        if u128::from(gone) * 100 <= u128::from(all) * u128::from(rule.most_percent) {
            return Ok(());
        }
        let (gone, all, most) = (size(gone), size(all), rule.most_percent);
        let versions = self.removed.iter().map(|it| &it.version).join(", ");
        let versions = anyhow!(No(format!("the versions are {versions}")));
        let text = format!("{gone} of {all} would go, which is more than {most} percent");
        Err(versions.context(text)).hint("pass a larger `--most` if they have to go")
    }
}

impl fmt::Display for PrunePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by_rule = self.kept.iter().filter(|it| it.reason == KeepReason::New);
        writeln!(
            f,
            "{}: {} kept by the rule",
            self.stream,
            many(by_rule.count(), "version")
        )?;
        for KeptVersion { version, reason } in &self.kept {
            match reason {
                KeepReason::New => Ok(()),
                KeepReason::Named => writeln!(f, "keep    {version}  named by `--keep-version`"),
                KeepReason::Released => writeln!(f, "keep    {version}  a release was made of it"),
                KeepReason::Required { by } => writeln!(f, "keep    {version}  required by {by}"),
            }?;
        }
        for removed in &self.removed {
            let steps = removed.files.iter().map(|it| it.step.said()).counts();
            // What stays comes last, before the pages that name it.
            let steps = steps
                .into_iter()
                .sorted_by_key(|((verb, said), _)| (*verb == "keep", said.clone()));
            for ((verb, said), count) in steps {
                let (version, files) = (&removed.version, many(count, "file"));
                writeln!(f, "{verb:<6}  {version}  {files}: {said}")?;
            }
            for page in &removed.named_by {
                writeln!(f, "        named by {page}")?;
            }
        }
        let goes = |it: &&PrunedFile| !it.step.stays();
        let versions = self.removed.iter();
        let versions = versions.filter(|it| it.files.iter().any(|file| goes(&file)));
        let files: Vec<&PrunedFile> = self.packages().filter(goes).collect();
        let verb = if self.is_yank { "yank" } else { "remove" };
        let bytes = size(files.iter().map(|it| it.bytes).sum());
        let (versions, files) = (many(versions.count(), "version"), many(files.len(), "file"));
        writeln!(f, "{versions} to {verb}, {files}, {bytes}")
    }
}

impl PruneStep {
    /// What the plan says of files with this step.
    fn said(self) -> (&'static str, String) {
        match self {
            Self::Unlist { until } => {
                let said = format!("off the pages now, deleted from {until} on");
                ("remove", said)
            }
            Self::UnlistAndDelete => ("remove", "off the pages and deleted now".to_owned()),
            Self::Delete => ("remove", "deleted now".to_owned()),
            Self::Wait { until } => {
                let said = format!("off the pages, deleted from {until} on");
                ("remove", said)
            }
            Self::Named => ("keep", "until no page names them".to_owned()),
            Self::Yank => ("yank", "now".to_owned()),
            Self::Nothing => ("keep", "yanked already, or on no page".to_owned()),
        }
    }

    /// Whether nothing happens to the file, now or later.
    fn stays(self) -> bool {
        matches!(self, Self::Named | Self::Nothing)
    }

    /// Whether the page of the project loses the file.
    pub(super) fn unlists(self) -> bool {
        !matches!(self, Self::Yank | Self::Nothing)
    }

    pub(super) fn deletes(self) -> bool {
        matches!(self, Self::UnlistAndDelete | Self::Delete)
    }
}

#[cfg(test)]
mod tests;
