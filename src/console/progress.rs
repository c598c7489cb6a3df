//! Progress of long-running work: a bar on a terminal, or a line from time to time.

use std::{
    fmt::{Display, Write},
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::{
    Talk, UNDER_WAY,
    bar::{WorkState, percent},
    one_line,
    settings::Show,
};

/// A handle that many threads can advance. Its bar disappears when it is dropped.
#[derive(Debug)]
pub struct Progress {
    /// Also counts where it is not drawn. It clears itself on drop.
    bar: ProgressBar,
    names: Arc<WorkNames>,
    lines: Option<Arc<Lines>>,
    /// Whether this is a part of the work that the bar shows.
    is_part: bool,
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_part {
            self.finish_part();
        }
    }
}

/// While it lives, work that begins has no bar of its own, but is a part of this one.
#[must_use = "the bar disappears when this is dropped"]
#[derive(Debug)]
pub struct JoinedProgress(Arc<Talk>);

impl JoinedProgress {
    pub(super) fn new(talk: &Arc<Talk>, whole: Progress) -> Self {
        *talk.joined.lock().unwrap_or_else(PoisonError::into_inner) = Some(whole);
        Self(Arc::clone(talk))
    }
}

impl Drop for JoinedProgress {
    fn drop(&mut self) {
        *self.0.joined.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What is worked on, and how many parts of it are done.
#[derive(Debug)]
struct WorkNames {
    whole: String,
    /// The part that was begun last.
    part: Mutex<String>,
    /// The number of parts; 0 if the work has no parts.
    parts: usize,
    finished: AtomicUsize,
}

/// Lines in place of a bar.
#[derive(Debug)]
struct Lines {
    talk: Arc<Talk>,
    verb: String,
    pace: Mutex<LinePace>,
}

/// Decides when the next line is due.
#[derive(Debug, Default)]
struct LinePace {
    /// The time of the last line since the start.
    last_line: Duration,
    /// How many tenths of the work were done then.
    tenths: u64,
}

impl LinePace {
    /// The minimum time between lines, so that short work does not print a line for each tenth.
    const SHORTEST: Duration = Duration::from_secs(3);
    /// The maximum time between lines, as a longer silence looks like a hang.
    const LONGEST: Duration = Duration::from_secs(30);

    fn is_due(&mut self, elapsed: Duration, done: u64, total: Option<u64>) -> bool {
        let since = elapsed.saturating_sub(self.last_line);
        let tenths = total.map_or(0, |total| percent(done, total) / 10);
        let due = since >= Self::LONGEST || tenths > self.tenths && since >= Self::SHORTEST;
        if due {
            self.last_line = elapsed;
            self.tenths = tenths;
        }
        due
    }
}

/// The columns of the verb and the space after it.
const MARGIN: usize = 13;

impl Progress {
    pub(super) fn new(
        talk: &Arc<Talk>,
        verb: &str,
        what: &str,
        (parts, total): (usize, Option<u64>),
    ) -> Self {
        let names = Arc::new(WorkNames {
            whole: one_line(what),
            part: Mutex::default(),
            parts,
            finished: AtomicUsize::new(0),
        });
        let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
        let lines = match (talk.settings.progress, &talk.bars) {
            (Show::Bars, Some(bars)) => {
                let bar = bar.with_style(style(&names, talk.columns));
                let bar = bars.add(bar.with_prefix(talk.paint(UNDER_WAY, verb)));
                let (lines, is_part) = (None, false);
                return Self {
                    bar,
                    names,
                    lines,
                    is_part,
                };
            }
            (Show::Nothing, _) => None,
            _ => Some(Arc::new(Lines {
                talk: Arc::clone(talk),
                verb: verb.to_owned(),
                pace: Mutex::default(),
            })),
        };
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let is_part = false;
        Self {
            bar,
            names,
            lines,
            is_part,
        }
    }

    /// A handle for a part of this work, which is done when the handle is dropped.
    pub(super) fn part(&self, what: &str) -> Self {
        self.begin(what);
        Self {
            bar: self.bar.clone(),
            names: Arc::clone(&self.names),
            lines: self.lines.clone(),
            is_part: true,
        }
    }

    /// Says which part of the work begins.
    pub fn begin(&self, part: impl Display) {
        let part = one_line(&part.to_string());
        *self
            .names
            .part
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = part;
        self.bar.tick();
    }

    /// Counts a part as done.
    pub fn finish_part(&self) {
        self.names.finished.fetch_add(1, Ordering::Relaxed);
        self.bar.tick();
    }

    /// Advances to at least this many bytes.
    pub fn reach(&self, bytes: u64) {
        self.inc(bytes.saturating_sub(self.bar.position()));
    }

    /// Advances by this many bytes.
    pub fn inc(&self, bytes: u64) {
        self.bar.inc(bytes);
        let Some(lines) = &self.lines else {
            return;
        };
        let mut pace = match lines.pace.try_lock() {
            Ok(pace) => pace,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread is checking right now.
            Err(TryLockError::WouldBlock) => return,
        };
        let (done, total, elapsed) = (self.bar.position(), self.bar.length(), self.bar.elapsed());
        if pace.is_due(elapsed, done, total) {
            let facts = self.names.state("", done, total, elapsed).in_full();
            let facts = format!("{}: {facts}", self.names.whole);
            lines.talk.status(UNDER_WAY, &lines.verb, &facts);
        }
    }

    #[cfg(test)]
    pub(super) fn done(&self) -> u64 {
        self.bar.position()
    }
}

impl WorkNames {
    fn state<'a>(
        &self,
        what: &'a str,
        done: u64,
        total: Option<u64>,
        elapsed: Duration,
    ) -> WorkState<'a> {
        let finished = self.finished.load(Ordering::Relaxed);
        WorkState {
            what,
            parts: (self.parts > 0).then_some((finished, self.parts)),
            done,
            total,
            elapsed,
        }
    }
}

fn style(names: &Arc<WorkNames>, columns: fn() -> usize) -> ProgressStyle {
    let names = Arc::clone(names);
    ProgressStyle::with_template("{prefix:>12} {work}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("work", move |bar: &ProgressState, out: &mut dyn Write| {
            let part = names.part.lock().unwrap_or_else(PoisonError::into_inner);
            let what = if part.is_empty() {
                &names.whole
            } else {
                &*part
            };
            let state = names.state(what, bar.pos(), bar.len(), bar.elapsed());
            // Some terminals wrap a line that fills the last column.
            let room = columns().saturating_sub(MARGIN + 1);
            // A bar that cannot be drawn must not stop the work.
            let _ = out.write_str(&state.fitted(room));
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// When lines appear, in seconds, for work of `total` done at an even pace.
    fn lines(seconds: u32, total: Option<u64>) -> Vec<u32> {
        let mut pace = LinePace::default();
        (1..=seconds)
            .filter(|&second| {
                let done = u64::from(second) * 1000 / u64::from(seconds);
                pace.is_due(SECOND * second, done, total)
            })
            .collect()
    }

    #[test]
    fn a_line_shows_every_tenth_but_not_in_a_flood() {
        assert_eq!(
            lines(100, Some(1000)),
            [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
        );
        assert_eq!(lines(10, Some(1000)), [3, 6, 9]);
        assert_eq!(lines(2, Some(1000)), [0; 0]);
    }

    #[test]
    fn slow_work_and_work_of_unknown_size_show_a_line_every_half_minute() {
        assert_eq!(lines(1000, Some(1000))[..6], [30, 60, 90, 100, 130, 160]);
        assert_eq!(lines(100, None), [30, 60, 90]);
    }
}
