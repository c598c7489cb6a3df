//! The writer: appends the results of the workers to the zip in the order of the tasks, then the
//! texts of `.dist-info` and RECORD.
//!
//! Large members are written before their method, their CRC and their packed length are known, and
//! their local header is completed at the end. For stored and deflated members see APPNOTE 6.3, for
//! stored blocks in a deflate stream [RFC 1951](https://www.rfc-editor.org/rfc/rfc1951).

use std::io::{BufWriter, IntoInnerError, Read as _, Write as _};

use flate2::{Decompress, FlushDecompress};

use super::{Block, Output, PackTask, PackedPiece, WheelWork, WrittenWheel, output::HashedOutput};
use crate::{
    archive::read_some,
    digest::Sha256,
    error::{Context as _, Result, ensure},
    relpath::RelPath,
    wheel::{
        Deflater, Record, StorageMethod, WheelMember, ZipWriter,
        deflate::{BlockPosition, plain_blocks},
        writer::Begun,
    },
};

pub(super) struct Sink<'a, W: Output> {
    zip: ZipWriter<BufWriter<HashedOutput<W>>>,
    work: &'a WheelWork<'a>,
    streamed: Option<Streamed>,
    record: Record,
}

/// A large member of which some blocks are written.
struct Streamed {
    begun: Begun,
    method: StorageMethod,
    crc: crc32fast::Hasher,
    /// How many of its bytes, before compression, are in the archive.
    done: u64,
}

impl<'a, W: Output> Sink<'a, W> {
    pub(super) fn new(out: W, work: &'a WheelWork<'a>) -> Self {
        let out = BufWriter::with_capacity(BUFFER, HashedOutput::new(out));
        Self {
            zip: ZipWriter::new(out, work.settings.time),
            work,
            streamed: None,
            record: Record::default(),
        }
    }

    /// Writes the result of a task.
    pub(super) fn take(
        &mut self,
        task: &PackTask,
        pieces: &[PackedPiece],
        bytes: &[u8],
    ) -> Result<()> {
        for (at, piece) in pieces.iter().enumerate() {
            let bytes = &bytes[piece.packed.clone()];
            match task {
                PackTask::Batch(members) => {
                    let index = members.start + at;
                    self.add(&self.work.members[index], piece, bytes)?;
                }
                PackTask::Block(block) => self.block(block, piece, bytes)?,
                PackTask::Copy(_) => {}
            }
        }
        Ok(())
    }

    /// Copies the compressed bytes of a member from an earlier wheel.
    pub(super) fn copy(&mut self, index: usize) -> Result<()> {
        let member = &self.work.members[index];
        let taken = self.work.taken.get(index).and_then(Option::as_ref);
        let taken = taken.context("no member to copy")?;
        let (packed, path) = (&taken.packed, &member.path);
        let len = packed.bytes.end - packed.bytes.start;
        self.zip.announce(member, packed.method, packed.crc, len)?;
        let context = || format!("failed to take `{path}` over from an earlier wheel");
        let mut bytes = taken.open().with_context(context)?;
        let (mut buffer, mut copied) = (
            vec![0; usize::try_from(len).unwrap_or(COPIED).min(COPIED)],
            0,
        );
        while copied < len {
            self.work.stop.check()?;
            let read = read_some(&mut bytes, &mut buffer).with_context(context)?;
            ensure!(
                read > 0,
                "the wheel that `{path}` is taken from became shorter"
            );
            self.zip.append(&buffer[..read])?;
            copied += read as u64;
        }
        (self.work.progress)(member.len);
        self.record
            .push(path.clone(), Some((packed.sha256, packed.len)));
        Ok(())
    }

    /// Writes the texts, RECORD and the central directory.
    pub(super) fn finish(mut self) -> Result<WrittenWheel> {
        let mut deflater = self.work.settings.compression.deflater();
        for (path, text) in self.work.texts {
            let sha256 = Sha256::of(text.as_bytes());
            self.text(path, text, Some(sha256), deflater.as_mut())?;
        }
        let path = self.work.record;
        self.record.push(path.clone(), None);
        let text = self.record.to_string();
        self.text(path, &text, None, deflater.as_mut())?;
        let out = self.zip.finish()?.into_inner();
        let (len, sha256) = out.map_err(IntoInnerError::into_error)?.finish()?;
        Ok(WrittenWheel {
            len,
            sha256,
            record: self.record,
        })
    }

    fn text(
        &mut self,
        path: &RelPath,
        text: &str,
        sha256: Option<Sha256>,
        deflater: Option<&mut Deflater>,
    ) -> Result<()> {
        let text = text.as_bytes();
        let mut room = vec![0; Deflater::room(text.len())];
        let packed =
            deflater.and_then(|deflater| deflater.block(text, BlockPosition::Last, &mut room));
        let piece = PackedPiece::new(text, sha256, packed, 0);
        let bytes = packed.map_or(text, |len| &room[..len]);
        let member = WheelMember {
            path: path.clone(),
            executable: false,
            len: text.len() as u64,
        };
        self.add(&member, &piece, bytes)
    }

    fn add(&mut self, member: &WheelMember, piece: &PackedPiece, packed: &[u8]) -> Result<()> {
        let crc = piece.crc.clone().finalize();
        self.zip.add(member, piece.method, crc, packed)?;
        if let Some(sha256) = piece.sha256 {
            let content = Some((sha256, member.len));
            self.record.push(member.path.clone(), content);
        }
        Ok(())
    }

    pub(super) fn output(&mut self) -> &mut HashedOutput<W> {
        self.zip.get_mut().get_mut()
    }

