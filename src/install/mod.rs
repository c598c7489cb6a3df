//! Installs packages of a set into a virtual environment, or an SDK tree into a directory (`sdk`).
//!
//! Three beats. *Observe*: the caller reads what a source offers ([`OfferedSet`]) and asks the
//! interpreter and the installer what they are. *Decide*: `select` chooses version, targets, extras
//! and pins, and [`plan`] makes an [`InstallPlan`] of them, which prints itself. *Act*: `act` runs uv
//! or pip, and `environment` puts an environment back if that fails.
//!
//! [`OfferedSet`]: crate::set::OfferedSet

mod act;
mod environment;
mod installer;
mod lockfile;
mod plan;
mod process;
mod programs;
mod python;
mod sdk;
mod select;
#[cfg(test)]
mod tests;

pub use self::{
    act::{InstallReport, begin, test},
    environment::{EnvironmentAction, EnvironmentState, VirtualEnvironment},
    installer::{Installer, InstallerWish},
    lockfile::HashLock,
    plan::{InstallFacts, InstallPlan, action, complete, plan, plan_locked},
    programs::{AskedPrograms, ChosenPython},
    python::Python,
    sdk::{RemoteTarball, SdkDirectory, SdkReport, SdkWish, TarballPlan, TarballWish},
    select::{RocmSelection, TargetWish, lacks, pins, select, versions, versions_of},
};

use crate::{
    run::Platform,
    version::{ReleaseStream, Version},
};

/// What the user asks for.
#[derive(Clone, Debug)]
pub struct InstallRequest {
    /// `None` for the newest.
    pub version: Option<Version>,
    /// The only versions that are considered. A place may have those of several streams.
    pub stream: Option<ReleaseStream>,
    pub targets: TargetWish,
    /// `None` for the usual ones.
    pub extras: Option<Vec<String>>,
    /// Requirements besides `rocm`: `torch>=2.10`.
    pub packages: Vec<String>,
    /// The index with all other packages.
    pub dependencies: Option<String>,
    pub platform: Platform,
    /// Whether an existing environment is replaced.
    pub recreate: bool,
}
