//! The archives of a run, one for each artifact, and the sources that have them: a run's directory in
//! a store (bucket or local), or the artifacts that GitHub keeps for the run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::Read,
    num::NonZeroUsize,
    sync::Arc,
};

use crate::{
    artifact::{ArchiveName, ArtifactName},
    github::RunArtifact,
};
use rocwheel_base::{
    digest::{Checksum, Sha256},
    error::{Context as _, Error, Result, Stop},
    parallel,
    relpath::RelPath,
};
use rocwheel_store::{Depth, Object, Span, Store, StoreFailureKind, location::Key};
use rocwheel_wheel::tar::ArchiveFormat;

/// Suffix of the file beside an archive that contains its SHA-256.
const SIDECAR: &str = ".sha256sum";

/// The limit for reading a sidecar, which has one line: a digest and a file name.
const MOST_OF_A_SIDECAR: u64 = 4096;

/// Archives of at least this size may be downloaded in several ranges at once.
pub(super) const LARGE: u64 = 16 << 20;

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
    /// The member of that artifact that it is, if the artifact is a zip file.
    pub zipped: Option<ZipMember>,
}

/// What a source has for a run.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// An archive for each artifact, sorted by artifact.
    pub archives: Vec<ArtifactArchive>,
    /// The names of archives that are not archives of artifacts.
    pub unknown: BTreeSet<String>,
    /// Why the contents of some uploads are not known. Each error names its upload.
    pub unread: Vec<Error>,
}

/// A member of a zip file, as its central directory describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZipMember {
    pub index: usize,
    /// Size when unpacked.
    pub size: u64,
}

/// A place that has the archives of a run.
pub(super) trait ArchiveSource: fmt::Display + Send + Sync {
    fn inventory(&self) -> Result<Inventory>;

    /// The digests of the stream that contains an archive.
    fn digests(&self, archive: &ArtifactArchive) -> Result<Digests> {
        Ok(Digests { sha256: archive.sha256.into_iter().collect(), checksum: None })
    }

    /// Whether GitHub stores the archives, where the code of a fork may have put them.
    fn is_github(&self) -> bool {
        false
    }

    /// Opens the stream of a parcel. Where possible, a broken connection is resumed.
    fn open(&self, parcel: &Parcel) -> Result<Box<dyn Read + Send + '_>>;
}

/// What a source states about the bytes of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Digests {
    /// The SHA-256 of the whole stream, from each place that states one. All have to match.
    pub sha256: Vec<Sha256>,
    /// Another checksum that the store has for the object. The store is asked for it only if no place
    /// states a SHA-256.
    pub checksum: Option<Checksum>,
}

/// What is downloaded in one stream: an archive, or a zip file with several archives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parcel {
    /// The name in its source: a file name, or the name of an artifact on GitHub.
    pub id: String,
    pub size: u64,
    pub digests: Digests,
    /// Changes whenever the bytes change, if the source has such a value (`ETag`, artifact id).
    pub etag: Option<String>,
    /// The archives in the stream: one, except in a zip file.
    pub members: Vec<ArtifactArchive>,
}

impl Parcel {
    /// Whether the source states a digest or checksum of the bytes.
    pub(super) fn has_digest(&self) -> bool {
        !self.digests.sha256.is_empty() || self.digests.checksum.is_some()
    }
}

/// Lists the streams to read for these archives, sorted by their names. A stream is listed once, even if it
/// contains several of the archives.
pub(super) fn list_parcels(
    source: &dyn ArchiveSource,
    mut archives: Vec<ArtifactArchive>,
    jobs: NonZeroUsize,
    stop: &Stop,
) -> Result<Vec<Parcel>> {
    let index = |archive: &ArtifactArchive| archive.zipped.map(|member| member.index);
    archives.sort_by(|a, b| (&a.key, index(a)).cmp(&(&b.key, index(b))));
    let streams: Vec<_> = archives.chunk_by(|a, b| a.key == b.key).collect();
    parallel::try_map(&streams, jobs, stop, |members| {
        let first = &members[0];
        Ok(Parcel {
            id: first.key.clone(),
            size: first.upload.as_ref().map_or(first.size, |upload| upload.size),
            digests: source.digests(first)?,
            etag: first.etag.clone(),
            members: members.to_vec(),
        })
    })
}

