//! How fast members are compressed, against what the libraries do by themselves.
//!
//! `cargo bench --bench deflate [FILE]`; without a file, the largest one of the Rust toolchain. Of a
//! directory, what libdeflate alone makes of all files in it, in pieces, on all processors; the levels
//! may follow it.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::cast_precision_loss, reason = "no file has 2^52 bytes")]

use std::{
    env,
    io::{Cursor, Read},
    num::NonZeroUsize,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use flate2::{Compress, FlushCompress};
use libdeflater::{CompressionLvl, Compressor};
use rocwheel_base::error::{Context as _, Result, Stop};
use rocwheel_wheel::{
    Deflater, PackSettings, WheelCompression, WheelMember,
    deflate::BlockPosition,
    pack::{WheelWork, write_wheel},
};

const MIB: usize = 1 << 20;

fn main() -> Result<()> {
    let file = match env::args().skip(1).find(|arg| !arg.starts_with('-')) {
        Some(file) => PathBuf::from(file),
        None => largest_of_toolchain()?,
    };
    if file.is_dir() {
        return alone(&file);
    }
    let bytes: Arc<[u8]> = fs_err::read(&file)?.into();
    println!("{}: {} MB\n", file.display(), bytes.len() / 1_000_000);
    println!("| what | threads | MB/s | MB/s of CPU | ratio |");
    println!("|---|--:|--:|--:|--:|");
    let part =
        Bench { bytes: &bytes[..bytes.len().min(64 * MIB)].into(), threads: NonZeroUsize::MIN };
    part.libdeflate("libdeflate, pieces of 1 MiB, level 6", 6)?;
    part.zlib("zlib-rs, pieces of 1 MiB with dictionary, level 6", 6)?;
    for kib in [1024, 2048, 6144, 9216] {
        part.blocks(&format!("blocks of {kib} KiB, level 5"), kib << 10, "5")?;
    }
    for level in ["1", "4", "6", "7", "9"] {
        part.blocks(&format!("blocks of 9216 KiB, level {level}"), 9 * MIB, level)?;
    }
    let whole = Bench { bytes: &bytes, threads: thread::available_parallelism()? };
    // Twice, because other programs disturb.
    for _ in 0..2 {
        whole.libdeflate("libdeflate, the whole file in pieces", 6)?;
        whole.zlib("zlib-rs, the whole file in pieces", 6)?;
        whole.wheel("a wheel of the file", WheelCompression::default())?;
    }
    whole.wheel("a wheel of the file, stored", WheelCompression::Store)
}

/// The levels on all files of a directory, which are read beforehand.
fn alone(directory: &Path) -> Result<()> {
    let mut files = Vec::new();
    read_all(directory, &mut files)?;
    let pieces: Vec<&[u8]> = files.iter().flat_map(|file| file.chunks(3 * MIB)).collect();
    let total: usize = files.iter().map(Vec::len).sum();
    println!("| level | seconds | CPU seconds | MB of {} |", total / 1_000_000);
    println!("|--:|--:|--:|--:|");
    let mut levels: Vec<i32> = env::args().filter_map(|arg| arg.parse().ok()).collect();
    if levels.is_empty() {
        levels = vec![1, 4, 5, 6];
    }
    for level in levels {
        let (next, packed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            let mut compressor = Compressor::new(CompressionLvl::new(level).unwrap_or_default());
            let mut room = vec![0; 4 * MIB];
            while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                let len = compressor.deflate_compress(piece, &mut room);
                packed.fetch_add(len.unwrap_or(piece.len()), Ordering::Relaxed);
            }
        };
        let (wall, cpu) = (Instant::now(), cpu_seconds()?);
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, NonZeroUsize::get) {
                scope.spawn(work);
            }
        });
        let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
        let packed = packed.into_inner() as f64 / 1e6;
        println!("| {level} | {wall:.2} | {cpu:.2} | {packed:.1} |");
    }
    Ok(())
}

fn read_all(directory: &Path, files: &mut Vec<Vec<u8>>) -> Result<()> {
    for entry in fs_err::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path, files)?;
        } else {
            files.push(fs_err::read(path)?);
        }
    }
    Ok(())
}

fn largest_of_toolchain() -> Result<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output()?;
    let lib = PathBuf::from(String::from_utf8(output.stdout)?.trim()).join("lib");
    let mut files = Vec::new();
    for entry in fs_err::read_dir(lib)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("librustc_driver") {
            files.push(entry.path());
        }
    }
    files.pop().context("no `librustc_driver` in the toolchain")
}

