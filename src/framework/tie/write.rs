//! Makes the tied wheel of a plan.

use std::{path::Path, sync::Arc};

use super::plan::{RunPathChange, TiePlan, TieRecord};
use crate::{
    console::{World, many},
    elf::{self, ElfFacts, Patch, PatchedReader, ReadAt as _},
    error::{Context as _, Result, ensure},
    framework::read::FrameworkWheel,
    package::assemble::{AssembleSettings, ChangedFile, EditedContent, WheelEdit},
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
    edit(wheel, plan)?.write(directory, settings, "Tying", world)
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
fn edit(wheel: &FrameworkWheel, plan: &TiePlan) -> Result<WheelEdit> {
    let dist_info = plan.dist_info(wheel);
    let mut edit = wheel.edit(plan.result.clone(), &dist_info)?;
    edit.drop(&format!("{dist_info}/{}", TieRecord::FILE).parse()?);
    for change in &plan.run_paths {
        change_binary(&mut edit, wheel, &change.path, None, Some(change))?;
    }
    for (path, text) in &plan.texts {
        edit.add(path.parse()?, false, EditedContent::text(text));
    }
    Ok(edit)
}

/// Puts a binary into a changed wheel: with a change that comes first, and then with a run path.
pub(in crate::framework) fn change_binary(
    edit: &mut WheelEdit,
    wheel: &FrameworkWheel,
    path: &str,
    before: Option<&Patch>,
    run_path: Option<&RunPathChange>,
) -> Result<()> {
    let binary = wheel.binaries.get(path);
    let bytes = &binary.context("a binary that was not kept")?.bytes;
    let mut change = before.map_or_else(|| Patch::nothing(bytes.len()), Patch::clone);
    if let Some(run_path) = run_path {
        change = patch(bytes, &change, run_path)
            .with_context(|| format!("failed to change the run path of `{path}`"))?;
    }
    if change.is_nothing() {
        return Ok(());
    }
    // Directories with the version in their names are renamed.
    let new = edit.renamed(&wheel.archive, &path.parse()?)?;
    edit.replace(&new, EditedContent::Patched(Arc::clone(bytes), change))
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
