//! The archives of a run that can be fetched, one for each artifact, as listed by their source.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    artifact::{ArchiveName, ArtifactName},
    digest::Sha256,
};

/// Suffix of the file beside an archive that contains its SHA-256.
pub const SIDECAR: &str = ".sha256sum";

/// A file in the directory of a run. It may be an archive or something else.
#[derive(Clone, Debug)]
pub struct ListedFile {
    pub name: String,
    pub size: u64,
    pub sha256: Option<Sha256>,
    /// `ETag` of the bucket, if any. It changes whenever the bytes change.
    pub etag: Option<String>,
}

/// An archive of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactArchive {
    pub name: ArchiveName,
    /// File name in the source, `blas_lib_gfx942%3Axnack+.tar.zst`: `:` may be encoded, unlike in
    /// `name`.
    pub key: String,
    pub size: u64,
    /// SHA-256 of the archive as listed by the bucket or by GitHub, if any.
    pub sha256: Option<Sha256>,
    /// `ETag` of the bucket, if any. It changes whenever the bytes change.
    pub etag: Option<String>,
    /// Whether a sidecar with the SHA-256 exists beside it.
    pub sidecar: bool,
}

/// The archives of a run, sorted by artifact, one for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunInventory {
    archives: Vec<ArtifactArchive>,
}

impl ArtifactArchive {
    pub fn artifact(&self) -> &ArtifactName {
        &self.name.artifact
    }

    /// `blas_lib_gfx942.tar.zst`
    pub fn file_name(&self) -> String {
        self.name.to_string()
    }
}

impl RunInventory {
    /// Ignores other files. If an artifact has archives of two formats, the first format of
    /// `Format::ALL` is taken.
    pub fn of(files: impl IntoIterator<Item = ListedFile>) -> Self {
        let mut sidecars: BTreeSet<String> = BTreeSet::new();
        let mut archives: BTreeMap<ArtifactName, ArtifactArchive> = BTreeMap::new();
        for file in files {
            if let Some(archive) = file.name.strip_suffix(SIDECAR) {
                sidecars.insert(archive.to_owned());
            } else if let Ok(name) = ArchiveName::of_file(&file.name) {
                let artifact = name.artifact.clone();
                let better = |known: &ArtifactArchive| name.format < known.name.format;
                if archives.get(&artifact).is_none_or(better) {
                    let archive = ArtifactArchive {
                        name,
                        key: file.name,
                        size: file.size,
                        sha256: file.sha256,
                        etag: file.etag,
                        sidecar: false,
                    };
                    archives.insert(artifact, archive);
                }
            }
        }
        let mut archives: Vec<ArtifactArchive> = archives.into_values().collect();
        for archive in &mut archives {
            archive.sidecar = sidecars.contains(&archive.key);
        }
        Self { archives }
    }

    pub fn archives(&self) -> &[ArtifactArchive] {
        &self.archives
    }

    pub fn is_empty(&self) -> bool {
        self.archives.is_empty()
    }

    /// A summary for messages: `base, blas (lib, dev) for generic, gfx942`.
    pub fn in_words(&self) -> String {
        let mut names = BTreeSet::new();
        let mut components = BTreeSet::new();
        let mut scopes = BTreeSet::new();
        for archive in &self.archives {
            let artifact = archive.artifact();
            names.insert(artifact.name.as_str());
            components.insert(artifact.component);
            scopes.insert(artifact.scope.as_str());
        }
        let components = components.iter().map(|component| component.as_str());
        format!(
            "{} ({}) for {}",
            join(names),
            join(components),
            join(scopes)
        )
    }
}

fn join<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An inventory of files of one byte each.
    pub(crate) fn inventory(files: &str) -> RunInventory {
        RunInventory::of(files.split_whitespace().map(|name| ListedFile {
            name: name.to_owned(),
            size: 1,
            sha256: None,
            etag: None,
        }))
    }

    fn names(inventory: &RunInventory) -> String {
        let names = inventory.archives().iter().map(ArtifactArchive::file_name);
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_no_archive_of_an_artifact_is_ignored() {
        let inventory = inventory(
            "index.html ccache_logs.tar.zst blas_lib_gfx942.tar.zst rocm.tar.gz a_b_c_d.tar.xz \
             base_lib_generic.tar.zst.part",
        );
        assert_eq!(names(&inventory), "blas_lib_gfx942.tar.zst");
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
        let inventory = inventory(
            "a_lib_generic.tar.zst a_lib_generic.tar.zst.sha256sum \
             b_lib_generic.tar.zst b_lib_generic.tar.xz.sha256sum",
        );
        let sidecars: Vec<bool> = inventory.archives().iter().map(|it| it.sidecar).collect();
        assert_eq!(sidecars, [true, false]);
    }

    #[test]
    fn a_name_with_an_encoded_colon_is_that_of_its_artifact() {
        let inventory =
            inventory("a_lib_gfx942%3Axnack+.tar.zst a_lib_gfx942%3Axnack+.tar.zst.sha256sum");
        let archive = &inventory.archives()[0];
        assert_eq!(archive.file_name(), "a_lib_gfx942:xnack+.tar.zst");
        assert_eq!(archive.key, "a_lib_gfx942%3Axnack+.tar.zst");
        assert!(archive.sidecar);
    }

    #[test]
    fn what_there_is_is_said_in_few_words() {
        let inventory = inventory(
            "blas_lib_gfx942.tar.zst blas_dev_generic.tar.zst base_lib_generic.tar.xz \
             rccl_test_gfx942:xnack+.tar.zst",
        );
        insta::assert_snapshot!(
            inventory.in_words(),
            @"base, blas, rccl (lib, dev, test) for generic, gfx942, gfx942:xnack+"
        );
    }
}