/// A file in memory, and who works on it.
struct Bench<'a> {
    bytes: &'a Arc<[u8]>,
    threads: NonZeroUsize,
}

impl Bench<'_> {
    /// Prints what became of the bytes, and how fast.
    fn measure(&self, what: &str, work: impl FnOnce() -> Result<u64>) -> Result<()> {
        let (wall, cpu) = (Instant::now(), cpu_seconds()?);
        let packed = work()?;
        let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
        let len = self.bytes.len() as f64;
        println!(
            "| {what} | {} | {:.0} | {:.1} | {:.4} |",
            self.threads,
            len / 1e6 / wall,
            len / 1e6 / cpu,
            packed as f64 / len
        );
        Ok(())
    }

    /// Compresses pieces, each on whichever thread is free.
    fn pieces<F>(&self, what: &str, piece: usize, compressor: impl Fn() -> F + Sync) -> Result<()>
    where
        F: FnMut(Range<usize>) -> usize,
    {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut compress = compressor();
            let mut packed = 0;
            loop {
                let start = next.fetch_add(piece, Ordering::Relaxed);
                if start >= self.bytes.len() {
                    return packed;
                }
                packed += compress(start..self.bytes.len().min(start + piece)) as u64;
            }
        };
        self.measure(what, || {
            thread::scope(|scope| {
                let workers: Vec<_> = (0..self.threads.get()).map(|_| scope.spawn(work)).collect();
                let packed = workers.into_iter().map(|worker| worker.join().ok());
                packed.sum::<Option<u64>>().context("a worker panicked")
            })
        })
    }

    fn libdeflate(&self, what: &str, level: i32) -> Result<()> {
        self.pieces(what, MIB, || {
            let mut compressor = Compressor::new(CompressionLvl::new(level).unwrap_or_default());
            let mut room = vec![0; 2 * MIB];
            move |range| {
                compressor.deflate_compress(&self.bytes[range], &mut room).unwrap_or_default()
            }
        })
    }

    fn zlib(&self, what: &str, level: u32) -> Result<()> {
        self.pieces(what, MIB, || {
            let mut compressor = Compress::new(flate2::Compression::new(level), false);
            let mut room = Vec::with_capacity(2 * MIB);
            move |range| {
                compressor.reset();
                room.clear();
                let before = range.start.saturating_sub(32 << 10)..range.start;
                if !before.is_empty() {
                    let _ = compressor.set_dictionary(&self.bytes[before]);
                }
                let _ = compressor.compress_vec(&self.bytes[range], &mut room, FlushCompress::Sync);
                room.len()
            }
        })
    }

    fn blocks(&self, what: &str, block: usize, level: &str) -> Result<()> {
        let compression: WheelCompression = level.parse()?;
        self.pieces(what, block, || {
            let mut deflater = compression.deflater().expect("a level");
            let mut room = vec![0; Deflater::room(block)];
            move |range| {
                let packed =
                    deflater.block(&self.bytes[range.clone()], BlockPosition::Inner, &mut room);
                packed.unwrap_or(range.len())
            }
        })
    }

    fn wheel(&self, what: &str, compression: WheelCompression) -> Result<()> {
        let record = "x-1.dist-info/RECORD".parse()?;
        let member = WheelMember {
            path: "x/large.so".parse()?,
            executable: false,
            len: self.bytes.len() as u64,
        };
        let settings = PackSettings::new(compression, self.threads);
        let open = |_| Ok(Box::new(Cursor::new(Arc::clone(self.bytes))) as Box<dyn Read + Send>);
        let mut out = tempfile::tempfile().map(|file| fs_err::File::from_parts(file, "wheel"))?;
        self.measure(what, || {
            let work = WheelWork {
                members: std::slice::from_ref(&member),
                open: &open,
                kept: &[],
                texts: &[],
                record: &record,
                settings: &settings,
                stop: &Stop::default(),
                progress: &|_| {},
            };
            let written = write_wheel(&mut out, &work)?;
            written.digest(&mut out, None)?;
            Ok(written.len)
        })
    }
}

/// User time of the process, children left out.
fn cpu_seconds() -> Result<f64> {
    let stat = fs_err::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("no `)` in /proc/self/stat")?;
    let ticks = fields.split_whitespace().nth(11).context("no user time")?;
    Ok(ticks.parse::<f64>()? / 100.0)
}
