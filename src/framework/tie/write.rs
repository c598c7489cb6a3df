//! Makes the tied wheels of plans, and reads them back.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    TieOptions,
    plan::{RunPathChange, TiePlan, TieRecord},
};
use crate::{
    console::World,
    framework::{
        facts, policy::Frameworks, providers::Providers, read::FrameworkWheel, rocm::RocmLibraries,
    },
};
use rocwheel_base::{
    error::{Context as _, Result, bail, ensure},
    relpath,
};
use rocwheel_elf::{
    self, Patch, PatchedReader,
    loader::{FileContents, InstalledTree, MissingLibrary, missing_libraries},
};
use rocwheel_wheel::{ChangedFile, PackSettings, Source, WheelEdit, installed_path};

/// Writes the wheel of a plan into a directory, without the record of an earlier tie. `packages` are the paths of the
/// packages whose files join it, by file name.
pub fn write(
    wheel: &FrameworkWheel,
    plan: &TiePlan,
    packages: &BTreeMap<String, PathBuf>,
    directory: &Path,
    settings: &PackSettings,
    world: &World,
) -> Result<ChangedFile> {
    let dist_info = plan.dist_info(wheel);
    let mut edit = wheel.edit(plan.result.clone(), &dist_info)?;
    edit.drop(&format!("{dist_info}/{}", TieRecord::FILE).parse()?);
    for change in &plan.run_paths {
        let patch = plan_patch(wheel, change)
            .with_context(|| format!("failed to change the run path of `{}`", change.path))?;
        change_binary(&mut edit, wheel, &change.path, patch)?;
    }
    if let Some(bundle) = &plan.bundle {
        bundle.add_to(&mut edit, &dist_info, packages)?;
    }
    for (path, text) in &plan.texts {
        edit.add(path.parse()?, false, Source::Bytes(text.as_slice().into()));
    }
    let progress = world.console.progress("Tying", edit.name(), edit.unpacked_size());
    edit.write(directory, settings, &world.stop, &|bytes| progress.inc(bytes))
}

/// Puts a changed binary into a changed wheel.
pub(in crate::framework) fn change_binary(
    edit: &mut WheelEdit,
    wheel: &FrameworkWheel,
    path: &str,
    change: Patch,
) -> Result<()> {
    if change.is_nothing() {
        return Ok(());
    }
    // A directory with the version in its name has another name in the changed wheel.
    let new_path = edit.renamed(&wheel.archive, &path.parse()?)?;
    let bytes = wheel.binary(path)?;
    edit.replace(&new_path, Source::Patched(Arc::clone(bytes), change))
}

/// Plans the change of one binary, and checks that the loader will read the wanted run path.
fn plan_patch(wheel: &FrameworkWheel, change: &RunPathChange) -> Result<Patch> {
    let bytes = wheel.binary(&change.path)?;
    let patch: Patch = rocwheel_elf::plan_rpath(bytes, &change.to)?.into();
    let facts = rocwheel_elf::read(&PatchedReader::new(bytes, patch.clone()))?.unwrap_or_default();
    ensure!(
        facts.has_rpath(&change.to) || patch.is_nothing(),
        "its run path would be {:?}, not `{}`",
        facts.run_path(),
        change.to
    );
    Ok(patch)
}

