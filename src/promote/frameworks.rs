//! [`FrameworkTies`]: the wheels of frameworks in a set, tied to its packages under the new version.
//!
//! A framework requires the version of ROCm that it was tested with, and its own version mostly names
//! it. To tie it again changes both, and no binary.

use std::{collections::BTreeSet, num::NonZeroUsize, path::Path};

use fs_err as fs;

use super::{observe::CandidateSet, plan::PromotionPlan, write::PromotedFile};
use crate::{
    check::SetFacts,
    console::{World, many},
    error::{Context as _, Hint as _, No, Result, anyhow},
    framework::{
        FrameworkWheel, Frameworks, RocmLibraries, SelectorPlan,
        tie::{self, TieOptions, TiePlan, VersionPin, VersionSuffix},
    },
    index::PackageFile,
    relpath::RelPath,
    wheel::{DistName, PackSettings, PackageFilename, WheelCompression},
};

/// The frameworks of a set that is promoted, and how they are tied.
pub struct FrameworkTies<'a> {
    files: Vec<&'a PackageFile>,
    /// The sdists that select a device wheel of a framework that was split. They are made again.
    selectors: Vec<&'a PackageFile>,
    wheels: Vec<FrameworkWheel>,
    rocm: RocmLibraries,
    options: TieOptions,
    jobs: NonZeroUsize,
}

impl<'a> FrameworkTies<'a> {
    /// Reads the frameworks, and adds their plans to that of the set. `facts` are those of the set
    /// that was tested: under the new version it has the same libraries.
    pub fn decide(
        set: &'a CandidateSet,
        plan: &mut PromotionPlan,
        facts: &SetFacts,
        pin: VersionPin,
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<Self> {
        let policy = Frameworks::builtin();
        let mut rocm = RocmLibraries::of(facts, policy)?;
        rocm.version = plan.to.clone();
        rocm.targets.retain(|target| !plan.change.targets.dropped.contains(target));
        let is_wheel = |file: &&PackageFile| {
            let name = file.name().parse::<PackageFilename>();
            name.is_ok_and(|it| it.tag.is_some())
        };
        let files = set.frameworks.iter();
        let (files, selectors): (Vec<&PackageFile>, Vec<&PackageFile>) = files.partition(is_wheel);
        let paths: Vec<_> = files.iter().map(|it| set.root.join(&it.path)).collect();
        let ties = Self {
            wheels: FrameworkWheel::read_all(&paths, jobs, world)?,
            files,
            selectors,
            options: TieOptions {
                requires: Some(pin),
                suffix: VersionSuffix::Named,
                ..TieOptions::default()
            },
            rocm,
            jobs,
        };
        plan.frameworks = tie::decide(&ties.wheels, &ties.rocm, policy, &ties.options)?;
        let made = plan.frameworks.iter().filter_map(|it| it.selector.as_ref());
        let made: BTreeSet<&DistName> = made.map(SelectorPlan::project).collect();
        let other = ties.selectors.iter().find(|it| !made.contains(&it.project));
        if let Some(other) = other {
            let name = other.name();
            let text = format!("`{name}` is for {}, and only wheels are tied", set.version);
            return Err(anyhow!(No(text))).hint("build its wheel, or take it out of the set");
        }
        Ok(ties)
    }

    /// Writes the tied wheels where the set has them, and reads them back.
    pub fn write(
        &self,
        plans: &[TiePlan],
        directory: &Path,
        world: &World,
    ) -> Result<Vec<PromotedFile>> {
        let settings = PackSettings::new(WheelCompression::default(), self.jobs);
        let (mut files, mut tied) = (Vec::new(), Vec::new());
        // Each is written and read.
        let sizes = self.wheels.iter().map(|it| it.unpacked_size() + it.facts.package.size);
        let (count, what) = (self.wheels.len(), many(self.wheels.len(), "framework"));
        let _bar = (world.console).joined_progress("Tying", what, 2 * count, sizes.sum());
        for ((file, wheel), plan) in self.files.iter().zip(&self.wheels).zip(plans) {
            let place = file.path.strip_suffix(file.name()).unwrap_or_default();
            let target = directory.join(place);
            fs::create_dir_all(&target)?;
            let written = tie::write(wheel, plan, &target, &settings, world)?;
            tied.push(FrameworkWheel::read(&target.join(&written.file), self.jobs, world)?);
            let edited = plan.texts.keys().map(|path| path.parse());
            let edited = edited.collect::<Result<Vec<RelPath>, _>>()?;
            files.push(PromotedFile::of(file, &written, edited));
            if let Some(selector) = &plan.selector {
                let written = selector.write(&target, settings.time)?;
                let mut selectors = self.selectors.iter();
                let from = selectors.find(|it| it.project == *selector.project());
                files.push(PromotedFile::of(from.unwrap_or(file), &written, Vec::new()));
            }
        }
        tie::verify(plans, &tied, &self.rocm, Frameworks::builtin(), &self.options)
            .context("failed to tie the frameworks")?;
        Ok(files)
    }
}
