//! Decides which archive the code of each bundle of an artifact goes to.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    error::Result,
    kpack::{CodeTarget, Marker, code_target::is_generic},
    relpath::RelPath,
    target::Scope,
};

/// What a bundle has code for.
pub type TargetSet = BTreeSet<CodeTarget>;

/// The archives of an artifact, by the targets of the bundles that they are for.
///
/// Bundles for the same set of targets share archives, and others never do: so an archive holds
/// code for everything that is looked for in it, and a device that a bundle has nothing for finds
/// no archive, which the runtime passes over. There is one archive for each target without
/// features; variants such as `gfx90a:xnack+` lie in it beside each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archives {
    names: BTreeMap<TargetSet, String>,
}

/// A binary with device code, as it lies in an artifact.
#[derive(Clone, Debug)]
pub struct Binary {
    /// The directory of the artifact that is installed: `math-libs/BLAS/rocBLAS/stage`.
    pub prefix: RelPath,
    /// Its place below that.
    pub path: RelPath,
    /// What each bundle has code for.
    pub bundles: Vec<TargetSet>,
}

impl Archives {
    /// Names the archives of an artifact such as `blas_lib`: the set of targets that most bundles
    /// have gets the plain name, others a number.
    pub fn new(artifact: &str, binaries: &[Binary]) -> Self {
        let mut counts: BTreeMap<&TargetSet, usize> = BTreeMap::new();
        for set in binaries.iter().flat_map(|binary| &binary.bundles) {
            *counts.entry(set).or_default() += 1;
        }
        let mut sets: Vec<(&TargetSet, usize)> = counts.into_iter().collect();
        // The order is stable: sets of the same number stay in their own order.
        sets.sort_by_key(|(set, count)| (set.is_empty(), std::cmp::Reverse(*count)));
        let names = sets.iter().enumerate().map(|(number, (set, _))| {
            let name = match number {
                0 => artifact.to_owned(),
                _ => format!("{artifact}_{number}"),
            };
            ((*set).clone(), name)
        });
        Self {
            names: names.collect(),
        }
    }

    /// The name of the archives for a bundle, without the target.
    pub fn name(&self, set: &TargetSet) -> &str {
        self.names.get(set).map_or("", String::as_str)
    }

    /// How many kinds of bundles there are.
    pub fn count(&self) -> usize {
        self.names.len()
    }
}

impl Binary {
    /// What the keys of its code begin with.
    pub fn kernel_name(&self) -> String {
        self.prefix.join(&self.path).to_string()
    }

    /// The marker of each bundle.
    pub fn markers(&self, archives: &Archives) -> Vec<Marker> {
        let depth = self.path.depth().saturating_sub(1);
        let name = self.kernel_name();
        let bundles = self.bundles.iter();
        bundles
            .map(|set| Marker::new(depth, archives.name(set), &name))
            .collect()
    }
}

/// Whose artifact code for a target goes to; `None` for code that the runtime looks for in no
/// archive, such as SPIR-V.
///
/// Code for a generic target serves devices of many targets, and a user has the package of one. So
/// it goes where everybody has it.
pub fn home(target: &CodeTarget) -> Option<Scope> {
    let base = target.base();
    match base.target() {
        Some(target) => Some(Scope::Target(target)),
        None => is_generic(&base).then_some(Scope::Generic),
    }
}

/// The path of an archive in the directory that is installed.
pub fn archive_path(name: &str, target: &CodeTarget) -> Result<RelPath> {
    Ok(format!(".kpack/{name}_{}.kpack", target.base()).parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(targets: &[&str]) -> TargetSet {
        targets.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn binary(path: &str, bundles: &[&[&str]]) -> Binary {
        Binary {
            prefix: "math-libs/stage".parse().unwrap(),
            path: path.parse().unwrap(),
            bundles: bundles.iter().map(|targets| set(targets)).collect(),
        }
    }

    #[test]
    fn bundles_for_the_same_targets_share_archives_and_others_do_not() {
        let binaries = [
            binary("lib/a/libx.so", &[&["gfx90a"], &["gfx1100", "gfx90a"]]),
            binary(
                "bin/tool",
                &[
                    &["gfx90a", "gfx1100"],
                    &["gfx90a:xnack+", "gfx90a:xnack-"],
                    &[],
                ],
            ),
        ];
        let archives = Archives::new("blas_lib", &binaries);
        let paths = binaries.iter().flat_map(|binary| binary.markers(&archives));
        let paths: Vec<String> = paths
            .map(|marker| marker.kpack_search_paths.concat())
            .collect();
        insta::assert_snapshot!(paths.join("\n"), @"
        ../../.kpack/blas_lib_1_@GFXARCH@.kpack
        ../../.kpack/blas_lib_@GFXARCH@.kpack
        ../.kpack/blas_lib_@GFXARCH@.kpack
        ../.kpack/blas_lib_2_@GFXARCH@.kpack
        ../.kpack/blas_lib_3_@GFXARCH@.kpack
        ");
        assert_eq!(archives.count(), 4);
        assert_eq!(binaries[1].kernel_name(), "math-libs/stage/bin/tool");
        assert_eq!(
            archive_path("blas_lib", &"gfx90a:xnack+".parse().unwrap())
                .unwrap()
                .as_str(),
            ".kpack/blas_lib_gfx90a.kpack"
        );
    }
}
