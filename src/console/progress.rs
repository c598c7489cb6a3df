//! Progress of long-running work: a bar on a terminal, or a line from time to time.

use std::{
    fmt::Write,
    sync::{Arc, Mutex, TryLockError},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::{
    Talk, UNDER_WAY, one_line,
    quantity::{rate, size, took},
    settings::Show,
};

/// A handle that many threads can advance. Its bar disappears when it is dropped.
#[derive(Debug)]
pub struct Progress {
    /// Also counts where it is not drawn. It clears itself on drop.
    bar: ProgressBar,
    lines: Option<Lines>,
}

/// Lines in place of a bar.
#[derive(Debug)]
struct Lines {
    talk: Arc<Talk>,
    verb: String,
    what: String,
    pace: Mutex<LinePace>,
}

/// Estimates of the remaining time beyond four days are not shown.
const LONGEST_LEFT: u64 = 4 * 24 * 3600;

/// Decides when the next line is due.
#[derive(Debug, Default)]
struct LinePace {
    /// Whether this is only a part of work that also shows its progress.
    is_part: bool,
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
        // The lines of a part only show that it is not stuck, so they are rare.
        let early = !self.is_part && tenths > self.tenths && since >= Self::SHORTEST;
        let due = since >= Self::LONGEST || early;
        if due {
            self.last_line = elapsed;
            self.tenths = tenths;
        }
        due
    }
}

impl Progress {
    pub(super) fn new(
        talk: &Arc<Talk>,
        verb: &str,
        what: &str,
        total: Option<u64>,
        is_part: bool,
    ) -> Self {
        let (bar, what) = (bar(total), one_line(what));
        let lines = match (talk.settings.progress, &talk.bars) {
            (Show::Bars, Some(bars)) => {
                let bar = bar.with_prefix(talk.paint(UNDER_WAY, verb));
                let bar = bars.add(bar.with_message(what));
                return Self { bar, lines: None };
            }
            (Show::Nothing, _) => None,
            _ => Some(Lines {
                talk: Arc::clone(talk),
                verb: verb.to_owned(),
                what,
                pace: Mutex::new(LinePace {
                    is_part,
                    ..LinePace::default()
                }),
            }),
        };
        bar.set_draw_target(ProgressDrawTarget::hidden());
        Self { bar, lines }
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
            let facts = facts(&lines.what, done, total, elapsed);
            lines.talk.status(UNDER_WAY, &lines.verb, &facts);
        }
    }

    #[cfg(test)]
    pub(super) fn done(&self) -> u64 {
        self.bar.position()
    }
}

fn facts(what: &str, done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let far = match total {
        Some(total) => {
            let percent = percent(done, total);
            format!("{what}: {percent} % of {}", size(total))
        }
        None => format!("{what}: {}", size(done)),
    };
    far + &speed(done, total, elapsed)
}

/// `, 1.00 MiB/s, 41 s left`; empty in the first second.
fn speed(done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let Some(rate) = rate(done, elapsed) else {
        return String::new();
    };
    let left = total.unwrap_or(done).saturating_sub(done).checked_div(rate);
    let rate = size(rate);
    match left.filter(|left| (1..LONGEST_LEFT).contains(left)) {
        Some(left) => format!(", {rate}/s, {} left", took(Duration::from_secs(left))),
        None => format!(", {rate}/s"),
    }
}

fn bar(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{prefix:>12} [{bar:24}] {binary_bytes}/{binary_total_bytes}{speed} {wide_msg}",
        ),
        None => (
            ProgressBar::no_length(),
            "{prefix:>12} {binary_bytes}{speed} {wide_msg}",
        ),
    };
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("speed", |state: &ProgressState, out: &mut dyn Write| {
            // A bar that cannot be drawn must not stop the work.
            let _ = out.write_str(&speed(state.pos(), state.len(), state.elapsed()));
        })
        .progress_chars("=> ");
    bar.with_style(style)
}

fn percent(done: u64, total: u64) -> u64 {
    let done = u128::from(done.min(total)) * 100;
    u64::try_from(done.checked_div(total.into()).unwrap_or(100)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// When lines appear, in seconds, for work of `total` done at an even pace.
    fn lines(seconds: u32, total: Option<u64>) -> Vec<u32> {
        lines_of(false, seconds, total)
    }

    fn lines_of(is_part: bool, seconds: u32, total: Option<u64>) -> Vec<u32> {
        let mut pace = LinePace {
            is_part,
            ..LinePace::default()
        };
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

    #[test]
    fn a_part_shows_only_that_it_is_not_stuck() {
        assert_eq!(lines_of(true, 100, Some(1000)), [30, 60, 90]);
    }

    #[test]
    fn more_than_the_total_and_nothing_at_all_are_all() {
        assert_eq!(percent(7, 0), 100);
        assert_eq!(percent(u64::MAX, 10), 100);
        assert_eq!(percent(u64::MAX / 2, u64::MAX), 49);
    }

    #[test]
    fn a_line_says_how_much_of_what_and_how_fast() {
        let shown = [
            facts("a.whl", 511, Some(1024), 7 * SECOND),
            facts("a.whl", 1024, Some(1024), SECOND),
            facts("a.whl", 0, Some(1024), SECOND),
            facts("a.whl", 2048, None, SECOND / 2),
            facts("a.whl", 9, Some(1 << 40), SECOND),
        ];
        insta::assert_snapshot!(shown.join("\n"), @"
        a.whl: 49 % of 1.00 KiB, 73 B/s, 7.0 s left
        a.whl: 100 % of 1.00 KiB, 1.00 KiB/s
        a.whl: 0 % of 1.00 KiB, 0 B/s
        a.whl: 2.00 KiB
        a.whl: 0 % of 1.00 TiB, 9 B/s
        ");
    }
}
