//! Writes to stderr: whole lines, above the progress bars if there are any.

use std::{
    io::Write,
    sync::{Mutex, PoisonError},
};

use anstyle::{AnsiColor, Style};
use indicatif::MultiProgress;

use super::{
    settings::{ConsoleSettings, LogReader},
    workflow,
};
use crate::error;

pub(super) const DONE: Style = AnsiColor::Green.on_default().bold();
pub(super) const UNDER_WAY: Style = AnsiColor::Cyan.on_default().bold();
pub(super) const NOTE: Style = AnsiColor::Cyan.on_default().bold();
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(super) const FAINT: Style = Style::new().dimmed();

/// The stderr side of the console, shared by all threads.
#[derive(derive_more::Debug)]
#[debug("Talk")]
pub(super) struct Talk {
    sink: Mutex<Box<dyn Write + Send>>,
    pub(super) bars: Option<MultiProgress>,
    settings: ConsoleSettings,
}

impl Talk {
    pub(super) fn new(
        settings: ConsoleSettings,
        sink: Box<dyn Write + Send>,
        bars: Option<MultiProgress>,
    ) -> Self {
        Self {
            sink: Mutex::new(sink),
            bars,
            settings,
        }
    }

    /// Prints `      Built facts`. The verb is right-aligned in twelve columns.
    pub(super) fn status(&self, style: Style, verb: &str, facts: &str) {
        self.line(&format!(
            "{} {}",
            self.paint(style, &format!("{:>12}", one_line(verb))),
            one_line(facts)
        ));
    }

    /// Prints `label: text`.
    pub(super) fn remark(&self, style: Style, label: &str, text: &str) {
        let label = self.paint(style, &format!("{label}:"));
        self.line(&format!("{label} {}", one_line(text)));
    }

    /// Prints a bold line above others.
    pub(super) fn headline(&self, title: &str) {
        self.line(&self.paint(Style::new().bold(), &one_line(title)));
    }

    /// Prints a rendered error, which has several lines.
    pub(super) fn error(&self, rendered: &str) {
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
    pub(super) fn command(&self, command: &str) {
        self.write(&format!("{command}\n"));
    }

    /// Adds a style to a text if colors are on.
    pub(super) fn paint(&self, style: Style, text: &str) -> String {
        if self.settings.stderr_color {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
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

    /// Errors are ignored: stderr is where they would be printed.
    fn write(&self, text: &str) {
        let text = error::redact(text);
        self.without_bars(|| {
            let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = sink.write_all(text.as_bytes());
            let _ = sink.flush();
        });
    }

    /// Hides the bars while `write` runs, also for stdout, because a terminal shows both streams.
    pub(super) fn without_bars<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }
}

/// Escapes untrusted text, including line feeds.
pub(super) fn one_line(text: &str) -> String {
    workflow::visible(text).trim_end().replace('\n', r"\n")
}
