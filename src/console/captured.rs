//! A console whose output can be read back, for tests.

use std::{
    fmt,
    io::{self, Write},
    sync::{Arc, Mutex},
};

use indicatif::{MultiProgress, ProgressDrawTarget, TermLike};

use super::{
    Console, OutputFormat,
    settings::{ConsoleSettings, LogReader, Show, Verbosity},
};

/// The width of the terminal.
const COLUMNS: usize = 50;

/// Plain text without colors and progress, as for a file.
pub(crate) const PLAIN: ConsoleSettings = ConsoleSettings {
    format: OutputFormat::Text,
    verbosity: Verbosity::Normal,
    progress: Show::Nothing,
    commands: false,
    stdout_color: false,
    stderr_color: false,
    reader: LogReader::Program,
};

/// As in the log of a GitHub Actions workflow.
pub(crate) const GITHUB: ConsoleSettings = ConsoleSettings {
    format: OutputFormat::Github,
    commands: true,
    reader: LogReader::Workflow,
    ..PLAIN
};

/// With results in JSON.
pub(crate) const JSON: ConsoleSettings = ConsoleSettings { format: OutputFormat::Json, ..PLAIN };

/// The output of a console so far.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    stdout: SharedStream,
    stderr: SharedStream,
}

impl Transcript {
    pub(crate) fn stdout(&self) -> String {
        self.stdout.text()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }
}

/// A console, and its output.
pub(crate) fn console(settings: ConsoleSettings) -> (Console, Transcript) {
    let transcript = Transcript::default();
    let (stdout, stderr) = (transcript.stdout.clone(), transcript.stderr.clone());
    let bars = (settings.progress == Show::Bars).then(|| {
        let screen = Box::new(Screen(stderr.clone()));
        MultiProgress::with_draw_target(ProgressDrawTarget::term_like_with_hz(screen, 255))
    });
    (Console::new(settings, Box::new(stdout), Box::new(stderr), bars), transcript)
}

/// A stream with several owners.
#[derive(Clone, Debug, Default)]
struct SharedStream(Arc<Mutex<Vec<u8>>>);

impl SharedStream {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for SharedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A terminal that writes to such a stream, with cursor movements in angle brackets.
#[derive(Debug)]
struct Screen(SharedStream);

impl Screen {
    fn put(&self, text: fmt::Arguments<'_>) -> io::Result<()> {
        self.0.clone().write_fmt(text)
    }

    fn moves(&self, way: &str, n: usize) -> io::Result<()> {
        if n == 0 {
            return Ok(());
        }
        self.put(format_args!("<{way} {n}>"))
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        u16::try_from(COLUMNS).unwrap()
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.moves("up", n)
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.moves("down", n)
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.moves("right", n)
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.moves("left", n)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.put(format_args!("{}\n", text.trim_end()))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.put(format_args!("{}", text.trim_end()))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.put(format_args!("<clear>"))
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}
