//! [`SparseFile`]: a file with device code, without the code. Only the other parts, such as the names of
//! targets and kernels, are kept while it is read once, so that a file of any size takes little memory.

use std::io::{self, BufRead, Read};

use rocwheel_base::{error::Error, spool::Spool};
use rocwheel_elf::{ReadAt, ReadFrom};
use rocwheel_kpack::bundle;
use rocwheel_wheel::tar::read_full;

/// The longest table of contents that is kept. No archive of device code has a longer one.
const LONGEST_CONTENTS: u64 = 64 << 20;
/// The size of the header of an archive, after which its code begins.
const HEADER: u64 = 64;
/// The most frames of an archive. The runtime refuses an archive with more frames too.
const MOST_FRAMES: u32 = 1 << 20;
/// Compilers align bundles to pages, in memory and in the file.
const PAGE: usize = 4096;
const CHUNK: usize = 64 << 10;

/// A file of which some parts are kept. Reading any other part is an error: [`NotKept`].
#[derive(Debug)]
pub struct SparseFile {
    len: u64,
    /// All kept parts, one after the other. An archive has many, most of them of four bytes.
    bytes: Spool,
    /// The kept parts, in the order of the file.
    parts: Vec<KeptPart>,
}

/// Where a kept part begins. It ends where the next part begins among the kept bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeptPart {
    /// The offset in the file.
    start: u64,
    /// The offset among the kept bytes.
    kept_at: u64,
}

/// Something asked for a part of a [`SparseFile`] that was not kept.
#[derive(Clone, Copy, Debug, derive_more::Display, derive_more::Error)]
#[display("a part of it that was not kept")]
pub(super) struct NotKept;

impl NotKept {
    pub(super) fn is_cause_of(error: &Error) -> bool {
        error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
            .is_some_and(|cause| cause.downcast_ref::<Self>().is_some())
    }
}

/// Bytes that are read forward, and of which some are skipped.
pub(super) trait Forward: Read {
    /// Skips up to `count` bytes, and returns how many: fewer only at the end.
    fn skip(&mut self, count: u64) -> io::Result<u64>;
}

/// A stream, which has to be read to be skipped.
pub(super) struct ForwardStream<R>(pub(super) R);

impl<R: BufRead> Read for ForwardStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: BufRead> Forward for ForwardStream<R> {
    fn skip(&mut self, count: u64) -> io::Result<u64> {
        let mut skipped = self.0.by_ref().take(count);
        // `fill_buf` skips the bytes in the buffer of the stream, without a copy.
        while let passed @ 1.. = skipped.fill_buf()?.len() {
            skipped.consume(passed);
        }
        Ok(count.saturating_sub(skipped.limit()))
    }
}

impl<R: ReadAt> Forward for ReadFrom<R> {
    fn skip(&mut self, count: u64) -> io::Result<u64> {
        let skipped = count.min(self.source.len().saturating_sub(self.offset));
        self.offset = self.offset.saturating_add(skipped);
        Ok(skipped)
    }
}

impl SparseFile {
    fn new(memory: usize) -> Self {
        Self { len: 0, bytes: Spool::new(memory), parts: Vec::new() }
    }

    /// Keeps a whole file, of which at most `memory` bytes are in memory and the others in a temporary file.
    pub(super) fn whole(source: &mut impl Read, memory: usize) -> io::Result<Self> {
        let mut sparse = Self::new(memory);
        sparse.keep(source, u64::MAX)?;
        Ok(sparse)
    }

    /// Keeps the first bytes of a file.
    pub(super) fn begin(source: &mut impl Forward, most: u64) -> io::Result<Self> {
        let mut sparse = Self::new(usize::MAX);
        sparse.keep(source, most)?;
        sparse.skip(source, u64::MAX)?;
        Ok(sparse)
    }

