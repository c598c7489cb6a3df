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

use super::{Talk, UNDER_WAY, one_line, settings::Show};
use rocwheel_base::quantity::{rate, size, took};

/// A handle that many threads can advance. Its bar disappears when it is dropped.
#[derive(Debug)]
pub struct Progress {
    /// It counts even if it is not drawn, and clears itself on drop. Its message is the part that was begun last.
    bar: ProgressBar,
    parts: Arc<Parts>,
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

/// A bar for all work that begins while it lives. Such work is a part of this bar, and gets no bar of its own.
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

/// How many parts of the work are done.
#[derive(Debug)]
struct Parts {
    /// 0 if the work has no parts.
    all: usize,
    finished: AtomicUsize,
}

impl Parts {
    /// `[3/10] `, or nothing.
    fn shown(&self) -> String {
        match self.all {
            0 => String::new(),
            all => format!("[{}/{all}] ", self.finished.load(Ordering::Relaxed)),
        }
    }
}

/// Lines in place of a bar.
#[derive(Debug)]
struct Lines {
    talk: Arc<Talk>,
    verb: String,
    what: String,
    pace: Mutex<LinePace>,
}

/// Decides when the next line is due.
#[derive(Debug, Default)]
struct LinePace {
    /// The time of the last line since the start.
    last_line: Duration,
    /// How many tenths of the work were done at the last line.
    tenths: u64,
}

impl LinePace {
    /// The minimum time between lines, so that short work does not print a line for each tenth.
    const SHORTEST: Duration = Duration::from_secs(3);
    /// The maximum time between lines: a longer silence looks as if the program hung.
    const LONGEST: Duration = Duration::from_secs(30);

    fn is_due(&mut self, elapsed: Duration, done: u64, total: Option<u64>) -> bool {
        let silence = elapsed.saturating_sub(self.last_line);
        let tenths = total.map_or(0, |total| percent(done, total) / 10);
        let is_due = silence >= Self::LONGEST || tenths > self.tenths && silence >= Self::SHORTEST;
        if is_due {
            self.last_line = elapsed;
            self.tenths = tenths;
        }
        is_due
    }
}

impl Progress {
    pub(super) fn new(
        talk: &Arc<Talk>,
        verb: &str,
        what: &str,
        parts: usize,
        total: Option<u64>,
    ) -> Self {
        let what = one_line(what);
        let parts = Arc::new(Parts { all: parts, finished: AtomicUsize::new(0) });
        let counter = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
        if talk.settings.progress == Show::Bars
            && let Some(bars) = &talk.bars
        {
            let bar = counter
                .with_style(style(&parts, total.is_some()))
                .with_prefix(talk.paint(UNDER_WAY, verb))
                .with_message(what);
            return Self { bar: bars.add(bar), parts, lines: None, is_part: false };
        }
        counter.set_draw_target(ProgressDrawTarget::hidden());
        let lines = (talk.settings.progress != Show::Nothing).then(|| {
            Arc::new(Lines {
                talk: Arc::clone(talk),
                verb: verb.to_owned(),
                what,
                pace: Mutex::default(),
            })
        });
        Self { bar: counter, parts, lines, is_part: false }
    }

    /// A handle for a part of this work, which is done when the handle is dropped.
    pub(super) fn part(&self, what: &str) -> Self {
        self.begin(what);
        Self {
            bar: self.bar.clone(),
            parts: Arc::clone(&self.parts),
            lines: self.lines.clone(),
            is_part: true,
        }
    }

    /// Says which part of the work begins.
    pub fn begin(&self, part: impl Display) {
        self.bar.set_message(one_line(&part.to_string()));
    }

    /// Counts a part as done.
    pub fn finish_part(&self) {
        self.parts.finished.fetch_add(1, Ordering::Relaxed);
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
            // Another thread asks at this moment, and prints the line if it is due.
            Err(TryLockError::WouldBlock) => return,
        };
        let done = self.bar.position();
        let total = self.bar.length();
        let elapsed = self.bar.elapsed();
        if pace.is_due(elapsed, done, total) {
            let parts = self.parts.shown();
            let facts = facts(done, total, elapsed);
            lines.talk.status(UNDER_WAY, &lines.verb, &format!("{}: {parts}{facts}", lines.what));
        }
    }

