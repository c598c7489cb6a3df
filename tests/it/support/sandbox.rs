//! A directory for one test, in which `rocwheel` and other programs run.

use std::ffi::OsString;

use crate::support::prelude::*;

/// A new directory, and the variables of the programs that run in it.
///
/// ```ignore
/// let t = Sandbox::new().with("GITHUB_TOKEN", "secret").shows(&address, "SERVER");
/// let said = t.run("fetch --run-id 7 --output-dir out");
/// assert_snapshot!(said.all(), @"");
/// ```
pub(crate) struct Sandbox {
    directory: TempDir,
    variables: Vec<(String, OsString)>,
    shown: Vec<(String, String)>,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let real = fs_err::canonicalize(directory.path()).unwrap();
        let shown = [real.as_path(), directory.path()];
        let shown = shown.map(|path| (path.to_str().unwrap().to_owned(), "HERE".to_owned()));
        Self { directory, variables: Vec::new(), shown: shown.into() }
    }

    /// Sets a variable for each program that runs here. Programs have no other variables.
    pub(crate) fn with(mut self, variable: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((variable.to_owned(), value.into()));
        self
    }

    /// Replaces a text that is another one in each run, such as an address, in what programs print.
    pub(crate) fn shows(mut self, text: impl Into<String>, shown: &str) -> Self {
        self.shown.push((text.into(), shown.to_owned()));
        self
    }

    /// The sandbox itself for `""`.
    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// Writes a file, and the directories above it.
    pub(crate) fn write(&self, relative: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, content).unwrap();
        path
    }

    pub(crate) fn read(&self, relative: &str) -> String {
        fs_err::read_to_string(self.path(relative)).unwrap()
    }

    /// Runs `rocwheel` with the words of a line. A word with blanks stands in single quotes.
    pub(crate) fn run(&self, line: &str) -> Outcome {
        self.outcome(&mut self.command(line))
    }

    /// The command that [`Sandbox::run`] runs, to change it first.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = command();
        command.args(words(line)).current_dir(&self.directory);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// A line for a shell.
    pub(crate) fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&self.directory).env_clear();
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command, and replaces what [`Sandbox::shows`] and the path of the sandbox (`HERE`) say.
    pub(crate) fn outcome(&self, command: &mut Command) -> Outcome {
        let mut outcome = Outcome::of(command.output().unwrap());
        for text in [&mut outcome.stdout, &mut outcome.stderr] {
            for (from, to) in &self.shown {
                *text = text.replace(from, to);
            }
        }
        outcome
    }
}

/// The words of a line: `a 'b c'` has two.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 0 {
            words.extend(part.split_whitespace().map(str::to_owned));
        } else {
            words.push(part.to_owned());
        }
    }
    words
}

#[test]
fn words_in_quotes_have_blanks() {
    assert_eq!(words(" a  'b c' --d ''"), ["a", "b c", "--d", ""]);
}
