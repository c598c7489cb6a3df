//! The text of a progress bar, with as many fields as fit into the terminal.

use std::{iter, time::Duration};

use super::quantity::{rate, size, took};

/// Work under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkState<'a> {
    /// The part that was begun last, or the whole.
    pub(super) what: &'a str,
    /// How many parts are done, and of how many.
    pub(super) parts: Option<(usize, usize)>,
    pub(super) done: u64,
    /// The number of bytes, if it is known.
    pub(super) total: Option<u64>,
    pub(super) elapsed: Duration,
}

/// A name that is cut to fewer columns says nothing.
const SHORTEST_NAME: usize = 16;
/// The columns between the brackets of the bar.
const BAR: usize = 24;
/// Estimates of the remaining time beyond four days are not shown.
const LONGEST_LEFT: u64 = 4 * 24 * 3600;

impl WorkState<'_> {
    /// `[3/10] [====>   ] 41 % of 2.30 GiB, 31.20 MiB/s, 20 s left  rocm_sdk_core-7.13.0.whl`, without
    /// the fields for which `columns` has no room. The bar goes first, then the rate, then the name.
    pub(super) fn fitted(&self, columns: usize) -> String {
        let far = match self.total {
            Some(total) => format!("{} %", percent(self.done, total)),
            None => size(self.done).to_string(),
        };
        let mut room = columns.saturating_sub(width(&far));
        let take = |room: &mut usize, field: Option<String>| {
            let field = field.filter(|it| width(it) <= *room).unwrap_or_default();
            *room -= width(&field);
            field
        };
        let left = take(&mut room, self.left());
        let parts = take(
            &mut room,
            self.parts.map(|(done, of)| format!("[{done}/{of}] ")),
        );
        let total = take(
            &mut room,
            self.total.map(|total| format!(" of {}", size(total))),
        );
        let name = self.name(room);
        let name = take(&mut room, name);
        let rate = take(&mut room, self.rate());
        let bar = take(&mut room, self.total.map(|total| bar(self.done, total)));
        format!("{parts}{bar}{far}{total}{rate}{left}{name}")
    }

    /// `41 % of 2.30 GiB, 31.20 MiB/s, 20 s left`
    pub(super) fn in_full(&self) -> String {
        let nameless = Self { what: "", ..*self };
        let all = nameless.fitted(usize::MAX);
        // A line of a log is no place for a bar.
        match self.total {
            Some(total) => all.replacen(&bar(self.done, total), "", 1),
            None => all,
        }
    }

    /// The name, cut at its end.
    fn name(&self, room: usize) -> Option<String> {
        let room = room.checked_sub(2)?;
        let count = width(self.what);
        let name: String = if count <= room {
            self.what.to_owned()
        } else if room < SHORTEST_NAME {
            return None;
        } else {
            self.what.chars().take(room - 1).chain(['…']).collect()
        };
        (count > 0).then(|| format!("  {name}"))
    }

    /// `, 31.20 MiB/s`; nothing in the first second.
    fn rate(&self) -> Option<String> {
        let rate = rate(self.done, self.elapsed)?;
        Some(format!(", {}/s", size(rate)))
    }

    /// `, 20 s left`
    fn left(&self) -> Option<String> {
        let rate = rate(self.done, self.elapsed)?;
        let left = self.total?.saturating_sub(self.done).checked_div(rate)?;
        (1..LONGEST_LEFT).contains(&left).then(|| match left {
            // An estimate has no tenths of a second.
            ..10 => format!(", {left} s left"),
            _ => format!(", {} left", took(Duration::from_secs(left))),
        })
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// `[=========>              ] `
fn bar(done: u64, total: u64) -> String {
    let filled = usize::try_from(percent(done, total)).unwrap_or(100) * BAR / 100;
    let tip = usize::from(filled < BAR);
    let cells = iter::repeat_n('=', filled).chain(iter::repeat_n('>', tip));
    let cells = cells.chain(iter::repeat_n(' ', BAR - filled - tip));
    format!("[{}] ", cells.collect::<String>())
}

pub(super) fn percent(done: u64, total: u64) -> u64 {
    let done = u128::from(done.min(total)) * 100;
    u64::try_from(done.checked_div(total.into()).unwrap_or(100)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const MEASURED: WorkState<'_> = WorkState {
        what: "rocm_sdk_device_gfx942-7.13.0.dev0-py3-none-linux_x86_64.whl",
        parts: Some((3, 10)),
        done: GIB,
        total: Some(GIB * 23 / 10),
        elapsed: Duration::from_secs(16),
    };

    #[test]
    fn fields_are_dropped_until_the_line_fits() {
        let shown = [27, 47, 67, 87, 107, 187].map(|columns| {
            let line = MEASURED.fitted(columns);
            assert!(width(&line) <= columns, "{line}");
            format!("{columns:>3} {line}")
        });
        insta::assert_snapshot!(shown.join("\n"), @"
         27 [3/10] 43 %, 20 s left
         47 [3/10] 43 % of 2.30 GiB, 64.00 MiB/s, 20 s left
         67 [3/10] 43 % of 2.30 GiB, 20 s left  rocm_sdk_device_gfx942-7.13.0.…
         87 [3/10] 43 % of 2.30 GiB, 20 s left  rocm_sdk_device_gfx942-7.13.0.dev0-py3-none-linux_…
        107 [3/10] 43 % of 2.30 GiB, 20 s left  rocm_sdk_device_gfx942-7.13.0.dev0-py3-none-linux_x86_64.whl
        187 [3/10] [==========>             ] 43 % of 2.30 GiB, 64.00 MiB/s, 20 s left  rocm_sdk_device_gfx942-7.13.0.dev0-py3-none-linux_x86_64.whl
        ");
    }

    #[test]
    fn a_line_of_any_width_fits() {
        let states = [
            MEASURED,
            WorkState {
                parts: None,
                ..MEASURED
            },
            WorkState {
                total: None,
                ..MEASURED
            },
            WorkState {
                elapsed: Duration::ZERO,
                what: "é",
                ..MEASURED
            },
            WorkState {
                total: Some(0),
                done: 0,
                ..MEASURED
            },
        ];
        for state in states {
            let least = width(&state.fitted(0));
            for columns in least..250 {
                assert!(
                    width(&state.fitted(columns)) <= columns,
                    "{columns} {state:?}"
                );
            }
        }
    }

    #[test]
    fn more_than_the_total_and_nothing_at_all_are_all() {
        assert_eq!(percent(7, 0), 100);
        assert_eq!(percent(u64::MAX, 10), 100);
        assert_eq!(percent(u64::MAX / 2, u64::MAX), 49);
    }

    #[test]
    fn a_line_of_a_log_says_how_much_and_how_fast() {
        let second = Duration::from_secs(1);
        let shown = [
            (511, Some(1024), 7 * second),
            (1024, Some(1024), second),
            (0, Some(1024), second),
            (2048, None, second / 2),
            (9, Some(1 << 40), second),
        ]
        .map(|(done, total, elapsed)| {
            let parts = None;
            WorkState {
                parts,
                done,
                total,
                elapsed,
                ..MEASURED
            }
            .in_full()
        });
        insta::assert_snapshot!(shown.join("\n"), @"
        49 % of 1.00 KiB, 73 B/s, 7 s left
        100 % of 1.00 KiB, 1.00 KiB/s
        0 % of 1.00 KiB, 0 B/s
        2.00 KiB
        0 % of 1.00 TiB, 9 B/s
        ");
    }
}
