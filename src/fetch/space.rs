//! Whether there is room, as far as that is known beforehand.

use std::path::Path;

use super::output::OutputForm;
use crate::{
    atomic::space::free,
    console::{World, size},
    error::{Result, anyhow, hinted},
};

/// Artifacts of ROCm take three to five times what their archives do.
const USUALLY: u64 = 4;

/// What the comparison comes to.
#[derive(Debug, PartialEq, Eq)]
enum FetchSpace {
    Sufficiency,
    Doubtful,
    Lacking,
}

/// An error where not even the archives would fit; how large they are unpacked nobody knows.
pub(super) fn check(directory: &Path, kept: OutputForm, needed: u64, world: &World) -> Result<()> {
    // Where the system does not say, the attempt will.
    let Some(free) = free(directory) else {
        return Ok(());
    };
    let place = directory.display();
    let (needs, has) = (size(needed), size(free));
    match room(kept, needed, free) {
        FetchSpace::Sufficiency => Ok(()),
        FetchSpace::Doubtful => {
            world.console.warn(format!("`{place}` may be too small: needs {needs} for the archives and several times as much unpacked, has {has}"));
            Ok(())
        }
        FetchSpace::Lacking => {
            let more = match kept {
                OutputForm::Packed => "",
                OutputForm::Unpacked | OutputForm::Merged => " for the archives and more unpacked",
            };
            let error = anyhow!("not enough space for `{place}`: needs {needs}{more}, has {has}");
            Err(hinted(
                error,
                "choose another `--output-dir`, or fetch less",
            ))
        }
    }
}

fn room(kept: OutputForm, needed: u64, free: u64) -> FetchSpace {
    let likely = match kept {
        OutputForm::Packed => needed,
        OutputForm::Unpacked | OutputForm::Merged => needed.saturating_mul(USUALLY),
    };
    if needed > free {
        FetchSpace::Lacking
    } else if likely > free {
        FetchSpace::Doubtful
    } else {
        FetchSpace::Sufficiency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_must_fit_and_what_is_in_them_should() {
        let rooms = [99, 100, 399, 400].map(|free| room(OutputForm::Unpacked, 100, free));
        assert_eq!(
            rooms,
            [
                FetchSpace::Lacking,
                FetchSpace::Doubtful,
                FetchSpace::Doubtful,
                FetchSpace::Sufficiency
            ]
        );
        assert_eq!(room(OutputForm::Packed, 100, 100), FetchSpace::Sufficiency);
        assert_eq!(room(OutputForm::Merged, 0, 0), FetchSpace::Sufficiency);
    }
}
