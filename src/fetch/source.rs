//! Where archives come from: a run's directory in a store, or what GitHub keeps for the run.

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

/// A digest and the name of a file; a longer sidecar is none.
const MOST_OF_A_SIDECAR: u64 = 4096;

/// From here on, an archive may come in several answers at once.
const LARGE: u64 = 16 << 20;

/// How many things are done at once, and until when.
#[derive(Clone, Debug)]
pub struct Concurrency {
    pub jobs: NonZeroUsize,
    pub stop: Stop,
}

/// Something that has the archives of a run.
pub trait ArchiveSource: fmt::Debug + fmt::Display + Send + Sync {
    fn inventory(&self) -> Result<RunInventory>;

    /// What is to be read for these archives, each once.
    fn parcels(&self, archives: &[ArtifactArchive], pace: &Concurrency) -> Result<Vec<Parcel>>;

    /// The bytes of a parcel, which are taken up again where they break off if that is possible.
    fn open(&self, parcel: &Parcel) -> Result<Box<dyn Read + Send + '_>>;
}

/// What is read in one stream: one archive, or something that several are packed into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// As its source knows it.
    pub id: String,
    pub size: u64,
    /// What its bytes have to be, by everybody who says so.
    pub sha256: Vec<Sha256>,
    /// What its source says where it has no SHA-256.
    pub checksum: Option<Checksum>,
    /// What changes with the bytes, if its source has such a thing.
    pub etag: Option<String>,
    /// In the order in which they lie in the stream.
    pub members: Vec<ZipMember>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZipMember {
    pub archive: ArtifactArchive,
    pub packing: ParcelPacking,
}

/// How an archive lies in its parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParcelPacking {
    /// It is all of it.
    Bare,
    /// As a member of a zip file.
    Zip(ZipSpan),
}

/// Where in a zip file a member is, as the directory at the end of the file says.
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
    /// Whether its source says what its bytes are.
    pub fn is_vouched_for(&self) -> bool {
        !self.sha256.is_empty() || self.checksum.is_some()
    }
}

/// A directory of a store, or all of it.
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
        // A listing has no checksums; where the store has one, it says so of the object itself.
        // It need not, so that a failure here is none.
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

    /// What the file beside an archive says.
    fn sidecar(&self, archive: &ArtifactArchive) -> Result<Option<Sha256>> {
        if !archive.sidecar {
            return Ok(None);
        }
        let name = format!("{}{SIDECAR}", archive.key);
        let read = || -> Result<Option<Sha256>> {
            let reader = match self.store.get(&self.key(&name)?, Span::Whole) {
                // It went since the listing.
                Err(error) if error.kind() == StoreFailureKind::NotFound => return Ok(None),
                reader => reader?,
            };
            let mut text = String::new();
            reader.take(MOST_OF_A_SIDECAR).read_to_string(&mut text)?;
            parse_sidecar(&text).map(Some)
        };
        read().with_context(|| format!("read `{name}`"))
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

/// The digest in `digest  name`, or alone.
fn parse_sidecar(text: &str) -> Result<Sha256> {
    let word = text.split_whitespace().next();
    let word = word.context("an empty file where a SHA-256 was expected")?;
    Ok(word.to_ascii_lowercase().parse()?)
}

impl ZipSpan {
    /// What lies between the beginning of the member's header and its bytes.
    ///
    /// The header repeats what the directory says, or says nothing yet; the directory counts.
    pub fn skip_header(stream: &mut impl Read) -> Result<u64> {
        let mut header = [0; 30];
        stream
            .read_exact(&mut header)
            .context("read the zip file's member")?;
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
