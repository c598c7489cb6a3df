//! The archives of a run that can be fetched, one for each artifact, as listed by their source.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::zip_directory::ZipSpan;
use crate::{
    artifact::{ArchiveName, ArtifactName},
    digest::Sha256,
    github::RunArtifact,
    store::Object,
};

/// Suffix of the file beside an archive that contains its SHA-256.
pub(super) const SIDECAR: &str = ".sha256sum";

/// An archive of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArtifactArchive {
    pub name: ArchiveName,
    pub size: u64,
    /// File name in a store, `blas_lib_gfx942%3Axnack+.tar.zst`: `:` may be encoded, unlike in
    /// `name`. On GitHub, the name of the artifact that contains the archive.
    pub key: String,
    /// SHA-256 of the object or artifact of that name, if the source lists it.
    pub sha256: Option<Sha256>,
    /// Changes whenever the bytes change, if the source has such a value (`ETag`, artifact id).
    pub etag: Option<String>,
    /// Whether a sidecar with the SHA-256 exists beside it.
    pub sidecar: bool,
    /// The artifact on GitHub that contains the archive.
    pub upload: Option<RunArtifact>,
    /// Where the archive is in that artifact, if it is a zip file.
    pub span: Option<ZipSpan>,
}

/// The archives among the objects of a directory.
pub(super) fn in_store(objects: Vec<Object>) -> Vec<ArtifactArchive> {
    let names: BTreeSet<String> = objects
        .iter()
        .map(|object| object.key.file_name().to_owned())
        .collect();
    let archives = objects.into_iter().filter_map(|object| {
        let key = object.key.file_name().to_owned();
        Some(ArtifactArchive {
            name: ArchiveName::of_file(&key).ok()?,
            size: object.size,
            sidecar: names.contains(&format!("{key}{SIDECAR}")),
            key,
            sha256: object.sha256,
            etag: object.etag,
            upload: None,
            span: None,
        })
    });
    one_each(archives)
}

/// One archive for each artifact, sorted. If an artifact has archives of two formats, the first
/// format of `ArchiveFormat::ALL` is taken.
pub(super) fn one_each(archives: impl Iterator<Item = ArtifactArchive>) -> Vec<ArtifactArchive> {
    let mut chosen: BTreeMap<ArtifactName, ArtifactArchive> = BTreeMap::new();
    for archive in archives {
        let known = chosen.get(&archive.name.artifact);
        if known.is_none_or(|known| archive.name.format < known.name.format) {
            chosen.insert(archive.name.artifact.clone(), archive);
        }
    }
    chosen.into_values().collect()
}

/// A summary for messages: `base, blas (lib, dev) for generic, gfx942`.
pub(super) fn in_words(archives: &[ArtifactArchive]) -> String {
    let artifacts = || archives.iter().map(|archive| &archive.name.artifact);
    let names: BTreeSet<&str> = artifacts().map(|it| it.name.as_str()).collect();
    let components: BTreeSet<_> = artifacts().map(|it| it.component).collect();
    let scopes: BTreeSet<&str> = artifacts().map(|it| it.scope.as_str()).collect();
    format!(
        "{} ({}) for {}",
        names.iter().join(", "),
        components.iter().join(", "),
        scopes.iter().join(", ")
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The archives among files of one byte each.
    pub(crate) fn inventory(files: &str) -> Vec<ArtifactArchive> {
        let object = |name: &str| Object {
            key: name.parse().unwrap(),
            size: 1,
            sha256: None,
            checksum: None,
            content_type: None,
            etag: None,
            modified: None,
        };
        in_store(files.split_whitespace().map(object).collect())
    }

    fn names(archives: &[ArtifactArchive]) -> String {
        archives.iter().map(|it| &it.name).join(" ")
    }

    #[test]
    fn what_is_no_archive_of_an_artifact_is_ignored() {
        let archives = inventory(
            "index.html ccache_logs.tar.zst blas_lib_gfx942.tar.zst rocm.tar.gz a_b_c_d.tar.xz \
             base_lib_generic.tar.zst.part",
        );
        assert_eq!(names(&archives), "blas_lib_gfx942.tar.zst");
    }

    #[test]
    fn of_two_compressions_zstd_is_taken_in_any_order() {
        for files in [
            "blas_lib_generic.tar.xz blas_lib_generic.tar.zst",
            "blas_lib_generic.tar.zst blas_lib_generic.tar.xz",
        ] {
            assert_eq!(names(&inventory(files)), "blas_lib_generic.tar.zst");
        }
    }

    #[test]
    fn a_sidecar_belongs_to_the_archive_of_its_name_alone() {
        let archives = inventory(
            "a_lib_generic.tar.zst a_lib_generic.tar.zst.sha256sum \
             b_lib_generic.tar.zst b_lib_generic.tar.xz.sha256sum",
        );
        let sidecars: Vec<bool> = archives.iter().map(|it| it.sidecar).collect();
        assert_eq!(sidecars, [true, false]);
    }

    #[test]
    fn a_name_with_an_encoded_colon_is_that_of_its_artifact() {
        let archives =
            inventory("a_lib_gfx942%3Axnack+.tar.zst a_lib_gfx942%3Axnack+.tar.zst.sha256sum");
        assert_eq!(names(&archives), "a_lib_gfx942:xnack+.tar.zst");
        assert_eq!(archives[0].key, "a_lib_gfx942%3Axnack+.tar.zst");
        assert!(archives[0].sidecar);
    }

    #[test]
    fn what_there_is_is_said_in_few_words() {
        let archives = inventory(
            "blas_lib_gfx942.tar.zst blas_dev_generic.tar.zst base_lib_generic.tar.xz \
             rccl_test_gfx942:xnack+.tar.zst",
        );
        insta::assert_snapshot!(
            in_words(&archives),
            @"base, blas, rccl (lib, dev, test) for generic, gfx942, gfx942:xnack+"
        );
    }
}
