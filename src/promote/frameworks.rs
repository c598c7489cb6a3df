//! [`FrameworkTies`]: the wheels of frameworks in a set, tied to its packages under the new version.
//!
//! A framework requires the version of ROCm that it was tested with, and its own version mostly names
//! it. To tie it again changes both, and no binary.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    path::Path,
};

use fs_err as fs;

use super::{observe::CandidateSet, plan::PromotionPlan, write::PromotedFile};
use crate::{
    check::SetFacts,
    console::World,
    framework::{
        FrameworkWheel, Frameworks, RocmLibraries, SelectorPlan,
        tie::{self, TieOptions, TiePlan, VersionPin, VersionSuffix},
    },
    index::PackageFile,
};
use rocwheel_base::{
    error::{Context as _, Hint as _, No, Result, anyhow},
    quantity::many,
    relpath::RelPath,
};
use rocwheel_wheel::{DistName, PackSettings, PackageFilename, WheelCompression};

/// The frameworks of a set that is promoted, and how they are tied.
pub struct FrameworkTies<'a> {
    /// The wheels as files of the set, in the order of `wheels`.
    files: Vec<&'a PackageFile>,
    /// The sdists that select a device wheel of a framework that was split. They are made again.
    selectors: Vec<&'a PackageFile>,
    wheels: Vec<FrameworkWheel>,
    rocm: RocmLibraries,
    options: TieOptions,
    jobs: NonZeroUsize,
}

impl<'a> FrameworkTies<'a> {
    /// Reads the frameworks, and adds their plans to the plan of the set. `facts` describe the set that was
    /// tested: under the new version it has the same libraries.
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
            file.name().parse::<PackageFilename>().is_ok_and(|name| name.tag.is_some())
        };
        let (files, selectors): (Vec<&PackageFile>, Vec<&PackageFile>) =
            set.frameworks.iter().partition(is_wheel);
        let paths: Vec<_> = files.iter().map(|file| set.root.join(&file.path)).collect();
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
        plan.frameworks = tie::decide(&ties.wheels, &ties.rocm, policy, &ties.options, None)?;
        // An sdist that no plan makes again would go on requiring the old version.
        let planned_selectors: BTreeSet<&DistName> = plan
            .frameworks
            .iter()
            .filter_map(|tie| tie.selector.as_ref())
            .map(SelectorPlan::project)
            .collect();
        let is_planned = |sdist: &PackageFile| planned_selectors.contains(&sdist.project);
        if let Some(sdist) = ties.selectors.iter().find(|sdist| !is_planned(sdist)) {
            let name = sdist.name();
            let why = format!("`{name}` is for {}, and only wheels are tied", set.version);
            return Err(anyhow!(No(why))).hint("build its wheel, or take it out of the set");
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
        let count = self.wheels.len();
        let what = many(count, "framework");
        // Each wheel is written as a whole, and read back.
        let sizes = self.wheels.iter().map(|it| it.unpacked_size() + it.facts.package.size);
        let _bar = world.console.joined_progress("Tying", what, 2 * count, sizes.sum());
        let mut promoted = Vec::new();
        let mut tied = Vec::new();
        for ((file, wheel), plan) in self.files.iter().zip(&self.wheels).zip(plans) {
            let family = file.path.strip_suffix(file.name()).unwrap_or_default();
            let target = directory.join(family);
            fs::create_dir_all(&target)?;
            let written = tie::write(wheel, plan, &BTreeMap::new(), &target, &settings, world)?;
            tied.push(FrameworkWheel::read(&target.join(&written.file), self.jobs, world)?);
            let edited: Vec<RelPath> =
                plan.texts.keys().map(|path| path.parse()).collect::<Result<_, _>>()?;
            promoted.push(PromotedFile::of(file, &written, edited));
            if let Some(selector) = &plan.selector {
                let written = selector.write(&target, settings.time)?;
                let old_sdist = self.selectors.iter().find(|it| it.project == *selector.project());
                // A set without this sdist gets it, made from the wheel.
                let from = old_sdist.unwrap_or(file);
                promoted.push(PromotedFile::of(from, &written, Vec::new()));
            }
        }
        tie::verify(plans, &tied, &self.rocm, Frameworks::builtin(), &self.options)
            .context("failed to tie the frameworks")?;
        Ok(promoted)
    }
}
