//! All output of the program: results on stdout, everything else on stderr.
//!
//! Untrusted text can be passed as it is: it can neither start a workflow command nor move the
//! cursor. Modules that do long work get a `World` for progress and notes. Modules that decide get none.

#[cfg(test)]
pub(crate) mod captured;
mod progress;
mod settings;
mod shown_program;
#[cfg(test)]
mod tests;
mod workflow;

use std::{
    borrow::Cow,
    env,
    fmt::Display,
    io::{self, ErrorKind, IsTerminal as _, Write},
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::available_parallelism,
};

use anstream::{AutoStream, adapter::strip_str};
use anstyle::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressDrawTarget};
use serde::Serialize;

use self::settings::{LogReader, Show, Terminals, Verbosity};
pub use self::{
    progress::{JoinedProgress, Progress},
    settings::{ConsoleSettings, Options, OutputFormat},
    workflow::{Annotation, AnnotationLevel, one_line},
};
use rocwheel_base::error::{self, Context, Error, Exit, Result, Stop};

/// How many things of one kind are shown without `-v`.
const MOST_SHOWN: usize = 10;

const DONE: Style = AnsiColor::Green.on_default().bold();
const UNDER_WAY: Style = AnsiColor::Cyan.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();

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
        Self { console: Console::of_this_process(Options::silent()), stop: self.stop.clone() }
    }

    /// The default number of threads: one for each processor.
    pub fn jobs() -> NonZeroUsize {
        available_parallelism().unwrap_or(NonZeroUsize::MIN)
    }
}

/// Writes to stdout and stderr in the format that the settings ask for.
pub struct Console {
    answer: Mutex<Box<dyn Write + Send>>,
    /// Whether a JSON document was printed. A second document would make stdout invalid JSON.
    answered: AtomicBool,
    group_is_open: AtomicBool,
    talk: Arc<Talk>,
}

