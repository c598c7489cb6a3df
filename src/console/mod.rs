//! All output of the program: results on stdout, everything else on stderr.
//!
//! Untrusted text can be passed as it is: it can neither start a workflow command nor move the
//! cursor. The modules that do the work report through closures, and do not depend on the console.

#[cfg(test)]
pub(crate) mod captured;
mod progress;
mod quantity;
mod settings;
mod talk;
#[cfg(test)]
mod tests;
mod workflow;

use std::{
    borrow::Cow,
    fmt::Display,
    io::{self, ErrorKind, Write},
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::available_parallelism,
};

use anstream::{AutoStream, adapter::strip_str};
use anstyle::Style;
use indicatif::{MultiProgress, ProgressDrawTarget};
use serde::Serialize;

pub use self::{
    progress::Progress,
    quantity::{few, many, size, took},
    settings::{ColorChoice, ConsoleSettings, Options, OutputFormat, Terminals},
    workflow::{Annotation, AnnotationLevel},
};
use self::{
    settings::{LogReader, Show, Verbosity},
    talk::Talk,
};
use crate::error::{self, Context, Error, Exit, Result, Stop};

/// What commands need besides their input: the console, and the user's wish to stop.
pub struct World {
    pub console: Console,
    /// Set when the user interrupts. Pass it to all long-running work.
    pub stop: Stop,
}

impl World {
    /// A copy for a step that only looks something up. It prints errors only.
    #[must_use]
    pub fn quiet(&self) -> Self {
        let options = Options {
            quiet: 2,
            ..Options::default()
        };
        Self {
            console: Console::of_this_process(&options),
            stop: self.stop.clone(),
        }
    }

    /// The default number of threads: one for each processor.
    pub fn jobs(&self) -> NonZeroUsize {
        available_parallelism().unwrap_or(NonZeroUsize::MIN)
    }
}

/// Writes to stdout and stderr in the format that the settings ask for.
pub struct Console {
    settings: ConsoleSettings,
    answer: Mutex<Box<dyn Write + Send>>,
    /// Whether a JSON document was printed. A second one would make stdout invalid JSON.
    answered: AtomicBool,
    group_is_open: AtomicBool,
    talk: Arc<Talk>,
}

