//! Facts that follow from a path alone: the targets in it, the library it belongs to, the kind of
//! file.

use std::collections::BTreeSet;

use rocwheel_base::target::{Target, TargetTable, generic};

/// The known targets in a path, without features: `gfx942` in `Kernels_gfx942-xnack+.hsaco`.
pub(super) fn targets(path: &str) -> BTreeSet<Target> {
    let mut targets = BTreeSet::new();
    for (at, _) in path.match_indices("gfx") {
        let (before, rest) = path.split_at(at);
        // The `gfx` is inside a longer word: `agfx942`.
        if before.ends_with(|c: char| c.is_ascii_alphanumeric()) {
            continue;
        }
        let is_end = |c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit();
        let processor = rest.split(is_end).next().unwrap_or_default();
        let strict = format!("{processor}-strict");
        let name = if rest.starts_with(&strict) { &strict } else { processor };
        // A name may look like a target, but no product has this target.
        let is_known =
            |target: &Target| TargetTable::builtin().product(&target.packaged()).is_some();
        targets.extend(name.parse::<Target>().ok().filter(is_known));
    }
    targets
}

/// The known targets that a path is for, as the name of a target, of a family (`gfx94X`), of a
/// generic target (`gfx11-generic`), of a group in `AOTriton` (`gfx11xx`), or of a device in the
/// databases of `MIOpen`, which append the number of compute units (`gfx90a68`).
pub(super) fn covered(path: &str) -> BTreeSet<Target> {
    let mut targets = targets(path);
    let is_in_database = path.contains("miopen/db");
    for (at, _) in path.match_indices("gfx") {
        let (_, rest) = path.split_at(at);
        let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '-';
        let name = rest.split(is_end).next().unwrap_or_default();
        let word = name.split('-').next().unwrap_or_default();
        let known = TargetTable::builtin().known();
        targets.extend(known.filter(|target| names_group_of(name, word, target)).cloned());
        if is_in_database {
            // The longest name is meant: `gfx90a68` is `gfx90a` with 0x68 units, not `gfx90` with 0xa68.
            let device = TargetTable::builtin()
                .known()
                .filter(|target| has_units(word, target.as_str()))
                .max_by_key(|target| target.as_str().len());
            targets.extend(device.cloned());
        }
    }
    targets
}

/// Whether a name is a family, a group or a generic target that has this target. `word` is the name up to
/// its first hyphen.
fn names_group_of(name: &str, word: &str, target: &Target) -> bool {
    let processor = target.as_str();
    let stem = word.trim_end_matches(['x', 'X']);
    let is_group = stem.len() > "gfx".len() && stem.len() < word.len();
    (is_group && processor.len() == word.len() && processor.starts_with(stem))
        || generic(processor).is_some_and(|generic| name.starts_with(generic))
}

/// Whether a word is a target followed by a number of compute units.
fn has_units(word: &str, target: &str) -> bool {
    let units = word.strip_prefix(target).unwrap_or_default();
    !units.is_empty() && units.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The last component of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a path has this extension. The comparison is case-sensitive.
pub(super) fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, end)| end == extension)
}

/// Whether a path is a library by its name: `libx.so`, `libx.so.1.2`, `x.dll`.
pub fn is_library(path: &str) -> bool {
    let name = file_name(path);
    let version = name.rsplit_once(".so").map(|(_, version)| version);
    let is_version = |version: &str| {
        version.is_empty()
            || version.starts_with('.')
                && version.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit())
    };
    version.is_some_and(is_version) || has_extension(name, "dll")
}

/// The path without features, which is the path of the file for the plain target.
pub(super) fn without_features(path: &str) -> String {
    let mut plain = path.to_owned();
    for feature in ["xnack+", "xnack-", "sramecc+", "sramecc-"] {
        for joint in ["-", ":", "_"] {
            plain = plain.replace(&format!("{joint}{feature}"), "");
        }
    }
    plain
}

