//! Downloads one parcel: checks its bytes, unpacks it, and then renames its artifacts into place.
//!
//! Every artifact has a temporary name until the whole parcel is read and its digest is correct.
//! So a broken or damaged download changes nothing under a final name.

use std::{
    io::{self, Read, Write as _},
    path::Path,
};

use flate2::{CrcReader, read::DeflateDecoder};

use super::{
    output::{Fetched, OutputForm, PathExtent},
    source::{ArchiveSource, ArtifactArchive, Parcel, ZipSpan},
};
use crate::{
    artifact::{Staged, UnpackLimits, stage},
    atomic::AtomicFile,
    digest::{Checking, Hasher, Sha256},
    error::{Context as _, Hint as _, Result, Stop, anyhow, ensure},
    io::Tap,
    parallel::ahead,
};

const BUFFER: usize = 1 << 20;

/// The directory that parcels are fetched to, with the stop flag and the progress bar.
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
    /// Only if the source states a SHA-256.
    hasher: Option<Hasher>,
    checking: Option<Checking>,
    /// Bytes read so far.
    at: u64,
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
        let mut kinds = error
            .chain()
            .filter_map(|it| Some(it.downcast_ref::<io::Error>()?.kind()));
        let is_full = kinds.any(|kind| {
            use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
            matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
        });
        let error = Err(error).with_context(|| format!("failed to fetch `{}`", parcel.id));
        if is_full {
            error.hint("free disk space, or choose another directory")
        } else {
            error
        }
    })
}

impl DownloadContext<'_> {
    fn receive(&self, source: &dyn ArchiveSource, parcel: &Parcel) -> Result<Received> {
        let mut stream = ParcelStream {
            source: Box::new(Tap::new(source.open(parcel)?, self.stop, self.progress)),
            hasher: (!parcel.sha256.is_empty()).then(Hasher::default),
            checking: parcel.checksum.map(Checking::new),
            at: 0,
            size: parcel.size,
        };
        let mut parts = Vec::new();
        for member in &parcel.members {
            let part = match &member.span {
                None => ahead(&mut stream, |content| self.take(member, content))?,
                Some(span) => self.unzip(member, span, &mut stream)?,
            };
            parts.push((member, part));
        }
        // Read on to the end: the digest covers the bytes behind the last wanted member too.
        io::copy(&mut stream, &mut io::sink())?;
        let sha256 = stream.verify(parcel)?;
        let mut received = Received::default();
        for (member, part) in parts {
            let has_checksum = match &part {
                _ if member.span.is_some() => true,
                ReceivedPart::Directory(staged) => staged.unpacked.has_checksum,
                ReceivedPart::File(_) => false,
            };
            if !parcel.is_vouched_for() && !has_checksum {
                received.unverified.push(member.name.to_string());
            }
            let name = self.kept.name(member);
            let target = self.directory.join(&name);
            match part {
                ReceivedPart::Directory(staged) => drop(staged.commit()?),
                ReceivedPart::File(file) => file.replace(&target)?,
            }
            let extent = PathExtent::of(&target)?;
            ensure!(extent.is_some(), "`{name}` was removed during the fetch");
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
    fn take(
        &self,
        archive: &ArtifactArchive,
        content: &mut (impl Read + Send + ?Sized),
    ) -> Result<ReceivedPart> {
        if self.kept != OutputForm::Packed {
            let limits = UnpackLimits::default();
            let (name, directory) = (&archive.name, self.directory);
            let staged = stage(content, name, directory, &limits, self.stop, &|_| ())?;
            return Ok(ReceivedPart::Directory(Box::new(staged)));
        }
        fs_err::create_dir_all(self.directory)?;
        let mut file = AtomicFile::beside(&self.directory.join(archive.name.file_name()))?;
        let mut writer = io::BufWriter::with_capacity(BUFFER, file.file());
        io::copy(content, &mut writer)?;
        writer.flush()?;
        drop(writer);
        Ok(ReceivedPart::File(file))
    }

    /// Unpacks one member of a zip file while the file is streamed. Positions and checksums are
    /// known from its central directory, which was read before, so members that are not wanted are
    /// skipped.
    fn unzip(
        &self,
        archive: &ArtifactArchive,
        span: &ZipSpan,
        stream: &mut ParcelStream,
    ) -> Result<ReceivedPart> {
        let gap = span.header_at.checked_sub(stream.at);
        let gap = gap.context("two members of the zip file overlap")?;
        io::copy(&mut stream.by_ref().take(gap), &mut io::sink())?;
        ZipSpan::skip_header(stream)?;
        let mut packed = stream.by_ref().take(span.packed);
        let content: Box<dyn Read + Send + '_> = if span.deflated {
            Box::new(DeflateDecoder::new(&mut packed))
        } else {
            Box::new(&mut packed)
        };
        // The reader may deliver one byte more than the directory of the zip file promises. So a
        // member that is too long has a wrong count, and does not pass as complete.
        let mut content = CrcReader::new(content.take(span.size.saturating_add(1)));
        let part = self.take(archive, &mut content)?;
        io::copy(&mut content, &mut io::sink())?;
        let is_whole = content.get_ref().limit() == 1 && content.crc().sum() == span.crc32;
        drop(content);
        io::copy(&mut packed, &mut io::sink())?;
        ensure!(is_whole, "the zip file is damaged at `{}`", archive.name);
        Ok(part)
    }
}

impl ParcelStream<'_> {
    /// The SHA-256, if the source states one.
    fn verify(self, parcel: &Parcel) -> Result<Option<Sha256>> {
        let sha256 = self.hasher.map(|it| it.finish().0);
        let other = parcel.sha256.iter().find(|it| Some(**it) != sha256);
        let fits = self.checking.is_none_or(Checking::fits);
        let how = match (sha256.zip(other), fits) {
            (Some((sha256, expected)), _) => format!("sha256 {sha256}, expected {expected}"),
            (None, false) => "the store has another checksum".to_owned(),
            (None, true) => return Ok(sha256),
        };
        Err(anyhow!("wrong digest: {how}"))
            .hint("fetch it again; if that does not help, upload it again from its run")
    }
}

impl Read for ParcelStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
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
        self.at = self.at.saturating_add(count as u64);
        let (at, size) = (self.at, self.size);
        if count == 0 && at < size {
            let text = format!("the download ended after {at} of {size} bytes");
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, text));
        }
        if at > size {
            let text = format!("the download goes on after {size} bytes, where it should end");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
