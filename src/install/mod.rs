//! Installs packages of a set into a virtual environment, and says what is wrong with an installed one.
//!
//! *Observe*: the caller reads what a source offers ([`OfferedSet`]), what the environment has, and
//! asks the interpreter what it is. *Decide*: `select` chooses version, targets, extras and pins, and
//! [`plan`] makes a [`Plan`] of them, which prints itself. *Act*: `act` runs uv or pip once with a file
//! that has the digest of every package; only if the user asks for packages of others, it first asks
//! the same program which ones they need.
//!
//! [`OfferedSet`]: crate::place::OfferedSet

mod act;
mod diagnosis;
mod emit;
mod environment;
mod installed_package;
mod installer;
mod into;
mod origin;
mod overwritten;
mod plan;
mod requirements;
mod runtime;
mod select;
mod site_packages;
#[cfg(test)]
mod tests;

pub use self::{
    diagnosis::{broken, diagnose, ensure_no_other_rocm},
    emit::Emit,
    environment::{Action, Environment},
    installed_package::ReadDepth,
    installer::{Installer, InstallerSearch, command, ensure_pip, ensure_python, run},
    into::plan_into,
    origin::InstallOrigin,
    plan::{Facts, Plan, plan},
    runtime::{RuntimeFacts, RuntimeVariables},
    select::{
        RocmSelection, TargetWish, chosen_family, ensure_has_all, file_of, files_of, lacks,
        needed_by, pins, select, versions, versions_of,
    },
    site_packages::{SitePackages, metadata},
};

use crate::run::Platform;
use rocwheel_base::version::{ReleaseStream, Version};
use rocwheel_wheel::Requirement;

/// What the user asks for.
#[derive(Clone, Debug)]
pub struct Request {
    /// `None` for the newest.
    pub version: Option<Version>,
    /// The only versions that are considered. A place may have those of several streams.
    pub stream: Option<ReleaseStream>,
    pub targets: TargetWish,
    /// `None` for the usual ones.
    pub extras: Option<Vec<String>>,
    /// Whether the usual extras bring the development files, if the set has them.
    pub usually_with_devel: bool,
    /// Requirements besides `rocm`: `torch>=2.10`.
    pub packages: Vec<Requirement>,
    /// The index with all other packages.
    pub dependencies: Option<String>,
    /// Whether the set is installed unchecked.
    pub no_check: bool,
    /// Whether packages are installed again that the environment has.
    pub reinstall: bool,
    pub platform: Platform,
}
