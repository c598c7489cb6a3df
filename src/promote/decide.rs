//! Decides what a promotion does: from what was read to a plan, without reading anything.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{
    observe::{CandidateForm, CandidatePackage, CandidateSet},
    plan::{PlannedPromotion, PromotionPlan},
    texts::{TargetChange, VersionChange, VersionTexts},
};
use crate::{
    console::many,
    error::{Context as _, Error, Hint as _, No, Result, anyhow, bail, ensure},
    glob::Glob,
    index::PackageFile,
    policy::DistNames,
    relpath::RelPath,
    target::Target,
    version::PromotionGoal,
    wheel::{Archive, Record},
};

/// What is asked of a promotion.
#[derive(Clone, Debug)]
pub struct PromotionRequest {
    pub goal: PromotionGoal,
    /// The targets whose device packages stay. All if there are none.
    pub targets: Vec<Target>,
    /// Files that may name the version that is left.
    pub leave: Vec<Glob>,
}

/// A plan, or everything that is in the way.
pub fn decide(set: &CandidateSet, request: &PromotionRequest) -> Result<PromotionPlan> {
    let to = request.goal.version_of(&set.version)?;
    let targets = targets(set, request)?;
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
        if device_target(file).is_some_and(|it| change.targets.dropped.contains(&it)) {
            plan.dropped.push(file.path.clone());
            continue;
        }
        if !change.is_needed() {
            plan.copied.push(file.path.clone());
            continue;
        }
        let planned = planned(package, &change, &request.leave, &mut refusals);
        plan.packages.push(planned.with_context(|| format!("failed to promote `{}`", file.path))?);
    }
    let whole = set.others.iter();
    // Without a change they require what they always did.
    let frameworks = set.frameworks.iter().filter(|_| !change.is_needed());
    plan.copied.extend(whole.chain(frameworks).map(|it| it.path.clone()));
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

/// Which device packages stay.
fn targets(set: &CandidateSet, request: &PromotionRequest) -> Result<TargetChange> {
    let there = set.packages.iter().filter_map(|it| device_target(&it.file));
    let there: BTreeSet<Target> = there.collect();
    if request.targets.is_empty() {
        return Ok(TargetChange::default());
    }
    let list = |targets: &BTreeSet<Target>| targets.iter().join(", ");
    let asked: BTreeSet<Target> = request.targets.iter().map(Target::base).collect();
    let (kept, missing): (BTreeSet<Target>, BTreeSet<Target>) =
        asked.into_iter().partition(|it| there.contains(it));
    if there.is_empty() {
        bail!(No(
            "no device packages in the set: its libraries have the code of all targets".to_owned()
        ));
    }
    if !missing.is_empty() {
        let (missing, there) = (list(&missing), list(&there));
        let error = anyhow!(No(format!("no device package for {missing} in the set")));
        return Err(error).hint(format!("the set has {there}"));
    }
    let dropped = there.difference(&kept).cloned().collect();
    Ok(TargetChange { kept, dropped })
}

/// What happens to one package. Files that would still name the old version are refused.
fn planned(
    package: &CandidatePackage,
    change: &VersionChange,
    leave: &[Glob],
    refusals: &mut Vec<String>,
) -> Result<PlannedPromotion> {
    let name = package.name.with_version(&change.to);
    let directory = package.file.path.strip_suffix(package.file.name());
    let becomes = format!("{}{name}", directory.unwrap_or_default());
    let mut texts = BTreeMap::new();
    for (path, text) in &package.texts {
        let form = VersionTexts::builtin().form(path.as_str());
        let form = form.with_context(|| format!("no form for `{path}`"))?;
        let changed = change.apply(form, text);
        let changed = changed.with_context(|| format!("failed to edit `{path}`"))?;
        if change.from != change.to && change.is_left_in(changed.as_bytes()) {
            refusals.push(format!("`{path}` of `{}`", package.file.name()));
        }
        if changed != *text {
            texts.insert(package.renamed(path, change)?, changed);
        }
    }
    let leftovers = package.leftovers.iter().filter(|path| {
        change.from != change.to && !leave.iter().any(|it| it.matches(path.as_str()))
    });
    refusals.extend(leftovers.map(|path| format!("`{path}` of `{}`", package.file.name())));
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

/// Fails unless RECORD lists every member with its size: what is copied keeps the digest that it has there.
fn ensure_recorded(archive: &Archive, record: &Record) -> Result<()> {
    let rows = record.rows().iter().map(|row| (&row.path, row.len));
    let rows: BTreeMap<&RelPath, Option<u64>> = rows.collect();
    for (path, member) in &archive.members {
        let row = rows.get(path);
        ensure!(row.is_some() || archive.is_record(path), No(format!("`{path}` is not in RECORD")));
        ensure!(
            row.copied().flatten().is_none_or(|len| len == member.len),
            No(format!("`{path}` does not have the size that RECORD says"))
        );
    }
    Ok(())
}

/// The directory of the metadata under the other version.
pub(super) fn dist_info(archive: &Archive, change: &VersionChange) -> Result<RelPath> {
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
                archive.renamed(path, &dist_info(archive, change)?)
            }
            CandidateForm::Sdist(_) => Ok(path.clone()),
        }
    }
}
