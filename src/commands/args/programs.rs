//! Which programs and directories the environment names.

use std::{env, path::PathBuf};

/// The file of this program, if the system tells.
pub(in crate::commands) fn program() -> Option<PathBuf> {
    env::current_exe().ok()
}

/// The file of a program that a shell would start.
pub(in crate::commands) fn program_on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let ends: &[&str] = if cfg!(windows) {
        &[".exe", ".cmd"]
    } else {
        &[""]
    };
    let mut files = env::split_paths(&path).flat_map(|directory| {
        ends.iter()
            .map(move |end| directory.join(format!("{name}{end}")))
    });
    files.find(|file| file.is_file())
}

/// The directory for temporary files.
pub(in crate::commands) fn temporary_directory() -> PathBuf {
    env::temp_dir()
}
