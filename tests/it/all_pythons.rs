//! The Python that ships, tested by each Python of this machine.
//!
//! Each has a test of its own, and the module a name that comes first: these are the longest
//! tests, and the one that starts last has no other test beside it to fill the cores.

use crate::support::prelude::*;
use crate::{
    python::{NEWEST, TESTS, legacy, succeed, write_sdists},
    support::{
        place::TEMPORARY,
        published::{once, publish},
    },
};

#[test]
#[ignore = "slow"]
fn python_3_10_passes() {
    test_with(10);
}

#[test]
#[ignore = "slow"]
fn python_3_11_passes() {
    test_with(11);
}

#[test]
#[ignore = "slow"]
fn python_3_12_passes() {
    test_with(12);
}

#[test]
#[ignore = "slow"]
fn python_3_13_passes() {
    test_with(13);
}

#[test]
#[ignore = "slow"]
fn python_3_14_passes() {
    test_with(NEWEST);
}

/// Runs the tests in Python with one version of it, if this machine has that.
///
/// At a desk only the newest runs them, and only those that differ by version of Python.
#[expect(clippy::print_stderr, reason = "which Pythons there are differs by machine")]
fn test_with(minor: u32) {
    let pythons = pythons();
    let newest = pythons.keys().next_back().copied();
    let advice = "no Python from 3.10 on with `venv`: install `python3-venv`";
    assert!(newest.is_some(), "{advice}");
    let is_newest = newest >= Some(NEWEST) || !long::is_on();
    assert!(is_newest, "no Python 3.{NEWEST}: use `tests/python/newest.sh`");
    if newest != Some(minor) && !long::is_on() {
        return;
    }
    let Some(python) = pythons.get(&minor) else {
        eprintln!("no Python 3.{minor} here");
        return;
    };
    let tests = match (long::is_on(), newest == Some(minor)) {
        (true, true) => "slow or not slow",
        (true, false) => "not slow",
        (false, _) => "not slow and not whole",
    };
    let sdists = once("python-sdists", write_sdists);
    let version = ["--version", "10.1.0"];
    let split = once("python-split", |root| {
        publish(root, &[&["--sample"], &version[..]].concat());
    });
    let legacy = once("python-legacy", |root| {
        let run = root.join("run");
        legacy::write_run(&run, &[("gfx942", "gfx94X-dcgpu")]);
        let run = ["--artifact-dir", text(&run)];
        publish(root, &[run, version].concat());
    });
    let mut pytest = Command::new(environment(minor, python).join("bin/python"));
    pytest.args(["-B", "-m", "pytest", "--numprocesses", "2", "-m", tests]);
    pytest.args(["--rootdir", TESTS, TESTS]).env("ROCWHEEL_SDISTS", sdists);
    let place = |root: PathBuf| root.join("local-linux/python");
    pytest.env("ROCWHEEL_PUBLISHED", place(split));
    succeed(pytest.env("ROCWHEEL_PUBLISHED_LEGACY", place(legacy)));
}

/// The Pythons of this machine, one for each minor version.
fn pythons() -> BTreeMap<u32, PathBuf> {
    let candidates = (10..20).map(|minor| PathBuf::from(format!("python3.{minor}")));
    let mut candidates: Vec<PathBuf> = candidates.collect();
    candidates.push("python3".into());
    let home = std::env::var_os("HOME").unwrap_or_default();
    let versions = Path::new(&home).join(".pyenv/versions");
    for entry in fs_err::read_dir(versions).into_iter().flatten() {
        candidates.push(entry.unwrap().path().join("bin/python3"));
    }
    candidates.iter().filter_map(|path| usable(path)).collect()
}

/// The minor version and the place of a Python that is new enough and can make environments.
fn usable(python: &Path) -> Option<(u32, PathBuf)> {
    const ASK: &str = "import ensurepip, sys, venv; assert sys.version_info >= (3, 10); \
                       print(sys.version_info[1], sys.executable)";
    let output = Command::new(python).args(["-c", ASK]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (minor, path) = text.trim_end().split_once(' ')?;
    Some((minor.parse().ok()?, path.into()))
}

/// An environment with what the tests need, made again whenever that changes.
fn environment(minor: u32, python: &Path) -> PathBuf {
    let requirements = Path::new(TESTS).join("requirements.txt");
    let wanted = fs_err::read_to_string(&requirements).unwrap();
    let wanted = format!("{}\n{wanted}", python.display());
    let place = Path::new(TEMPORARY).join(format!("python-3.{minor}"));
    let stamp = place.join("requirements.stamp");
    if fs_err::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return place;
    }
    if place.exists() {
        fs_err::remove_dir_all(&place).unwrap();
    }
    succeed(Command::new(python).args(["-m", "venv"]).arg(&place));
    let mut pip = Command::new(place.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--requirement"]);
    succeed(pip.arg(&requirements));
    fs_err::write(&stamp, wanted).unwrap();
    place
}
