//! Everything this program says: the answer on stdout, talk about the work on stderr.
//!
//! Text from outside may be handed over as it is: it can neither start a workflow command nor move
//! the cursor. Work functions report through closures and know nothing of the console.

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
use indicatif::{MultiProgress, ProgressDrawTarget};
use serde::Serialize;

pub use self::{
    progress::Progress,
    quantity::{few, many, size, took},
    settings::{ColorChoice, ConsoleSettings, Options, OutputFormat, ProgressChoice, Terminals},
    workflow::{Annotation, AnnotationLevel},
};
use self::{
    settings::{LogReader, Show, Verbosity},
    talk::Talk,
};
use crate::error::{self, Context, Error, Exit, Result, Stop};

/// What work may reach besides its input: the console, and the user's wish to stop.
pub struct World {
    pub console: Console,
    /// Set when the user asks to stop: hand it to all work that takes long.
    pub stop: Stop,
}

impl World {
    /// The same for a step that only finds something out: it says nothing but errors.
    #[must_use]
    pub fn quiet(&self) -> Self {
        let options = Options {
            verbosity: -2,
            ..Options::default()
        };
        Self {
            console: Console::of_this_process(&options),
            stop: self.stop.clone(),
        }
    }
}

impl World {
    /// How many threads may work at once where no flag says so: one for each processor.
    pub fn jobs(&self) -> NonZeroUsize {
        available_parallelism().unwrap_or(NonZeroUsize::MIN)
    }
}

/// Both streams of a process, and the manners to use them.
pub struct Console {
    settings: ConsoleSettings,
    answer: Mutex<Box<dyn Write + Send>>,
    /// Whether a JSON document is out; a second one would make both unreadable.
    answered: AtomicBool,
    group_is_open: AtomicBool,
    talk: Arc<Talk>,
}

impl Console {
    /// A console on the streams of this process.
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

    /// The answer of a command: the value as JSON if that was asked for, its text otherwise.
    pub fn answer<T: Serialize + Display>(&self, value: &T) -> Result<()> {
        match self.settings.format {
            OutputFormat::Json | OutputFormat::Sarif => self.json(value),
            OutputFormat::Text | OutputFormat::Github => self.data(value),
        }
    }

    /// Lines for stdout, ended if they are not.
    ///
    /// A reader who left is no error: the work goes on, and what is said to nobody is lost.
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

    /// One line of JSON for stdout.
    pub fn json(&self, value: &impl Serialize) -> Result<()> {
        let json = serde_json::to_string(value).context("write JSON")?;
        self.answered.store(true, Ordering::Relaxed);
        self.verbatim(format!("{}\n", workflow::harmless_json(&json)).as_bytes())
    }

    /// Bytes of our own making for stdout: a completion script, a manual page.
    pub fn verbatim(&self, bytes: &[u8]) -> Result<()> {
        let write = || {
            let mut stdout = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
            stdout.write_all(bytes)?;
            stdout.flush()
        };
        match self.talk.without_bars(write) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(error).context("write to standard output")
            }
            _ => Ok(()),
        }
    }

    /// Text of our own making with styles in it, for stdout: help.
    pub fn styled(&self, text: &str) -> Result<()> {
        if self.settings.stdout_color {
            self.verbatim(text.as_bytes())
        } else {
            self.verbatim(strip_str(text).to_string().as_bytes())
        }
    }

    /// Something is finished: `status("Built", "rocm-7.0.tar.gz: 12 files")`.
    pub fn status(&self, verb: &str, facts: impl Display) {
        if self.settings.verbosity >= Verbosity::Normal {
            self.talk.status(talk::DONE, verb, &facts.to_string());
        }
    }

    /// The same for work that may have found something: green only if it did not.
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
        if self.settings.verbosity >= Verbosity::Normal {
            self.talk.remark(talk::NOTE, "note", &text.to_string());
        }
    }

    pub fn warn(&self, text: impl Display) {
        if self.settings.verbosity >= Verbosity::Warnings {
            self.talk
                .remark(talk::WARNING, "warning", &text.to_string());
        }
    }

    /// What only `-v` wants to know.
    pub fn debug(&self, text: impl Display) {
        if self.settings.verbosity >= Verbosity::Debug {
            self.talk.remark(talk::FAINT, "debug", &text.to_string());
        }
    }

    /// Why the process ends as it does, in every form that is wanted.
    pub fn error(&self, error: &Error) {
        self.error_as(error, &error::render(error));
    }

    /// The same, with words of its own for people.
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
            // The process is ending with an error already.
            let _ = self.json(&document);
        }
    }

    /// A remark on the page of the run; without GitHub, a line.
    pub fn annotate(&self, annotation: &Annotation) {
        let (style, label, least) = match annotation.level {
            AnnotationLevel::Error => (talk::ERROR, "error", Verbosity::Errors),
            AnnotationLevel::Warning => (talk::WARNING, "warning", Verbosity::Warnings),
            AnnotationLevel::Notice => (talk::NOTE, "note", Verbosity::Normal),
        };
        if self.settings.commands {
            self.talk.command(&annotation.command());
        } else if self.settings.verbosity >= least {
            self.talk.remark(style, label, &annotation.to_string());
        }
    }

    /// Folds the lines that follow, until the guard is dropped; where nothing folds, a headline.
    ///
    /// GitHub does not nest groups: inside an open one, another is a headline.
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

    /// Shows how far some work is, until the handle is dropped: `progress("Building", name, bytes)`.
    ///
    /// `None` for work whose size nobody knows.
    pub fn progress(
        &self,
        verb: &str,
        what: impl Display,
        total_bytes: impl Into<Option<u64>>,
    ) -> Progress {
        let show = (self.settings.progress, progress::ProgressExtent::Whole);
        let what = what.to_string();
        Progress::new(&self.talk, verb, &what, total_bytes.into(), show)
    }

    /// The same for a part of work that shows as a whole too: a bar of its own, but hardly a line.
    pub fn progress_of_part(&self, verb: &str, what: impl Display, bytes: u64) -> Progress {
        let show = (self.settings.progress, progress::ProgressExtent::Part);
        Progress::new(&self.talk, verb, &what.to_string(), Some(bytes), show)
    }
}

/// An open group; it ends when this is dropped.
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

/// The error as a remark: its message is the title, the rest the text.
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

/// A standard stream; colours become calls where a Windows console does not know them.
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