/// A directory of a store, or all of the store.
pub(super) struct StoreSource {
    pub store: Arc<dyn Store>,
    pub directory: Option<Key>,
}

impl StoreSource {
    fn key(&self, file_name: &str) -> Result<Key> {
        let path: RelPath = file_name.parse()?;
        match &self.directory {
            Some(directory) => Ok(directory.join(&path)?),
            None => Ok(path.as_str().parse()?),
        }
    }

    /// Reads the SHA-256 in the file beside an archive, `NAME.tar.zst.sha256sum`.
    fn read_sidecar(&self, archive: &ArtifactArchive) -> Result<Option<Sha256>> {
        if !archive.sidecar {
            return Ok(None);
        }
        let name = format!("{}{SIDECAR}", archive.key);
        let read = || -> Result<Option<Sha256>> {
            let reader = match self.store.get(&self.key(&name)?, Span::Whole) {
                // It was removed after the listing.
                Err(error) if error.kind() == StoreFailureKind::NotFound => return Ok(None),
                reader => reader?,
            };
            let mut line = String::new();
            reader.take(MOST_OF_A_SIDECAR).read_to_string(&mut line)?;
            parse_sidecar(&line).map(Some)
        };
        read().with_context(|| format!("failed to read `{name}`"))
    }
}

impl ArchiveSource for StoreSource {
    fn inventory(&self) -> Result<Inventory> {
        let objects = self.store.list(self.directory.as_ref(), Depth::Children)?;
        Ok(list_archives(objects))
    }

    fn digests(&self, archive: &ArtifactArchive) -> Result<Digests> {
        let sha256: Vec<Sha256> =
            archive.sha256.into_iter().chain(self.read_sidecar(archive)?).collect();
        // A listing has no checksums, but S3 may return one with `HEAD`. It is optional, so a
        // failed request is not an error: the archive is only fetched without that check.
        if sha256.is_empty()
            && let Ok(object) = self.store.head(&self.key(&archive.key)?)
        {
            let sha256 = object.sha256.into_iter().collect();
            return Ok(Digests { sha256, checksum: object.checksum });
        }
        Ok(Digests { sha256, checksum: None })
    }

    fn open(&self, parcel: &Parcel) -> Result<Box<dyn Read + Send>> {
        // In one response, the store may send a checksum that covers the whole object. Ranges have
        // none, but several ranges of a large archive can be downloaded at once.
        let span = if parcel.size < LARGE { Span::Whole } else { Span::From(0) };
        Ok(self.store.get(&self.key(&parcel.id)?, span)?)
    }
}

impl fmt::Display for StoreSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.directory {
            Some(directory) => write!(f, "{}/{}", self.store, directory.to_path()),
            None => self.store.fmt(f),
        }
    }
}

/// Lists the archives among the objects of a directory.
pub(super) fn list_archives(objects: Vec<Object>) -> Inventory {
    let names: BTreeSet<String> =
        objects.iter().map(|object| object.key.file_name().to_owned()).collect();
    let mut unknown = BTreeSet::new();
    let archives = objects.into_iter().filter_map(|object| {
        let key = object.key.file_name().to_owned();
        Some(ArtifactArchive {
            name: archive_name(&key, &mut unknown)?,
            size: object.size,
            sidecar: names.contains(&format!("{key}{SIDECAR}")),
            key,
            sha256: object.sha256,
            etag: object.etag,
            upload: None,
            zipped: None,
        })
    });
    Inventory { archives: choose_formats(archives), unknown, unread: Vec::new() }
}

