//! The targets of a set, wherever its device code is: in device wheels, or still in its libraries.

use std::collections::BTreeSet;

use crate::{
    check::facts::{Carried, HostCode, MemberFacts, NAMES, SetFacts, WheelFile},
    kpack::{CodeTarget, loader::wanted},
    target::{Target, TargetTable},
};

/// Code that is compiled for a device when it is loaded.
const LATER: &str = "amdgcnspirv";

/// A library with its device code in it.
pub(super) struct FatLibrary<'a> {
    pub(super) wheel: &'a WheelFile,
    pub(super) member: &'a MemberFacts,
    pub(super) carried: &'a Carried,
}

/// The libraries of packages that everybody installs which still have their device code in them.
pub(super) fn fat(set: &SetFacts) -> Vec<FatLibrary<'_>> {
    let contents = set.contents();
    let found = contents.filter_map(|(wheel, member, content)| match content.host_code()? {
        HostCode::Fat(carried) if wheel.device_target().is_none() => Some(FatLibrary {
            wheel,
            member,
            carried,
        }),
        _ => None,
    });
    found.collect()
}

/// What device wheels are for; where there are none, what packages are called for, or have in them.
pub(super) fn targets(set: &SetFacts) -> BTreeSet<Target> {
    let devices = set.device_wheels();
    if !devices.is_empty() {
        return devices.into_keys().collect();
    }
    let mut found: BTreeSet<Target> = set.wheels.iter().flat_map(|it| promised(it)).collect();
    for fat in fat(set) {
        let bases = fat.carried.targets().map(CodeTarget::base);
        found.extend(bases.filter_map(|it| it.target()));
    }
    found
}

/// Whether it is a set from before the split: no device wheels, and libraries for families.
pub(super) fn is_legacy(set: &SetFacts) -> bool {
    let mut projects = set.wheels.iter().filter_map(|it| it.project());
    set.device_wheels().is_empty() && projects.any(|it| it.starts_with(&NAMES.of_family))
}

/// The targets of the family that a package is called for.
pub(super) fn promised(wheel: &WheelFile) -> Vec<Target> {
    let table = TargetTable::builtin();
    let family = wheel
        .project()
        .and_then(|name| name.strip_prefix(&NAMES.of_family));
    let family = family.and_then(|own| {
        let mut families = table.families();
        families.find(|it| it.as_str().eq_ignore_ascii_case(own))
    });
    let targets = family.map(|family| table.targets(family).cloned().collect());
    targets.unwrap_or_default()
}

/// Whether any of the code runs on a target with XNACK off.
pub(super) fn serves(carried: &Carried, target: &Target) -> bool {
    let accepted = accepted(target);
    let mut targets = carried.targets();
    targets.any(|it| it.runs_with_xnack_off() && accepted.contains(&it.base()))
}

/// What code in a library may be for to run on a target, without features.
pub(super) fn accepted(target: &Target) -> BTreeSet<CodeTarget> {
    found_for(target).into_iter().chain(LATER.parse()).collect()
}

/// What code in an archive may be for.
pub(super) fn found_for(target: &Target) -> BTreeSet<CodeTarget> {
    let device = target.base().as_str().parse::<CodeTarget>();
    let device = device.map(|device| wanted(&device)).unwrap_or_default();
    device.into_iter().collect()
}

/// Whether a user of a target finds any code in a set.
pub(super) fn covers(set: &SetFacts, target: &Target) -> bool {
    set.device_wheels().contains_key(target) || fat(set).iter().any(|it| serves(it.carried, target))
}
