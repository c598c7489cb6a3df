//! The targets of device packages, by the names of the packages.

use itertools::Itertools as _;

use crate::{package::DistNames, target::Target};

/// The target of a device package, by its normalized name.
pub(super) fn device_target(project: &str) -> Option<Target> {
    DistNames::built_in().device_target(&project.parse().ok()?)
}

/// The targets that have a device package, sorted.
pub(super) fn device_targets<'a>(projects: impl Iterator<Item = &'a str>) -> Vec<Target> {
    sorted_targets(projects.filter_map(device_target))
}

/// Targets by number, as people expect, each once: gfx942 before gfx1100.
pub(super) fn sorted_targets(targets: impl Iterator<Item = Target>) -> Vec<Target> {
    let by_number = |it: &Target| (it.base().as_str().len(), it.clone());
    targets.sorted_by_key(by_number).dedup().collect()
}
