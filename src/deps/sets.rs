//! Reads the packages of sets, also those of others in them, such as torch.

use std::num::NonZeroUsize;

use itertools::Itertools as _;

use super::closure::SetPackage;
use crate::{
    console::World,
    error::{Hint as _, Result, anyhow},
    parallel,
    run::Platform,
    set::{OfferedFile, SetPlace},
};

/// The packages of a set, and what they need.
pub fn packages_of(place: &SetPlace, jobs: NonZeroUsize, world: &World) -> Result<Vec<SetPackage>> {
    let offered = Platform::ALL.map(|platform| place.offered(platform));
    let mut files = Vec::new();
    for offered in offered {
        files.extend(offered?.into_iter().flat_map(|it| it.files));
    }
    let files: Vec<OfferedFile> = files.into_iter().unique_by(|it| it.name.clone()).collect();
    if files.is_empty() {
        return Err(anyhow!("no packages in `{place}`"))
            .hint("pass the directory of a set, or the address that `upload` printed");
    }
    let read = |file: &OfferedFile| -> Result<SetPackage> {
        let metadata = place.metadata_of(file)?;
        Ok(SetPackage {
            name: file.name.parse()?,
            requires_python: metadata.requires_python,
            requires: metadata.requires_dist,
        })
    };
    parallel::try_map(&files, jobs, &world.stop, read)
}
