//! A tar packed as xz: by as many threads as there are, with the same bytes for any number of them,
//! because it is cut into blocks of one size. A thread holds about 60 MiB.

use std::{
    io::{self, BufReader, Read, Write},
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

/// Writes the packed form of a source.
pub(super) fn pack(source: impl Read, out: &mut impl Write, jobs: NonZeroUsize) -> Result<()> {
    let mut options = LzmaOptions::new_preset(PRESET).context("failed to set xz up")?;
    options.dict_size(WINDOW);
    let mut filters = Filters::new();
    filters.lzma2(&options);
    let encoder = MtStreamBuilder::new()
        .threads(u32::try_from(jobs.get()).unwrap_or(u32::MAX))
        .block_size(BLOCK)
        .filters(filters)
        .check(Check::Crc64)
        .encoder()
        .with_context(|| format!("failed to set xz up for {jobs} threads"))?;
    let source = BufReader::with_capacity(READ, source);
    io::copy(&mut XzEncoder::new_stream(source, encoder), out)?;
    Ok(())
}

/// A source that ends with an error when the user stops the build, and says how far it is read.
pub(super) struct CountedReader<'a, R> {
    source: R,
    stop: &'a Stop,
    progress: &'a dyn Fn(u64),
}

impl<'a, R> CountedReader<'a, R> {
    pub(super) fn new(source: R, stop: &'a Stop, progress: &'a dyn Fn(u64)) -> Self {
        Self {
            source,
            stop,
            progress,
        }
    }
}

impl<R: Read> Read for CountedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check().map_err(io::Error::other)?;
        let read = self.source.read(buffer)?;
        (self.progress)(read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::test_bytes::{noise, prose};

    #[test]
    fn it_unpacks_to_its_source_and_is_the_same_for_any_number_of_jobs() {
        let source = [prose(1_000_000, 1), noise(200_000, 2), vec![0; 9_000_000]].concat();
        let pack = |jobs| {
            let mut out = Vec::new();
            pack(&source[..], &mut out, NonZeroUsize::new(jobs).unwrap()).unwrap();
            out
        };
        let packed = pack(1);
        assert!(packed.len() < source.len() / 2);
        for jobs in [2, 5] {
            assert!(pack(jobs) == packed, "{jobs} jobs");
        }
        let mut plain = Vec::new();
        let mut decoder = xz2::read::XzDecoder::new(&packed[..]);
        decoder.read_to_end(&mut plain).unwrap();
        assert!(plain == source);
    }
}
