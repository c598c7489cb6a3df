//! The least that an index of small wheels can take: `cargo bench --bench floor -- DIR`.
//!
//! Reads every wheel, makes a sidecar for each and two pages for every tenth, each beside its place
//! and then renamed, on as many threads as there are cores. Nothing is hashed, parsed or rendered.

#![expect(clippy::print_stdout, reason = "a benchmark talks to its user")]

use std::{
    env, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use fs_err as fs;

/// About what a sidecar and a page of these wheels hold.
const SIDECAR: [u8; 94] = [b'x'; 94];
const PAGE: [u8; 6_000] = [b'x'; 6_000];

fn main() -> io::Result<()> {
    let directory = env::args_os().skip(1).map(PathBuf::from);
    let directory = directory
        .into_iter()
        .find(|path| path.is_dir())
        .expect("pass a directory of wheels, such as `small_wheels` of benches/inputs.py makes");
    let began = Instant::now();
    let entries = fs::read_dir(&directory)?.map(|entry| Ok(entry?.path()));
    let mut wheels = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    wheels.retain(|path| path.extension().is_some_and(|end| end == "whl"));
    let cores = thread::available_parallelism()?.get();
    on_all(cores, &wheels, |number, wheel| {
        fs::read(wheel)?;
        make(&wheel.with_added_extension("metadata"), number, &SIDECAR)
    })?;
    let projects: Vec<PathBuf> = (0..wheels.len() / 10)
        .map(|number| directory.join(format!("simple/project-{number}")))
        .collect();
    on_all(cores, &projects, |number, project| {
        fs::create_dir_all(project)?;
        make(&project.join("index.html"), 2 * number, &PAGE)?;
        make(&project.join("index.json"), 2 * number + 1, &PAGE)
    })?;
    let took = began.elapsed().as_millis();
    println!("{} wheels, {cores} threads: {took} ms", wheels.len());
    Ok(())
}

fn make(path: &Path, number: usize, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_file_name(format!(".unfinished-{number}"));
    fs::write(&unfinished, bytes)?;
    fs::rename(&unfinished, path)
}

fn on_all(
    threads: usize,
    paths: &[PathBuf],
    work: impl Fn(usize, &Path) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    let run = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        match paths.get(number) {
            Some(path) => work(number, path)?,
            None => return io::Result::Ok(()),
        }
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let ended = running.into_iter().map(|one| one.join().expect("no panic"));
        ended.collect()
    })
}
