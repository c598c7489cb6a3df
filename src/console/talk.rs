//! stderr: whole lines, above the bars when there are bars.

use std::{
    fmt,
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

/// Where status lines, bars and annotations go, shared by all threads.
pub(super) struct Talk {
    sink: Mutex<Box<dyn Write + Send>>,
    pub(super) bars: Option<MultiProgress>,
    settings: ConsoleSettings,
}

impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Talk").finish_non_exhaustive()
    }
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

    /// `      Built facts`, with the verb in twelve columns.
    pub(super) fn status(&self, style: Style, verb: &str, facts: &str) {
        self.line(&format!(
            "{} {}",
            self.paint(style, &format!("{:>12}", one_line(verb))),
            one_line(facts)
        ));
    }

    /// `label: text`
    pub(super) fn remark(&self, style: Style, label: &str, text: &str) {
        let label = self.paint(style, &format!("{label}:"));
        self.line(&format!("{label} {}", one_line(text)));
    }

    /// A line that stands above others.
    pub(super) fn headline(&self, title: &str) {
        self.line(&self.paint(Style::new().bold(), &one_line(title)));
    }

    /// A rendered error, of several lines.
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

    /// A workflow command of our own.
    pub(super) fn command(&self, command: &str) {
        self.write(&format!("{command}\n"));
    }

    /// The text in a style, if colours are wanted.
    pub(super) fn paint(&self, style: Style, text: &str) -> String {
        if self.settings.stderr_color {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// One line, whose text may be from outside but has no control characters that are.
    fn line(&self, line: &str) {
        let line = format!("{line}\n");
        if self.settings.reader == LogReader::Workflow {
            self.write(&workflow::defang(&line));
        } else {
            self.write(&line);
        }
    }

    /// What cannot be said is lost: nobody is there to be told.
    fn write(&self, text: &str) {
        let text = error::redact(text);
        self.without_bars(|| {
            let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = sink.write_all(text.as_bytes());
            let _ = sink.flush();
        });
    }

    /// Writes while no bar is in the way; a terminal shows both streams.
    pub(super) fn without_bars<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }
}

/// Text from outside that stays in its line.
pub(super) fn one_line(text: &str) -> String {
    workflow::visible(text).trim_end().replace('\n', r"\n")
}
