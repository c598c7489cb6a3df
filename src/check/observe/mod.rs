//! Reads each package once, and turns its bytes into the types of `facts`. A damaged package is not
//! an error: what is wrong with it is a fact too, and a rule reports it.

mod code;
mod content;
mod devel;
mod directory;
mod host_code;
mod portion;
mod sdist;
mod source;
mod wheel;

pub use sdist::read_sdist;
pub use source::PackageReader;
pub use wheel::{Outline, Portion, PortionFacts, read_wheel};

use crate::error::Stop;

/// Progress display and interruption while packages are read.
pub struct ObserveProgress<'a> {
    pub stop: &'a Stop,
    /// Called with the number of bytes of the package that were read since the last call.
    pub progress: &'a (dyn Fn(u64) + Sync),
}
