//! Decides which archive gets the code of each bundle of an artifact, and which archives its
//! [`Marker`] names. `docs/kpack.md` has the rules under *Names of archives*.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::Cursor,
};

use serde::{Deserialize, Serialize};

use crate::{
    CodeTarget, SplittableBinary, bundle,
    code_target::is_generic,
    host::{self, FatFileKind},
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Result, ensure},
    relpath::RelPath,
    target::Scope,
};
use rocwheel_elf::ReadAt;

/// The part of a search path that the runtime replaces by a target.
pub const PLACEHOLDER: &str = "@GFXARCH@";

/// The runtime reads at most this many bytes of a marker.
pub(super) const MAX_LEN: usize = 1 << 16;
/// Limit for damaged markers: the loader looks for every path with every target.
const MOST_PATHS: usize = 64;
/// Limit for a path or a name in bytes: `PATH_MAX` of Linux.
const LONGEST: usize = 4096;

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
    /// The path in the stage directory: `lib/librocblas.so.5`.
    pub path: RelPath,
    /// The targets of each bundle.
    pub bundles: Vec<TargetSet>,
    /// The prefix of the keys of its code: everything before `#`.
    pub kernel_name: String,
    /// The targets, without features, for which the second rule of `ArchiveNames` applies.
    everywhere: TargetSet,
    /// The first 8 digits of the SHA-256 of `kernel_name`, for the names of the archives of this binary.
    hash: String,
}

impl ArchiveNames {
    /// The names for an artifact, such as `blas_lib`, with all of its binaries: which name an archive
    /// gets depends on the targets of the others.
    pub fn new(artifact: &str, binaries: &[FatBinary]) -> Self {
        let bundles = binaries.iter().flat_map(|binary| &binary.bundles);
        Self { artifact: artifact.to_owned(), everywhere: shared_targets(bundles) }
    }

    /// The name of the archive with the code of a bundle for `base`, a target without features. The
    /// name does not contain the target; see `archive_path`.
    pub fn name(&self, binary: &FatBinary, bundle: usize, base: &CodeTarget) -> String {
        let [artifact_name, binary_name, bundle_name] = self.candidates(binary, bundle);
        if self.everywhere.contains(base) {
            artifact_name
        } else if binary.everywhere.contains(base) {
            binary_name
        } else {
            bundle_name
        }
    }

    /// The marker of each bundle of a binary.
    pub fn markers(&self, binary: &FatBinary) -> Vec<Marker> {
        let depth = binary.path.depth().saturating_sub(1);
        (0..binary.bundles.len())
            .map(|bundle| Marker::new(depth, &self.candidates(binary, bundle), &binary.kernel_name))
            .collect()
    }

    /// The names of the three rules, in their order.
    fn candidates(&self, binary: &FatBinary, bundle: usize) -> [String; 3] {
        let binary_name = format!("{}_{}", self.artifact, binary.hash);
        let bundle_name = format!("{binary_name}_{bundle}");
        [self.artifact.clone(), binary_name, bundle_name]
    }
}

impl FatBinary {
    /// A binary by its stage directory, its path there, and the targets of each of its bundles.
    pub fn new(prefix: RelPath, path: RelPath, bundles: Vec<TargetSet>) -> Self {
        let kernel_name = prefix.join(&path).to_string();
        let hash = Sha256::of(kernel_name.as_bytes()).to_string();
        Self {
            everywhere: shared_targets(&bundles),
            hash: hash.chars().take(8).collect(),
            kernel_name,
            prefix,
            path,
            bundles,
        }
    }
}

/// The targets, without features, for which all bundles have code in the same variants.
fn shared_targets<'a>(bundles: impl IntoIterator<Item = &'a TargetSet>) -> TargetSet {
    let variants_by_base = |bundle: &'a TargetSet| {
        let mut variants: BTreeMap<CodeTarget, BTreeSet<&CodeTarget>> = BTreeMap::new();
        for target in bundle {
            variants.entry(target.base()).or_default().insert(target);
        }
        variants
    };
    let mut rest = bundles.into_iter();
    let mut shared = rest.next().map(variants_by_base).unwrap_or_default();
    for bundle in rest {
        let others = variants_by_base(bundle);
        shared.retain(|base, variants| others.get(base) == Some(variants));
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

/// What a split does with the device code of a binary.
pub enum DeviceCode {
    /// It has none.
    None,
    /// It was taken out before.
    Split,
    /// It must stay, for this reason.
    Stays(String),
    /// It is taken out: for each bundle the size of the code of each target.
    Leaves(SplittableBinary, Vec<BTreeMap<CodeTarget, u64>>),
}

/// Finds the device code of any file. Only headers are read.
pub fn device_code(source: &dyn ReadAt) -> Result<DeviceCode> {
    let fat = match host::look(source)? {
        FatFileKind::Plain => return Ok(DeviceCode::None),
        FatFileKind::Split => return Ok(DeviceCode::Split),
        FatFileKind::Unsplittable { why, .. } => return Ok(DeviceCode::Stays(why.to_owned())),
        FatFileKind::Fat(fat) => fat,
    };
    let section = fat.section(source)?;
    let mut bundles: Vec<BTreeMap<CodeTarget, u64>> = Vec::new();
    for (ordinal, bundle) in fat.bundles.iter().enumerate() {
        let parts = bundle::parts(&section, bundle)
            .with_context(|| format!("failed to open bundle {ordinal}"))?;
        bundles.push(parts.into_iter().collect());
    }
    // A split takes all code out of a binary. Code that no archive can serve would be lost, so such a
    // binary keeps all of its code.
    let mut targets = bundles.iter().flat_map(BTreeMap::keys);
    if let Some(target) = targets.find(|target| home(target).is_none()) {
        let why = format!("no runtime looks into an archive for `{target}`");
        return Ok(DeviceCode::Stays(why));
    }
    Ok(DeviceCode::Leaves(fat, bundles))
}

/// The path of an archive, relative to the installed directory: `.kpack/blas_lib_gfx942.kpack`.
pub fn archive_path(name: &str, target: &CodeTarget) -> Result<RelPath> {
    Ok(format!(".kpack/{name}_{}.kpack", target.base()).parse()?)
}

/// The `MessagePack` map that a split binary contains instead of a bundle. It tells the runtime in
/// which archives the code is, and under which key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Marker {
    /// Archives, relative to the directory of the binary: `../.kpack/blas_lib_@GFXARCH@.kpack`.
    pub kpack_search_paths: Vec<String>,
    /// The part of the keys before `#`: `math-libs/BLAS/rocBLAS/stage/lib/librocblas.so.5`.
    pub kernel_name: String,
}

