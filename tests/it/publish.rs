//! Index, upload and summary, seen by the installers that they are for.

mod attack;
mod attempts;
mod browser;
#[cfg(target_os = "linux")]
mod containers;
pub(crate) mod install;
mod layouts;
pub(crate) mod packages;
mod parse;
pub(crate) mod readers;
mod repeat;
mod stranger;
mod top;
mod turns;

pub(crate) use crate::support::place::tree;
use crate::support::prelude::*;
use crate::support::{place::TEMPORARY, sandbox::words};

/// A judge that asks only the given addresses, and has no cache.
pub(crate) fn judge(name: &str, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(tool(name));
    command.env_clear().args(arguments);
    command.env("PATH", std::env::var_os("PATH").unwrap());
    command.env("HOME", TEMPORARY);
    // Where the packages of this world come from is the machine's affair.
    for name in ["PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "SSL_CERT_FILE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    Outcome::of(command.output().unwrap())
}

/// pip as it is without settings and caches, with the words of a line and then these.
pub(crate) fn pip(line: &str, more: &[&str]) -> Outcome {
    let line = format!("{line} --isolated --no-cache-dir --quiet");
    judge("pip", &[&line.split(' ').collect::<Vec<_>>(), more].concat())
}

/// `uv pip`, the same, for the Python of the judges.
pub(crate) fn uv(line: &str, more: &[&str]) -> Outcome {
    let python = tool("python");
    let line = format!("pip {line} --no-cache --no-config --python");
    let line = line.split(' ').chain([text(&python)]).collect::<Vec<_>>();
    judge("uv", &[&line, more].concat())
}

/// What pip downloads with these arguments, in order.
fn downloads(bench: &Bench, arguments: &[&str]) -> Vec<String> {
    let to = bench.path("downloaded");
    pip("download", &[&["--dest", &to], arguments].concat()).ok();
    let files = tree(to.as_ref());
    fs_err::remove_dir_all(to).unwrap();
    files
}

/// A directory to work in, whose name would break a careless link.
pub(crate) struct Bench {
    /// It goes with the bench.
    _place: TempDir,
    pub(crate) root: PathBuf,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("a b+c%41&'é");
        fs_err::create_dir(&root).unwrap();
        Self { _place: place, root }
    }

    /// With packages in `built`.
    pub(crate) fn built() -> Self {
        let bench = Self::new();
        packages::wheels(&bench.root.join("built"));
        bench
    }

    /// Runs `rocwheel` in the directory with the words of a line.
    pub(crate) fn run(&self, line: &str) -> Outcome {
        let mut command = command();
        command.args(words(line)).current_dir(&self.root);
        Outcome::of(command.output().unwrap())
    }

    /// Uploads `built` to `out`, as the packages of run 42.
    pub(crate) fn upload(&self, more: &str) -> Outcome {
        let of_all = if more.contains("--artifact-group") { "" } else { "--multi-target" };
        let run = "--run-id=42 --bucket=mine --platform=linux --no-check";
        self.run(&format!("upload built --output-dir out {run} {of_all} {more}"))
    }

    pub(crate) fn path(&self, path: &str) -> String {
        self.root.join(path).to_str().unwrap().to_owned()
    }
}