/// The name of an archive of an artifact. The name of another archive goes to `unknown`; other files
/// are ignored.
pub(super) fn archive_name(file: &str, unknown: &mut BTreeSet<String>) -> Option<ArchiveName> {
    let name = ArchiveName::of_file(file).ok();
    if name.is_none() && ArchiveFormat::from_file_name(file).is_some() {
        unknown.insert(file.to_owned());
    }
    name
}

/// Chooses one archive for each artifact, and sorts them. If an artifact has archives of two formats, the
/// first format of `ArchiveFormat::ALL` is taken.
pub(super) fn choose_formats(
    archives: impl Iterator<Item = ArtifactArchive>,
) -> Vec<ArtifactArchive> {
    let mut chosen: BTreeMap<ArtifactName, ArtifactArchive> = BTreeMap::new();
    for archive in archives {
        let other = chosen.get(&archive.name.artifact);
        if other.is_none_or(|other| archive.name.format < other.name.format) {
            chosen.insert(archive.name.artifact.clone(), archive);
        }
    }
    chosen.into_values().collect()
}

/// Parses `digest  name`, or the digest alone.
fn parse_sidecar(line: &str) -> Result<Sha256> {
    let digest =
        line.split_whitespace().next().context("an empty file where a SHA-256 was expected")?;
    Ok(digest.to_ascii_lowercase().parse()?)
}

#[cfg(test)]
pub(super) mod tests {
    use itertools::Itertools as _;

    use super::*;

    /// The archives among files of one byte each.
    pub(crate) fn inventory(files: &str) -> Vec<ArtifactArchive> {
        listed(files).archives
    }

    fn listed(files: &str) -> Inventory {
        let object = |name: &str| Object {
            key: name.parse().unwrap(),
            size: 1,
            sha256: None,
            checksum: None,
            content_type: None,
            cache_control: None,
            etag: None,
            modified: None,
        };
        list_archives(files.split_whitespace().map(object).collect())
    }

    fn names(archives: &[ArtifactArchive]) -> String {
        archives.iter().map(|it| &it.name).join(" ")
    }

    #[test]
    fn what_is_no_archive_of_an_artifact_is_ignored_but_an_archive_not_silently() {
        let listed = listed(
            "index.html ccache_logs.tar.zst blas_lib_gfx942.tar.zst rocm.tar.gz a_b_c_d.tar.xz \
             base_lib_generic.tar.zst.part blas_foo_generic.tar.zst 7zip_lib_generic.tar.xz \
             libc++-1.0_dev_generic.tar.zst",
        );
        assert_eq!(
            names(&listed.archives),
            "7zip_lib_generic.tar.xz blas_lib_gfx942.tar.zst libc++-1.0_dev_generic.tar.zst"
        );
        assert_eq!(
            listed.unknown.iter().join(" "),
            "a_b_c_d.tar.xz blas_foo_generic.tar.zst ccache_logs.tar.zst"
        );
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
    fn a_sidecar_has_the_digest_first_and_perhaps_a_name() {
        let digest = Sha256::of(b"x");
        for text in [
            format!("{digest}\n"),
            format!("{digest}  blas_lib_generic.tar.zst\n"),
            digest.to_string().to_uppercase(),
        ] {
            assert_eq!(parse_sidecar(&text).unwrap(), digest);
        }
    }

    #[test]
    fn what_is_no_digest_is_refused_in_words() {
        let refused = ["", " \n", "<html>", "d41d8cd98f00b204e9800998ecf8427e"];
        let messages = refused.map(|text| parse_sidecar(text).unwrap_err().to_string());
        insta::assert_snapshot!(messages.join("\n"), @r#"
        an empty file where a SHA-256 was expected
        an empty file where a SHA-256 was expected
        not a SHA-256 of 64 lower-case hexadecimal digits: "<html>"
        not a SHA-256 of 64 lower-case hexadecimal digits: "d41d8cd98f00b204e9800998ecf8427e"
        "#);
    }
}
