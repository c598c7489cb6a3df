//! How sizes, counts, durations, lists and words of a shell are shown to people.

use std::{cmp::Ordering, fmt::Display, time::Duration};

use indicatif::{HumanBytes, HumanCount};

/// Invisible characters with an effect: control characters, and those that change the direction of
/// text.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// `612.00 MiB`
pub fn size(bytes: u64) -> impl Display {
    HumanBytes(bytes)
}

/// How much more or less there is: `+1.20 MiB`, `−3.00 KiB`, `±0 B`.
pub fn growth(before: u64, after: u64) -> String {
    format!("{}{}", sign(before.cmp(&after)), size(before.abs_diff(after)))
}

/// A change in percent: `+12.0 %`, `−0.3 %`, or `±0.0 %` if it is too small to show.
pub fn percent(before: u64, after: u64) -> String {
    if before == 0 {
        return "+∞ %".to_owned();
    }
    let (old, new) = (u128::from(before), u128::from(after));
    let permille = (old.abs_diff(new) * 1000 + old / 2) / old;
    let sign = match permille {
        0 => "±",
        _ => sign(before.cmp(&after)),
    };
    format!("{sign}{}.{} %", permille / 10, permille % 10)
}

fn sign(order: Ordering) -> &'static str {
    match order {
        Ordering::Less => "+",
        Ordering::Equal => "±",
        Ordering::Greater => "−",
    }
}

/// `61,402`
pub fn count(count: usize) -> impl Display {
    HumanCount(u64::try_from(count).unwrap_or(u64::MAX))
}

/// `1 file`, `61,402 files`, `3 entries`
pub fn many(count: usize, noun: &str) -> String {
    let number = self::count(count);
    let plural = match noun.strip_suffix('y') {
        _ if count == 1 => noun.to_owned(),
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if noun.ends_with(['s', 'x', 'h']) => format!("{noun}es"),
        _ => format!("{noun}s"),
    };
    format!("{number} {plural}")
}

/// Adds up sizes, which may come from outside and be false.
pub fn sum(sizes: impl IntoIterator<Item = u64>) -> u64 {
    sizes.into_iter().fold(0, u64::saturating_add)
}

/// `0.4 s`, `41 s`, `3 min 12 s`, `1 h 2 min`
pub fn took(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{seconds}.{} s", time.subsec_millis() / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600.. => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Bytes per second; `None` in the first second, which is too short to measure.
pub fn rate(bytes: u64, time: Duration) -> Option<u64> {
    let rate = (u128::from(bytes) * 1000).checked_div(time.as_millis())?;
    (time >= Duration::from_secs(1)).then(|| u64::try_from(rate).unwrap_or(u64::MAX))
}

/// A word as a shell takes it.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,%@".contains(c);
    if word.chars().all(is_plain) && !word.is_empty() {
        return word.to_owned();
    }
    if !word.contains(is_hidden) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    // What a terminal would obey is written with an escape, as bash and zsh read it.
    let mut quoted = String::from("$'");
    for c in word.chars() {
        match c {
            '\'' | '\\' => quoted.extend(['\\', c]),
            c if is_hidden(c) => {
                let escape = format!("\\u{:04x}", u32::from(c));
                quoted.push_str(&escape);
            }
            c => quoted.push(c),
        }
    }
    quoted + "'"
}

/// Pads each column to its widest cell, except the last column.
pub fn aligned(table: &[Vec<String>]) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = table.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let lines = table.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| format!("{cell:width$}  "));
        format!("{}\n", cells.collect::<String>().trim_end())
    });
    lines.collect()
}

/// How many names `few` lists.
const MOST_NAMES: usize = 6;

/// Joins the first names, and adds how many more there are. A single further name is listed
/// instead.
pub fn few(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(MOST_NAMES);
    if more > 1 {
        names.truncate(MOST_NAMES);
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_word_is_the_same_in_a_shell_and_moves_no_cursor() {
        for word in ["plain-1.0", "", "a b", "it's", "$(x);`y`", "\u{1b}[2J\n\u{202e}'\\\u{85}"] {
            let quoted = shell_word(word);
            assert!(!quoted.contains(is_hidden), "{quoted:?}");
            let line = format!("printf %s {quoted}");
            let mut bash = std::process::Command::new("bash");
            bash.args(["-c", &line]).env("LC_ALL", "C.UTF-8");
            let output = bash.output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word, "{quoted}");
        }
    }

    #[test]
    fn counts_have_their_noun() {
        let said: Vec<String> = [
            (0, "file"),
            (1, "file"),
            (61_402, "file"),
            (1, "entry"),
            (2, "entry"),
            (2, "key"),
            (2, "patch"),
        ]
        .map(|(count, noun)| many(count, noun))
        .into();
        insta::assert_snapshot!(
            said.join(", "),
            @"0 files, 1 file, 61,402 files, 1 entry, 2 entries, 2 keys, 2 patches"
        );
    }

    #[test]
    fn sizes_and_times_are_short() {
        let sizes: Vec<String> =
            [0, 999, 1024, 641_728_512, u64::MAX].map(|bytes| size(bytes).to_string()).into();
        insta::assert_snapshot!(sizes.join(", "), @"0 B, 999 B, 1.00 KiB, 612.00 MiB, 16.00 EiB");
        let times: Vec<String> = [0, 449, 9_999, 41_000, 192_000, 3_720_000]
            .map(|millis| took(Duration::from_millis(millis)))
            .into();
        insta::assert_snapshot!(times.join(", "), @"0.0 s, 0.4 s, 9.9 s, 41 s, 3 min 12 s, 1 h 2 min");
    }

    #[test]
    fn a_percentage_has_a_sign() {
        assert_eq!(percent(1000, 1120), "+12.0 %");
        assert_eq!(percent(1000, 997), "−0.3 %");
        assert_eq!(percent(10_000, 10_001), "±0.0 %");
        assert_eq!(percent(0, 1), "+∞ %");
        assert_eq!(percent(1, u64::MAX), "+1844674407370955161400.0 %");
    }
}
