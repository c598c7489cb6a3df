//! Every name that stands for targets, and the projects that are not built for some of them.

use std::collections::BTreeSet;

use itertools::Itertools as _;

use crate::target::{
    Family, Scope, Target, TargetPattern, TargetTable, UnknownFamilies, isa::fits,
    table::PartialProject,
};

/// Stands for every target.
const ALL: &str = "all";
/// Ends the name of a target that has a package in common with the one without it.
const STRICT: &str = "-strict";

impl TargetTable {
    /// The targets that patterns stand for, in order of first mention, each once. Fails if the table does not know
    /// a name.
    pub fn select(&self, patterns: &[TargetPattern]) -> Result<Vec<Target>, UnknownFamilies> {
        self.select_by(patterns, |_| None)
    }

    /// The same, and a target that the table does not know stands for itself: a newer ROCm has more.
    pub fn select_with_newer(
        &self,
        patterns: &[TargetPattern],
    ) -> Result<Vec<Target>, UnknownFamilies> {
        self.select_by(patterns, |name| name.parse().ok())
    }

    fn select_by(
        &self,
        patterns: &[TargetPattern],
        newer: impl Fn(&str) -> Option<Target>,
    ) -> Result<Vec<Target>, UnknownFamilies> {
        let mut targets = Vec::new();
        let mut unknown = Vec::new();
        for name in patterns.iter().flat_map(TargetPattern::names) {
            let known = self.targets_named(name);
            match newer(name) {
                Some(target) if known.is_empty() => targets.push(target),
                None if known.is_empty() => unknown.push(name.to_owned()),
                _ => targets.extend(known),
            }
        }
        if unknown.is_empty() {
            Ok(targets.into_iter().unique().collect())
        } else {
            Err(self.unknown(unknown))
        }
    }

    /// The scopes of the artifacts that are built for a name: the family and its targets, without features. Empty
    /// if the name is unknown.
    pub fn scopes_named(&self, name: &str) -> BTreeSet<Scope> {
        let family = self.family_named(name).cloned().map(Scope::Family);
        let targets = self.targets_named(name).into_iter();
        targets.map(|target| Scope::Target(target.packaged())).chain(family).collect()
    }

    /// Whether a name is for a sub-family or a generation (`gfx11`), which looks like a target.
    pub fn is_sub_family(&self, name: &str) -> bool {
        self.sub_families.contains_key(name)
    }

    /// The targets that a name of any kind stands for. Upper and lower case are equal, and so are `-`, `_` and `.`.
    /// Empty if the name is unknown.
    pub fn targets_named(&self, name: &str) -> Vec<Target> {
        if let Some(family) = self.family_named(name) {
            return self.targets(family).cloned().collect();
        }
        let name = folded(name);
        if name == ALL {
            return self.known().cloned().collect();
        }
        let mut groups = self.sub_families.iter().chain(&self.generics);
        if let Some((_, patterns)) = groups.find(|(group, _)| ***group == *name) {
            let known = self.known().filter(|it| fits(patterns, it.as_str()));
            return known.cloned().collect();
        }
        match name.parse::<Target>() {
            Ok(target) if self.product(&target.packaged()).is_some() => vec![target],
            _ => Vec::new(),
        }
    }

    /// What a name is that stands for code for every GPU, as `amdgcnspirv` does.
    pub fn code_for_every_gpu(&self, name: &str) -> Option<&str> {
        self.code_for_every_gpu.get(&*folded(name)).map(AsRef::as_ref)
    }

    fn family_named(&self, name: &str) -> Option<&Family> {
        let name = folded(name);
        self.families().find(|family| folded(family.as_str()) == name)
    }

    /// The families that TheRock's CI builds for these targets. A target that stands alone is named
    /// itself.
    pub fn ci_families(&self, targets: &[Target]) -> Vec<String> {
        let is_asked = |target: &Target| targets.iter().any(|it| it.packaged() == *target);
        let family_of = |target: &Target| {
            let base = target.packaged();
            let mut built = self.ci.iter().map(|it| self.targets_named(&it.family));
            let whole = built.position(|it| it.contains(&base) && it.iter().all(is_asked));
            whole.map_or_else(|| base.to_string(), |at| self.ci[at].family.clone())
        };
        targets.iter().map(family_of).unique().collect()
    }

    /// Whether a library with device code is built for a target.
    pub fn has_library(&self, library: &str, target: &Target) -> bool {
        let is_its =
            |partial: &PartialProject| partial.libraries.iter().any(|it| library.contains(it));
        let mut partial = self.not_built.values();
        partial.all(|partial| !is_its(partial) || self.is_built(partial, target))
    }

    fn is_built(&self, partial: &PartialProject, target: &Target) -> bool {
        let base = target.packaged();
        let mut targets = partial.targets.iter().flat_map(|it| self.targets_named(it));
        !targets.any(|it| it == base)
    }
}

impl Target {
    /// The target whose device package has the code of this one: `gfx942` for `gfx942:xnack+`,
    /// `gfx1250` for `gfx1250-strict`.
    #[must_use]
    pub fn packaged(&self) -> Self {
        let base = self.base();
        let plain = base.0.strip_suffix(STRICT);
        plain.map_or_else(|| base.clone(), |plain| Self(plain.into()))
    }