    fn block(&mut self, block: &Block, piece: &PackedPiece, packed: &[u8]) -> Result<()> {
        let mut streamed = match self.streamed.take() {
            Some(streamed) => streamed,
            None => self.begin(block, piece.method)?,
        };
        self.append(block, &mut streamed, piece.method, packed)?;
        streamed.crc.combine(&piece.crc);
        streamed.done += block.len as u64;
        match piece.sha256 {
            Some(sha256) => self.end(block, streamed, sha256)?,
            None => self.streamed = Some(streamed),
        }
        Ok(())
    }

    /// Begins a large member with the method of its first block; `append` and `end` may change it.
    fn begin(&mut self, block: &Block, method: StorageMethod) -> Result<Streamed> {
        // The local header is written again in `end`, so nothing from here on may be hashed yet.
        let at = self.zip.position();
        self.output().open(at);
        let member = &self.work.members[block.member];
        Ok(Streamed {
            begun: self.zip.begin(member)?,
            method,
            crc: crc32fast::Hasher::new(),
            done: 0,
        })
    }

    fn append(
        &mut self,
        block: &Block,
        streamed: &mut Streamed,
        method: StorageMethod,
        bytes: &[u8],
    ) -> Result<()> {
        // A zip member has one method, but each block was compressed without knowing the others. A
        // block that did not shrink goes into a deflated member as stored deflate blocks. A block
        // that shrank does not fit into a stored member: either all that was written becomes stored
        // deflate blocks, or, if that does not pay, the block is inflated again.
        match (streamed.method, method) {
            (StorageMethod::Deflated, StorageMethod::Stored) => {
                self.append_plain(bytes, block.place)
            }
            (StorageMethod::Stored, StorageMethod::Deflated) => {
                let len = self.work.members[block.member].len;
                if !pays(block, bytes.len(), len) {
                    return Ok(self.zip.append(&inflate(bytes, block.len)?)?);
                }
                streamed.method = StorageMethod::Deflated;
                self.rewrite(block, streamed)?;
                Ok(self.zip.append(bytes)?)
            }
            _ => Ok(self.zip.append(bytes)?),
        }
    }

    fn append_plain(&mut self, bytes: &[u8], place: BlockPosition) -> Result<()> {
        for (head, chunk) in plain_blocks(bytes, place) {
            self.zip.append(&head)?;
            self.zip.append(chunk)?;
        }
        Ok(())
    }

    /// Reads what is already written of a member a second time, and writes it again, not
    /// compressed, in the form of the new method. Fails if the source does not have the same bytes
    /// as before.
    fn rewrite(&mut self, block: &Block, streamed: &Streamed) -> Result<()> {
        let path = &self.work.members[block.member].path;
        let context = || format!("failed to read `{path}` again");
        let source = (self.work.open)(block.member).with_context(context)?;
        let mut source = source.take(streamed.done);
        let mut crc = crc32fast::Hasher::new();
        let mut bytes = Vec::new();
        self.zip.again(&streamed.begun)?;
        loop {
            self.work.stop.check()?;
            bytes.clear();
            let mut piece = source.by_ref().take(REWRITE);
            if piece.read_to_end(&mut bytes).with_context(context)? == 0 {
                break;
            }
            crc.update(&bytes);
            match streamed.method {
                StorageMethod::Stored => self.zip.append(&bytes)?,
                StorageMethod::Deflated => self.append_plain(&bytes, BlockPosition::Inner)?,
            }
        }
        let same = crc.finalize() == streamed.crc.clone().finalize() && source.limit() == 0;
        ensure!(same, "`{path}` changed while it was read");
        Ok(())
    }

    fn end(&mut self, block: &Block, mut streamed: Streamed, sha256: Sha256) -> Result<()> {
        let member = &self.work.members[block.member];
        // The member may have become longer although some blocks shrank: stored deflate blocks have
        // headers. It is then stored after all, which is not longer than what the file has already.
        // The buffer is flushed before the rest is cut off, because the cut goes directly to the
        // file.
        if streamed.method == StorageMethod::Deflated
            && self.zip.packed(&streamed.begun) >= member.len
        {
            streamed.method = StorageMethod::Stored;
            self.rewrite(block, &streamed)?;
            self.zip.get_mut().flush()?;
            self.output().cut()?;
        }
        let crc = streamed.crc.finalize();
        self.zip.end(streamed.begun, streamed.method, crc)?;
        self.output().close();
        let content = Some((sha256, member.len));
        self.record.push(member.path.clone(), content);
        Ok(())
    }
}

/// The size of the write buffer, which collects headers and small members.
const BUFFER: usize = 256 << 10;

/// How much `copy` reads at a time.
const COPIED: usize = 128 << 10;

/// How much `rewrite` reads at a time. A stored deflate block has at most 65,535 bytes, and a
/// multiple of that leaves no short block before the last one.
const REWRITE: u64 = 16 * 65_535;

/// Whether it pays to write again all that comes before a block that shrinks.
///
/// It does if more than a 32nd of those bytes would be saved, provided that the rest of the member
/// shrinks like this block. For a small table at the end of a file of gigabytes it does not.
fn pays(block: &Block, packed: usize, len: u64) -> bool {
    let saved = block.len.saturating_sub(packed) as u64;
    let left = (len - block.start) / block.len as u64;
    saved * left > block.start / 32
}

/// Inflates a block.
fn inflate(packed: &[u8], len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    Decompress::new(false)
        .decompress_vec(packed, &mut bytes, FlushDecompress::Sync)
        .context("failed to inflate a block that was deflated")?;
    let found = bytes.len();
    ensure!(found == len, "a block of {len} bytes inflates to {found}");
    Ok(bytes)
}
