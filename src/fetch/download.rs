//! Downloads one parcel: checks its bytes, unpacks it, and then renames its artifacts into place.
//!
//! Every artifact has a temporary name until the whole parcel is read and its digest is correct.
//! So a broken or damaged download changes nothing under a final name.

use std::{
    io::{self, Read, Write as _},
    path::Path,
};

use flate2::read::DeflateDecoder;
use fs_err as fs;
use tempfile::TempPath;

use super::{
    output::OutputForm,
    source::{ArchiveSource, Deflated, Parcel, ParcelPacking, ZipMember, ZipSpan},
    state::{Fetched, PathExtent},
};
use crate::{
    artifact::{Staged, UnpackLimits, stage},
    digest::{Checking, Hasher, Sha256},
    error::{Context as _, Hint as _, Result, Stop, anyhow, ensure},
};

const BUFFER: usize = 1 << 20;

/// The directory that parcels are fetched to, with the stop flag and the progress bar.
pub(super) struct Ground<'a> {
    pub directory: &'a Path,
    pub kept: OutputForm,
    pub stop: &'a Stop,
    /// Called with the number of bytes after each read.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// A received artifact without its final name. Dropping it deletes the temporary file or directory.
enum ReceivedPart {
    Directory(Box<Staged>),
    File(TempPath),
}

/// The bytes of a parcel while they arrive: it counts, hashes and reports them.
///
/// It fails if the download is shorter or longer than [`Parcel::size`].
struct ParcelStream<'a, R> {
    source: R,
    hasher: Hasher,
    checking: Option<Checking>,
    /// Bytes read so far.
    at: u64,
    size: u64,
    ground: &'a Ground<'a>,
}

/// The result of one parcel.
#[derive(Debug)]
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
    ground: &Ground,
) -> Result<Received> {
    let attempt = || -> Result<Received> {
        let mut stream = ParcelStream {
            source: source.open(parcel)?,
            hasher: Hasher::default(),
            checking: parcel.checksum.map(Checking::new),
            at: 0,
            size: parcel.size,
            ground,
        };
        let mut waiting = Vec::new();
        for member in &parcel.members {
            waiting.push((member, take(member, &mut stream, ground)?));
        }
        // Read on to the end: the digest covers the bytes behind the last wanted member too.
        io::copy(&mut stream, &mut io::sink())?;
        let sha256 = verify(parcel, stream)?;
        let has_checksum =
            |member: &ZipMember, waiting: &ReceivedPart| match (&member.packing, waiting) {
                (ParcelPacking::Zip(_), _) => true,
                (ParcelPacking::Bare, ReceivedPart::Directory(staged)) => {
                    staged.unpacked().has_checksum
                }
                (ParcelPacking::Bare, ReceivedPart::File(_)) => false,
            };
        let unverified = waiting
            .iter()
            .filter(|(member, waiting)| !parcel.is_vouched_for() && !has_checksum(member, waiting))
            .map(|(member, _)| member.archive.file_name());
        let unverified = unverified.collect();
        let committed = waiting
            .into_iter()
            .map(|(member, waiting)| ground.commit(source, parcel, member, waiting, sha256));
        Ok(Received {
            artifacts: committed.collect::<Result<_>>()?,
            unverified,
        })
    };
    attempt().or_else(|error| {
        // `ParcelStream` reports a stop as an I/O error, because `Read` has no other way. Report
        // the stop itself, not a failed download.
        ground.stop.check()?;
        let full = error.chain().any(is_full);
        let error = Err(error).with_context(|| format!("failed to fetch `{}`", parcel.id));
        if full {
            error.hint("free disk space, or choose another `--output-dir`")
        } else {
            error
        }
    })
}

