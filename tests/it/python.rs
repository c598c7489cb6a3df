//! The Python that ships: linted, typed, and tested on every Python of this machine.

pub(crate) mod legacy;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use rocwheel::package::{
    dist_info::{self, DistInfo, Form},
    selector, templates,
};

use crate::judges::tool;
use crate::support::program::ROCWHEEL;

const SOURCES: &str = "src/package/python";
const TESTS: &str = "tests/python";
const CONFIG: &str = "tests/python/pyproject.toml";
/// The newest minor version of Python 3 that the packages are said to work on.
const NEWEST: u32 = 14;

#[test]
fn the_python_is_linted_and_formatted() {
    for arguments in [["check", "--no-cache"], ["format", "--check"]] {
        succeed(
            Command::new(tool("ruff"))
                .args(arguments)
                .args(["--config", CONFIG, SOURCES, TESTS]),
        );
    }
}

#[test]
fn the_python_is_typed_on_both_platforms_and_every_version() {
    let packages = place("typed");
    for logical in ["meta", "core", "libraries", "devel", "profiler"] {
        write_package(&packages, logical);
    }
    let builder = Path::new(SOURCES).join("rocm");
    for name in ["rocm_build.py", "setup.py"] {
        fs_err::copy(builder.join(name), packages.join(name)).unwrap();
    }
    for version in ["3.10", &format!("3.{NEWEST}")] {
        for platform in ["linux", "win32"] {
            succeed(
                Command::new(tool("mypy"))
                    .args(["--config-file", CONFIG, "--no-incremental"])
                    .args(["--python-version", version, "--platform", platform])
                    .arg(&packages),
            );
        }
    }
    succeed(
        Command::new(tool("mypy"))
            .args(["--config-file", CONFIG, "--no-incremental"])
            .env("MYPYPATH", &packages)
            .arg(TESTS),
    );
}

#[test]
fn the_python_passes_its_tests_on_every_python_here() {
    let sdists = place("sdists");
    write_sdists(&sdists);
    let split = publish("split", &["--sample"]);
    let run = place("legacy-run");
    legacy::write_run(&run, &[("gfx942", "gfx94X-dcgpu")]);
    let legacy = publish("legacy", &["--artifact-dir", run.to_str().unwrap()]);
    let pythons = pythons();
    assert!(
        !pythons.is_empty(),
        "no Python from 3.10 on with `venv`: install `python3-venv`"
    );
    let in_ci = std::env::var_os("CI").is_some();
    assert!(
        !in_ci || pythons.contains_key(&NEWEST),
        "no Python 3.{NEWEST}: use `tests/python/newest.sh`"
    );
    let newest = pythons.keys().next_back();
    for (minor, python) in &pythons {
        let environment = environment(*minor, python);
        say(&format!(
            "testing with Python 3.{minor}: {}",
            python.display()
        ));
        let tests = if Some(minor) == newest {
            "slow or not slow"
        } else {
            "not slow"
        };
        succeed(
            Command::new(environment.join("bin/python"))
                .args(["-B", "-m", "pytest", "--numprocesses", "2", "-m", tests])
                .arg("--rootdir")
                .arg(TESTS)
                .arg(TESTS)
                .env("ROCWHEEL_SDISTS", &sdists)
                .env("ROCWHEEL_PUBLISHED", &split)
                .env("ROCWHEEL_PUBLISHED_LEGACY", &legacy),
        );
    }
}

/// The directory with the pages of a published set.
fn publish(name: &str, source: &[&str]) -> PathBuf {
    let place = place(name);
    succeed(
        Command::new(ROCWHEEL)
            .arg("pipeline")
            .args(source)
            .args(["--version", "10.1.0", "--output-dir"])
            .arg(&place),
    );
    place.join("local-linux/python")
}

/// The Pythons of this machine, one for each minor version.
fn pythons() -> BTreeMap<u32, PathBuf> {
    let mut candidates: Vec<PathBuf> = (10..20)
        .map(|minor| PathBuf::from(format!("python3.{minor}")))
        .collect();
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

/// An environment with what the tests need, made anew whenever that changes.
fn environment(minor: u32, python: &Path) -> PathBuf {
    let requirements = Path::new(TESTS).join("requirements.txt");
    let wanted = format!(
        "{}\n{}",
        python.display(),
        fs_err::read_to_string(&requirements).unwrap()
    );
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python-3.{minor}"));
    let stamp = place.join("requirements.stamp");
    if fs_err::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return place;
    }
    if place.exists() {
        fs_err::remove_dir_all(&place).unwrap();
    }
    succeed(Command::new(python).args(["-m", "venv"]).arg(&place));
    succeed(
        Command::new(place.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "--requirement"])
            .arg(&requirements),
    );
    fs_err::write(&stamp, wanted).unwrap();
    place
}

fn write_package(packages: &Path, logical: &str) {
    let name = match logical {
        "meta" => "rocm_sdk".to_owned(),
        "profiler" => "rocm_profiler".to_owned(),
        _ => format!("rocm_sdk_{logical}"),
    };
    let info = DistInfo {
        this_package: logical,
        ..info(&[], &[], &[], &[])
    };
    let mut files = vec![("_dist_info.py".to_owned(), dist_info::render(&info))];
    for (file, text) in templates::pure_package(logical) {
        files.push(((*file).to_owned(), (*text).to_owned()));
    }
    for (file, text) in files {
        write(&packages.join(&name).join(file), text.as_bytes());
    }
}

/// One sdist of each kind, unpacked.
fn write_sdists(place: &Path) {
    let texts =
        |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    let (all, linux, windows) = (
        texts(&["gfx1100", "gfx1201", "gfx942"]),
        texts(&["gfx1100", "gfx942"]),
        texts(&["gfx1100", "gfx1201"]),
    );
    let (single, families) = (
        texts(&["gfx942", "gfx942:xnack+"]),
        texts(&["gfx110X-all", "gfx94X-dcgpu"]),
    );
    let absent = texts(&["devel", "profiler"]);
    let legacy = DistInfo {
        form: Form::Restricted,
        this_target: Some("gfx94X-dcgpu"),
        ..info(&families, &[], &[], &[])
    };
    for (name, info) in [
        ("both", info(&all, &linux, &windows, &[])),
        ("single", info(&single, &[], &[], &[])),
        ("none", info(&[], &[], &[], &[])),
        ("partial", info(&all, &linux, &[], &absent)),
        ("legacy", legacy),
    ] {
        for (path, bytes) in selector::files(&info).unwrap() {
            write(&place.join(name).join(path.as_str()), &bytes);
        }
    }
}

fn info<'a>(
    available: &'a [String],
    linux: &'a [String],
    windows: &'a [String],
    absent: &'a [String],
) -> DistInfo<'a> {
    DistInfo {
        version: "10.1.0",
        nonce: "",
        form: Form::Split,
        default: available.first().map(String::as_str),
        available,
        linux,
        windows,
        absent,
        this_target: None,
        this_package: "meta",
        libraries_py_package: None,
    }
}

fn write(path: &Path, bytes: &[u8]) {
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, bytes).unwrap();
}

/// An empty directory of that name.
fn place(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("python")
        .join(name);
    if place.exists() {
        fs_err::remove_dir_all(&place).unwrap();
    }
    fs_err::create_dir_all(&place).unwrap();
    place
}

fn succeed(command: &mut Command) {
    let output = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[expect(
    clippy::print_stderr,
    reason = "which Pythons there are differs by machine"
)]
fn say(text: &str) {
    eprintln!("{text}");
}