    #[cfg(test)]
    pub(super) fn done(&self) -> u64 {
        self.bar.position()
    }
}

/// The fields of a bar. What has no room left is cut from the message.
fn style(parts: &Arc<Parts>, has_total: bool) -> ProgressStyle {
    let template = if has_total {
        "{prefix:>12} {parts}{percent} % of {binary_total_bytes}{left}  {wide_msg}"
    } else {
        "{prefix:>12} {parts}{binary_bytes}, {binary_bytes_per_sec}  {wide_msg}"
    };
    let parts = Arc::clone(parts);
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("parts", move |_: &ProgressState, out: &mut dyn Write| {
            // A bar that cannot be drawn must not stop the work.
            let _ = out.write_str(&parts.shown());
        })
        .with_key("left", |state: &ProgressState, out: &mut dyn Write| {
            let _ = out.write_str(&estimate(state.elapsed(), state.eta().as_secs()));
        })
}

/// Estimates of the remaining time beyond four days are not shown.
const LONGEST_LEFT: u64 = 4 * 24 * 3600;

/// `41 % of 2.30 GiB, 31.20 MiB/s, 20 s left`; without the rate in the first second, and without an estimate in
/// the first two.
fn facts(done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let share = match total {
        Some(total) => format!("{} % of {}", percent(done, total), size(total)),
        None => size(done).to_string(),
    };
    let Some(rate) = rate(done, elapsed) else {
        return share;
    };
    let share_and_rate = format!("{share}, {}/s", size(rate));
    let seconds_left = total.and_then(|total| total.saturating_sub(done).checked_div(rate));
    share_and_rate + &seconds_left.map_or(String::new(), |seconds| estimate(elapsed, seconds))
}

/// `, 20 s left`. Empty in the first two seconds, when an estimate jumps between seconds and hours.
fn estimate(elapsed: Duration, seconds_left: u64) -> String {
    if elapsed < Duration::from_secs(2) {
        return String::new();
    }
    match seconds_left {
        // `took` shows tenths of a second, and an estimate has none.
        1..10 => format!(", {seconds_left} s left"),
        10..LONGEST_LEFT => format!(", {} left", took(Duration::from_secs(seconds_left))),
        _ => String::new(),
    }
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
        assert_eq!(lines(100, Some(1000)), [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
        assert_eq!(lines(10, Some(1000)), [3, 6, 9]);
        assert_eq!(lines(2, Some(1000)), [0; 0]);
    }

    #[test]
    fn slow_work_and_work_of_unknown_size_show_a_line_every_half_minute() {
        assert_eq!(lines(1000, Some(1000))[..6], [30, 60, 90, 100, 130, 160]);
        assert_eq!(lines(100, None), [30, 60, 90]);
    }

    #[test]
    fn more_than_the_total_and_nothing_at_all_are_all() {
        assert_eq!(percent(7, 0), 100);
        assert_eq!(percent(u64::MAX, 10), 100);
        assert_eq!(percent(u64::MAX / 2, u64::MAX), 49);
    }

    #[test]
    fn a_line_of_a_log_says_how_much_and_how_fast() {
        let shown = [
            (511, Some(1024), 7 * SECOND),
            (1024, Some(1024), SECOND),
            (0, Some(1024), SECOND),
            (1 << 20, Some(1 << 30), SECOND * 3 / 2),
            (2048, None, SECOND / 2),
            (9, Some(1 << 40), SECOND),
            (1 << 30, Some((1 << 30) * 23 / 10), 16 * SECOND),
        ]
        .map(|(done, total, elapsed)| facts(done, total, elapsed));
        insta::assert_snapshot!(shown.join("\n"), @"
        49 % of 1.00 KiB, 73 B/s, 7 s left
        100 % of 1.00 KiB, 1.00 KiB/s
        0 % of 1.00 KiB, 0 B/s
        0 % of 1.00 GiB, 682.67 KiB/s
        2.00 KiB
        0 % of 1.00 TiB, 9 B/s
        43 % of 2.30 GiB, 64.00 MiB/s, 20 s left
        ");
    }
}