fn is_full(cause: &(dyn std::error::Error + 'static)) -> bool {
    let kind = cause.downcast_ref().map(io::Error::kind);
    matches!(
        kind,
        Some(
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        )
    )
}

fn verify<R>(parcel: &Parcel, stream: ParcelStream<R>) -> Result<Sha256> {
    let (sha256, _) = stream.hasher.finish();
    let differs = |how: String| {
        Err(anyhow!("wrong digest: {how}"))
            .hint("fetch it again; if that does not help, upload it again from its run")
    };
    if let Some(expected) = parcel.sha256.iter().find(|it| **it != sha256) {
        return differs(format!("sha256 {sha256}, expected {expected}"));
    }
    if stream.checking.is_some_and(|checking| !checking.fits()) {
        return differs("the store has another checksum".to_owned());
    }
    Ok(sha256)
}

fn take<R: Read>(
    member: &ZipMember,
    stream: &mut ParcelStream<R>,
    ground: &Ground,
) -> Result<ReceivedPart> {
    match &member.packing {
        ParcelPacking::Bare => ground.take(member, stream),
        ParcelPacking::Zip(span) => unzip(member, span, stream, ground),
    }
}

/// Unpacks one member of a zip file while the file is streamed. Positions and checksums are known
/// from its central directory, which was read before, so members that are not wanted are skipped.
fn unzip<R: Read>(
    member: &ZipMember,
    span: &ZipSpan,
    stream: &mut ParcelStream<R>,
    ground: &Ground,
) -> Result<ReceivedPart> {
    let gap = span.header_at.checked_sub(stream.at);
    let gap = gap.context("two members of the zip file overlap")?;
    io::copy(&mut stream.by_ref().take(gap), &mut io::sink())?;
    ZipSpan::skip_header(stream)?;
    let mut packed = stream.by_ref().take(span.packed);
    let (name, size) = (&member.archive.name, member.archive.size);
    let mut checked = CheckedReader::default();
    let waiting = {
        let mut content: Box<dyn Read + '_> = match span.deflated {
            Deflated::Yes => Box::new(DeflateDecoder::new(&mut packed)),
            Deflated::No => Box::new(&mut packed),
        };
        // The reader may deliver one byte more than the directory of the zip file promises. So a
        // member that is too long has a wrong count, and does not pass as complete.
        let mut content = checked.of(content.by_ref().take(size.saturating_add(1)));
        let waiting = ground.take(member, &mut content)?;
        io::copy(&mut content, &mut io::sink())?;
        waiting
    };
    io::copy(&mut packed, &mut io::sink())?;
    let is_whole = checked.count == size && checked.crc.finalize() == span.crc32;
    ensure!(is_whole, "the zip file is damaged at `{name}`");
    Ok(waiting)
}

impl Ground<'_> {
    fn take(&self, member: &ZipMember, content: &mut impl Read) -> Result<ReceivedPart> {
        match self.kept {
            OutputForm::Unpacked | OutputForm::Merged => {
                let limits = UnpackLimits::default();
                let name = &member.archive.name;
                let staged = stage(content, name, self.directory, &limits, self.stop, &|_| ())?;
                Ok(ReceivedPart::Directory(Box::new(staged)))
            }
            OutputForm::Packed => {
                let target = self.directory.join(member.archive.name.file_name());
                Ok(ReceivedPart::File(write_beside(&target, content)?))
            }
        }
    }

    fn commit(
        &self,
        source: &dyn ArchiveSource,
        parcel: &Parcel,
        member: &ZipMember,
        waiting: ReceivedPart,
        sha256: Sha256,
    ) -> Result<(String, Fetched)> {
        let name = self.kept.name(&member.archive);
        let target = self.directory.join(&name);
        match waiting {
            ReceivedPart::Directory(staged) => drop(staged.commit()?),
            ReceivedPart::File(part) => part.persist(&target).map_err(|failed| failed.error)?,
        }
        let extent = PathExtent::of(&target)?;
        if extent.is_none() {
            return Err(anyhow!("`{name}` was removed during the fetch"));
        }
        let fetched = Fetched {
            from: source.to_string(),
            size: parcel.size,
            sha256,
            etag: parcel.etag.clone(),
            extent,
        };
        Ok((name, fetched))
    }
}

impl<R: Read> Read for ParcelStream<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.ground.stop.check().map_err(io::Error::other)?;
        if buffer.is_empty() {
            return Ok(0);
        }
        let count = self.source.read(buffer)?;
        let bytes = buffer.get(..count).unwrap_or_default();
        self.hasher.write_all(bytes)?;
        if let Some(checking) = &mut self.checking {
            checking.update(bytes);
        }
        self.at = self.at.saturating_add(count as u64);
        (self.ground.progress)(count as u64);
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

/// CRC-32 and length of everything read through [`CheckedReader::of`].
#[derive(Default)]
struct CheckedReader {
    crc: crc32fast::Hasher,
    count: u64,
}

struct CrcReader<'a, R> {
    inner: R,
    checked: &'a mut CheckedReader,
}

impl CheckedReader {
    fn of<R: Read>(&mut self, inner: R) -> CrcReader<'_, R> {
        let checked = self;
        CrcReader { inner, checked }
    }
}

impl<R: Read> Read for CrcReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let read = buffer.get(..count).unwrap_or_default();
        self.checked.crc.update(read);
        self.checked.count = self.checked.count.saturating_add(count as u64);
        Ok(count)
    }
}

/// Writes `NAME.part` and returns it as a temporary path: dropping that deletes the file, `persist`
/// gives it its final name.
fn write_beside(target: &Path, content: &mut impl Read) -> Result<TempPath> {
    let mut part = target.as_os_str().to_owned();
    part.push(".part");
    if let Some(directory) = target.parent() {
        fs::create_dir_all(directory)?;
    }
    let part = TempPath::try_from_path(part)?;
    let mut file = io::BufWriter::with_capacity(BUFFER, fs::File::create(&part)?);
    io::copy(content, &mut file)?;
    file.flush()?;
    Ok(part)
}

#[cfg(test)]
mod tests;
