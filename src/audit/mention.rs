//! What a path says: the targets it speaks of, the library it belongs to, the kind of file it is.

use std::collections::BTreeSet;

use crate::target::{Target, TargetTable};

/// The known targets in a path, without features: `Kernels_gfx942-xnack+.hsaco` names `gfx942`.
pub(super) fn targets(path: &str) -> BTreeSet<Target> {
    let mut found = BTreeSet::new();
    for (at, _) in path.match_indices("gfx") {
        let before = path.get(..at).unwrap_or_default();
        if before.ends_with(|c: char| c.is_ascii_alphanumeric()) {
            continue;
        }
        let rest = path.get(at..).unwrap_or_default();
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit());
        let name = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let strict = format!("{name}-strict");
        let name = if rest.starts_with(&strict) {
            &strict
        } else {
            name
        };
        let target = name.parse::<Target>().ok();
        found.extend(target.filter(|it| TargetTable::builtin().product(it).is_some()));
    }
    found
}

/// Whether a name ends in `.debug`, `.kpack` or the like, in just this spelling.
pub(super) fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit_once('.')
        .is_some_and(|(_, end)| end == extension)
}

/// Whether a path has features beside a target: `gfx942-xnack+`.
pub(super) fn is_variant(path: &str) -> bool {
    ["xnack+", "xnack-", "sramecc+", "sramecc-"]
        .iter()
        .any(|feature| path.contains(feature))
}

/// The path without the features, which is that of the plain variant.
pub(super) fn without_features(path: &str) -> String {
    let mut plain = path.to_owned();
    for feature in ["xnack+", "xnack-", "sramecc+", "sramecc-"] {
        for joint in ["-", ":", "_"] {
            plain = plain.replace(&format!("{joint}{feature}"), "");
        }
    }
    plain
}

/// The library that a file of a device wheel serves: `blas` for `.kpack/blas_lib_gfx942.kpack`,
/// `rocblas` for `lib/rocblas/library/…`.
pub(super) fn library(path: &str) -> String {
    let inside = path.split_once('/').map_or(path, |(_, inside)| inside);
    if let Some(name) = inside.strip_prefix(".kpack/") {
        let stem = name.strip_suffix(".kpack").unwrap_or(name);
        let stem = stem.rsplit_once('_').map_or(stem, |(stem, _)| stem);
        return stem.strip_suffix("_lib").unwrap_or(stem).to_owned();
    }
    let mut parts = inside.split('/');
    let first = parts.next().unwrap_or_default();
    match (first, parts.next()) {
        ("lib" | "lib64" | "bin" | "share" | "libexec", Some(second)) => second.to_owned(),
        _ => first.to_owned(),
    }
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
    fn a_path_belongs_to_a_library() {
        assert_eq!(
            library("_rocm_sdk_libraries/.kpack/blas_lib_gfx942-xnack+.kpack"),
            "blas"
        );
        assert_eq!(
            library("_rocm_sdk_libraries/lib/rocblas/library/a.dat"),
            "rocblas"
        );
        assert_eq!(
            library("_rocm_sdk_libraries/share/miopen/db/a.db"),
            "miopen"
        );
        assert_eq!(library("alone"), "alone");
    }

    #[test]
    fn a_variant_has_a_plain_path() {
        let path = "k/blas_lib_gfx942-xnack+.kpack";
        assert!(is_variant(path));
        assert_eq!(without_features(path), "k/blas_lib_gfx942.kpack");
    }
}
