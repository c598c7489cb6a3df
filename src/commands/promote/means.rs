//! Flags of `promote` beyond its plan: a build as proof, yanks of what was tested, pins of frameworks.

use std::{collections::BTreeSet, path::Path};

use clap::Args as _;

use super::PromoteArgs;
use crate::{
    commands::build::BuildInputs,
    console::{World, many},
    error::{Context as _, Hint as _, Result, anyhow, ensure},
    framework::tie::VersionPin,
    promote::{self, CandidateSet, PromotionPlan, PromotionRecord},
    run::Platform,
    set::{self, IndexOptions, PackageDirectories, YankList},
    version::{PromotionGoal, Version},
};

/// When frameworks accept later patch releases of ROCm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum FloatPatch {
    /// If the set becomes a final release
    #[default]
    Auto,
    /// Always; stops if the set does not become a final release
    Yes,
    /// Never: they require exactly the version of the set
    No,
}

impl FloatPatch {
    pub(super) fn pin(self, to: &Version) -> Result<VersionPin> {
        Ok(match self {
            Self::Auto => VersionPin::usual(to),
            Self::No => VersionPin::Exact,
            Self::Yes if to.is_final() => VersionPin::Minor,
            Self::Yes => {
                return Err(anyhow!(
                    "no patch release replaces {to}, which is not final"
                ))
                .hint("leave out `--float-patch yes`");
            }
        })
    }
}

/// How the packages get their version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum PromotionMeans {
    /// The texts that name it change
    #[default]
    Rewrite,
    /// They change too, and a build of the artifacts under the new version has to make the same bytes.
    /// This also promotes versions that name a commit
    Build,
}

impl PromoteArgs {
    /// With `--by build`, the directory of the artifacts.
    pub(super) fn rebuilt_from(&self) -> Option<&Path> {
        let is_built = self.by == PromotionMeans::Build;
        self.artifact_dir.as_deref().filter(|_| is_built)
    }

    /// Fails if a build cannot make what is asked for, or if none is asked for and has flags.
    pub(super) fn ensure_buildable(&self) -> Result<()> {
        if self.by == PromotionMeans::Build {
            ensure!(
                self.targets.is_none(),
                "`--by build` and `--targets`: a build has all targets of its artifacts"
            );
            ensure!(
                !self.what.is_flag("reuse"),
                "`--by build` and `--reuse`: the build is a proof, so it packs everything"
            );
            return Ok(());
        }
        let of_build = BuildInputs::augment_args(clap::Command::default());
        let ids = of_build.get_arguments().map(|it| it.get_id().as_str());
        // A promotion has jobs too, and compares the version with its own.
        let mut ids = ids.filter(|id| !["jobs", "version"].contains(id));
        let flag = ids.find(|id| self.what.is_flag(id));
        let flag = flag.map(|id| anyhow!("`--{}` without `--by build`", id.replace('_', "-")));
        flag.map_or(Ok(()), Err)
            .hint("no package is built; leave the flag out, or add `--by build`")
    }

    /// Fails if `--version` says another version than the one that the set gets.
    pub(super) fn ensure_version(&self, to: &Version) -> Result<()> {
        match self.what.version.clone().flatten() {
            Some(other) if other != *to => {
                Err(anyhow!("`--version {other}`, and the set becomes {to}"))
                    .hint("leave out `--version`; `--to` says what the set becomes")
            }
            _ => Ok(()),
        }
    }

    /// With `--by build`, compares the promoted packages with those of a build.
    pub(super) fn rebuild(
        &self,
        set: &CandidateSet,
        (plan, record): (&PromotionPlan, &PromotionRecord),
        staged: &Path,
        world: &World,
    ) -> Result<()> {
        let Some(artifacts) = self.rebuilt_from() else {
            return Ok(());
        };
        let platform = set.identity.platform.unwrap_or(Platform::Linux);
        let options = self.what.options(platform, None)?;
        promote::ensure_rebuilt((plan, record), artifacts, options, staged, world)
    }

    /// Fails before anything is done if the set cannot be yanked where it is.
    pub(super) fn ensure_yankable(&self, world: &World) -> Result<()> {
        let Some(reason) = &self.yank_source else {
            return Ok(());
        };
        YankList::ensure_plain(reason)?;
        ensure!(
            self.to != PromotionGoal::Same,
            "`--yank-source` and `--to same`: nothing replaces the packages"
        );
        let place = self.source(world)?;
        place.urls()?;
        let document = place.set_json();
        document.context("failed to find the index to yank in")?;
        Ok(())
    }

    /// Yanks what was tested, now that it is replaced.
    pub(super) fn yank(&self, set: &CandidateSet, world: &World) -> Result<()> {
        let Some(reason) = &self.yank_source else {
            return Ok(());
        };
        let place = self.source(world)?;
        let (files, names) = (place.set_json()?.files, set.replaced());
        let options = IndexOptions {
            directories: PackageDirectories::All,
            without: BTreeSet::new(),
            yank: Some(YankList::adding(&files, &names, reason)),
            is_dry_run: false,
            is_from_bytes: false,
            jobs: self.what.jobs.count(),
        };
        set::index(&place, &options, world)?;
        let count = many(names.len(), "file");
        world
            .console
            .status("Yanked", format!("{count} of {place}"));
        Ok(())
    }
}
