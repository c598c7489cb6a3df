//! Which programs and directories the environment names, and what git says.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::version::GitSha;

/// The file of this program, if the system tells.
pub(in crate::commands) fn program() -> Option<PathBuf> {
    env::current_exe().ok()
}

/// The commit that is checked out in a directory. `None` if it is in no repository, or without git.
pub(in crate::commands) fn checked_out_commit(directory: &Path) -> Option<GitSha> {
    let mut git = Command::new("git");
    // git refuses repositories of another user, and in a container every checkout is one.
    git.args(["-c", "safe.directory=*", "rev-parse", "HEAD"]);
    git.current_dir(directory).stdin(Stdio::null());
    let output = git.output().ok().filter(|it| it.status.success())?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
