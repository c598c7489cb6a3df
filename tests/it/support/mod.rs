//! What every module of these tests may use.
//!
//! | module | what it has |
//! |---|---|
//! | `program` | the `rocwheel` binary, and what a run of it came to |
//! | `sandbox` | a directory for one test, in which programs run: `t.run("check packages")` |
//! | `prelude` | the names that most tests use |
//! | `place` | directories to work in, and copies of them |
//! | `digests` | the digests of the packages of the sample |
//! | `killed` | commands that are stopped at any moment |
//! | `long` | which tests are short for each change and long at night |
//! | `memory` | a store in memory that is like S3 |
//! | `memory_server` | an S3 server of it, to which the program publishes |
//! | `namespace` | commands with mounts or process ids of their own |
//! | `odd` | wheels of others beside the odd set |
//! | `members` | the members of a wheel, to change and to pack again |
//! | `demo` | wheels of a framework that links the libraries of the sample |
//! | `parts` | packages of the sample for some of its targets, and the Python in them |
//! | `published` | both sets, and their packages, built once for all tests |
//! | `pythons` | Pythons as conda and Debian lay them out |
//! | `screen` | a terminal, and what a person sees on it |
//! | `bare_index` | an index without digests, as AMD's |
//! | `web` | web servers of directories and of keys |
//! | `upstream` | models of TheRock's uploader and of the indexer of its buckets |
//! | `upstream_set` | the packages that TheRock's builder makes of the sample, by a model of it |

pub(crate) use rocwheel_test_files::noise;

pub(crate) mod bare_index;
pub(crate) mod demo;
mod digests;
pub(crate) mod killed;
pub(crate) mod long;
pub(crate) mod members;
pub(crate) mod memory;
pub(crate) mod memory_server;
pub(crate) mod namespace;
pub(crate) mod odd;
pub(crate) mod parts;
pub(crate) mod place;
pub(crate) mod program;
pub(crate) mod published;
pub(crate) mod pythons;
pub(crate) mod sandbox;
pub(crate) mod screen;
pub(crate) mod upstream;
pub(crate) mod upstream_set;
pub(crate) mod web;

/// What most tests use: `use crate::support::prelude::*`.
pub(crate) mod prelude {
    pub(crate) use std::{
        collections::{BTreeMap, BTreeSet},
        io::Cursor,
        num::NonZeroUsize,
        path::{Path, PathBuf},
        process::{Command, Output},
        sync::{Arc, LazyLock, Mutex, OnceLock},
        time::Duration,
    };

    pub(crate) use regex::{Captures, Regex};
    pub(crate) use rocwheel_base::digest::Sha256;
    pub(crate) use rocwheel_test_files::{
        bundles,
        linker::{DeviceRelocations, SharedObject},
        programs::write_program,
    };
    pub(crate) use serde_json::{Value, json};
    pub(crate) use tempfile::TempDir;

    pub(crate) use super::{
        demo::DemoWheel,
        long,
        members::{Members, record, unzip, zipped},
        place::{contents, contents_without_caches, copy_files, copy_tree, text, tree},
        program::{Outcome, ROCWHEEL, command, rocwheel, succeed},
        published::{self, TestSet, sample, sets},
        sandbox::Sandbox,
        web::{Server, Site},
    };
    pub(crate) use crate::judges::tool;
}

/// What came of a line in a sandbox, and the memory that its largest process had, in kB.
#[cfg(target_os = "linux")]
pub(crate) fn run_with_peak(t: &sandbox::Sandbox, words: &[&str]) -> (program::Outcome, u64) {
    const PEAK: &str = "import resource, subprocess, sys\n\
        code = subprocess.run(sys.argv[1:]).returncode\n\
        print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n\
        sys.exit(code)";
    let mut python = std::process::Command::new(crate::judges::tool("python"));
    python.args(["-c", PEAK, program::ROCWHEEL]).args(words).current_dir(t.path(""));
    let mut outcome = program::Outcome::of(python.output().unwrap());
    let shown = outcome.stdout.trim_end().to_owned();
    let (stdout, peak) = shown.rsplit_once('\n').unwrap_or(("", &shown));
    stdout.clone_into(&mut outcome.stdout);
    (outcome, peak.parse().unwrap())
}

/// The most memory that this process has had, in kB.
pub(crate) fn peak_memory() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse().unwrap()
}
