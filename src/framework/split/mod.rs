//! `framework split`: takes the device code out of a wheel, so that users install that of their GPU
//! only. The result is a host wheel, which works for every GPU, and a device wheel for each target.
//!
//! [`observe`](SplitInput::read) finds the device code of all binaries, [`decide`] says which archive
//! gets what and how the metadata change, and [`SplitWriter`] writes archives and wheels. Before anything is
//! published, the model of the runtime is asked for each wrapper and each kind of device, and has to
//! find the code that the wheel had.
//!
//! The archives are in `.kpack` below the import package of their binaries, because several wheels
//! install into one `site-packages`: each device wheel adds files to a directory that the host wheel
//! has. Names and markers follow the rules of [`kpack::split`](crate::kpack::split).

mod decide;
mod observe;
mod placement;
mod plan;
mod same;
mod write;

use std::collections::BTreeSet;

use super::tie::VersionSuffix;
use crate::{target::Target, wheel::DistName};

pub use self::{
    decide::{ToSplit, decide},
    observe::SplitInput,
    plan::SplitWheelPlan,
    write::{SplitWheels, SplitWriter, work},
};

/// How to split.
#[derive(Clone, Debug, Default)]
pub struct WheelSplitOptions {
    /// The beginning of the names of device wheels. `None`: as policy says.
    pub prefix: Option<DistName>,
    /// The targets that get a device wheel. `None`: all that have code.
    pub targets: Option<BTreeSet<Target>>,
    /// Whether there is an sdist that selects the device wheel of a machine's GPU.
    pub selector: bool,
    /// What happens to the version: the two forms of a wheel must not meet in one index.
    pub suffix: VersionSuffix,
}
