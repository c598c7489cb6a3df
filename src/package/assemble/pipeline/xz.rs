//! One member packed as xz on its way: by as many threads as there are, with the same bytes for any
//! number of them, because it is cut into blocks of one size. A thread holds about 60 MiB.

use std::{
    io::{self, BufReader, Read},
    num::NonZeroUsize,
};

use xz2::{
    bufread::XzEncoder,
    stream::{Check, Filters, LzmaOptions, MtStreamBuilder},
};

use crate::error::{Context as _, Result, Stop};

/// What a thread packs at a time. The bytes depend on it.
const BLOCK: u64 = 8 << 20;
/// The preset of upstream's packages, with half of its window: what a thread holds follows from it.
const PRESET: u32 = 6;
const WINDOW: u32 = 4 << 20;
/// How much of the source is taken in at a time.
const READ: usize = 1 << 20;

/// The packed form of a source.
pub(super) fn pack<R: Read>(source: R, jobs: NonZeroUsize) -> Result<impl Read> {
    let mut options = LzmaOptions::new_preset(PRESET).context("set xz up")?;
    options.dict_size(WINDOW);
    let mut filters = Filters::new();
    filters.lzma2(&options);
    let encoder = MtStreamBuilder::new()
        .threads(u32::try_from(jobs.get()).unwrap_or(u32::MAX))
        .block_size(BLOCK)
        .filters(filters)
        .check(Check::Crc64)
        .encoder()
        .with_context(|| format!("set xz up for {jobs} threads"))?;
    Ok(XzEncoder::new_stream(
        BufReader::with_capacity(READ, source),
        encoder,
    ))
}

/// A source that stops when the user says so, tells how far it is, and counts.
pub(super) struct Watched<'a, R> {
    pub(super) source: R,
    pub(super) stop: &'a Stop,
    pub(super) progress: &'a (dyn Fn(u64) + Sync),
    pub(super) count: &'a mut u64,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check().map_err(io::Error::other)?;
        let read = self.source.read(buffer)?;
        (self.progress)(read as u64);
        *self.count = self.count.saturating_add(read as u64);
        Ok(read)
    }
}
