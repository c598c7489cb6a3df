//! What a run path costs: planning, and streaming against plainly reading the file.
//!
//! `cargo bench --bench elf [-- FILE…]`; without a file, a library of 1 GiB is made.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark has nobody to hand an error to, and talks to its user"
)]

use std::{
    io::{self, Read, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rocwheel::elf::{self, PatchedReader, ReadAt, Rpath, plan_rpath};

#[expect(dead_code, unused_imports, reason = "the tests use all of it")]
#[path = "../tests/it/support/linker/mod.rs"]
mod linker;

use linker::SharedObject;

const GOAL: &str = "$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:\
    $ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib:\
    $ORIGIN/../../_rocm_sdk_core/lib/host-math/lib:\
    $ORIGIN/../../_rocm_sdk_core/lib/llvm/lib";
const ROUNDS: usize = 5;

fn main() {
    let place = tempfile::tempdir().unwrap();
    let mut files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    // Cargo passes this to every benchmark.
    files.retain(|file| file != "--bench");
    if files.is_empty() {
        files.push(library(place.path()));
    }
    println!("file  size  facts  plan  change  read  stream  stream/read");
    for file in &files {
        measure(file);
    }
    println!("peak memory: {}", peak());
}

fn measure(path: &Path) {
    let goal: Rpath = GOAL.parse().unwrap();
    let source = OnDisk(fs_err::File::open(path).unwrap());
    let facts = median(200, || {
        elf::read(&source).unwrap();
    });
    let plan = median(200, || {
        plan_rpath(&source, &goal).unwrap();
    });
    let change = plan_rpath(&source, &goal).unwrap();
    let (mut untouched, mut streamed) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let unchanged = fs_err::File::open(path).unwrap();
        untouched.push(time(|| read_through(unchanged)));
        let source = OnDisk(fs_err::File::open(path).unwrap());
        let reader = PatchedReader::new(source, change.clone());
        streamed.push(time(|| read_through(reader)));
    }
    let (untouched, streamed) = (middle(untouched), middle(streamed));
    println!(
        "{}  {}  {facts:?}  {plan:?}  {} +{}  {untouched:?}  {streamed:?}  {:.3}",
        path.file_name().unwrap().display(),
        source.len(),
        change.strategy,
        change.total_len() - source.len(),
        streamed.as_secs_f64() / untouched.as_secs_f64(),
    );
}

/// Nothing is written, so that what is measured is not the disk.
fn read_through(mut from: impl Read) {
    let mut buffer = vec![0; 1 << 20];
    while from.read(&mut buffer).unwrap() > 0 {}
}

fn library(place: &Path) -> PathBuf {
    let path = place.join("libx.so.1");
    let mut object = SharedObject::new("libx.so.1")
        .needs("liby.so.2")
        .runpath("$ORIGIN");
    for index in 0..5000 {
        object = object.function(&format!("a_function_of_some_name_{index}"), index);
    }
    let mut file = fs_err::File::create(&path).unwrap();
    file.write_all(&object.build()).unwrap();
    let noise: Vec<u8> = (0..1_u32 << 18)
        .flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect();
    for _ in 0..1024 {
        file.write_all(&noise).unwrap();
    }
    path
}

fn median(rounds: usize, mut work: impl FnMut()) -> Duration {
    middle((0..rounds).map(|_| time(&mut work)).collect())
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn peak() -> String {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap().trim().to_owned()
}

struct OnDisk(fs_err::File);

impl ReadAt for OnDisk {
    fn len(&self) -> u64 {
        self.0.metadata().unwrap().len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.file().read_at(buffer, offset)
    }
}
