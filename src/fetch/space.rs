//! Checks the free disk space before a download. The size of the archives is known; the size of
//! their contents is an estimate.

use std::path::Path;

use super::output::OutputForm;
use crate::{
    atomic::space::free,
    console::{World, size},
    error::{Result, anyhow, hinted},
};

/// Unpacked artifacts of ROCm are three to five times as large as their archives.
const USUALLY: u64 = 4;

/// The result of the check.
#[derive(Debug, PartialEq, Eq)]
enum FetchSpace {
    Sufficiency,
    Doubtful,
    Lacking,
}

/// Fails if the archives alone do not fit. If only the estimate for their contents does not fit, it
/// is a warning, because the exact size is known only after unpacking.
pub(super) fn check(directory: &Path, kept: OutputForm, needed: u64, world: &World) -> Result<()> {
    // Some systems do not report the free space. Try then: a full disk fails later anyway.
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
