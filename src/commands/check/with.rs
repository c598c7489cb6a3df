//! `check --with`: wheels of frameworks beside the set.

use std::path::PathBuf;

use super::CheckArgs;
use crate::{
    check::{Finding, SetFacts},
    console::World,
    framework::{FrameworkCheck, FrameworkWheel, Frameworks, Providers, RocmLibraries},
    index,
    place::{self, PlaceDepth, SetPlace},
};
use rocwheel_base::{error::Result, version::Version};
use rocwheel_wheel::DistName;

/// Wheels of frameworks that are installed with the set.
#[derive(Debug, clap::Args)]
pub(super) struct WithArgs {
    /// Wheels of frameworks that are installed with the set: see docs/framework.md
    #[arg(long, value_name = "WHEEL", num_args = 1..)]
    with: Vec<PathBuf>,
}

impl WithArgs {
    pub(super) fn is_empty(&self) -> bool {
        self.with.is_empty()
    }

    pub(super) fn findings(
        &self,
        set: &SetFacts,
        check: &CheckArgs,
        world: &World,
    ) -> Result<Vec<Finding>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let published = match &check.baseline {
            Some(place) => packages(&check.access.place(place, &world.stop)?)?,
            None => Vec::new(),
        };
        let policy = Frameworks::builtin();
        let wheels = FrameworkWheel::read_all(&self.with, check.jobs.count(), world)?;
        let rocm = RocmLibraries::of(set, policy)?;
        let providers = Providers::new(&wheels, Some(&rocm), policy, &[]);
        let check = FrameworkCheck {
            wheels: &wheels,
            providers: &providers,
            rocm: &rocm,
            set,
            published: &published,
        };
        check.findings()
    }
}

/// The names and versions of all packages of a set, also of those that are not ours.
fn packages(place: &SetPlace) -> Result<Vec<(DistName, Version)>> {
    let found = place::find(place, PlaceDepth::Pages)?;
    let packages = found.packages.iter();
    Ok(packages.filter_map(|it| index::identity(&it.name)).collect())
}
