//! How long the pages of a large set take, and how much memory: `cargo bench --bench index [FILES]`.
//!
//! Nothing is read or written; `benches/index.sh` measures whole runs beside other programs.

#![expect(clippy::print_stdout, reason = "a benchmark talks to its user")]

use std::{env, hint::black_box, time::Instant};

use rocwheel::{
    digest::Sha256,
    set::{Identity, IndexPage, SetFile, SetJson, pages},
};

/// So many versions a project, which is what page sizes depend on.
const VERSIONS: usize = 100;

fn main() {
    let number = env::args().skip(1).find_map(|text| text.parse().ok());
    let count: usize = number.unwrap_or(100_000);
    println!("{count} files\n\n| what | time | peak memory so far |\n|---|--:|--:|");
    let files = step("facts of the files, made up", || files(count));
    let set = step("sorted into projects and versions", || {
        SetJson::new(Identity::default(), files)
    });
    let set = set.expect("names are different");
    let views = set.views();
    let all = pages(&set, &views);
    let bytes = step("every page, one after another", || {
        let sizes = all.iter().map(|page: &IndexPage| page.body().len());
        sizes.sum::<usize>()
    });
    println!("| {} pages, {} MB | | |", all.len(), bytes / 1_000_000);
    let json = step("`set.json`, written", || set.pretty());
    let read = step("`set.json`, read", || SetJson::parse(&json));
    black_box(read).expect("it reads back");
}

fn files(count: usize) -> Vec<SetFile> {
    let file = |number: usize| {
        let (project, version) = (number / VERSIONS, number % VERSIONS);
        let name =
            format!("rocm_pkg_{project}-7.{version}.0.dev0+0123456789ab-py3-none-linux_x86_64.whl");
        SetFile {
            project: format!("rocm-pkg-{project}").parse().expect("a name"),
            version: format!("7.{version}.0.dev0+0123456789ab")
                .parse()
                .expect("a version"),
            size: 1_000_000,
            sha256: Sha256::of(name.as_bytes()),
            upload_time: None,
            metadata: Some(Sha256::of(name.as_bytes())),
            requires_python: Some(">=3.10".to_owned()),
            yanked: None,
            remembered: None,
            path: format!("dist/{name}"),
        }
    };
    (0..count).map(file).collect()
}

fn step<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let answer = work();
    let took = began.elapsed();
    println!("| {what} | {} ms | {} MB |", took.as_millis(), peak());
    answer
}

/// The most memory that this process had so far, in MB, where the system says so.
fn peak() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) / 1000
}
