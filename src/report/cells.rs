//! What the tables of a page are made of: cells, rows, bars and folded blocks. Texts from outside, such
//! as names of files, are escaped for Markdown and the HTML that GitHub allows.
//!
//! Pictures are text: GitHub drops SVG from a job summary, and block characters and squares look the
//! same in every viewer.

use std::{cmp::Ordering, fmt::Write as _};

use crate::index::Urls;
use rocwheel_base::quantity::{growth, many, percent};

/// GitHub drops the whole summary of a step if it is longer than 1 MiB.
pub const LIMIT: usize = 1000 * 1024;
/// Longer texts are cut.
const LONGEST_TEXT: usize = 300;
/// Bytes reserved for the end of a section.
pub(super) const RESERVE: usize = 400;

/// Appends rows up to a limit. Returns how many were left out.
pub(super) fn push_rows(
    table: &mut String,
    mut rows: impl Iterator<Item = String>,
    limit: usize,
) -> usize {
    while let Some(row) = rows.next() {
        if table.len() + row.len() + RESERVE > limit {
            return rows.count() + 1;
        }
        table.push_str(&row);
    }
    0
}

/// A table of the first `most` rows, with the number of rows that were left out. Empty if there are no rows,
/// or if there is no room.
pub(super) fn table(head: &str, lines: Vec<String>, most: usize, limit: usize) -> String {
    let mut table = format!("{head}\n");
    let count = lines.len();
    if count == 0 || table.len() + RESERVE > limit {
        return String::new();
    }
    let shown = lines.into_iter().take(most);
    let omitted = push_rows(&mut table, shown, limit) + count.saturating_sub(most);
    if omitted > 0 {
        let _ = writeln!(table, "\n{} left out here.", many(omitted, "row"));
    }
    table
}

/// The signs that mean nothing in Markdown and HTML, besides letters and digits.
const PLAIN: &str = "-.+ ,→−";

/// Escapes a text, so that it cannot end its table cell, its HTML element or its line.
pub(super) fn plain(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars().take(LONGEST_TEXT) {
        if PLAIN.contains(character) || character.is_alphanumeric() {
            escaped.push(character);
        } else if character.is_ascii_punctuation() {
            let _ = write!(escaped, "&#{};", u32::from(character));
        } else {
            // Line breaks, and signs that change the direction of a text.
            escaped.push('\u{fffd}');
        }
    }
    if text.chars().nth(LONGEST_TEXT).is_some() {
        escaped.push('…');
    }
    escaped
}

/// Escapes a text and shows it as code.
pub(super) fn code(text: &str) -> String {
    format!("<code>{}</code>", plain(text))
}

/// Escapes a message. Texts between backticks are shown as code.
pub(super) fn message(text: &str) -> String {
    let mut escaped = String::new();
    for (index, part) in text.split('`').enumerate() {
        // Each second part was between backticks.
        if index % 2 == 1 && !part.is_empty() {
            escaped.push_str(&code(part));
        } else {
            escaped.push_str(&plain(part));
        }
    }
    escaped
}

/// A text that links to a path on the server; without the link if that is not a valid address.
pub(super) fn linked(text: &str, path: Option<String>, server: &str) -> String {
    match path.and_then(|path| format!("{server}/{path}").parse::<Urls>().ok()) {
        Some(url) => format!("[{}]({})", code(text), url.to_string().trim_end_matches('/')),
        None => code(text),
    }
}

/// A block that is closed until a reader opens it. `title` is HTML, `body` Markdown.
pub(super) fn folded(title: &str, body: &str) -> String {
    format!("<details><summary>{title}</summary>\n\n{}\n\n</details>\n\n", body.trim_end())
}

/// The length of the bar of the largest value, in characters.
const BAR: u64 = 12;
/// The beginning of a character, from one eighth to seven eighths.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar of block characters, as long as the part of `value` in `most`: `████▏`. Only the bar of 0 is empty.
pub(super) fn bar(value: u64, most: u64) -> String {
    // In 128 bits, the product of any two values fits.
    let scaled = u128::from(value.min(most)) * u128::from(BAR * 8);
    let eighths = usize::try_from(scaled.div_ceil(u128::from(most.max(1)))).unwrap_or_default();
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// What became of a size, either of which may be missing: `🔺 +1.20 MiB (+3.0 %)`.
pub(super) fn change(before: Option<u64>, after: Option<u64>) -> String {
    match (before, after) {
        (_, None) => "🟥 **gone**".to_owned(),
        (None, _) => "🟩 **new**".to_owned(),
        (Some(before), Some(after)) => {
            let arrow = arrow(before, after);
            format!("{arrow}{} ({})", growth(before, after), percent(before, after))
        }
    }
}

/// An arrow that says whether a size has grown. Empty for equal sizes.
pub(super) fn arrow(before: u64, after: u64) -> &'static str {
    match before.cmp(&after) {
        Ordering::Less => "🔺 ",
        Ordering::Equal => "",
        Ordering::Greater => "🔻 ",
    }
}

#[cfg(test)]
mod tests;