impl Console {
    /// A console for the streams of this process.
    pub fn of_this_process(options: Options) -> Self {
        let stdout = io::stdout();
        let stderr = io::stderr();
        let terminals = Terminals { stdout: stdout.is_terminal(), stderr: stderr.is_terminal() };
        let settings = ConsoleSettings::resolve(options, |name| env::var(name).ok(), terminals);
        let bars = (settings.progress == Show::Bars)
            .then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));
        // A Windows console that does not understand color codes gets system calls instead.
        let choice = |color| {
            if color { anstream::ColorChoice::Always } else { anstream::ColorChoice::AlwaysAnsi }
        };
        let colored_stdout = AutoStream::new(stdout, choice(settings.stdout_color));
        let colored_stderr = AutoStream::new(stderr, choice(settings.stderr_color));
        Self::new(settings, Box::new(colored_stdout), Box::new(colored_stderr), bars)
    }

    fn new(
        settings: ConsoleSettings,
        stdout: Box<dyn Write + Send>,
        stderr: Box<dyn Write + Send>,
        bars: Option<MultiProgress>,
    ) -> Self {
        Self {
            answer: Mutex::new(stdout),
            answered: AtomicBool::new(false),
            group_is_open: AtomicBool::new(false),
            talk: Arc::new(Talk {
                sink: Mutex::new(stderr),
                bars,
                settings,
                joined: Mutex::default(),
            }),
        }
    }

    pub fn format(&self) -> OutputFormat {
        self.talk.settings.format
    }

    /// Prints the result of a command, as JSON or as text.
    pub fn answer<T: Serialize + Display>(&self, value: &T) -> Result<()> {
        match self.talk.settings.format {
            OutputFormat::Json => self.json(value),
            OutputFormat::Text | OutputFormat::Github => self.data(value),
        }
    }

    /// Prints the result of a command that has no JSON schema of its own: as JSON, the fields of `facts` in the schema
    /// `rocwheel-report-v1`; otherwise `text`.
    pub fn report(&self, command: &str, facts: &impl Serialize, text: impl Display) -> Result<()> {
        #[derive(Serialize)]
        struct PlainReport<'a, T> {
            schema: &'static str,
            command: &'a str,
            #[serde(flatten)]
            facts: &'a T,
        }
        match self.talk.settings.format {
            OutputFormat::Json => {
                self.json(&PlainReport { schema: "rocwheel-report-v1", command, facts })
            }
            OutputFormat::Text | OutputFormat::Github => self.data(text),
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
        let escaped = match self.talk.settings.reader {
            LogReader::Workflow => {
                Cow::Owned(workflow::defang(&workflow::visible(&text)).into_owned())
            }
            LogReader::Terminal => workflow::visible(&text),
            LogReader::Program => Cow::Borrowed(text.as_str()),
        };
        self.verbatim(escaped.as_bytes())
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
        if self.talk.settings.stdout_color {
            self.verbatim(text.as_bytes())
        } else {
            self.verbatim(strip_str(text).to_string().as_bytes())
        }
    }

    /// Prints a status line for finished work: `status("Built", "rocm-7.0.tar.gz: 12 files")`.
    pub fn status(&self, verb: &str, facts: impl Display) {
        self.outcome(verb, facts, None);
    }

    /// Like `status`, with a color that shows the worst finding. `-q` does not hide an error or a warning.
    pub fn outcome(&self, verb: &str, facts: impl Display, worst: Option<AnnotationLevel>) {
        let style = match worst {
            Some(AnnotationLevel::Error) => ERROR,
            Some(AnnotationLevel::Warning) => WARNING,
            None => DONE,
        };
        let least = match worst {
            Some(AnnotationLevel::Error | AnnotationLevel::Warning) => Verbosity::Warnings,
            None => Verbosity::Normal,
        };
        if self.talk.settings.verbosity >= least {
            self.talk.status(style, verb, &facts.to_string());
        }
    }

    /// Prints findings, which `-q` does not hide.
    pub fn findings(&self, text: impl Display) {
        if self.talk.settings.verbosity >= Verbosity::Warnings {
            for line in workflow::visible(&text.to_string()).lines() {
                self.talk.line(line);
            }
        }
    }

    /// A status line for one of many things. A terminal shows it with `-v` only: there a bar shows
    /// the progress, and the result lists the things again.
    pub fn item(&self, verb: &str, facts: impl Display) {
        if !self.is_watched() || self.talk.settings.verbosity >= Verbosity::Debug {
            self.status(verb, facts);
        }
    }

    /// Says which command comes next, to a person at a terminal.
    pub fn next(&self, command: impl Display) {
        if self.is_watched() {
            self.talk.status(NOTE, "Next", &command.to_string());
        }
    }

    /// How many of so many things of one kind are shown to people: the first ones, or all with `-v`.
    pub fn shown_of(&self, count: usize) -> usize {
        if self.talk.settings.verbosity >= Verbosity::Debug { count } else { count.min(MOST_SHOWN) }
    }

    /// Whether only warnings and errors are printed.
    pub fn is_quiet(&self) -> bool {
        self.talk.settings.verbosity < Verbosity::Normal
    }

    /// Whether a person reads both streams on one terminal.
    pub fn is_watched(&self) -> bool {
        let settings = &self.talk.settings;
        settings.progress == Show::Bars
            && settings.reader == LogReader::Terminal
            && settings.format == OutputFormat::Text
    }

    /// Whether both streams end in one place that people read, so that nothing needs to be said on both: a terminal, or
    /// the log of a workflow.
    pub fn has_one_reader(&self) -> bool {
        self.is_watched() || self.talk.settings.reader == LogReader::Workflow
    }

    /// Whether the answer of a command is left out whose result is files: with `-q`, except as a document.
    pub fn leaves_out_results(&self) -> bool {
        self.is_quiet() && self.format() != OutputFormat::Json
    }

    /// Prints the first notes of one kind, and how many more there are. `-v` shows all.
    pub fn first_notes(&self, notes: &[impl Display]) {
        let first = notes.len().min(MOST_SHOWN);
        for note in &notes[..first] {
            self.note(note);
        }
        for note in &notes[first..] {
            self.debug(note);
        }
        // With `-v` all of them were shown.
        if notes.len() > first && self.talk.settings.verbosity < Verbosity::Debug {
            self.note(format!("{} more like these: `-v` shows them", notes.len() - first));
        }
    }

    pub fn note(&self, text: impl Display) {
        self.remark(Verbosity::Normal, NOTE, "note", text);
    }

    /// A function that prints notes, for code that cannot borrow the console, such as another thread.
    pub fn notes(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let talk = Arc::clone(&self.talk);
        move |text| {
            if talk.settings.verbosity >= Verbosity::Normal {
                talk.remark(NOTE, "note", text);
            }
        }
    }

    pub fn warn(&self, text: impl Display) {
        self.remark(Verbosity::Warnings, WARNING, "warning", text);
    }

    /// Prints a message with `-v` only.
    pub fn debug(&self, text: impl Display) {
        self.remark(Verbosity::Debug, FAINT, "debug", text);
    }

    fn remark(&self, least: Verbosity, style: Style, label: &str, text: impl Display) {
        if self.talk.settings.verbosity >= least {
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
        if self.talk.settings.commands {
            self.talk.command(&annotation(error).command());
        }
        if self.talk.settings.format == OutputFormat::Json && !self.answered.load(Ordering::Relaxed)
        {
            let document = serde_json::json!({
                "schema": "rocwheel-error-v1",
                "error": error::message(error),
                "causes": error::causes(error),
                "hints": error::hints(error),
                "exit": Exit::of(error).code(),
            });
            // A failure to print is ignored, because the process already ends with an error.
            let _ = self.json(&document);
        }
    }

    /// Adds an annotation to the summary page of the workflow run. Outside GitHub Actions, prints a
    /// line.
    pub fn annotate(&self, annotation: &Annotation) {
        let (style, label, least) = match annotation.level {
            AnnotationLevel::Error => (ERROR, "error", Verbosity::Errors),
            AnnotationLevel::Warning => (WARNING, "warning", Verbosity::Warnings),
        };
        if self.talk.settings.commands {
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
        let is_shown = self.talk.settings.verbosity >= Verbosity::Normal;
        let opens = self.talk.settings.commands
            && is_shown
            && !self.group_is_open.swap(true, Ordering::Relaxed);
        if opens {
            self.talk.command(&format!("::group::{}", workflow::data(&title)));
        } else if is_shown {
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
        let what = what.to_string();
        let joined = self.talk.joined.lock().unwrap_or_else(PoisonError::into_inner);
        match &*joined {
            Some(whole) => whole.part(&what),
            None => Progress::new(&self.talk, verb, &what, 0, total_bytes.into()),
        }
    }

    /// Shows all work that begins until the guard is dropped as parts of one bar. The total is an
    /// estimate if what the parts will count is not known yet.
    pub fn joined_progress(
        &self,
        verb: &str,
        what: impl Display,
        parts: usize,
        total_bytes: u64,
    ) -> JoinedProgress {
        let whole = self.progress_in_parts(verb, what, parts, total_bytes);
        JoinedProgress::new(&self.talk, whole)
    }

    /// Like `progress`, for work with parts: the bar also shows how many parts are done, and which part was
    /// begun last.
    pub fn progress_in_parts(
        &self,
        verb: &str,
        what: impl Display,
        parts: usize,
        total_bytes: u64,
    ) -> Progress {
        Progress::new(&self.talk, verb, &what.to_string(), parts, Some(total_bytes))
    }
}

/// An open group. It ends when this is dropped.
#[must_use = "a group ends when its guard is dropped"]
pub struct Group<'a>(Option<&'a Console>);

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if let Some(console) = self.0 {
            console.talk.command("::endgroup::");
            console.group_is_open.store(false, Ordering::Relaxed);
        }
    }
}