    /// The extra of `rocm` that installs the device package of this target.
    pub fn extra(&self) -> String {
        format!("device-{}", self.packaged())
    }
}

/// A name by which it is compared: in lower case, and with `-` for `_` and `.`.
fn folded(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace(['_', '.'], "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(names: &str) -> String {
        match TargetTable::builtin().select(&[names.parse().unwrap()]) {
            Ok(targets) => targets.iter().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn names_of_every_kind_stand_for_targets() {
        let names = [
            "gfx94x-DCGPU",
            "GFX942:xnack+",
            "gfx9-0",
            "gfx12_0",
            "gfx110x",
            "gfx12.5",
            "gfx11",
            "gfx9-generic",
            "gfx9-4-generic",
            "gfx1250-strict",
            "gfx90a:sramecc+:xnack-",
            "gfx941",
            "gfx1154",
            "gfx13-0",
            "amdgcnspirv",
            "GPU_generic,gfx13-0",
        ];
        let lines = names.map(|name| format!("{name}: {}", select(name)));
        insta::assert_snapshot!(lines.join("\n"), @"
        gfx94x-DCGPU: gfx942
        GFX942:xnack+: gfx942:xnack+
        gfx9-0: gfx900 gfx90c gfx906 gfx908 gfx90a
        gfx12_0: gfx1200 gfx1201
        gfx110x: gfx1100 gfx1101 gfx1102 gfx1103
        gfx12.5: gfx1250
        gfx11: gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 gfx1170
        gfx9-generic: gfx900 gfx90c gfx906
        gfx9-4-generic: gfx942 gfx950
        gfx1250-strict: gfx1250-strict
        gfx90a:sramecc+:xnack-: gfx90a:sramecc+:xnack-
        gfx941: unknown GPU target or family: `gfx941`
        gfx1154: unknown GPU target or family: `gfx1154`
        gfx13-0: unknown GPU target or family: `gfx13-0`
        amdgcnspirv: `amdgcnspirv` is not a GPU target, but SPIR-V, which the runtime compiles for the GPU of the machine
        GPU_generic,gfx13-0: unknown GPU target or family: `gfx13-0`; `GPU_generic` is not a GPU target, but the family of `amdgcnspirv`, which is SPIR-V for every GPU
        ");
        assert_eq!(select("gfx1201,gfx12-0,gfx1201"), "gfx1201 gfx1200");
        assert_eq!(select("ALL").split(' ').count(), 29);
    }

    #[test]
    fn a_newer_target_stands_for_itself_where_that_is_asked() {
        let newer = |names: &str| {
            let targets = TargetTable::builtin().select_with_newer(&[names.parse().unwrap()]);
            targets.map(|targets| targets.iter().join(" ")).map_err(|error| error.to_string())
        };
        assert_eq!(newer("gfx1300:xnack+,gfx94x-dcgpu").unwrap(), "gfx1300:xnack+ gfx942");
        assert_eq!(newer("gfx130X-all").unwrap_err(), select("gfx130X-all"));
    }

    #[test]
    fn the_artifacts_for_a_name_are_those_of_the_family_and_of_its_targets() {
        let scopes = |name: &str| TargetTable::builtin().scopes_named(name).iter().join(" ");
        assert_eq!(scopes("gfx94x-dcgpu"), "gfx942 gfx94X-dcgpu");
        assert_eq!(scopes("gfx950:xnack+"), "gfx950");
        assert_eq!(scopes("gfx9999"), "");
    }

    #[test]
    fn whole_families_of_ci_are_named_and_parts_of_them_are_not() {
        let table = TargetTable::builtin();
        let families = |names: &str| {
            table.ci_families(&table.select(&[names.parse().unwrap()]).unwrap()).join(" ")
        };
        assert_eq!(families("gfx110X-all,gfx942:xnack+"), "gfx110X-all gfx94X-dcgpu");
        assert_eq!(families("gfx1100,gfx1151"), "gfx1100 gfx1151");
        insta::assert_snapshot!(families("all"), @"gfx900 gfx90c gfx906 gfx908 gfx90a gfx94X-dcgpu gfx950-dcgpu gfx101X-dgpu gfx103X-all gfx110X-all gfx1150 gfx1151 gfx1152 gfx1153 gfx1170 gfx120X-all gfx125X-dcgpu");
    }

    #[test]
    fn a_project_is_not_built_for_some_targets() {
        let table = TargetTable::builtin();
        let lines = table.not_built.iter().map(|(project, partial)| {
            let mut without = table.known().filter(|it| !table.is_built(partial, it));
            format!("{project}: {}", without.join(" "))
        });
        let lines: Vec<String> = lines.collect();
        insta::assert_snapshot!(lines.join("\n"));
        assert!(!table.has_library("libhipblaslt.so.1", &"gfx1030".parse().unwrap()));
        assert!(table.has_library("librocblas.so.5", &"gfx900".parse().unwrap()));
    }
}
