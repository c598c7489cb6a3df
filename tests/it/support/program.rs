//! The `rocwheel` binary, and what a run of a program came to.

use std::process::{Command, Output};

/// The path of the binary under test.
pub(crate) const ROCWHEEL: &str = env!("CARGO_BIN_EXE_rocwheel");

/// The binary, in an environment without variables: what this machine is, is no part of a test.
pub(crate) fn command() -> Command {
    let mut command = Command::new(ROCWHEEL);
    command.env_clear();
    command
}

/// Runs the binary in an environment without variables.
pub(crate) fn rocwheel(arguments: &[&str]) -> Outcome {
    Outcome::of(command().args(arguments).output().unwrap())
}

/// What a run of a program came to.
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The exit code, then what it printed: stdout, then stderr.
    pub(crate) fn all(&self) -> String {
        format!("exit {}\n{}{}", self.code, self.stdout, self.stderr)
    }

    /// What it printed. Panics if it failed.
    pub(crate) fn ok(self) -> String {
        self.done().stdout
    }

    /// Panics if it failed.
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        self
    }

    /// What it said on stderr. Panics if it ended with another code.
    pub(crate) fn refused(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        self.stderr
    }

    /// Panics if it did not print this text.
    pub(crate) fn says(&self, text: &str) -> &Self {
        let all = self.all();
        assert_has!(all, text);
        self
    }
}

/// Runs a command. Panics with all that it printed if it fails.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
