//! Decides which archive gets the code of each bundle of an artifact, and which archives its marker
//! names. `docs/kpack.md` has the rules under *Names of archives*.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    digest::Sha256,
    error::Result,
    kpack::{CodeTarget, Marker, code_target::is_generic},
    relpath::RelPath,
    target::Scope,
};

/// The targets for which a bundle has code.
pub type TargetSet = BTreeSet<CodeTarget>;

/// The names of the archives of an artifact such as `blas_lib`.
///
/// If an archive for a device exists but lacks the code of a bundle, the runtime refuses the whole
/// binary. If no archive for the device exists, it only skips the device. So bundles may share an
/// archive only if all of them have code for its target, in the same variants. This is decided for
/// each target separately:
///
/// 1. If every bundle of the artifact has code, there is one archive, `blas_lib_gfx942`.
/// 2. Otherwise each binary all of whose bundles have code has one archive,
///    `blas_lib_3f2a9c1d_gfx942`, with the start of the SHA-256 of the prefix of the binary's keys.
/// 3. Every other bundle with code has an archive of its own, `blas_lib_3f2a9c1d_7_gfx942`, with
///    its number.
///
/// The marker of a bundle names all three, for any targets. So the generic part of an artifact is
/// the same for every family, and it also finds the code of families that were split separately.
/// Variants such as `gfx90a:xnack+` are in the archive of `gfx90a`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveNames {
    artifact: String,
    /// The targets, without features, for which the first rule applies.
    everywhere: TargetSet,
}

/// A binary with device code in an artifact.
#[derive(Clone, Debug)]
pub struct FatBinary {
    /// The stage directory, whose contents are installed: `math-libs/BLAS/rocBLAS/stage`.
    pub prefix: RelPath,
    /// The path below that: `lib/librocblas.so.5`.
    pub path: RelPath,
    /// The targets of each bundle.
    pub bundles: Vec<TargetSet>,
    /// The prefix of the keys of its code: everything before `#`.
    pub kernel_name: String,
    /// The targets, without features, for which the second rule of `ArchiveNames` applies.
    everywhere: TargetSet,
    /// The first 8 digits of the hash, for the names of its own archives.
    hash: String,
}

impl ArchiveNames {
    pub fn new(artifact: &str, binaries: &[FatBinary]) -> Self {
        let bundles = binaries.iter().flat_map(|binary| &binary.bundles);
        Self {
            artifact: artifact.to_owned(),
            everywhere: shared(bundles),
        }
    }

    /// The name of the archive with the code of a bundle for `base`, a target without features. The
    /// name does not contain the target; see `archive_path`.
    pub fn name(&self, binary: &FatBinary, bundle: usize, base: &CodeTarget) -> String {
        let [of_all, of_binary, own] = self.candidates(binary, bundle);
        if self.everywhere.contains(base) {
            of_all
        } else if binary.everywhere.contains(base) {
            of_binary
        } else {
            own
        }
    }

    /// The marker of each bundle of a binary.
    pub fn markers(&self, binary: &FatBinary) -> Vec<Marker> {
        let depth = binary.path.depth().saturating_sub(1);
        let bundles = 0..binary.bundles.len();
        bundles
            .map(|bundle| Marker::new(depth, &self.candidates(binary, bundle), &binary.kernel_name))
            .collect()
    }

    /// The names of the three rules, in their order.
    fn candidates(&self, binary: &FatBinary, bundle: usize) -> [String; 3] {
        let of_binary = format!("{}_{}", self.artifact, binary.hash);
        let own = format!("{of_binary}_{bundle}");
        [self.artifact.clone(), of_binary, own]
    }
}

impl FatBinary {
    pub fn new(prefix: RelPath, path: RelPath, bundles: Vec<TargetSet>) -> Self {
        let kernel_name = prefix.join(&path).to_string();
        let hash = Sha256::of(kernel_name.as_bytes()).to_string();
        Self {
            everywhere: shared(&bundles),
            hash: hash.chars().take(8).collect(),
            kernel_name,
            prefix,
            path,
            bundles,
        }
    }
}

/// The targets, without features, for which all bundles have code in the same variants.
fn shared<'a>(bundles: impl IntoIterator<Item = &'a TargetSet>) -> TargetSet {
    let variants = |set: &'a TargetSet| {
        let mut variants: BTreeMap<CodeTarget, BTreeSet<&CodeTarget>> = BTreeMap::new();
        for target in set {
            variants.entry(target.base()).or_default().insert(target);
        }
        variants
    };
    let mut bundles = bundles.into_iter();
    let mut shared = bundles.next().map(variants).unwrap_or_default();
    for set in bundles {
        let other = variants(set);
        shared.retain(|base, known| other.get(base) == Some(known));
    }
    shared.into_keys().collect()
}

