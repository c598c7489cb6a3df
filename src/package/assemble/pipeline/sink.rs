//! The writer: appends the results of the workers to the zip in the order of the tasks, then the
//! texts of `.dist-info` and RECORD.
//!
//! Large members are written before their method, their CRC and their packed length are known, and
//! their local header is completed at the end. For stored and deflated members see APPNOTE 6.3, for
//! stored blocks in a deflate stream [RFC 1951](https://www.rfc-editor.org/rfc/rfc1951).

use std::io::{BufWriter, IntoInnerError, Read, Write as _};

use flate2::{Decompress, FlushDecompress};

use super::{
    Output, PackWork, WrittenWheel,
    finished::{FinishedTask, PackedBlock, Small},
    output::HashedOutput,
    tasks::{Block, PackTask},
};
use crate::{
    digest::Sha256,
    error::{Context as _, Result, bail, ensure},
    relpath::RelPath,
    wheel::{
        deflate::{BlockPosition, Deflater, WheelCompression, plain_blocks},
        record::Record,
        writer::{Begun, FileMode, StorageMethod, WheelMember, ZipWriter},
    },
};

pub(super) struct Sink<'a, W: Output> {
    zip: ZipWriter<BufWriter<HashedOutput<'a, W>>>,
    work: &'a PackWork<'a>,
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
    pub(super) fn new(out: &'a mut W, work: &'a PackWork<'a>) -> Self {
        let out = BufWriter::with_capacity(BUFFER, HashedOutput::new(out));
        Self {
            zip: ZipWriter::new(out, work.settings.time),
            work,
            streamed: None,
            record: Record::default(),
        }
    }

    /// Writes the result of a task.
    pub(super) fn take(&mut self, task: &PackTask, done: FinishedTask) -> Result<()> {
        match (task, done) {
            (PackTask::Batch(members), FinishedTask::Batch(done, bytes)) => {
                let members = &self.work.contents.members[members.clone()];
                members
                    .iter()
                    .zip(&done)
                    .try_for_each(|(member, small)| self.add(member, small, &bytes))
            }
            (PackTask::Block(block), FinishedTask::Block(piece)) => self.block(block, &piece),
            _ => bail!("a task came back as another"),
        }
    }

    /// Hashes some of what was written; false if everything is hashed. Called while the next result
    /// is not there yet.
    pub(super) fn catch_up(&mut self) -> Result<bool> {
        Ok(self.output().catch_up()?)
    }

    /// Writes the texts, RECORD and the central directory.
    pub(super) fn finish(mut self) -> Result<WrittenWheel> {
        let mut deflater = match self.work.settings.compression {
            WheelCompression::Store => None,
            WheelCompression::Deflate(level) => Some(Deflater::new(level)),
        };
        for (path, text) in self.work.contents.texts {
            let (small, bytes) = small(text, deflater.as_mut());
            self.add(&text_member(path, text), &small, &bytes)?;
        }
        self.record.push_self(self.work.contents.record.clone());
        let text = self.record.to_string();
        let member = text_member(self.work.contents.record, &text);
        let (small, bytes) = small(&text, deflater.as_mut());
        self.pack(&member, &small, &bytes)?;
        let (out, _) = self.zip.finish()?;
        let (len, sha256) = out
            .into_inner()
            .map_err(IntoInnerError::into_error)?
            .finish()?;
        Ok(WrittenWheel {
            len,
            sha256,
            record: self.record,
        })
    }

    fn add(&mut self, member: &WheelMember, small: &Small, bytes: &[u8]) -> Result<()> {
        self.pack(member, small, bytes)?;
        self.record
            .push(member.path.clone(), small.sha256, member.len);
        Ok(())
    }

    fn pack(&mut self, member: &WheelMember, small: &Small, bytes: &[u8]) -> Result<()> {
        let packed = &bytes[small.packed.clone()];
        Ok(self.zip.add(member, small.method, small.crc, packed)?)
    }

    fn output(&mut self) -> &mut HashedOutput<'a, W> {
        self.zip.get_mut().get_mut()
    }

    fn block(&mut self, block: &Block, piece: &PackedBlock) -> Result<()> {
        let member = &self.work.contents.members[block.member];
        let mut streamed = match self.streamed.take() {
            Some(streamed) => streamed,
            None => self.begin(member, piece.method)?,
        };
        self.append(block, &mut streamed, piece)?;
        streamed.crc.combine(&piece.crc);
        streamed.done += block.len as u64;
        if let Some(sha256) = piece.sha256 {
            return self.end(block, streamed, sha256);
        }
        self.streamed = Some(streamed);
        Ok(())
    }

    /// Begins a large member with the method of its first block; `append` and `end` may change it.
    fn begin(&mut self, member: &WheelMember, method: StorageMethod) -> Result<Streamed> {
        let start = self.zip.position();
        // The local header is written again in `end`, so nothing from here on may be hashed yet.
        self.output().hold(start);
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
        piece: &PackedBlock,
    ) -> Result<()> {
        // A zip member has one method, but each block was compressed without knowing the others. A
        // block that did not shrink goes into a deflated member as stored deflate blocks. A block
        // that shrank does not fit into a stored member: either all that was written becomes stored
        // deflate blocks, or, if that does not pay, the block is inflated again.
        let bytes = &piece.bytes;
        match (streamed.method, piece.method) {
            (StorageMethod::Stored, StorageMethod::Stored)
            | (StorageMethod::Deflated, StorageMethod::Deflated) => Ok(self.zip.append(bytes)?),
            (StorageMethod::Deflated, StorageMethod::Stored) => {
                self.append_plain(bytes, block.place)
            }
            (StorageMethod::Stored, StorageMethod::Deflated) => {
                let len = self.work.contents.members[block.member].len;
                if pays(block, bytes.len(), len) {
                    streamed.method = StorageMethod::Deflated;
                    self.rewrite(block, streamed)?;
                    Ok(self.zip.append(bytes)?)
                } else {
                    Ok(self.zip.append(&inflate(bytes, block.len)?)?)
                }
            }
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
        let path = &self.work.contents.members[block.member].path;
        let context = || format!("read `{path}` again");
        let mut source = (self.work.open)(block.member)
            .with_context(context)?
            .take(streamed.done);
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
        let member = &self.work.contents.members[block.member];
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
        self.output().settle();
        self.record.push(member.path.clone(), sha256, member.len);
        Ok(())
    }
}

/// The size of the write buffer, which collects headers and small members.
const BUFFER: usize = 256 << 10;

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
        .context("failed to inflate a block")?;
    ensure!(
        bytes.len() == len,
        "a block of {len} bytes inflates to {}",
        bytes.len()
    );
    Ok(bytes)
}

fn small(text: &str, deflater: Option<&mut Deflater>) -> (Small, Vec<u8>) {
    let mut bytes = vec![0; Deflater::room(text.len())];
    let packed = deflater.and_then(|deflater| deflater.member(text.as_bytes(), &mut bytes));
    if packed.is_none() {
        bytes[..text.len()].copy_from_slice(text.as_bytes());
    }
    let small = Small {
        crc: crc32fast::hash(text.as_bytes()),
        sha256: Sha256::of(text.as_bytes()),
        method: packed.map_or(StorageMethod::Stored, |_| StorageMethod::Deflated),
        packed: 0..packed.unwrap_or(text.len()),
    };
    (small, bytes)
}

fn text_member(path: &RelPath, text: &str) -> WheelMember {
    WheelMember {
        path: path.clone(),
        mode: FileMode::Regular,
        len: text.len() as u64,
    }
}
