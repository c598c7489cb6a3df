//! `Demands`: what a set has to satisfy beyond what always holds.

use crate::{loader::Dotted, target::Target, wheel::DistName};

#[derive(Clone, Debug)]
pub struct Demands {
    /// What must be covered, with or without features.
    pub targets: Vec<Target>,
    /// The newest glibc that may be needed.
    pub glibc: Dotted,
    /// By how many hundredths a package may be larger than that of the baseline.
    pub growth: u64,
    /// How many files of the baseline a package may lack.
    pub gone: usize,
    /// Projects that packages may require besides ours.
    pub base: Vec<DistName>,
    /// Where wheels for Windows are installed.
    pub windows_prefix: String,
}
