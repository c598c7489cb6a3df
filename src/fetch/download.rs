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
use crate::{
    artifact::{Staged, UnpackLimits, stage},
    atomic::AtomicFile,
    digest::{Checking, Hasher, Sha256},
    error::{Context as _, Hint as _, Result, Stop, anyhow},
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
        let mut kinds = error.chain().filter_map(|it| Some(it.downcast_ref::<io::Error>()?.kind()));
        let is_full = kinds.any(|kind| {
            use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
            matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
        });
        let error = Err(error).with_context(|| format!("failed to fetch `{}`", parcel.id));
        if is_full { error.hint("free disk space, or choose another directory") } else { error }
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
        let sha256 = if parcel.members.iter().any(|it| it.zipped.is_some()) {
            let mut file = AtomicFile::beside(&self.directory.join("artifact.zip"))?;
            copy(&mut stream, file.file())?;
            let sha256 = stream.verify(parcel)?;
            let mut zip = ZipArchive::new(io::BufReader::new(file.file()))?;
            for member in &parcel.members {
                parts.push((member, self.unzip(member, &mut zip)?));
            }
            sha256
        } else {
            for member in &parcel.members {
                let part = ahead(&mut stream, |content| self.take(member, content))?;
                parts.push((member, part));
            }
            // Read on to the end: the digest covers the bytes behind the archive too.
            io::copy(&mut stream, &mut io::sink())?;
            stream.verify(parcel)?
        };
        let mut received = Received::default();
        for (member, part) in parts {
            let has_checksum = match &part {
                _ if member.zipped.is_some() => true,
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
            let extent =
                extent.with_context(|| format!("`{name}` was removed during the fetch"))?;
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
        copy(content, file.file())?;
        Ok(ReceivedPart::File(file))
    }

    /// Writes one member of a zip file, or what is in it, under a temporary name.
    fn unzip(
        &self,
        archive: &ArtifactArchive,
        zip: &mut ZipArchive<impl Read + Seek + Send>,
    ) -> Result<ReceivedPart> {
        let member = archive.zipped.context("not a member of a zip file")?;
        let failed = || format!("failed to read `{}` in the zip file", archive.name);
        let content = zip.by_index(member.index).with_context(failed)?;
        // `zip` compares the size and the checksum while the member is read to its end.
        let mut content = Tap::new(content, self.stop, &|_| ());
        let part = self.take(archive, &mut content).with_context(failed)?;
        io::copy(&mut content, &mut io::sink()).with_context(failed)?;
        Ok(part)
    }
}

fn copy(from: &mut (impl Read + ?Sized), to: &mut impl io::Write) -> io::Result<()> {
    let mut writer = io::BufWriter::with_capacity(BUFFER, to);
    io::copy(from, &mut writer)?;
    writer.flush()
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
