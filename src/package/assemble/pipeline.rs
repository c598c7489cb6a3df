//! Writes the members of a wheel: several workers compress, one writer writes in the order of the
//! members.
//!
//! A task is one block of a large member, or a batch of small members. Each worker has one task,
//! and at most two finished tasks per worker wait for the writer. So memory is about five blocks
//! per worker, and does not depend on the size of the members.

use std::{
    collections::HashSet,
    io::{self, Cursor, Read, Seek, Write},
    num::NonZeroUsize,
};

use crate::{
    digest::Sha256,
    error::{Result, Stop, bail},
    relpath::RelPath,
    wheel::{
        deflate::{Deflater, WheelCompression},
        record::Record,
        writer::{Timestamp, WheelMember},
    },
};

use buffer::Spare;
use sink::Sink;
use tasks::Tasks;
use workers::Crew;

mod buffer;
mod finished;
mod output;
mod sink;
mod tasks;
#[cfg(test)]
mod tests;
mod workers;

/// The contents of a wheel, in the order in which they are written.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// [`Open`] gets the index of a member in this slice.
    pub members: &'a [WheelMember],
    /// Paths and texts of the files in `.dist-info`, without RECORD.
    pub texts: &'a [(RelPath, String)],
    /// The path of RECORD. The pipeline computes its text and writes it as the last member.
    pub record: &'a RelPath,
}

#[derive(Clone, Copy, Debug)]
pub struct PackSettings {
    pub compression: WheelCompression,
    pub time: Timestamp,
    /// How many threads compress. The bytes of the wheel are the same for any number.
    pub jobs: NonZeroUsize,
    /// Members longer than this are compressed in blocks. The bytes of the wheel depend on it.
    pub block: NonZeroUsize,
}

/// The default block: 4.5 MiB. Larger blocks compress hardly better, see docs/performance.md.
pub const BLOCK: NonZeroUsize = NonZeroUsize::new(9 << 19).expect("not zero");

/// A finished wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenWheel {
    pub len: u64,
    pub sha256: Sha256,
    /// The members, the texts, and RECORD itself, as written.
    pub record: Record,
}

/// Opens a member by its index. A member may be opened twice, and must have the same bytes then.
pub type Open<'a> = dyn Fn(usize) -> Result<Box<dyn Read + Send>> + Sync + 'a;

/// What the workers and the writer share.
struct PackWork<'a> {
    contents: &'a Contents<'a>,
    open: &'a Open<'a>,
    settings: &'a PackSettings,
    stop: &'a Stop,
    progress: &'a (dyn Fn(u64) + Sync),
    spare: &'a Spare,
}

/// The file of a wheel. It is written from its start, read back to hash what was written twice, and
/// truncated if compression made a member longer.
pub trait Output: Read + Write + Seek {
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

impl Output for fs_err::File {
    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

impl Output for Cursor<Vec<u8>> {
    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        self.get_mut().truncate(len);
        Ok(())
    }
}

/// Writes a wheel. Each member is opened and read once. A large member is opened a second time only
/// if the writer changes its method (stored or deflated) after some blocks are written.
///
/// Workers call `progress` with the number of bytes that they have read since the last call.
pub fn write_wheel<W: Output>(
    out: &mut W,
    contents: &Contents,
    open: &Open,
    settings: &PackSettings,
    stop: &Stop,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<WrittenWheel> {
    refuse_duplicates(contents)?;
    let tasks = Tasks::new(contents, settings.block);
    // One byte more than a block: if it can be filled, the member is longer than planned.
    let spare = Spare::new(Deflater::room(settings.block.get() + 1));
    let work = PackWork {
        contents,
        open,
        settings,
        stop,
        progress,
        spare: &spare,
    };
    let mut sink = Sink::new(out, &work);
    Crew(&work).run(tasks, &mut sink)?;
    sink.finish()
}

fn refuse_duplicates(contents: &Contents) -> Result<()> {
    let members = contents.members.iter().map(|member| &member.path);
    let texts = contents.texts.iter().map(|(path, _)| path);
    let mut seen = HashSet::new();
    for path in members.chain(texts).chain([contents.record]) {
        if !seen.insert(path) {
            bail!("two members of one name: `{path}`");
        }
    }
    Ok(())
}
