//! Members to a wheel: compressed by all cores, written in their order by one.
//! A task is one block of a large member, or a batch of small ones. Each worker holds one task, and
//! the writer has at most two for each worker ahead of it, so that memory depends on the number of
//! workers and on nothing else: about five blocks for each.

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

/// What goes into a wheel, in the order it is written.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// Opened by their number.
    pub members: &'a [WheelMember],
    /// What the wheel says about itself: all of `.dist-info` but RECORD.
    pub texts: &'a [(RelPath, String)],
    /// Where RECORD goes, which is made here and comes last.
    pub record: &'a RelPath,
}

#[derive(Clone, Copy, Debug)]
pub struct PackSettings {
    pub compression: WheelCompression,
    pub time: Timestamp,
    /// How many threads compress. The bytes of the wheel are the same for any number.
    pub jobs: NonZeroUsize,
    /// What a large member is cut into. The bytes depend on it.
    pub block: NonZeroUsize,
}

/// Larger blocks gain next to nothing; see docs/performance.md.
pub const BLOCK: NonZeroUsize = NonZeroUsize::new(9 << 19).expect("not zero");

/// A finished wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenWheel {
    pub len: u64,
    pub sha256: Sha256,
    /// The members, the texts, and RECORD itself, as written.
    pub record: Record,
}

/// How the bytes of a member are got at. It gives the same bytes each time.
pub type Open<'a> = dyn Fn(usize) -> Result<Box<dyn Read + Send>> + Sync + 'a;

/// What all threads know.
struct PackWork<'a> {
    contents: &'a Contents<'a>,
    open: &'a Open<'a>,
    settings: &'a PackSettings,
    stop: &'a Stop,
    progress: &'a (dyn Fn(u64) + Sync),
    spare: &'a Spare,
}

/// A file that is written from its start, looked back at for the hash of the whole, and cut when a
/// member turned out not to shrink.
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

/// Writes a wheel. Each source is opened and read once, but for one that changes its mind half-way
/// whether it shrinks, which is read again.
///
/// `progress` is told how many more bytes were read, by any thread.
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
    // A byte more than a block shows whether a source ends where it should.
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
