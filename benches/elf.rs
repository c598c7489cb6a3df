//! What a run path costs: planning, and streaming against plainly reading the file.
//!
//! `cargo bench --bench elf [-- [--json] FILE…]`; without a file, a library of 1 GiB is made.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints its errors for its user"
)]

use std::{
    io::{self, Read, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rocwheel_elf::{PatchedReader, ReadAt, Rpath, plan_rpath};
use rocwheel_test_files::linker::SharedObject;

const GOAL: &str = "$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:\
    $ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib:\
    $ORIGIN/../../_rocm_sdk_core/lib/host-math/lib:\
    $ORIGIN/../../_rocm_sdk_core/lib/llvm/lib";
const ROUNDS: usize = 5;

fn main() {
    let place = tempfile::tempdir().unwrap();
    let mut files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let is_json = files.iter().any(|file| file == "--json");
    // Cargo passes `--bench` to every benchmark.
    files.retain(|file| file != "--bench" && file != "--json");
    if files.is_empty() {
        files.push(library(place.path()));
    }
    if is_json {
        let rows: Vec<String> = files.iter().flat_map(|file| rows(&measure(file))).collect();
        println!("[{}]", rows.join(",\n"));
        return;
    }
    println!("file  size  facts  plan  change  read  stream  stream/read");
    for file in &files {
        print(&measure(file));
    }
    println!("peak memory: {}", peak());
}

/// What one file took.
struct Measured<'a> {
    path: &'a Path,
    len: u64,
    /// The strategy of the change, and by how much the file becomes longer.
    change: String,
    facts: Duration,
    plan: Duration,
    /// One for each round.
    read: Vec<Duration>,
    streamed: Vec<Duration>,
}

fn measure(path: &Path) -> Measured<'_> {
    let goal: Rpath = GOAL.parse().unwrap();
    let source = OnDisk(fs_err::File::open(path).unwrap());
    let facts = median(200, || {
        rocwheel_elf::read(&source).unwrap();
    });
    let plan = median(200, || {
        plan_rpath(&source, &goal).unwrap();
    });
    let change = plan_rpath(&source, &goal).unwrap();
    let (mut read, mut streamed) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let unchanged = fs_err::File::open(path).unwrap();
        read.push(time(|| read_through(unchanged)));
        let source = OnDisk(fs_err::File::open(path).unwrap());
        let reader = PatchedReader::new(source, change.clone());
        streamed.push(time(|| read_through(reader)));
    }
    Measured {
        path,
        len: source.len(),
        change: format!("{} +{}", change.strategy, change.patch.total_len() - source.len()),
        facts,
        plan,
        read,
        streamed,
    }
}

fn print(found: &Measured<'_>) {
    let (read, streamed) = (middle(&found.read), middle(&found.streamed));
    println!(
        "{}  {}  {:?}  {:?}  {}  {read:?}  {streamed:?}  {:.3}",
        found.path.file_name().unwrap().display(),
        found.len,
        found.facts,
        found.plan,
        found.change,
        streamed.as_secs_f64() / read.as_secs_f64(),
    );
}

/// As `benches/all.py` reads them.
fn rows(found: &Measured<'_>) -> [String; 2] {
    let file = found.path.file_name().unwrap().display();
    let row = |way: String, role: &str, took: &[Duration]| {
        let took: Vec<f64> = took.iter().map(Duration::as_secs_f64).collect();
        format!(r#"{{"way": "{way}", "role": "{role}", "seconds": {took:?}, "cpu": []}}"#)
    };
    let (facts, plan) = (found.facts.as_micros(), found.plan.as_micros());
    let planned = format!("`{file}` through its plan (headers {facts} µs, plan {plan} µs)");
    let read = format!("`{file}` read, {} MB", found.len / 1_000_000);
    [row(planned, "own", &found.streamed), row(read, "limit", &found.read)]
}

/// Nothing is written, so that what is measured is not the disk.
fn read_through(mut from: impl Read) {
    let mut buffer = vec![0; 1 << 20];
    while from.read(&mut buffer).unwrap() > 0 {}
}

fn library(place: &Path) -> PathBuf {
    let path = place.join("libx.so.1");
    let mut object = SharedObject::new("libx.so.1").needs("liby.so.2").runpath("$ORIGIN");
    for index in 0..5000 {
        object = object.function(&format!("a_function_of_some_name_{index}"), index);
    }
    let mut file = fs_err::File::create(&path).unwrap();
    file.write_all(&object.build()).unwrap();
    let noise: Vec<u8> =
        (0..1_u32 << 18).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    for _ in 0..1024 {
        file.write_all(&noise).unwrap();
    }
    path
}

fn median(rounds: usize, mut work: impl FnMut()) -> Duration {
    middle(&(0..rounds).map(|_| time(&mut work)).collect::<Vec<_>>())
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn middle(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
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
