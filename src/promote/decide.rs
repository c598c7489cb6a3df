//! Decides what a promotion does: from what was read to a plan, without reading anything.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{
    observe::{CandidateForm, CandidatePackage, CandidateSet},
    plan::{PlannedPromotion, PromotionPlan},
    texts::{TargetChange, VersionChange, VersionTexts},
};
use crate::{index::PackageFile, policy::DistNames};
use rocwheel_base::{
    error::{Context as _, Error, Hint as _, No, Result, anyhow, bail, ensure},
    glob::Glob,
    quantity::many,
    relpath::RelPath,
    target::Target,
    version::PromotionGoal,
};
use rocwheel_wheel::{Archive, Record};

/// What the user asks of a promotion.
#[derive(Clone, Debug)]
pub struct PromotionRequest {
    pub goal: PromotionGoal,
    /// The targets whose device packages stay. If the list is empty, all device packages stay.
    pub targets: Vec<Target>,
    /// Files that may still name the old version.
    pub leave: Vec<Glob>,
}

/// Makes the plan of a promotion, or refuses and lists every file that would still name the old version.
pub fn decide(set: &CandidateSet, request: &PromotionRequest) -> Result<PromotionPlan> {
    let to = request.goal.version_of(&set.version)?;
    let targets = choose_targets(set, request)?;
    let change = VersionChange { from: set.version.clone(), to, targets };
    let mut plan = PromotionPlan {
        schema: "rocwheel-promotion-plan-v1",
        from: change.from.clone(),
        to: change.to.clone(),
        packages: Vec::new(),
        frameworks: Vec::new(),
        dropped: Vec::new(),
        copied: Vec::new(),
        keys: Vec::new(),
        change: change.clone(),
    };
    let mut refusals = Vec::new();
    for package in &set.packages {
        let file = &package.file;
        if device_target(file).is_some_and(|target| change.targets.dropped.contains(&target)) {
            plan.dropped.push(file.path.clone());
            continue;
        }
        // Without a change, a set is only published at another place.
        if !change.is_needed() {
            plan.copied.push(file.path.clone());
            continue;
        }
        let planned = plan_package(package, &change, &request.leave, &mut refusals)
            .with_context(|| format!("failed to promote `{}`", file.path))?;
        plan.packages.push(planned);
    }
    plan.copied.extend(set.others.iter().map(|file| file.path.clone()));
    // Frameworks require the version of the set. With a change they are tied again, so that they require the
    // new version; without one they stay as they are.
    if !change.is_needed() {
        plan.copied.extend(set.frameworks.iter().map(|file| file.path.clone()));
    }
    if refusals.is_empty() {
        return Ok(plan);
    }
    let title = format!("{} would still name {}", many(refusals.len(), "file"), change.from);
    Err(Error::new(No::list(title, refusals, usize::MAX)))
        .hint("build the artifacts under the other version: `rocwheel build --version`")
}

/// The target of a device package.
fn device_target(file: &PackageFile) -> Option<Target> {
    DistNames::built_in().device_target(&file.project)
}

/// Decides which device packages stay.
fn choose_targets(set: &CandidateSet, request: &PromotionRequest) -> Result<TargetChange> {
    if request.targets.is_empty() {
        return Ok(TargetChange::default());
    }
    let available: BTreeSet<Target> =
        set.packages.iter().filter_map(|package| device_target(&package.file)).collect();
    if available.is_empty() {
        bail!(No(
            "no device packages in the set: its libraries have the code of all targets".to_owned()
        ));
    }
    // A device package also has the code of the variants of its target.
    let kept: BTreeSet<Target> = request.targets.iter().map(Target::base).collect();
    let missing = kept.difference(&available).join(", ");
    if !missing.is_empty() {
        let error = anyhow!(No(format!("no device package for {missing} in the set")));
        return Err(error).hint(format!("the set has {}", available.iter().join(", ")));
    }
    let dropped = available.difference(&kept).cloned().collect();
    Ok(TargetChange { kept, dropped })
}

/// Decides what happens to one package. A file that would still name the old version is added to the
/// refusals, so that the user sees all of them at once.
fn plan_package(
    package: &CandidatePackage,
    change: &VersionChange,
    leave: &[Glob],
    refusals: &mut Vec<String>,
) -> Result<PlannedPromotion> {
    let name = package.name.with_version(&change.to);
    let directory = package.file.path.strip_suffix(package.file.name()).unwrap_or_default();
    let becomes = format!("{directory}{name}");
    // If only device packages are dropped, the version stays and texts go on naming it.
    let is_renamed = change.from != change.to;
    let mut texts = BTreeMap::new();
    for (path, text) in &package.texts {
        let form = VersionTexts::builtin()
            .form(path.as_str())
            .with_context(|| format!("no form for `{path}`"))?;
        let changed =
            change.apply(form, text).with_context(|| format!("failed to edit `{path}`"))?;
        if is_renamed && change.is_left_in(changed.as_bytes()) {
            refusals.push(format!("`{path}` of `{}`", package.file.name()));
        }
        if changed != *text {
            texts.insert(package.renamed(path, change)?, changed);
        }
    }
    if is_renamed {
        let may_stay = |path: &RelPath| leave.iter().any(|glob| glob.matches(path.as_str()));
        for path in package.leftovers.iter().filter(|path| !may_stay(path)) {
            refusals.push(format!("`{path}` of `{}`", package.file.name()));
        }
    }
    if let CandidateForm::Wheel { archive, record, .. } = &package.form {
        ensure_recorded(archive, record)?;
    }
    Ok(PlannedPromotion {
        file: package.file.path.clone(),
        name,
        becomes,
        edits: texts.keys().cloned().collect(),
        size: package.file.size,
        texts,
    })
}

/// Fails unless RECORD lists every member with its size: a member that is copied keeps its digest from
/// RECORD, because its content is not read.
fn ensure_recorded(archive: &Archive, record: &Record) -> Result<()> {
    let sizes: BTreeMap<&RelPath, Option<u64>> =
        record.rows().iter().map(|row| (&row.path, row.len)).collect();
    for (path, member) in &archive.members {
        match sizes.get(path) {
            Some(recorded) => ensure!(
                recorded.is_none_or(|len| len == member.len),
                No(format!("`{path}` does not have the size that RECORD says"))
            ),
            // RECORD need not list itself.
            None => {
                ensure!(archive.is_record(path), No(format!("`{path}` is not in RECORD")));
            }
        }
    }
    Ok(())
}

/// The `dist-info` directory of a wheel under the other version.
pub(super) fn renamed_dist_info(archive: &Archive, change: &VersionChange) -> Result<RelPath> {
    let old = archive.dist_info.as_str();
    let stem = old.strip_suffix(".dist-info").unwrap_or(old);
    let (project, _) = stem.rsplit_once('-').context("metadata without a version")?;
    let new = format!("{project}-{}.dist-info", change.to.filename_form());
    Ok(new.parse()?)
}

impl CandidatePackage {
    /// The path of a member under the other version.
    pub(super) fn renamed(&self, path: &RelPath, change: &VersionChange) -> Result<RelPath> {
        match &self.form {
            CandidateForm::Wheel { archive, .. } => {
                archive.renamed(path, &renamed_dist_info(archive, change)?)
            }
            CandidateForm::Sdist(_) => Ok(path.clone()),
        }
    }
}