/// The error as an annotation: the title is its message, the text its causes and hints.
fn annotation(error: &Error) -> Annotation {
    let message = error::message(error);
    let hints = error::hints(error);
    let details: Vec<String> = error::causes(error)
        .into_iter()
        .chain(hints.iter().map(|hint| format!("hint: {hint}")))
        .collect();
    if details.is_empty() {
        Annotation::new(AnnotationLevel::Error, "rocwheel", message)
    } else {
        Annotation::new(AnnotationLevel::Error, message, details.join("\n"))
    }
}

/// The stderr side of the console, shared by all threads.
#[derive(derive_more::Debug)]
#[debug("Talk")]
struct Talk {
    sink: Mutex<Box<dyn Write + Send>>,
    bars: Option<MultiProgress>,
    settings: ConsoleSettings,
    /// The bar of [`Console::joined_progress`], while its guard lives.
    joined: Mutex<Option<Progress>>,
}

impl Talk {
    /// Prints `      Built facts`. The verb is right-aligned in twelve columns.
    fn status(&self, style: Style, verb: &str, facts: &str) {
        self.line(&format!(
            "{} {}",
            self.paint(style, &format!("{:>12}", one_line(verb))),
            one_line(facts)
        ));
    }

    /// Prints `label: text`.
    fn remark(&self, style: Style, label: &str, text: &str) {
        let label = self.paint(style, &format!("{label}:"));
        self.line(&format!("{label} {}", one_line(text)));
    }

    /// Prints a bold line above others.
    fn headline(&self, title: &str) {
        self.line(&self.paint(Style::new().bold(), &one_line(title)));
    }

    /// Prints a rendered error, which has several lines.
    fn error(&self, rendered: &str) {
        const LABELS: [(&str, Style); 3] =
            [("error:", ERROR), ("  caused by:", FAINT), ("hint:", NOTE)];
        for line in workflow::visible(rendered).lines() {
            let label = LABELS.iter().find_map(|(label, style)| {
                Some((self.paint(*style, label), line.strip_prefix(label)?))
            });
            match label {
                Some((label, rest)) => self.line(&format!("{label}{rest}")),
                None => self.line(line),
            }
        }
    }

    /// Prints a workflow command of our own.
    fn command(&self, command: &str) {
        self.write(&format!("{command}\n"));
    }

    /// Adds a style to a text if colors are on.
    fn paint(&self, style: Style, text: &str) -> String {
        if self.settings.stderr_color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Prints a line. Untrusted text in it must have been through `visible` already.
    fn line(&self, line: &str) {
        let line = format!("{line}\n");
        if self.settings.reader == LogReader::Workflow {
            self.write(&workflow::defang(&line));
        } else {
            self.write(&line);
        }
    }

    /// Errors are ignored, because they would be printed to stderr, too.
    fn write(&self, text: &str) {
        let text = error::redact(text);
        self.without_bars(|| {
            let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = sink.write_all(text.as_bytes());
            let _ = sink.flush();
        });
    }

    /// Hides the bars while `write` runs, also for stdout, because a terminal shows both streams.
    fn without_bars<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }
}
