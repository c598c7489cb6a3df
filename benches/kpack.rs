//! How fast device code leaves binaries, beside what decoding and compressing it takes alone.
//!
//! `cargo bench --bench kpack [-- FILE…]` with fat binaries, or two made of a library of the Rust
//! toolchain. The floor decodes and compresses all code on all processors, and nothing else.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::cast_precision_loss, reason = "no file has 2^52 bytes")]

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use rocwheel::{
    elf::write::{DeviceRelocations, SharedObject},
    error::{Context as _, Result, bail, ensure},
    kpack::{
        bundle::{self, Form, Method},
        host::{self, Look},
    },
};

/// What archives are compressed with.
const LEVEL: i32 = 3;
const ROUNDS: usize = 3;
const TARGETS: [&str; 8] = [
    "gfx1030", "gfx1100", "gfx1101", "gfx1201", "gfx908", "gfx90a", "gfx942", "gfx950",
];

fn main() -> Result<()> {
    let place = tempfile::tempdir()?;
    let mut files: Vec<PathBuf> = env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .map(PathBuf::from)
        .collect();
    if files.is_empty() {
        files = made(place.path())?;
    }
    println!("| binary | bundles | code objects | MB of code | floor | split | ratio | memory |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for file in files {
        row(&file, place.path())?;
    }
    Ok(())
}

fn row(file: &Path, place: &Path) -> Result<()> {
    let bytes = fs_err::read(file)?;
    let Look::Fat(fat) = host::look(&bytes)? else {
        bail!("no device code that can be taken out: `{}`", file.display());
    };
    let section = fat.section(&bytes)?;
    let (mut codes, mut size, mut tasks) = (0, 0, Vec::new());
    for one in &fat.bundles {
        let opened = bundle::open(&section, one)?;
        for (_, entry) in opened.code() {
            codes += 1;
            size += entry.size;
        }
        match one.form {
            Form::Compressed(_) => tasks.push((one, None)),
            Form::Raw => tasks.extend(opened.code().map(|(_, entry)| (one, Some(entry.clone())))),
        }
    }
    let floor = best(|| {
        let began = Instant::now();
        in_parallel(tasks.len(), |index| {
            let Some((one, entry)) = tasks.get(index) else {
                return Ok(());
            };
            let packed = section.bytes("bundle", one.offset, one.len)?;
            match (&one.form, entry) {
                (Form::Raw, Some(entry)) => compress(&packed, entry),
                (Form::Raw, None) => Ok(()),
                (Form::Compressed(how), _) => {
                    let unpacked = decode(&packed, how.version, how.unpacked)?;
                    let region = rocwheel::kpack::Region::whole(&unpacked);
                    let inside = bundle::bundle_at(&region, 0)?;
                    let opened = bundle::open(&region, &inside)?;
                    opened
                        .code()
                        .try_for_each(|(_, entry)| compress(&unpacked, entry))
                }
            }
        })?;
        Ok((began.elapsed(), 0))
    })?;
    let artifact = place.join("in/bench_lib_gfx9-all");
    fs_err::create_dir_all(artifact.join("stage/lib"))?;
    fs_err::write(artifact.join("artifact_manifest.txt"), "stage\n")?;
    let library = artifact.join("stage/lib/libbench.so");
    fs_err::write(&library, &bytes)?;
    let split = best(|| split(place))?;
    println!(
        "| `{}` | {} | {codes} | {:.0} | {:.2} s | {:.2} s | {:.2} | {} MB |",
        file.file_name().unwrap_or_default().display(),
        fat.bundles.len(),
        size as f64 / 1e6,
        floor.0.as_secs_f64(),
        split.0.as_secs_f64(),
        split.0.as_secs_f64() / floor.0.as_secs_f64(),
        split.1 / 1000
    );
    fs_err::remove_dir_all(place.join("in"))?;
    Ok(())
}

/// The shortest of a few rounds.
fn best(mut round: impl FnMut() -> Result<(Duration, u64)>) -> Result<(Duration, u64)> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(round()?);
    }
    rounds.into_iter().min().context("no rounds")
}

/// The whole process, and the kilobytes that it had in memory at most.
fn split(place: &Path) -> Result<(Duration, u64)> {
    let out = place.join("out");
    let began = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_rocwheel"))
        .args(["--quiet", "split", "--artifact-dir"])
        .arg(place.join("in"))
        .arg("--output-dir")
        .arg(&out)
        .stdout(std::process::Stdio::null())
        .spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        let text = fs_err::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        most = most.max(kilobytes.unwrap_or(0));
        thread::sleep(Duration::from_millis(2));
    };
    let took = began.elapsed();
    ensure!(ended.success(), "split: {ended}");
    fs_err::remove_dir_all(out)?;
    Ok((took, most))
}

fn compress(bundle: &[u8], entry: &bundle::Entry) -> Result<()> {
    let start = usize::try_from(entry.offset)?;
    let code = bundle.get(start..start + usize::try_from(entry.size)?);
    zstd::bulk::compress(code.context("a code object")?, LEVEL)?;
    Ok(())
}

fn decode(packed: &[u8], version: u16, unpacked: u64) -> Result<Vec<u8>> {
    let header = match version {
        1 => 20,
        2 => 24,
        _ => 32,
    };
    let frame = packed.get(header..).context("a header")?;
    Ok(zstd::bulk::decompress(frame, usize::try_from(unpacked)?)?)
}

fn in_parallel(count: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism()?.get();
    thread::scope(|scope| {
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return Ok(());
                }
                work(index)?;
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ended.into_iter().try_for_each(|ended| match ended {
            Ok(result) => result,
            Err(_) => bail!("a thread panicked"),
        })
    })
}

/// Two libraries of the same code, raw and compressed: machine code, cut into code objects.
fn made(place: &Path) -> Result<Vec<PathBuf>> {
    let code = fs_err::read(largest_of_toolchain()?)?;
    let size = code.len() / 4 / TARGETS.len();
    let bundles: Vec<Vec<u8>> = code
        .chunks_exact(size * TARGETS.len())
        .map(|chunk| {
            bundle::raw(
                &TARGETS
                    .into_iter()
                    .zip(chunk.chunks(size))
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    let mut files = Vec::new();
    for (name, compressed) in [("raw", None), ("compressed", Some(Method::Zstd))] {
        let (mut bytes, mut starts) = (Vec::new(), Vec::new());
        for one in &bundles {
            bytes.resize(bytes.len().next_multiple_of(4096), 0);
            starts.push(bytes.len() as u64);
            match compressed {
                None => bytes.extend_from_slice(one),
                Some(method) => bytes.extend(bundle::compress(one, 3, method)?),
            }
        }
        let library =
            SharedObject::new("libbench.so").device_code(&bytes, &starts, DeviceRelocations::Rela);
        let file = place.join(name);
        fs_err::write(&file, library.build())?;
        files.push(file);
    }
    Ok(files)
}

fn largest_of_toolchain() -> Result<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()?;
    let sysroot = String::from_utf8(output.stdout)?;
    let mut largest = (0, None);
    for entry in fs_err::read_dir(Path::new(sysroot.trim()).join("lib"))? {
        let entry = entry?;
        let len = entry.metadata()?.len();
        if len > largest.0 && entry.file_type()?.is_file() {
            largest = (len, Some(entry.path()));
        }
    }
    largest.1.context("no library in the toolchain")
}