/// The library to which a file of a device wheel belongs: `blas` for
/// `_rocm_sdk_libraries/.kpack/blas_lib_gfx942.kpack`, `rocblas` for
/// `_rocm_sdk_libraries/lib/rocblas/library/…`.
pub(super) fn library(path: &str) -> String {
    let inside = path.split_once('/').map_or(path, |(_, inside)| inside);
    if let Some(archive) = inside.strip_prefix(".kpack/") {
        let stem = archive.strip_suffix(".kpack").unwrap_or(archive);
        let without_target = stem.rsplit_once('_').map_or(stem, |(begin, _)| begin);
        // Text after the component `lib` distinguishes archives of the same artifact.
        let artifact = without_target
            .split_once("_lib_")
            .map(|(artifact, _)| artifact)
            .or_else(|| without_target.strip_suffix("_lib"));
        return artifact.unwrap_or(without_target).to_owned();
    }
    let mut parts = inside.split('/');
    let first = parts.next().unwrap_or_default();
    match (first, parts.next()) {
        ("lib" | "lib64" | "bin" | "share" | "libexec", Some(second)) => mask_targets(second),
        _ => mask_targets(first),
    }
}

/// The name with `*` instead of its targets, so that the files of all targets count as one library.
fn mask_targets(name: &str) -> String {
    let mut masked = name.to_owned();
    for target in targets(name) {
        masked = masked.replace(target.as_str(), "*");
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> String {
        let names: Vec<String> = targets(path).iter().map(ToString::to_string).collect();
        names.join(" ")
    }

    #[test]
    fn a_path_names_its_targets_without_features() {
        assert_eq!(names("lib/a/Kernels.so-000-gfx942-xnack+.hsaco"), "gfx942");
        assert_eq!(names(".kpack/blas_lib_gfx1100.kpack"), "gfx1100");
        assert_eq!(names("db/gfx90a68.db"), "");
        assert_eq!(names("gfx90a/gfx942.co"), "gfx90a gfx942");
        assert_eq!(names("a/agfx942.co"), "");
        assert_eq!(names("a/gfx11-generic/gfx94X"), "");
    }

    #[test]
    fn groups_of_targets_are_understood() {
        let covered = |path: &str| {
            let found: Vec<String> = covered(path).iter().map(ToString::to_string).collect();
            found.join(" ")
        };
        assert_eq!(covered("lib/a_gfx942.co"), "gfx942");
        assert_eq!(covered("lib/a_gfx94X-dcgpu.co"), "gfx942");
        assert_eq!(
            covered("aotriton.images/amd-gfx11xx/flash"),
            "gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 gfx1170"
        );
        assert_eq!(covered("k/x_gfx9-4-generic.kpack"), "gfx942 gfx950");
        assert_eq!(covered("k/x_gfx12-generic.kpack"), "gfx1200 gfx1201");
        assert_eq!(covered("share/miopen/db/gfx90a68.db.txt"), "gfx90a");
        assert_eq!(covered("share/miopen/db/gfx103036.kdb"), "gfx1030");
        assert_eq!(covered("share/other/gfx90a68.db"), "");
        assert_eq!(covered("a/gfxX/gfx/gfx11"), "");
    }

    #[test]
    fn a_path_belongs_to_a_library() {
        assert_eq!(library("l/lib/libMIOpenCK_gfx942.so"), "libMIOpenCK_*.so");
        assert_eq!(library("_rocm_sdk_libraries/.kpack/blas_lib_gfx942-xnack+.kpack"), "blas");
        assert_eq!(library("l/.kpack/blas_lib_3f2a9c1d_7_gfx942.kpack"), "blas");
        assert_eq!(library("_rocm_sdk_libraries/lib/rocblas/library/a.dat"), "rocblas");
        assert_eq!(library("_rocm_sdk_libraries/share/miopen/db/a.db"), "miopen");
        assert_eq!(library("alone"), "alone");
    }

    #[test]
    fn a_variant_has_a_plain_path() {
        let path = "k/blas_lib_gfx942-xnack+.kpack";
        assert_eq!(without_features(path), "k/blas_lib_gfx942.kpack");
    }
}
