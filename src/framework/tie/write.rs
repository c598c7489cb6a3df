//! Makes the tied wheel of a plan.

use std::{path::Path, sync::Arc};

use super::{
    TieRecord,
    plan::{RunPathChange, TiePlan},
};
use crate::{
    console::{World, many},
    elf::{self, ElfFacts, Patch, PatchedReader, ReadAt as _},
    error::{Context as _, Result, ensure},
    framework::read::FrameworkWheel,
    package::assemble::{AssembleSettings, ChangedContent, ChangedFile, ChangedWheel},
    spool::Spool,
};

/// Writes the wheel of a plan into a directory.
pub fn write(
    wheel: &FrameworkWheel,
    plan: &TiePlan,
    directory: &Path,
    settings: &AssembleSettings,
    world: &World,
) -> Result<ChangedFile> {
    changed(wheel, plan)?.write(directory, settings, "Tying", world)
}

/// Writes the wheels of all plans, with one bar.
pub fn write_all(
    wheels: &[(&FrameworkWheel, &TiePlan)],
    directory: &Path,
    settings: &AssembleSettings,
    world: &World,
) -> Result<Vec<ChangedFile>> {
    let (count, size) = (
        wheels.len(),
        wheels.iter().map(|it| it.0.unpacked_size()).sum(),
    );
    let join = || (world.console).joined_progress("Tying", many(count, "wheel"), count, size);
    let _bar = (count > 0).then(join);
    wheels
        .iter()
        .map(|(wheel, plan)| write(wheel, plan, directory, settings, world))
        .collect()
}

/// The wheel of a plan. What an earlier tie has recorded is left out.
pub(in crate::framework) fn changed(
    wheel: &FrameworkWheel,
    plan: &TiePlan,
) -> Result<ChangedWheel> {
    let dist_info = plan.dist_info(wheel);
    let mut changed = ChangedWheel::new(plan.result.clone(), dist_info.parse()?);
    for member in wheel.files() {
        let path = wheel.renamed(&member.path, &dist_info);
        let is_record = path.ends_with(TieRecord::FILE) && path.starts_with(&dist_info);
        if is_record || plan.texts.contains_key(&path) {
            continue;
        }
        let content = match patched(wheel, &plan.run_paths, &member.path, None)? {
            Some(content) => content,
            None => wheel.unchanged(member)?,
        };
        changed.add(path.parse()?, member.mode & 0o111 != 0, content);
    }
    for (path, text) in &plan.texts {
        changed.add(path.parse()?, false, ChangedContent::text(text));
    }
    Ok(changed)
}

/// A binary with the run path of the plan, and before that with another change. `None` if it stays as it
/// is.
pub(in crate::framework) fn patched(
    wheel: &FrameworkWheel,
    run_paths: &[RunPathChange],
    path: &str,
    before: Option<&Patch>,
) -> Result<Option<ChangedContent>> {
    let change = run_paths.iter().find(|it| it.path == path);
    if change.is_none() && before.is_none() {
        return Ok(None);
    }
    let binary = wheel.binaries.get(path);
    let bytes = &binary.context("a binary that was not kept")?.bytes;
    let nothing = || Patch::nothing(bytes.len());
    let before = before.cloned().unwrap_or_else(nothing);
    let edit = match change {
        None => before,
        Some(change) => patch(bytes, &before, change)
            .with_context(|| format!("failed to change the run path of `{path}`"))?,
    };
    Ok((!edit.is_nothing()).then(|| ChangedContent::Patched(Arc::clone(bytes), edit)))
}

/// Plans the change of one binary, and checks that the loader will read what was wanted.
fn patch(bytes: &Arc<Spool>, before: &Patch, change: &RunPathChange) -> Result<Patch> {
    let reader = PatchedReader::new(Arc::clone(bytes), before.clone());
    let edit: Patch = elf::plan_rpath(&reader, &change.to)?.into();
    let patch = before.then(&edit);
    let patched = PatchedReader::new(Arc::clone(bytes), patch.clone());
    let facts = elf::read(&patched)?.unwrap_or_default();
    let ElfFacts { rpath, runpath, .. } = &facts;
    let is_wanted =
        runpath.is_none() && rpath.as_deref().unwrap_or_default() == change.to.to_string();
    ensure!(
        is_wanted || edit.is_nothing(),
        "its run path would be {rpath:?}, not `{}`",
        change.to
    );
    Ok(patch)
}
