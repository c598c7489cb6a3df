//! [`ShownProgram`]: another program whose output the user sees while the program works.

use std::{
    io::{self, BufRead as _, BufReader, IsTerminal as _, PipeReader},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

use super::{Console, Talk};

/// How long the rest of the output is waited for, after a program has ended. A program that it has started, and that
/// still runs, keeps the pipe open.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// A running program whose output the user sees.
#[derive(Debug)]
pub struct ShownProgram {
    child: Child,
    /// Passes on what the program writes. `None` if the program writes to the terminal itself.
    output: Option<JoinHandle<()>>,
}

impl Console {
    /// Starts a program, so that the user sees what the program does. stdout is for the answer of this program, so
    /// both streams of the other program go to stderr.
    ///
    /// A program gets the terminal itself, for its bars and colors. Everywhere else its lines are read and passed on:
    /// uv and pip fail if they write to a pipe without a reader, as in `rocwheel install … 2>&1 | head`. Lines that
    /// are passed on are discarded then, as our lines are.
    pub fn start(&self, command: &mut Command) -> io::Result<ShownProgram> {
        if io::stderr().is_terminal() {
            let child = command.stdout(io::stderr()).stderr(io::stderr()).spawn()?;
            return Ok(ShownProgram { child, output: None });
        }
        let (reader, writer) = io::pipe()?;
        let spawned = command.stdout(writer.try_clone()?).stderr(writer).spawn();
        // The pipe ends when its last writer is closed, and `command` has two of them.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = spawned?;
        let talk = Arc::clone(&self.talk);
        let output = thread::spawn(move || talk.pass_on(reader));
        Ok(ShownProgram { child, output: Some(output) })
    }
}

impl Talk {
    /// Prints each line of a program as it is: its colors are meant.
    fn pass_on(&self, reader: PipeReader) {
        let mut lines = BufReader::new(reader).split(b'\n');
        while let Some(Ok(line)) = lines.next() {
            self.line(&String::from_utf8_lossy(&line));
        }
    }
}

impl ShownProgram {
    /// How the program has ended. `None` while it runs.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            self.finish_output();
        }
        Ok(status)
    }

    /// Ends the program.
    pub fn kill(mut self) -> io::Result<()> {
        // It may have ended already.
        let _ = self.child.kill();
        self.child.wait()?;
        self.finish_output();
        Ok(())
    }

    /// Waits until all lines of the program are printed, which has ended.
    fn finish_output(&self) {
        let start = Instant::now();
        let is_open = |output: &JoinHandle<()>| !output.is_finished();
        while self.output.as_ref().is_some_and(is_open) && start.elapsed() < PATIENCE {
            sleep(PAUSE);
        }
    }
}
