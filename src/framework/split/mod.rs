//! `framework split`: takes the device code out of a wheel, so that users install only the code for their
//! GPU. The result is a host wheel, which works for every GPU, and a device wheel for each target.
//!
//! [`observe`](ToSplit::read) finds the device code of all binaries, [`decide`] says which archive
//! gets what and how the metadata change, and [`SplitWriter`] writes archives and wheels. Before anything is
//! published, the model of the runtime is asked for each wrapper and each kind of device, and has to
//! find the code that the wheel had.
//!
//! The archives are in `.kpack` below the import package of their binaries, because several wheels
//! install into one `site-packages`: each device wheel adds files to a directory that the host wheel
//! has. Names and markers follow the rules of [`kpack::split`](rocwheel_kpack::split).

mod decide;
mod observe;
mod placement;
mod plan;
mod same;
mod write;

use super::tie::VersionSuffix;
use rocwheel_base::target::TargetPattern;
use rocwheel_wheel::DistName;

pub use self::{
    decide::decide,
    observe::ToSplit,
    plan::SplitWheelPlan,
    write::{SplitWheels, SplitWriter, work},
};

/// How to split.
#[derive(Clone, Debug, clap::Args)]
pub struct WheelSplitOptions {
    /// Beginning of the names of device wheels [default: amd-NAME-device, or what policy says]
    #[arg(long, value_name = "TEXT")]
    pub device_prefix: Option<DistName>,
    /// Families or targets that get a device wheel, comma-separated [default: all that have code]
    #[arg(long = "target", alias = "targets", value_name = "LIST", value_parser = TargetPattern::known)]
    pub targets: Option<TargetPattern>,
    /// Write no sdist that selects the device wheel for the GPU of the machine that installs it, and
    /// no extra `device` that asks for it
    #[arg(long)]
    pub no_selector: bool,
    /// What happens to the version: the two forms of a wheel must not meet in one index.
    #[arg(skip)]
    pub suffix: VersionSuffix,
}
