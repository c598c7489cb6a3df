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
        let one = OneTied {
            plan,
            wheel,
            rocm,
            options,
        };
        one.verify(&providers, &missing)
            .with_context(|| format!("`{}` is not what was planned", plan.result))?;
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

struct OneTied<'a> {
    plan: &'a TiePlan,
    wheel: &'a FrameworkWheel,
    rocm: &'a RocmLibraries,
    options: &'a TieOptions,
}

impl OneTied<'_> {
    fn verify(
        &self,
        providers: &Providers<'_>,
        missing: &BTreeSet<(String, String)>,
    ) -> Result<()> {
        let wheel = self.wheel;
        if let Some(damage) = wheel.damage.first() {
            bail!("{damage}");
        }
        ensure!(
            wheel.without_digest == 0,
            "RECORD has no digest of {} members",
            wheel.without_digest
        );
        let lines = &wheel.metadata.requires_dist;
        let absent = self
            .plan
            .requires
            .iter()
            .find(|it| !lines.contains(&it.line));
        ensure!(
            absent.is_none(),
            "METADATA lacks a requirement: {:?}",
            absent.map(|it| &it.line)
        );
        if !wheel.is_for_windows() {
            let proved = facts::proved_tag(wheel, providers).policy;
            ensure!(
                self.plan.record.proved_tag.as_ref() == Some(&proved),
                "its symbols prove `{proved}`"
            );
        }
        self.run_paths(missing)
    }

    fn run_paths(&self, missing: &BTreeSet<(String, String)>) -> Result<()> {
        let wheel = self.wheel;
        for change in &self.plan.run_paths {
            let path = installed_path(&change.path).unwrap_or(&change.path);
            let elf = wheel.elf_files().find(|it| it.0 == path);
            let (_, _, elf) = elf.with_context(|| format!("`{path}` cannot be read any more"))?;
            let ElfFacts { rpath, runpath, .. } = &elf.facts;
            ensure!(
                runpath.is_none() && rpath.as_deref().unwrap_or_default() == change.to.to_string(),
                "the run path of `{path}` is {rpath:?}"
            );
        }
        if self.options.keep_run_paths {
            return Ok(());
        }
        for (path, _) in &self.plan.record.run_paths {
            let lost = missing
                .iter()
                .find(|(file, name)| file == path && self.rocm.library(name).is_some());
            ensure!(
                lost.is_none(),
                "`{path}` does not find `{}`",
                lost.map_or("", |it| &it.1)
            );
        }
        Ok(())
    }
}
