//! How the kernel and the runtime name targets: by numbers, by versions of the hardware, by code
//! names, and by generic targets.

use std::collections::BTreeMap;

use crate::target::{Target, TargetTable, table::Patterns};

impl Target {
    /// The target of a `gfx_target_version` of the kernel: `gfx90a` for 90010. `None` for 0, which a
    /// CPU has.
    pub fn of_kernel_version(version: u32) -> Option<Self> {
        let major = version / 10_000;
        let minor = version / 100 % 100;
        let step = version % 100;
        (major > 0).then(|| Self(format!("gfx{major}{minor:x}{step:x}").into()))
    }
}

impl TargetTable {
    /// Whether this is a generic target of the runtime.
    pub fn is_generic(&self, name: &str) -> bool {
        self.generics.contains_key(name)
    }

    /// Each version of a graphics core with its target.
    pub fn ip(&self) -> impl Iterator<Item = (&str, &Target)> {
        pairs(&self.ip)
    }

    /// Each code name of the kernel with its target.
    pub fn code_names(&self) -> impl Iterator<Item = (&str, &Target)> {
        pairs(&self.code_names)
    }
}

/// Each name with its target.
fn pairs(names: &BTreeMap<Target, Vec<String>>) -> impl Iterator<Item = (&str, &Target)> {
    let of_targets = names.iter();
    of_targets.flat_map(|(target, names)| names.iter().map(move |name| (&**name, target)))
}

/// The generic target for which the runtime looks after a processor's own target.
pub fn generic(processor: &str) -> Option<&'static str> {
    let generics: &'static Patterns = &TargetTable::builtin().generics;
    let row = generics.iter().find(|(_, patterns)| fits(patterns, processor));
    row.map(|(generic, _)| &**generic)
}

/// Whether one of the patterns is for a processor.
pub(super) fn fits(patterns: &[String], processor: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('?') {
        Some(begin) => processor.len() == pattern.len() && processor.starts_with(begin),
        None => processor == pattern,
    })
}

#[cfg(test)]
mod tests {
    use itertools::Itertools as _;

    use super::*;

    /// The number that the kernel has for a target.
    fn kernel_version(target: &Target) -> u32 {
        let digits = target.as_str().strip_prefix("gfx").unwrap();
        let (rest, step) = digits.split_at(digits.len() - 1);
        let (major, minor) = rest.split_at(rest.len() - 1);
        let number = |text, radix| u32::from_str_radix(text, radix).unwrap();
        number(major, 10) * 10_000 + number(minor, 16) * 100 + number(step, 16)
    }

    #[test]
    fn every_target_is_that_of_its_number() {
        let known: Vec<&Target> = TargetTable::builtin().known().collect();
        assert_eq!(known.len(), 29);
        for target in known {
            let version = kernel_version(target);
            assert_eq!(Target::of_kernel_version(version).as_ref(), Some(target));
        }
        let of = |version| Target::of_kernel_version(version).map(|it| it.to_string());
        assert_eq!(kernel_version(&"gfx90a".parse().unwrap()), 90_010);
        // Early steppings of MI300, for which there are no packages.
        assert_eq!(of(90_401).as_deref(), Some("gfx941"));
        assert_eq!(of(0), None);
    }

    #[test]
    fn the_version_of_the_hardware_is_not_that_of_its_instructions() {
        let table = TargetTable::builtin();
        let computed = |ip: &str| {
            let numbers: Vec<u32> = ip.split('.').map(|it| it.parse().unwrap()).collect();
            format!("gfx{}{:x}{:x}", numbers[0], numbers[1], numbers[2])
        };
        let different = table.ip().filter(|(ip, target)| computed(ip) != target.as_str());
        let different = different.map(|(ip, target)| format!("{ip} {target}"));
        insta::assert_snapshot!(different.sorted().join("\n"));
        assert!(table.ip().map(|(ip, _)| ip).all_unique());
    }

    #[test]
    fn code_names_are_told_apart() {
        let table = TargetTable::builtin();
        assert!(table.code_names().map(|(name, _)| name).all_unique());
    }

    #[test]
    fn a_processor_has_at_most_one_generic_target() {
        for (processor, expected) in [
            ("gfx900", Some("gfx9-generic")),
            ("gfx908", None),
            ("gfx942", Some("gfx9-4-generic")),
            ("gfx1036", Some("gfx10-3-generic")),
            ("gfx103", None),
            ("gfx1151", Some("gfx11-generic")),
        ] {
            assert_eq!(generic(processor), expected, "{processor}");
        }
        let table = TargetTable::builtin();
        for target in table.known() {
            let fitting = table.generics.values();
            let fitting = fitting.filter(|it| fits(it, target.as_str()));
            assert!(fitting.count() <= 1, "{target}");
        }
    }
}
