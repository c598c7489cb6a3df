//! Packs a tar as xz, on several threads with about 60 MiB each. The input is cut into blocks of a
//! fixed size, so the output has the same bytes for any number of threads.

use std::{
    io::{self, BufReader, Read, Write},
    num::NonZeroUsize,
};

use xz2::{
    bufread::XzEncoder,
    stream::{Check, Filters, LzmaOptions, MtStreamBuilder},
};

use crate::error::{Context as _, Result, Stop};

/// The input of one xz block, which one thread packs. The output depends on it.
const BLOCK: u64 = 8 << 20;
/// The preset that TheRock uses for its packages. `WINDOW` is half of the preset's window, because
/// the memory of a thread grows with it.
const PRESET: u32 = 6;
const WINDOW: u32 = 4 << 20;
/// The size of the read buffer.
const READ: usize = 1 << 20;

/// Compresses `source` to `out` with `jobs` threads.
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

/// A reader that reports progress, and fails when the user stops the build.
pub(super) struct CountedReader<'a, R> {
    pub(super) source: R,
    pub(super) stop: &'a Stop,
    pub(super) progress: &'a dyn Fn(u64),
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
    use crate::wheel::specimen::{noise, prose};

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
