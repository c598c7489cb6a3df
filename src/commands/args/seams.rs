//! What tests and benches put in place of the world. CONTRIBUTING.md names these variables, and no page for
//! users does.

use std::{
    env,
    path::{Path, PathBuf},
};

/// A directory with the `sys` and `dev` of another machine.
const MACHINE: &str = "ROCWHEEL_TEST_MACHINE";
/// A file in place of `packages.toml`.
const PACKAGES: &str = "ROCWHEEL_TEST_PACKAGES";

/// The directory of the kernel's files about devices, `/sys`.
pub(crate) fn sysfs() -> PathBuf {
    machine().join("sys")
}

/// The directory of devices, `/dev`.
pub(crate) fn dev() -> PathBuf {
    machine().join("dev")
}

fn machine() -> PathBuf {
    variable(MACHINE).unwrap_or_else(|| Path::new("/").to_owned())
}

pub(crate) fn packages() -> Option<PathBuf> {
    variable(PACKAGES)
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}