    /// Keeps a binary without the code objects in its bundles. They are most of a large library.
    ///
    /// Only the end of a binary says where its bundles are, so each page that begins like a bundle is
    /// taken for one. If the page is something else, a later read may need the bytes that were skipped, and
    /// fails with [`NotKept`].
    pub(super) fn binary<R: BufRead>(
        source: &mut ForwardStream<R>,
        memory: usize,
    ) -> io::Result<Self> {
        let mut sparse = Self::new(memory);
        loop {
            let ready = source.0.fill_buf()?;
            let page_offset = usize::try_from(sparse.len % PAGE as u64).unwrap_or(0);
            let first_page = page_offset.next_multiple_of(PAGE) - page_offset;
            let mut pages = (first_page..ready.len()).step_by(PAGE);
            let bundle = pages.find(|page| bundle::is_begin(&ready[*page..]));
            match bundle.unwrap_or(ready.len()) {
                0 if ready.is_empty() => return Ok(sparse),
                // A page that begins like a bundle is the next in the stream. If its header cannot be read,
                // the page is something else, and nothing is skipped.
                0 => {
                    let mut begin = [0; PAGE];
                    let count = read_full(source, &mut begin)?;
                    sparse.push(&begin[..count])?;
                    if let Ok(code) = bundle::skippable(&begin[..count]) {
                        sparse.keep(source, code.start)?;
                        sparse.skip(source, code.end.saturating_sub(code.start))?;
                    }
                }
                count => {
                    sparse.push(&ready[..count])?;
                    source.0.consume(count);
                }
            }
        }
    }

    /// Keeps the header of an archive of device code, the lengths of its frames, and its table of
    /// contents.
    pub(super) fn archive(source: &mut impl Forward) -> io::Result<Self> {
        let mut sparse = Self::new(usize::MAX);
        sparse.keep(source, HEADER)?;
        // The header says where the table of contents begins. In a file that is cut off before, it begins
        // at 0, and so everything is kept.
        let mut field = [0; 8];
        let has_field = sparse.bytes.read_at(8, &mut field)? == field.len();
        let contents_at = if has_field { u64::from_le_bytes(field) } else { 0 };
        let mut frames_left = 0;
        if sparse.len + 4 <= contents_at {
            frames_left = sparse.keep_number(source)?.unwrap_or(0).min(MOST_FRAMES);
        }
        while frames_left > 0 && sparse.len + 4 <= contents_at {
            let Some(frame_len) = sparse.keep_number(source)? else {
                break;
            };
            // A wrong length must not skip the table of contents.
            sparse.skip(source, u64::from(frame_len).min(contents_at - sparse.len))?;
            frames_left -= 1;
        }
        sparse.skip(source, contents_at.saturating_sub(sparse.len))?;
        sparse.keep(source, LONGEST_CONTENTS)?;
        sparse.skip(source, u64::MAX)?;
        Ok(sparse)
    }

    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        let kept_at = self.bytes.size();
        // If nothing was skipped since the last part began, the bytes belong to that part.
        let continues = |last: &KeptPart| self.len - last.start == kept_at - last.kept_at;
        if !self.parts.last().is_some_and(continues) {
            self.parts.push(KeptPart { start: self.len, kept_at });
        }
        self.len = self.len.saturating_add(bytes.len() as u64);
        self.bytes.push(bytes)
    }

    fn keep(&mut self, source: &mut impl Read, most: u64) -> io::Result<()> {
        let mut chunk = vec![0; usize::try_from(most).unwrap_or(CHUNK).min(CHUNK)];
        let mut kept = source.take(most);
        while let count @ 1.. = read_full(&mut kept, &mut chunk)? {
            self.push(&chunk[..count])?;
        }
        Ok(())
    }

    /// Keeps a number of four bytes. `None` at the end of the file.
    fn keep_number(&mut self, source: &mut impl Read) -> io::Result<Option<u32>> {
        let mut number = [0; 4];
        let count = read_full(source, &mut number)?;
        self.push(&number[..count])?;
        Ok((count == number.len()).then(|| u32::from_le_bytes(number)))
    }

    fn skip(&mut self, source: &mut impl Forward, count: u64) -> io::Result<()> {
        self.len = self.len.saturating_add(source.skip(count)?);
        Ok(())
    }

    /// The kept bytes: all bytes of a [`Self::whole`] file.
    pub(super) fn into_bytes(self) -> Spool {
        self.bytes
    }
}

