//! Reads the packages of sets, also those of others in them, such as torch.

use std::num::NonZeroUsize;

use super::closure::SetPackage;
use crate::{
    console::World,
    error::{Context as _, Hint as _, Result},
    parallel,
    set::{OfferedFile, SetPlace},
};

/// The packages of a set, and what they need.
pub fn packages_of(place: &SetPlace, jobs: NonZeroUsize, world: &World) -> Result<Vec<SetPackage>> {
    let offered = place.offered()?;
    let offered = offered
        .with_context(|| format!("no packages in `{place}`"))
        .hint("pass the directory of a set, or the address that `upload` printed")?;
    let read = |file: &OfferedFile| -> Result<SetPackage> {
        let metadata = place.metadata_of(file)?;
        Ok(SetPackage {
            name: file.name.parse()?,
            requires_python: metadata.requires_python,
            requires: metadata.requires_dist,
        })
    };
    parallel::try_map(&offered.files, jobs, &world.stop, read)
}