impl Console {
    /// A console for the streams of this process.
    pub fn of_this_process(options: &Options) -> Self {
        let settings = ConsoleSettings::of_this_process(options);
        let bars = (settings.progress == Show::Bars)
            .then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));
        let stdout = stream(io::stdout(), settings.stdout_color);
        let stderr = stream(io::stderr(), settings.stderr_color);
        Self::new(settings, stdout, stderr, bars)
    }

    fn new(
        settings: ConsoleSettings,
        stdout: Box<dyn Write + Send>,
        stderr: Box<dyn Write + Send>,
        bars: Option<MultiProgress>,
    ) -> Self {
        Self {
            settings,
            answer: Mutex::new(stdout),
            answered: AtomicBool::new(false),
            group_is_open: AtomicBool::new(false),
            talk: Arc::new(Talk::new(settings, stderr, bars)),
        }
    }

    pub fn format(&self) -> OutputFormat {
        self.settings.format
    }

    /// Prints the result of a command, as JSON or as text.
    pub fn answer<T: Serialize + Display>(&self, value: &T) -> Result<()> {
        match self.settings.format {
            OutputFormat::Json | OutputFormat::Sarif => self.json(value),
            OutputFormat::Text | OutputFormat::Github => self.data(value),
        }
    }

    /// Prints text to stdout, and adds a final line feed if there is none.
    ///
    /// If the reader has closed the pipe, the output is discarded, and that is not an error: the
    /// work goes on.
    pub fn data(&self, text: impl Display) -> Result<()> {
        let mut text = text.to_string();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let text = match self.settings.reader {
            LogReader::Workflow => workflow::defang(&text),
            LogReader::Terminal => workflow::visible(&text),
            LogReader::Program => Cow::Borrowed(text.as_str()),
        };
        self.verbatim(text.as_bytes())
    }

    /// Prints one line of JSON to stdout.
    pub fn json(&self, value: &impl Serialize) -> Result<()> {
        let json = serde_json::to_string(value).context("failed to write JSON")?;
        self.answered.store(true, Ordering::Relaxed);
        self.verbatim(format!("{}\n", workflow::harmless_json(&json)).as_bytes())
    }

    /// Prints trusted bytes to stdout, unchanged: a completion script, a manual page.
    pub fn verbatim(&self, bytes: &[u8]) -> Result<()> {
        let write = || {
            let mut stdout = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
            stdout.write_all(bytes)?;
            stdout.flush()
        };
        match self.talk.without_bars(write) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(error).context("failed to write to standard output")
            }
            _ => Ok(()),
        }
    }

    /// Prints trusted, styled text to stdout: help. Removes the styles if colors are off.
    pub fn styled(&self, text: &str) -> Result<()> {
        if self.settings.stdout_color {
            self.verbatim(text.as_bytes())
        } else {
            self.verbatim(strip_str(text).to_string().as_bytes())
        }
    }

    /// Prints a status line for finished work: `status("Built", "rocm-7.0.tar.gz: 12 files")`.
    pub fn status(&self, verb: &str, facts: impl Display) {
        self.outcome(verb, facts, None);
    }

    /// Like `status`, with a color that shows the worst finding.
    pub fn outcome(&self, verb: &str, facts: impl Display, worst: Option<AnnotationLevel>) {
        let style = match worst {
            Some(AnnotationLevel::Error) => talk::ERROR,
            Some(AnnotationLevel::Warning) => talk::WARNING,
            Some(AnnotationLevel::Notice) | None => talk::DONE,
        };
        if self.settings.verbosity >= Verbosity::Normal {
            self.talk.status(style, verb, &facts.to_string());
        }
    }

    pub fn note(&self, text: impl Display) {
        self.remark(Verbosity::Normal, talk::NOTE, "note", text);
    }

    pub fn warn(&self, text: impl Display) {
        self.remark(Verbosity::Warnings, talk::WARNING, "warning", text);
    }

    /// Prints a message with `-v` only.
    pub fn debug(&self, text: impl Display) {
        self.remark(Verbosity::Debug, talk::FAINT, "debug", text);
    }

    fn remark(&self, least: Verbosity, style: Style, label: &str, text: impl Display) {
        if self.settings.verbosity >= least {
            self.talk.remark(style, label, &text.to_string());
        }
    }

    /// Prints the error that ends the process: for people, and if wanted as an annotation and as
    /// JSON.
    pub fn error(&self, error: &Error) {
        self.error_as(error, &error::render(error));
    }

    /// Like `error`, with a different text for people.
    pub fn error_as(&self, error: &Error, rendered: &str) {
        self.talk.error(rendered);
        if self.settings.commands {
            self.talk.command(&annotation(error).command());
        }
        if self.settings.format == OutputFormat::Json && !self.answered.load(Ordering::Relaxed) {
            let document = serde_json::json!({
                "schema": "rocwheel-error-v1",
                "error": error::message(error),
                "causes": error::causes(error),
                "hints": error::hints(error),
                "exit": Exit::of(error).code(),
            });
            // Ignored, because the process already ends with an error.
            let _ = self.json(&document);
        }
    }

    /// Adds an annotation to the summary page of the workflow run. Outside GitHub Actions, prints a
    /// line.
    pub fn annotate(&self, annotation: &Annotation) {
        let (style, label, least) = match annotation.level {
            AnnotationLevel::Error => (talk::ERROR, "error", Verbosity::Errors),
            AnnotationLevel::Warning => (talk::WARNING, "warning", Verbosity::Warnings),
            AnnotationLevel::Notice => (talk::NOTE, "note", Verbosity::Normal),
        };
        if self.settings.commands {
            self.talk.command(&annotation.command());
        } else {
            self.remark(least, style, label, annotation);
        }
    }

    /// Folds the following lines until the guard is dropped. Outside GitHub Actions, prints a
    /// headline.
    ///
    /// GitHub does not nest groups, so a group inside another one is a headline, too.
    pub fn group(&self, title: impl Display) -> Group<'_> {
        let title = title.to_string();
        let opens = self.settings.commands
            && self.settings.verbosity >= Verbosity::Normal
            && !self.group_is_open.swap(true, Ordering::Relaxed);
        if opens {
            self.talk.command(&workflow::open_group(&title));
        } else if self.settings.verbosity >= Verbosity::Normal {
            self.talk.headline(&title);
        }
        Group(opens.then_some(self))
    }

    /// Shows the progress of some work until the handle is dropped:
    /// `progress("Building", name, bytes)`.
    ///
    /// Pass `None` if the total is unknown.
    pub fn progress(
        &self,
        verb: &str,
        what: impl Display,
        total_bytes: impl Into<Option<u64>>,
    ) -> Progress {
        let show = (self.settings.progress, false);
        let what = what.to_string();
        Progress::new(&self.talk, verb, &what, total_bytes.into(), show)
    }

    /// Like `progress`, for a part of work that already shows its progress: with a bar of its own,
    /// but with few lines.
    pub fn progress_of_part(&self, verb: &str, what: impl Display, bytes: u64) -> Progress {
        let show = (self.settings.progress, true);
        Progress::new(&self.talk, verb, &what.to_string(), Some(bytes), show)
    }
}

/// An open group. It ends when this is dropped.
#[must_use = "a group ends when its guard is dropped"]
pub struct Group<'a>(Option<&'a Console>);

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if let Some(console) = self.0 {
            console.talk.command(workflow::CLOSE_GROUP);
            console.group_is_open.store(false, Ordering::Relaxed);
        }
    }
}

/// The error as an annotation: the title is its message, the text its causes and hints.
fn annotation(error: &Error) -> Annotation {
    let message = error::message(error);
    let hints = error::hints(error);
    let rest: Vec<String> = error::causes(error)
        .into_iter()
        .chain(hints.iter().map(|hint| format!("hint: {hint}")))
        .collect();
    if rest.is_empty() {
        Annotation::new(AnnotationLevel::Error, "rocwheel", message)
    } else {
        Annotation::new(AnnotationLevel::Error, message, rest.join("\n"))
    }
}

/// A standard stream. A Windows console that does not understand color codes gets system calls
/// instead.
fn stream<S: anstream::stream::RawStream + Send + 'static>(
    raw: S,
    color: bool,
) -> Box<dyn Write + Send>
where
    AutoStream<S>: Write,
{
    if color {
        Box::new(AutoStream::always(raw))
    } else {
        Box::new(raw)
    }
}
