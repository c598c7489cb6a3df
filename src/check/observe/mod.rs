//! Reads packages once, from their bytes to facts. A package that cannot be read is a fact too.

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

/// Who is told how far reading is, and who may end it.
pub struct ObserveProgress<'a> {
    pub stop: &'a Stop,
    /// Takes numbers of bytes of the package as they are done.
    pub progress: &'a (dyn Fn(u64) + Sync),
}