/// Fails unless the tied wheels are what their plans say, and find their libraries beside the set. The
/// wheels have the order of the plans.
///
/// The models of installer and loader answer. A difference is a defect of rocwheel, and nothing is published
/// then.
pub fn verify(
    plans: &[TiePlan],
    tied: &[FrameworkWheel],
    rocm: &RocmLibraries,
    policy: &Frameworks,
    options: &TieOptions,
) -> Result<()> {
    let providers = Providers::new(tied, Some(rocm), policy, &options.host_provides);
    let is_bundled = plans.iter().any(|plan| plan.bundle.is_some());
    let missing = find_missing_libraries(tied, Some(rocm).filter(|_| !is_bundled));
    for (plan, wheel) in plans.iter().zip(tied) {
        verify_wheel(plan, wheel, &providers)
            .with_context(|| format!("`{}` is not what was planned", plan.result))?;
        let is_tied = |binary: &str| {
            let mut run_paths = plan.record.run_paths.iter();
            run_paths.any(|(path, _)| path == binary) || wheel.is_bundled(binary)
        };
        let lost = missing.iter().find(|it| rocm.library(&it.name).is_some() && is_tied(&it.path));
        if let Some(MissingLibrary { path, name, .. }) = lost {
            bail!("`{path}` of `{}` does not find `{name}`", plan.result);
        }
    }
    if is_bundled { ensure_has_imports(tied, rocm) } else { Ok(()) }
}

/// Fails unless wheels for Windows that are installed without a set have the libraries of the set that they import.
fn ensure_has_imports(tied: &[FrameworkWheel], rocm: &RocmLibraries) -> Result<()> {
    let files = tied.iter().flat_map(FrameworkWheel::windows_files);
    let names: BTreeSet<String> =
        files.map(|(path, _)| relpath::split(path).1.to_ascii_lowercase()).collect();
    for wheel in tied {
        for (path, imports) in wheel.imports() {
            let mut imports = imports.into_iter().flatten();
            let is_lost = |name: &&String| {
                rocm.library(name).is_some() && !names.contains(&name.to_ascii_lowercase())
            };
            if let Some(name) = imports.find(is_lost) {
                bail!("`{path}` of `{}` does not find `{name}`", wheel.name);
            }
        }
    }
    Ok(())
}

/// The libraries that are not found if all wheels, and the set if there is one, are installed into one directory, in the
/// order of the files that need them.
fn find_missing_libraries(
    tied: &[FrameworkWheel],
    set: Option<&RocmLibraries>,
) -> Vec<MissingLibrary> {
    let mut site = InstalledTree::default();
    if let Some(rocm) = set {
        for library in rocm.libraries() {
            let path = format!("{}/{}", rocm.directory(library.directory), library.name);
            let elf = library.elf.as_ref();
            site.add_file(&path, "rocm", elf.map_or(FileContents::Other, FileContents::Elf));
        }
    }
    for wheel in tied {
        let package = wheel.name.name.normalized();
        for elf in wheel.elf_files() {
            site.add_file(elf.path, package, FileContents::Elf(elf.facts));
        }
    }
    let mut missing = missing_libraries(&site);
    missing.sort_by(|a, b| (&a.path, &a.name).cmp(&(&b.path, &b.name)));
    missing
}

fn verify_wheel(plan: &TiePlan, wheel: &FrameworkWheel, providers: &Providers<'_>) -> Result<()> {
    if let Some(damage) = wheel.damage.first() {
        bail!("{damage}");
    }
    ensure!(wheel.without_digest == 0, "RECORD has no digest of {} members", wheel.without_digest);
    let lines = &wheel.metadata.requires_dist;
    if let Some(requirement) = plan.requires.iter().find(|it| !lines.contains(&it.line)) {
        bail!("METADATA lacks a requirement: {:?}", requirement.line);
    }
    if let Some(bundle) = &plan.bundle {
        bundle.verify(wheel)?;
    }
    if let Some(proved) = facts::proved_tag(wheel, providers) {
        let policy = proved.policy;
        ensure!(plan.record.proved_tag.as_ref() == Some(&policy), "its symbols prove `{policy}`");
    }
    for change in &plan.run_paths {
        let path = installed_path(&change.path).unwrap_or(&change.path);
        let elf = wheel
            .elf_files()
            .find(|elf| elf.path == path)
            .with_context(|| format!("`{path}` cannot be read any more"))?;
        ensure!(
            elf.facts.has_rpath(&change.to),
            "the run path of `{path}` is {:?}",
            elf.facts.run_path()
        );
    }
    Ok(())
}