/// The artifact that gets the code for a target; `None` for code such as SPIR-V, for which the
/// runtime does not look in archives.
///
/// Code for a generic target goes to the generic artifact. It serves devices of many targets, but a
/// user installs the package of one target only.
pub fn home(target: &CodeTarget) -> Option<Scope> {
    let base = target.base();
    match base.target() {
        Some(target) => Some(Scope::Target(target)),
        None => is_generic(&base).then_some(Scope::Generic),
    }
}

/// The path of an archive, relative to the installed directory: `.kpack/blas_lib_gfx942.kpack`.
pub fn archive_path(name: &str, target: &CodeTarget) -> Result<RelPath> {
    Ok(format!(".kpack/{name}_{}.kpack", target.base()).parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(targets: &[&str]) -> TargetSet {
        targets.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn binary(path: &str, bundles: &[&[&str]]) -> FatBinary {
        let bundles = bundles.iter().map(|targets| set(targets)).collect();
        let prefix = "math-libs/stage".parse().unwrap();
        FatBinary::new(prefix, path.parse().unwrap(), bundles)
    }

    /// The archive of each bundle for each target, and the marker of the last bundle.
    fn shown(binaries: &[FatBinary]) -> String {
        let names = ArchiveNames::new("blas_lib", binaries);
        let mut lines = Vec::new();
        for binary in binaries {
            for (at, targets) in binary.bundles.iter().enumerate() {
                for target in targets {
                    let path = archive_path(&names.name(binary, at, &target.base()), target);
                    let path = path.unwrap();
                    lines.push(format!("{}#{at} {target}: {path}", binary.path));
                }
            }
        }
        let last = names.markers(binaries.last().unwrap()).pop().unwrap();
        lines.extend(last.kpack_search_paths);
        lines.join("\n")
    }

    #[test]
    fn an_archive_is_shared_by_what_has_all_of_its_code() {
        let binaries = [
            binary(
                "lib/a/libx.so",
                &[&["gfx90a", "gfx942"], &["gfx1100", "gfx90a", "gfx942"]],
            ),
            binary(
                "bin/tool",
                &[
                    &["gfx90a:xnack+", "gfx90a:xnack-", "gfx942", "gfx1101"],
                    &["gfx90a:xnack+", "gfx90a:xnack-", "gfx942"],
                ],
            ),
        ];
        insta::assert_snapshot!(shown(&binaries), @"
        lib/a/libx.so#0 gfx90a: .kpack/blas_lib_272b99a7_gfx90a.kpack
        lib/a/libx.so#0 gfx942: .kpack/blas_lib_gfx942.kpack
        lib/a/libx.so#1 gfx1100: .kpack/blas_lib_272b99a7_1_gfx1100.kpack
        lib/a/libx.so#1 gfx90a: .kpack/blas_lib_272b99a7_gfx90a.kpack
        lib/a/libx.so#1 gfx942: .kpack/blas_lib_gfx942.kpack
        bin/tool#0 gfx1101: .kpack/blas_lib_d936e1d4_0_gfx1101.kpack
        bin/tool#0 gfx90a:xnack+: .kpack/blas_lib_d936e1d4_gfx90a.kpack
        bin/tool#0 gfx90a:xnack-: .kpack/blas_lib_d936e1d4_gfx90a.kpack
        bin/tool#0 gfx942: .kpack/blas_lib_gfx942.kpack
        bin/tool#1 gfx90a:xnack+: .kpack/blas_lib_d936e1d4_gfx90a.kpack
        bin/tool#1 gfx90a:xnack-: .kpack/blas_lib_d936e1d4_gfx90a.kpack
        bin/tool#1 gfx942: .kpack/blas_lib_gfx942.kpack
        ../.kpack/blas_lib_@GFXARCH@.kpack
        ../.kpack/blas_lib_d936e1d4_@GFXARCH@.kpack
        ../.kpack/blas_lib_d936e1d4_1_@GFXARCH@.kpack
        ");
        let with_empty = [binary("libx.so", &[&["gfx942"], &[]])];
        let archive =
            ArchiveNames::new("x", &with_empty).name(&with_empty[0], 0, &"gfx942".parse().unwrap());
        assert!(archive.ends_with("_0"), "{archive}");
    }

    #[test]
    fn the_markers_are_the_same_for_every_family() {
        let markers = |bundles: &[&[&str]]| {
            let binary = binary("lib/libx.so", bundles);
            ArchiveNames::new("blas_lib", std::slice::from_ref(&binary)).markers(&binary)
        };
        let one = markers(&[&["gfx942"], &["gfx942"]]);
        assert_eq!(one, markers(&[&["gfx1100", "gfx1101"], &["gfx1100"]]));
        assert_ne!(one[0], one[1]);
    }
}
