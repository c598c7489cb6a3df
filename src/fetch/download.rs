//! Downloads one parcel: checks its bytes, unpacks it, and then renames its artifacts into place.
//!
//! Every artifact has a temporary name until the whole parcel is read and its digest is correct.
//! So a broken or damaged download changes nothing under a final name.

use std::{
    io::{self, Read, Seek, Write as _},
    path::Path,
};

use zip::ZipArchive;

use super::{
    output::{Fetched, OutputForm, PathExtent},
    source::{ArchiveSource, ArtifactArchive, Parcel},
};
use crate::artifact::{Staged, UnpackLimits, stage};
use rocwheel_base::{
    atomic::AtomicFile,
    digest::{Checking, Hasher, Sha256},
    error::{Context as _, Hint as _, Result, Stop, anyhow},
    io::Tap,
    parallel::ahead,
};

const BUFFER: usize = 1 << 20;

/// The directory that parcels are fetched to, the form in which it keeps them, the stop flag and the progress
/// bar.
pub(super) struct DownloadContext<'a> {
    pub directory: &'a Path,
    pub kept: OutputForm,
    pub stop: &'a Stop,
    /// Called with the number of bytes after each read.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// A received artifact without its final name. Dropping it deletes the temporary file or directory.
enum ReceivedPart {
    Directory(Box<Staged>),
    File(AtomicFile),
}

/// The bytes of a parcel while they arrive. It fails if the download is shorter or longer than
/// [`Parcel::size`].
struct ParcelStream<'a> {
    source: Box<dyn Read + Send + 'a>,
    /// Computes the SHA-256, if the source states one.
    hasher: Option<Hasher>,
    /// Computes another checksum, if the store has one.
    checking: Option<Checking>,
    /// Bytes read so far.
    position: u64,
    size: u64,
}

/// The result of one parcel.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Each artifact under its name in the output directory.
    pub artifacts: Vec<(String, Fetched)>,
    /// The archives that were not verified: the source has no digest, and the archive has no
    /// checksum.
    pub unverified: Vec<String>,
}

/// Downloads a parcel and gives its artifacts their final names.
pub(super) fn receive(
    source: &dyn ArchiveSource,
    parcel: &Parcel,
    context: &DownloadContext,
) -> Result<Received> {
    context.receive(source, parcel).or_else(|error| {
        // `Tap` reports a stop as an I/O error, because `Read` has no other way. Report
        // the stop itself, not a failed download.
        context.stop.check()?;
        let is_full =
            error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|cause| {
                use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
                matches!(cause.kind(), StorageFull | QuotaExceeded | FileTooLarge)
            });
        let error = Err(error).with_context(|| format!("failed to fetch `{}`", parcel.id));
        if is_full { error.hint("free disk space, or choose another directory") } else { error }
    })
}