impl Marker {
    /// The marker of a binary that is `depth` directories below the directory with `.kpack`. The runtime
    /// searches the archives in the given order.
    pub fn new(depth: usize, archives: &[impl fmt::Display], kernel_name: &str) -> Self {
        let up = "../".repeat(depth);
        let paths =
            archives.iter().map(|name| format!("{up}.kpack/{name}_{PLACEHOLDER}.kpack")).collect();
        Self { kpack_search_paths: paths, kernel_name: kernel_name.to_owned() }
    }

    /// The bytes of the marker. Fails if they are more than a reader accepts.
    pub fn render(&self) -> Result<Vec<u8>> {
        let bytes = rmp_serde::to_vec_named(self).context("failed to write a marker")?;
        ensure!(bytes.len() <= MAX_LEN, "a marker of {} bytes", bytes.len());
        Ok(bytes)
    }

    /// Parses the marker at the start of `bytes`, and returns its length as well. Bytes behind it
    /// are ignored.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize)> {
        let mut reader = rmp_serde::Deserializer::new(Cursor::new(bytes));
        let marker = Self::deserialize(&mut reader).context("failed to read a marker")?;
        let paths = &marker.kpack_search_paths;
        ensure!(!paths.is_empty(), "a marker without a path");
        ensure!(paths.len() <= MOST_PATHS, "a marker with {} paths", paths.len());
        let longest = paths.iter().chain([&marker.kernel_name]).map(String::len).max().unwrap_or(0);
        ensure!(longest <= LONGEST, "a marker with a path of {longest} bytes");
        let len = usize::try_from(reader.get_ref().position())?;
        Ok((marker, len))
    }
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
            binary("lib/a/libx.so", &[&["gfx90a", "gfx942"], &["gfx1100", "gfx90a", "gfx942"]]),
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

    #[test]
    fn a_marker_has_the_bytes_of_the_reference() {
        let name = "math-libs/demo/stage/lib/libtest_kernel_multi.so";
        let marker = Marker::new(1, &["demo_lib"], name);
        let expected: &[&[u8]] = &[
            b"\x82\xb2kpack_search_paths\x91\xd9\x22../.kpack/demo_lib_@GFXARCH@.kpack",
            b"\xabkernel_name\xd9\x30math-libs/demo/stage/lib/libtest_kernel_multi.so",
        ];
        let mut bytes = marker.render().unwrap();
        assert_eq!(bytes, expected.concat());
        assert_eq!(bytes.len(), 119);
        bytes.extend([0xff; 500]);
        assert_eq!(Marker::parse(&bytes).unwrap(), (marker, 119));
    }

    #[test]
    fn a_binary_at_the_root_has_its_archives_beside_it() {
        let marker = Marker::new(0, &["x"], "x");
        assert_eq!(marker.kpack_search_paths, [".kpack/x_@GFXARCH@.kpack"]);
    }

    #[test]
    fn what_the_runtime_could_not_read_is_refused() {
        let long = Marker::new(0, &["x"], &"y".repeat(MAX_LEN));
        insta::assert_snapshot!(long.render().unwrap_err(), @"a marker of 65599 bytes");
        let mut many = Marker::new(0, &["x"], "x");
        many.kpack_search_paths = vec!["y".to_owned(); 65];
        let refused = [
            &b"\x82\xb2kpack_search_paths\x90\xabkernel_name\xa1x"[..],
            b"\x81\xb2kpack_search_paths\x91\xa1x",
            b"\x82\xb2kpack_search",
            b"",
            &Marker::new(0, &["x"], &"y".repeat(4097)).render().unwrap(),
            &many.render().unwrap(),
        ]
        .map(|bytes| format!("{:#}", Marker::parse(bytes).unwrap_err()));
        insta::assert_snapshot!(refused.join("\n"), @"
        a marker without a path
        failed to read a marker: missing field `kernel_name`
        failed to read a marker: IO error while reading data: unexpected end of file: unexpected end of file
        failed to read a marker: IO error while reading marker: failed to fill whole buffer: failed to fill whole buffer
        a marker with a path of 4097 bytes
        a marker with 65 paths
        ");
    }
}
