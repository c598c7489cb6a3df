//! Puts files on disk, and loads and runs them.

use std::{
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use tempfile::TempDir;

use crate::linker::Executable;

/// A directory of libraries and programs.
pub struct Place(TempDir);

impl Place {
    pub fn make() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes an executable file, with the directories above it.
    pub fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        write_program(&path, bytes);
        path
    }
}

/// Writes a program.
pub fn write_program(path: &Path, text: impl AsRef<[u8]>) {
    fs_err::write(path, text).unwrap();
    fs_err::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// What `dlopen` and a call of a function give, or what the loader says.
pub fn call(library: &Path, function: &str) -> Result<i32, String> {
    const SCRIPT: &str =
        "import ctypes, sys; print(getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])())";
    let mut python = Command::new("python3");
    python.args(["-c", SCRIPT]).arg(library).arg(function);
    let output = python.env_remove("LD_LIBRARY_PATH").output().unwrap();
    if output.status.success() {
        let text = String::from_utf8(output.stdout).unwrap();
        Ok(text.trim().parse().unwrap())
    } else {
        Err(last_line(&output, library))
    }
}

/// What a function gives in a program that is linked to a library by its path: the same question
/// as `call`, modulo 256, and answered in a tenth of the time.
pub fn linked(library: &Path, function: &str) -> Result<i32, String> {
    let program = Executable::new().needs(library.to_str().unwrap()).calls(function);
    let path = library.with_extension("program");
    write_program(&path, program.build());
    run(&path).map(|(_, status)| status)
}

/// What a program prints, and its exit code; or what killed it.
pub fn run(program: &Path) -> Result<(String, i32), String> {
    let output = output(program).map_err(|error| error.to_string())?;
    match output.status.code() {
        Some(127) | None => Err(last_line(&output, program)),
        Some(code) => Ok((String::from_utf8(output.stdout.clone()).unwrap(), code)),
    }
}

/// Starts a program that was just written. Another test may have started a process while the file
/// was open for writing, which keeps it busy until that process runs a program of its own.
fn output(program: &Path) -> io::Result<Output> {
    loop {
        let output = Command::new(program).env_remove("LD_LIBRARY_PATH").output();
        match output {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

fn last_line(output: &Output, path: &Path) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().last().unwrap_or("no word");
    let directory = path.parent().unwrap().display().to_string();
    format!("{}: {line}", output.status).replace(&directory, "DIR")
}
