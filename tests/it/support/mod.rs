//! What every module of these tests may use.
//!
//! | module | what it has |
//! |---|---|
//! | `program` | the `rocwheel` binary, and what a run of it came to |
//! | `sandbox` | a directory for one test, in which programs run: `t.run("check packages")` |
//! | `place` | directories to work in, and copies of them |
//! | `digests` | the digests of the packages of the sample |
//! | `killed` | commands that are stopped at any moment |
//! | `linker` | writes ELF files that load and run, without a compiler |
//! | `sample` | makes the artifacts of the built-in sample |
//! | `long` | which tests are short for each change and long at night |
//! | `namespace` | commands with mounts or process ids of their own |
//! | `odd` | makes the artifacts of a set that is legal and unlike the sample |
//! | `families` | its device code, of families that were split one by one |
//! | `stored` | archives of device code without compression |
//! | `members` | the members of a wheel, to change and to pack again |
//! | `demo` | wheels of a framework that links the libraries of the sample |
//! | `published` | both sets, and their packages, built once for all tests |
//! | `screen` | a terminal, and what a person sees on it |
//! | `web` | web servers of directories and of keys |
//! | `upstream` | models of TheRock's uploader and of the indexer of its buckets |

pub(crate) mod bundles;
pub(crate) mod demo;
mod digests;
mod families;
pub(crate) mod killed;
pub(crate) mod linker;
pub(crate) mod long;
pub(crate) mod members;
pub(crate) mod namespace;
pub(crate) mod odd;
pub(crate) mod place;
pub(crate) mod program;
pub(crate) mod published;
pub(crate) mod sample;
pub(crate) mod sandbox;
pub(crate) mod screen;
pub(crate) mod stored;
pub(crate) mod upstream;
pub(crate) mod web;

/// The most memory that this process has had, in kB.
pub(crate) fn peak_memory() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}
