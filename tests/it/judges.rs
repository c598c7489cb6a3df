//! Tools from `tests/requirements.txt`, the package of `tests/openapi` and the wheels of
//! `tests/wheels.sha256`, installed below `target/`.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use sha2::{Digest as _, Sha256};

/// The path of a tool, such as `patchelf`.
pub(crate) fn tool(name: &str) -> PathBuf {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    let path = PLACE.get_or_init(environment).join("bin").join(name);
    assert!(
        path.exists(),
        "`{name}` is not in `tests/requirements.txt`, or installs no such tool"
    );
    path
}

fn environment() -> PathBuf {
    let requirements = tests().join("requirements.txt");
    made("judges", &requirements, |place| {
        run(Command::new("python3").args(["-m", "venv"]).arg(place));
        run(Command::new(place.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "--requirement"])
            .arg(&requirements));
    })
}

/// GitHub's description of its API, from the package that `tests/openapi` names.
pub(crate) fn description_of_github() -> PathBuf {
    const NAME: &str = "api.github.com.json";
    let from = tests().join("openapi");
    let place = made("openapi", &from.join("package-lock.json"), |place| {
        fs_err::create_dir(place).unwrap();
        for file in ["package.json", "package-lock.json", ".npmrc"] {
            fs_err::copy(from.join(file), place.join(file)).unwrap();
        }
        run(Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(place));
        // One file of 13 MB is wanted, out of 400.
        let modules = place.join("node_modules");
        let package = modules.join("@octokit/openapi/generated");
        fs_err::rename(package.join(NAME), place.join(NAME)).unwrap();
        fs_err::remove_dir_all(modules).unwrap();
    });
    place.join(NAME)
}

/// A wheel of PyPI: one of `tests/wheels.sha256`, by the beginning of its file name. Downloaded once.
pub(crate) fn wheel_of_pypi(start: &str) -> PathBuf {
    let known = fs_err::read_to_string(tests().join("wheels.sha256")).unwrap();
    let mut known = known.lines().filter_map(|line| line.split_once("  "));
    let (digest, file) = known.find(|(_, file)| file.starts_with(start)).unwrap();
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("real-wheels");
    fs_err::create_dir_all(&place).unwrap();
    let lock = fs_err::File::create(place.join(format!("{file}.lock"))).unwrap();
    lock.file().lock().unwrap();
    let wheel = place.join(file);
    let is_good = || fs_err::read(&wheel).is_ok_and(|bytes| hex(&bytes) == digest);
    if !is_good() {
        let parts: Vec<&str> = file.trim_end_matches(".whl").split('-').collect();
        let mut pip = Command::new(tool("pip"));
        pip.args(["download", "--quiet", "--no-deps", "--only-binary=:all:"])
            .args(parts[4].split('.').flat_map(|it| ["--platform", it]))
            .arg("--dest")
            .arg(&place)
            .arg(format!("{}=={}", parts[0], parts[1]));
        if let Some(minor) = parts[2].strip_prefix("cp3") {
            pip.arg(format!("--python-version=3.{minor}"));
        }
        run(&mut pip);
    }
    assert!(is_good(), "another wheel than the one that was looked at");
    wheel
}

fn hex(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// A directory of this name, made again whenever the file changes; by one process at a time.
fn made(name: &str, of: &Path, make: impl FnOnce(&Path)) -> PathBuf {
    let wanted = hex(&fs_err::read(of).unwrap());
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
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
    let advice = "the judges need Python 3 with venv, npm, and access to PyPI and npm: install \
                  `python3-venv` and `npm`";
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; {advice}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{advice}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}
