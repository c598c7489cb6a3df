//! Puts files on disk, and loads and runs them.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

/// A directory of libraries and programs.
pub(super) struct Place(TempDir);

impl Place {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes an executable file, with the directories above it.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, bytes).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        fs_err::set_permissions(&path, mode).unwrap();
        path
    }
}

/// What `dlopen` and a call of a function give, or what the loader says.
pub(super) fn call(library: &Path, function: &str) -> Result<i32, String> {
    const SCRIPT: &str =
        "import ctypes, sys; print(getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])())";
    let output = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(library)
        .arg(function)
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .unwrap();
    if output.status.success() {
        let text = String::from_utf8(output.stdout).unwrap();
        Ok(text.trim().parse().unwrap())
    } else {
        Err(last_line(&output, library))
    }
}

/// What a program prints, and its exit code; or what killed it.
pub(super) fn run(program: &Path) -> Result<(String, i32), String> {
    let output = Command::new(program)
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .map_err(|error| error.to_string())?;
    match output.status.code() {
        Some(127) | None => Err(format!(
            "{}: {}",
            output.status,
            last_line(&output, program)
        )),
        Some(code) => Ok((String::from_utf8(output.stdout.clone()).unwrap(), code)),
    }
}

fn last_line(output: &Output, path: &Path) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().last().unwrap_or("no word");
    let directory = path.parent().unwrap().display().to_string();
    format!("{}: {line}", output.status).replace(&directory, "DIR")
}