impl DownloadContext<'_> {
    fn receive(&self, source: &dyn ArchiveSource, parcel: &Parcel) -> Result<Received> {
        let mut stream = ParcelStream {
            source: Box::new(Tap::new(source.open(parcel)?, self.stop, self.progress)),
            hasher: (!parcel.digests.sha256.is_empty()).then(Hasher::default),
            checking: parcel.digests.checksum.map(Checking::new),
            position: 0,
            size: parcel.size,
        };
        let mut parts = Vec::new();
        let is_zip = parcel.members.iter().any(|member| member.zipped.is_some());
        let sha256 = if is_zip {
            // The directory of a zip file is at its end, so all of it has to be on disk first.
            let mut file = AtomicFile::beside(&self.directory.join("artifact.zip"))?;
            copy(&mut stream, file.file())?;
            let sha256 = stream.verify(parcel)?;
            let mut zip = ZipArchive::new(io::BufReader::new(file.file()))?;
            for member in &parcel.members {
                parts.push((member, self.receive_zipped(member, &mut zip)?));
            }
            sha256
        } else {
            for member in &parcel.members {
                let part = ahead(&mut stream, |content| self.receive_part(member, content))?;
                parts.push((member, part));
            }
            // Read on to the end: the digest covers the bytes behind the archive too.
            io::copy(&mut stream, &mut io::sink())?;
            stream.verify(parcel)?
        };
        let mut received = Received::default();
        for (member, part) in parts {
            // A zip file has a checksum of each member. A packed archive may have one, but was not unpacked.
            let has_checksum = member.zipped.is_some()
                || match &part {
                    ReceivedPart::Directory(staged) => staged.unpacked.has_checksum,
                    ReceivedPart::File(_) => false,
                };
            if !parcel.has_digest() && !has_checksum {
                received.unverified.push(member.name.to_string());
            }
            let name = self.kept.name(member);
            let target = self.directory.join(&name);
            match part {
                ReceivedPart::Directory(staged) => {
                    staged.commit()?;
                }
                ReceivedPart::File(file) => file.replace(&target)?,
            }
            let extent = PathExtent::of(&target)?
                .with_context(|| format!("`{name}` was removed during the fetch"))?;
            let fetched = Fetched {
                from: source.to_string(),
                size: parcel.size,
                sha256,
                etag: parcel.etag.clone(),
                extent,
            };
            received.artifacts.push((name, fetched));
        }
        Ok(received)
    }

    /// Writes an archive, or what is in it, under a temporary name.
    fn receive_part(
        &self,
        archive: &ArtifactArchive,
        content: &mut (impl Read + Send + ?Sized),
    ) -> Result<ReceivedPart> {
        if self.kept != OutputForm::Packed {
            let limits = UnpackLimits::default();
            let staged =
                stage(content, &archive.name, self.directory, &limits, self.stop, &|_| ())?;
            return Ok(ReceivedPart::Directory(Box::new(staged)));
        }
        fs_err::create_dir_all(self.directory)?;
        let mut file = AtomicFile::beside(&self.directory.join(archive.name.file_name()))?;
        copy(content, file.file())?;
        Ok(ReceivedPart::File(file))
    }

    /// Writes one member of a zip file, or what is in it, under a temporary name.
    fn receive_zipped(
        &self,
        archive: &ArtifactArchive,
        zip: &mut ZipArchive<impl Read + Seek + Send>,
    ) -> Result<ReceivedPart> {
        let member = archive.zipped.context("not a member of a zip file")?;
        let failure = || format!("failed to read `{}` in the zip file", archive.name);
        let entry = zip.by_index(member.index).with_context(failure)?;
        let mut content = Tap::new(entry, self.stop, &|_| ());
        let part = self.receive_part(archive, &mut content).with_context(failure)?;
        // Read on to the end: only there does `zip` compare the size and the checksum of the member.
        io::copy(&mut content, &mut io::sink()).with_context(failure)?;
        Ok(part)
    }
}

fn copy(from: &mut (impl Read + ?Sized), to: &mut impl io::Write) -> io::Result<()> {
    let mut writer = io::BufWriter::with_capacity(BUFFER, to);
    io::copy(from, &mut writer)?;
    writer.flush()
}

impl ParcelStream<'_> {
    /// Compares the bytes with the digests of the parcel. Returns the SHA-256, if the source states one.
    fn verify(self, parcel: &Parcel) -> Result<Option<Sha256>> {
        let sha256 = self.hasher.map(|hasher| hasher.finish().0);
        let other = parcel.digests.sha256.iter().find(|expected| Some(**expected) != sha256);
        let fits_checksum = self.checking.is_none_or(Checking::fits);
        let difference = match (sha256.zip(other), fits_checksum) {
            (Some((sha256, expected)), _) => format!("sha256 {sha256}, expected {expected}"),
            (None, false) => "the store has another checksum".to_owned(),
            (None, true) => return Ok(sha256),
        };
        Err(anyhow!("wrong digest: {difference}"))
            .hint("fetch it again; if that does not help, upload it again from its run")
    }
}

impl Read for ParcelStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Without this, an empty buffer would pass for the end of the download.
        if buffer.is_empty() {
            return Ok(0);
        }
        let count = self.source.read(buffer)?;
        let bytes = buffer.get(..count).unwrap_or_default();
        if let Some(hasher) = &mut self.hasher {
            hasher.write_all(bytes)?;
        }
        if let Some(checking) = &mut self.checking {
            checking.update(bytes);
        }
        self.position = self.position.saturating_add(count as u64);
        let Self { position, size, .. } = *self;
        if count == 0 && position < size {
            let message = format!("the download ended after {position} of {size} bytes");
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, message));
        }
        if position > size {
            let message = format!("the download goes on after {size} bytes, where it should end");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
