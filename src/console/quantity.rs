//! Formats sizes, counts and durations for people.

use std::{fmt::Display, time::Duration};

use indicatif::{HumanBytes, HumanCount};

/// `612.00 MiB`
pub fn size(bytes: u64) -> impl Display {
    HumanBytes(bytes)
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
        let sizes: Vec<String> = [0, 999, 1024, 641_728_512, u64::MAX]
            .map(|bytes| size(bytes).to_string())
            .into();
        insta::assert_snapshot!(sizes.join(", "), @"0 B, 999 B, 1.00 KiB, 612.00 MiB, 16.00 EiB");
        let times: Vec<String> = [0, 449, 9_999, 41_000, 192_000, 3_720_000]
            .map(|millis| took(Duration::from_millis(millis)))
            .into();
        insta::assert_snapshot!(times.join(", "), @"0.0 s, 0.4 s, 9.9 s, 41 s, 3 min 12 s, 1 h 2 min");
    }
}
