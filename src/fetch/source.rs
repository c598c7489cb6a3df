//! The sources of archives: a run's directory in a store (bucket or local), or the artifacts that
//! GitHub keeps for the run.

use std::{
    fmt,
    io::{self, Read},
    num::NonZeroUsize,
};

use super::inventory::{ArtifactArchive, ListedFile, RunInventory, SIDECAR};
use crate::{
    digest::{Checksum, Sha256},
    error::{Context as _, Result, Stop, bail, ensure},
    location::Key,
    parallel,
    relpath::RelPath,
    store::{Depth, Span, Store, StoreFailureKind},
};

/// The limit for reading a sidecar, which has one line: a digest and a file name.
const MOST_OF_A_SIDECAR: u64 = 4096;

/// Archives of at least this size may be downloaded in several ranges at once.
const LARGE: u64 = 16 << 20;

/// How many requests run at once, and the flag that stops them.
#[derive(Clone, Debug)]
pub struct Concurrency {
    pub jobs: NonZeroUsize,
    pub stop: Stop,
}

/// A place that has the archives of a run.
pub trait ArchiveSource: fmt::Debug + fmt::Display + Send + Sync {
    fn inventory(&self) -> Result<RunInventory>;

    /// The streams to read for these archives. Each is listed once, even if it contains several of
    /// them.
    fn parcels(&self, archives: &[ArtifactArchive], pace: &Concurrency) -> Result<Vec<Parcel>>;

    /// Opens the stream of a parcel. Where possible, a broken connection is resumed.
    fn open(&self, parcel: &Parcel) -> Result<Box<dyn Read + Send + '_>>;
}

/// What is downloaded in one stream: an archive, or a zip file with several archives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The name in its source: a file name, or the name of an artifact on GitHub.
    pub id: String,
    pub size: u64,
    /// The SHA-256 of the whole stream, from each place that states one. All have to match.
    pub sha256: Vec<Sha256>,
    /// Another checksum that the store has for the object; only asked for if there is no SHA-256.
    pub checksum: Option<Checksum>,
    /// Changes whenever the bytes change, if the source has such a value (`ETag`, artifact id).
    pub etag: Option<String>,
    /// In the order of their positions in the stream.
    pub members: Vec<ZipMember>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZipMember {
    pub archive: ArtifactArchive,
    pub packing: ParcelPacking,
}

/// How an archive is packed in its parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParcelPacking {
    /// The parcel is the archive.
    Bare,
    /// The archive is a member of a zip file.
    Zip(ZipSpan),
}

/// The position of a member in a zip file, from the central directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZipSpan {
    pub header_at: u64,
    pub packed: u64,
    pub crc32: u32,
    pub deflated: Deflated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deflated {
    Yes,
    No,
}

impl Parcel {
    /// Whether the source states a digest or checksum of the bytes.
    pub fn is_vouched_for(&self) -> bool {
        !self.sha256.is_empty() || self.checksum.is_some()
    }
}

/// A directory of a store, or all of the store.
#[derive(Debug)]
pub struct StoreSource {
    store: Box<dyn Store>,
    directory: Option<Key>,
}

impl StoreSource {
    pub fn new(store: Box<dyn Store>, directory: Option<Key>) -> Self {
        Self { store, directory }
    }

    fn key(&self, file_name: &str) -> Result<Key> {
        let path: RelPath = file_name.parse()?;
        match &self.directory {
            Some(directory) => Ok(directory.join(&path)?),
            None => Ok(path.as_str().parse()?),
        }
    }

    fn parcel(&self, archive: &ArtifactArchive) -> Result<Parcel> {
        let said = archive.sha256.into_iter().chain(self.sidecar(archive)?);
        let mut said: Vec<Sha256> = said.collect();
        let mut checksum = None;
        // A listing has no checksums, but S3 may return one with `HEAD`. It is optional, so a
        // failed request is not an error: the archive is only fetched without that check.
        if said.is_empty()
            && let Ok(object) = self.store.head(&self.key(&archive.key)?)
        {
            said.extend(object.sha256);
            checksum = object.checksum;
        }
        Ok(Parcel {
            id: archive.key.clone(),
            size: archive.size,
            sha256: said,
            checksum,
            etag: archive.etag.clone(),
            members: vec![ZipMember {
                archive: archive.clone(),
                packing: ParcelPacking::Bare,
            }],
        })
    }

    /// Reads the SHA-256 in the file beside an archive, `NAME.tar.zst.sha256sum`.
    fn sidecar(&self, archive: &ArtifactArchive) -> Result<Option<Sha256>> {
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
            let mut text = String::new();
            reader.take(MOST_OF_A_SIDECAR).read_to_string(&mut text)?;
            parse_sidecar(&text).map(Some)
        };
        read().with_context(|| format!("failed to read `{name}`"))
    }
}

impl ArchiveSource for StoreSource {
    fn inventory(&self) -> Result<RunInventory> {
        let objects = self.store.list(self.directory.as_ref(), Depth::Children)?;
        Ok(RunInventory::of(objects.into_iter().map(|object| {
            ListedFile {
                name: object.key.file_name().to_owned(),
                size: object.size,
                sha256: object.sha256,
                etag: object.etag,
            }
        })))
    }

    fn parcels(&self, archives: &[ArtifactArchive], pace: &Concurrency) -> Result<Vec<Parcel>> {
        let mut parcels = Vec::new();
        parallel::try_each(
            archives,
            pace.jobs,
            &pace.stop,
            |archive| self.parcel(archive),
            |_, parcel| parcels.push(parcel),
        )?;
        parcels.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(parcels)
    }

    fn open(&self, parcel: &Parcel) -> Result<Box<dyn Read + Send>> {
        // In one response, the store may send a checksum that covers the whole object. Ranges have
        // none, but of a large archive several can be downloaded at once.
        let span = if parcel.size < LARGE {
            Span::Whole
        } else {
            Span::From(0)
        };
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

/// Parses `digest  name`, or the digest alone.
fn parse_sidecar(text: &str) -> Result<Sha256> {
    let word = text.split_whitespace().next();
    let word = word.context("an empty file where a SHA-256 was expected")?;
    Ok(word.to_ascii_lowercase().parse()?)
}

impl ZipSpan {
    /// Skips the local header of a member: 30 bytes, a name and an extra field of variable length.
    ///
    /// Its sizes and CRC are ignored, because a streamed zip file has zeros there; those of the
    /// central directory are used. The name and extra field may have other lengths than in the
    /// central directory, so they have to be read here. See [APPNOTE.TXT], section 4.3.7.
    ///
    /// [APPNOTE.TXT]: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
    pub fn skip_header(stream: &mut impl Read) -> Result<u64> {
        let mut header = [0; 30];
        stream
            .read_exact(&mut header)
            .context("failed to read the zip file's member")?;
        let [b'P', b'K', 3, 4, .., n0, n1, e0, e1] = header else {
            bail!("no member of the zip file where its directory says there is one");
        };
        let rest =
            u64::from(u16::from_le_bytes([n0, n1])) + u64::from(u16::from_le_bytes([e0, e1]));
        let skipped = io::copy(&mut stream.take(rest), &mut io::sink())?;
        ensure!(skipped == rest, "the zip file is cut off");
        Ok(30 + rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