impl ReadAt for SparseFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if offset >= self.len || buffer.is_empty() {
            return Ok(0);
        }
        let next = self.parts.partition_point(|part| part.start <= offset);
        let end = self.parts.get(next).map_or(self.bytes.size(), |part| part.kept_at);
        let at = next
            .checked_sub(1)
            .and_then(|index| self.parts.get(index))
            .map(|part| part.kept_at + (offset - part.start))
            .filter(|at| *at < end);
        let Some(at) = at else {
            return Err(io::Error::other(NotKept));
        };
        let count = usize::try_from(end - at).map_or(buffer.len(), |rest| rest.min(buffer.len()));
        self.bytes.read_at(at, &mut buffer[..count])
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use rocwheel_kpack::archive::{ArchiveWriter, KpackArchive, Packed};
    use rocwheel_test_files::stored::stored;

    const KEYS: [(&str, u64); 3] = [("k#0", 5000), ("k#1", 70_000), ("k#2", 3)];

    /// Code whose frames do not shrink, so that they are read over, not through.
    fn noise(len: u64) -> Vec<u8> {
        let noise = |at: u64| (at.wrapping_mul(0x9e37_79b9) >> 7).to_le_bytes()[0];
        (0..len).map(noise).collect()
    }

    fn archive() -> Vec<u8> {
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()), "g", "f").unwrap();
        for (key, len) in KEYS {
            let code = Packed::new(&noise(len)).unwrap();
            let target = "gfx942".parse().unwrap();
            writer.add(key, &target, &code, None).unwrap();
        }
        writer.finish().unwrap().0.into_inner()
    }

    /// What is kept of an archive, whether it is read as a stream or at offsets.
    fn sifted(bytes: &[u8]) -> SparseFile {
        let sparse = SparseFile::archive(&mut ForwardStream(bytes)).unwrap();
        let same = SparseFile::archive(&mut ReadFrom::new(bytes, 0)).unwrap();
        assert_eq!((sparse.len, &sparse.parts), (same.len, &same.parts));
        sparse
    }

    #[test]
    fn an_archive_is_known_by_a_small_part_of_it() {
        let codes = KEYS.map(|(key, len)| (key, noise(len)));
        let codes = codes.each_ref().map(|(key, code)| (*key, "gfx942", &**code));
        for bytes in [stored(&codes), archive()] {
            let sparse = sifted(&bytes);
            assert_eq!(sparse.len(), bytes.len() as u64);
            assert!(sparse.bytes.size() < 1000, "{}", sparse.bytes.size());
            let (whole, part) =
                (KpackArchive::open(&bytes).unwrap(), KpackArchive::open(&sparse).unwrap());
            assert_eq!(part.codes(), whole.codes());
            assert_eq!(part.targets(), whole.targets());
            for code in part.codes() {
                let refused = format!("{:#}", part.read(code).unwrap_err());
                assert!(refused.contains("a part of it that was not kept"), "{refused}");
            }
        }
    }

    #[test]
    fn a_damaged_archive_is_refused_as_it_would_be_whole() {
        let bytes = archive();
        for end in [0, 3, 4, 8, 20, 64, 66, 68, 70, 5000, bytes.len() - 1] {
            let cut = bytes.get(..end).unwrap();
            let sparse = sifted(cut);
            assert_eq!(sparse.len(), end as u64);
            assert!(KpackArchive::open(&sparse).is_err(), "{end}");
        }
        let mut lying = bytes.clone();
        lying[64..68].copy_from_slice(&[0xff; 4]);
        let sparse = sifted(&lying);
        assert!(KpackArchive::open(&sparse).is_err());
        lying[8..16].copy_from_slice(&[0xff; 8]);
        let sparse = sifted(&lying);
        assert!(KpackArchive::open(&sparse).is_err());
    }

    #[test]
    fn reading_beside_what_was_kept_is_an_error() {
        let sparse = SparseFile::begin(&mut ForwardStream(&b"abcdefgh"[..]), 6).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(sparse.read_at(2, &mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"cdef");
        assert!(sparse.read_at(6, &mut buffer).is_err());
        assert_eq!(sparse.read_at(8, &mut buffer).unwrap(), 0);
    }
}
