//! Reads tied wheels back, and asks the models of installer and loader whether they are what the plan
//! promised. A difference is a defect of rocwheel, and nothing is published then.

use std::collections::BTreeSet;

use super::{TieOptions, plan::TiePlan};
use crate::{
    elf::ElfFacts,
    error::{Context as _, Result, bail, ensure},
    framework::{
        facts,
        policy::Frameworks,
        providers::Providers,
        read::{FrameworkWheel, installed_path},
        rocm::RocmLibraries,
    },
    loader::{FileContents, InstalledTree, missing_libraries},
};

/// Fails unless the tied wheels are what their plans say, and find their libraries beside the set.
/// The wheels have the order of the plans.
pub fn verify(
    plans: &[TiePlan],
    tied: &[FrameworkWheel],
    rocm: &RocmLibraries,
    policy: &Frameworks,
    options: &TieOptions,
) -> Result<()> {
    let providers = Providers::new(tied, Some(rocm), policy, &options.host);
    let missing = missing(tied, rocm);
    for (plan, wheel) in plans.iter().zip(tied) {
        let failed = || format!("`{}` is not what was planned", plan.result);
        texts(plan, wheel, &providers).with_context(failed)?;
        run_paths(plan, wheel).with_context(failed)?;
        let mut lost = missing.iter().filter(|(file, name)| {
            let mut files = plan.record.run_paths.iter();
            rocm.library(name).is_some() && files.any(|it| it.0 == *file)
        });
        if let Some((path, name)) = lost.next().filter(|_| !options.keep_run_paths) {
            bail!("`{path}` of `{}` does not find `{name}`", plan.result);
        }
    }
    Ok(())
}

/// The libraries that are not found where all wheels and the set are in one directory: the path of
/// the file that needs it, and its name.
fn missing(tied: &[FrameworkWheel], rocm: &RocmLibraries) -> BTreeSet<(String, String)> {
    let mut site = InstalledTree::default();
    for (name, library) in rocm.libraries() {
        let path = format!("{}/{name}", rocm.directory(library.directory));
        site.add_file(&path, "rocm", FileContents::Elf(&library.elf));
    }
    for wheel in tied {
        let package = wheel.name.name.normalized();
        for (path, _, elf) in wheel.elf_files() {
            site.add_file(path, package, FileContents::Elf(&elf.facts));
        }
    }
    let missing = missing_libraries(&site).into_iter();
    missing.map(|it| (it.path, it.name)).collect()
}

fn texts(plan: &TiePlan, wheel: &FrameworkWheel, providers: &Providers<'_>) -> Result<()> {
    if let Some(damage) = wheel.damage.first() {
        bail!("{damage}");
    }
    ensure!(
        wheel.without_digest == 0,
        "RECORD has no digest of {} members",
        wheel.without_digest
    );
    let lines = &wheel.metadata.requires_dist;
    if let Some(absent) = plan.requires.iter().find(|it| !lines.contains(&it.line)) {
        bail!("METADATA lacks a requirement: {:?}", absent.line);
    }
    if !wheel.is_for_windows() {
        let proved = facts::proved_tag(wheel, providers).policy;
        ensure!(
            plan.record.proved_tag.as_ref() == Some(&proved),
            "its symbols prove `{proved}`"
        );
    }
    Ok(())
}

fn run_paths(plan: &TiePlan, wheel: &FrameworkWheel) -> Result<()> {
    for change in &plan.run_paths {
        let path = installed_path(&change.path).unwrap_or(&change.path);
        let elf = wheel.elf_files().find(|it| it.0 == path);
        let (_, _, elf) = elf.with_context(|| format!("`{path}` cannot be read any more"))?;
        let ElfFacts { rpath, runpath, .. } = &elf.facts;
        ensure!(
            runpath.is_none() && rpath.as_deref().unwrap_or_default() == change.to.to_string(),
            "the run path of `{path}` is {rpath:?}"
        );
    }
    Ok(())
}
