//! The targets of a set, from its device wheels or from the device code inside fat libraries.

use std::collections::BTreeSet;

use crate::{
    check::facts::{Carried, HostCode, MemberFacts, NAMES, SetFacts, WheelFile},
    kpack::{CodeTarget, loader::wanted},
    target::{Target, TargetTable},
};

/// SPIR-V, which is compiled for a device when it is loaded.
const LATER: &str = "amdgcnspirv";

/// A library that contains its device code.
pub(super) struct FatLibrary<'a> {
    pub(super) wheel: &'a WheelFile,
    pub(super) member: &'a MemberFacts,
    pub(super) carried: &'a Carried,
}

/// The fat libraries in host wheels.
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

/// The targets of the device wheels. Without device wheels, the targets of the families in the
/// names of packages, and of the code in fat libraries.
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

/// Whether it is a legacy set: no device wheels, and libraries for families.
pub(super) fn is_legacy(set: &SetFacts) -> bool {
    let mut projects = set.wheels.iter().filter_map(|it| it.project());
    set.device_wheels().is_empty() && projects.any(|it| it.starts_with(&NAMES.of_family))
}

/// The targets of the family in the name of a package.
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

/// Whether some of the code runs on a target with XNACK off.
pub(super) fn serves(carried: &Carried, target: &Target) -> bool {
    let accepted = accepted(target);
    let mut targets = carried.targets();
    targets.any(|it| it.runs_with_xnack_off() && accepted.contains(&it.base()))
}

/// The targets whose code in a library runs on `target` without features.
pub(super) fn accepted(target: &Target) -> BTreeSet<CodeTarget> {
    found_for(target).into_iter().chain(LATER.parse()).collect()
}

/// The targets whose code in an archive the runtime uses for `target`.
pub(super) fn found_for(target: &Target) -> BTreeSet<CodeTarget> {
    let device = target.base().as_str().parse::<CodeTarget>();
    let device = device.map(|device| wanted(&device)).unwrap_or_default();
    device.into_iter().collect()
}

/// Whether a set has any code for a target.
pub(super) fn covers(set: &SetFacts, target: &Target) -> bool {
    set.device_wheels().contains_key(target) || fat(set).iter().any(|it| serves(it.carried, target))
}
