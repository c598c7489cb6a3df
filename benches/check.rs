//! The least that reading every byte of a set can take: `cargo bench --bench check -- DIR`.
//!
//! Inflates each member of the wheels in DIR, from memory, and hashes what comes out, on as many
//! threads as there are cores, the largest members first. Nothing is examined, compared or reported.
//! With libdeflate a member has to be in memory as a whole; zlib-rs inflates it in pieces.

#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::{
    cmp::Reverse,
    env,
    io::{self, Cursor, Read},
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use flate2::read::DeflateDecoder;
use libdeflater::Decompressor;
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Result, ensure},
};
use zip::{CompressionMethod, ZipArchive};

/// A member: its compressed bytes, whether they are stored, and its length.
struct Packed<'a> {
    bytes: &'a [u8],
    is_stored: bool,
    len: usize,
}

fn main() -> Result<()> {
    let directory = env::args_os().skip(1).map(PathBuf::from);
    let directory = directory
        .into_iter()
        .find(|path| path.is_dir())
        .context("pass a directory of wheels, such as `dist` of `rocwheel build`")?;
    let mut wheels = Vec::new();
    for entry in fs_err::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "whl") {
            wheels.push(fs_err::read(path)?);
        }
    }
    let mut members = Vec::new();
    for wheel in &wheels {
        members.extend(members_of(wheel)?);
    }
    members.sort_by_key(|member| Reverse(member.len));
    let total: usize = members.iter().map(|member| member.len).sum();
    println!("{} members, {} MB\n", members.len(), total / 1_000_000);
    println!("| what | threads | seconds | CPU seconds |\n|---|--:|--:|--:|");
    let cores = thread::available_parallelism()?.get();
    for _ in 0..2 {
        on_all("libdeflate and SHA-256", cores, &members, with_libdeflate)?;
        on_all("zlib-rs and SHA-256", cores, &members, |it, _| with_zlib(it))?;
    }
    Ok(())
}

fn members_of(wheel: &[u8]) -> Result<Vec<Packed<'_>>> {
    let mut zip = ZipArchive::new(Cursor::new(wheel))?;
    let count = zip.len();
    let member = |index| {
        let file = zip.by_index_raw(index)?;
        let start = usize::try_from(file.data_start().context("a member without data")?)?;
        let end = start + usize::try_from(file.compressed_size())?;
        Ok(Packed {
            bytes: wheel.get(start..end).context("a member beyond the end")?,
            is_stored: file.compression() == CompressionMethod::Stored,
            len: usize::try_from(file.size())?,
        })
    };
    (0..count).map(member).collect()
}

/// Inflates into a buffer that a thread uses again and again.
fn with_libdeflate(member: &Packed<'_>, room: &mut Vec<u8>) -> Result<Sha256> {
    if room.len() < member.len {
        room.resize(member.len, 0);
    }
    let len = Decompressor::new().deflate_decompress(member.bytes, &mut room[..member.len])?;
    ensure!(len == member.len, "a member of another length");
    Ok(Sha256::of(&room[..len]))
}

fn with_zlib(member: &Packed<'_>) -> Result<Sha256> {
    let inflated = DeflateDecoder::new(member.bytes);
    let (sha256, len) =
        Sha256::of_reader(io::BufReader::with_capacity(128 << 10, inflated).take(u64::MAX))?;
    ensure!(len == member.len as u64, "a member of another length");
    Ok(sha256)
}

fn on_all(
    what: &str,
    threads: usize,
    members: &[Packed<'_>],
    work: impl Fn(&Packed<'_>, &mut Vec<u8>) -> Result<Sha256> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut room = Vec::new();
        while let Some(member) = members.get(next.fetch_add(1, Ordering::Relaxed)) {
            if member.is_stored {
                std::hint::black_box(Sha256::of(member.bytes));
            } else {
                std::hint::black_box(work(member, &mut room)?);
            }
        }
        Ok(())
    };
    let (wall, cpu) = (Instant::now(), cpu_seconds()?);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let ended = running.into_iter().map(|one| one.join().expect("no panic"));
        ended.collect::<Result<()>>()
    })?;
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
    println!("| {what} | {threads} | {wall:.2} | {cpu:.2} |");
    Ok(())
}

/// Of the user and of the system.
fn cpu_seconds() -> Result<f64> {
    let stat = fs_err::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("no `)` in /proc/self/stat")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks = ticks.map(|ticks| Ok(ticks.parse::<f64>()?));
    Ok(ticks.sum::<Result<f64>>()? / 100.0)
}
