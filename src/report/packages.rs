//! The table of the packages in a summary, and how they differ, by size and digest, from those of an
//! earlier set.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use super::cell::{RESERVE, code, rows};
use crate::{
    console::{many, size},
    set::{SetJson, SetJsonFile, Urls},
};

/// The most packages of the earlier set that are listed as gone, above the packages of the set.
const MOST_GONE: usize = 20;

/// The table of packages; empty if there is no room for it.
pub(super) fn packages(
    set: &SetJson,
    urls: Option<&Urls>,
    earlier: Option<&SetJson>,
    limit: usize,
) -> String {
    let mut text = String::from("### Packages\n\n");
    text += match earlier {
        Some(_) => "| Package | Size | Change |\n| :--- | ---: | ---: |\n",
        None => "| Package | Size |\n| :--- | ---: |\n",
    };
    if text.len() + RESERVE > limit {
        return String::new();
    }
    let before = earlier.map(by_identity).unwrap_or_default();
    let table = set.files.iter().map(|file| {
        let before = before.get(&identity(file)).copied();
        let change = earlier.map(|_| format!(" {} |", change(file, before)));
        row(file, urls, &change.unwrap_or_default())
    });
    let mut gone = gone(set, &before);
    let further = gone.split_off(gone.len().min(MOST_GONE));
    let omitted = rows(
        &mut text,
        gone.into_iter().chain(table).chain(further),
        limit,
    );
    let (count, total) = (many(set.files.len(), "package"), set.size());
    let _ = write!(text, "\n{count}, {}", size(total));
    if let Some(earlier) = earlier {
        let version = earlier.identity.version.as_ref();
        let version = version.map(|version| format!(" {}", code(&version.to_string())));
        let _ = write!(
            text,
            " (before,{}: {}, {})",
            version.unwrap_or_default(),
            size(earlier.size()),
            percent(earlier.size(), total)
        );
    }
    if omitted > 0 {
        let _ = write!(text, "; {} left out here", many(omitted, "row"));
    }
    if let Some(urls) = urls {
        let (sums, document) = (urls.path("SHA256SUMS"), urls.path("set.json"));
        let _ = write!(
            text,
            ". All of them: [SHA256SUMS]({sums}), [set.json]({document})"
        );
    }
    text + ".\n\n"
}

fn row(file: &SetJsonFile, urls: Option<&Urls>, change: &str) -> String {
    let name = code(file.name());
    let name = match urls {
        Some(urls) => format!("[{name}]({})", urls.path(&file.path)),
        None => name,
    };
    let (sha256, size) = (file.sha256, size(file.size));
    format!("| {name}<br><sub>sha256 <code>{sha256}</code></sub> | {size} |{change}\n")
}

fn change(file: &SetJsonFile, before: Option<&SetJsonFile>) -> String {
    match before {
        None => "**new**".to_owned(),
        Some(before) if before.sha256 == file.sha256 => "same bytes".to_owned(),
        Some(before) => {
            let sign = if file.size < before.size { "−" } else { "+" };
            let by = size(file.size.abs_diff(before.size));
            format!(
                "{sign}{by}<br><sub>{}</sub>",
                percent(before.size, file.size)
            )
        }
    }
}

/// A row for each package of the earlier set that this one does not have.
fn gone(set: &SetJson, before: &BTreeMap<String, &SetJsonFile>) -> Vec<String> {
    let here: BTreeSet<String> = set.files.iter().map(identity).collect();
    let gone = before.iter().filter(|(name, _)| !here.contains(*name));
    let rows = gone.map(|(_, file)| {
        let (name, size) = (code(file.name()), size(file.size));
        format!("| <del>{name}</del> | {size} | **gone** |\n")
    });
    rows.collect()
}

fn by_identity(set: &SetJson) -> BTreeMap<String, &SetJsonFile> {
    let files = set.files.iter();
    files.map(|file| (identity(file), file)).collect()
}

/// The path of a package without its version: `rocm_sdk_core--py3-none-linux_x86_64.whl`.
fn identity(file: &SetJsonFile) -> String {
    file.path.replace(&file.version.to_string(), "")
}

/// A change in percent: `+12.0 %`, `−0.3 %`, or `±0.0 %` if it is too small to show.
fn percent(before: u64, after: u64) -> String {
    if before == 0 {
        return "+∞ %".to_owned();
    }
    let (old, new) = (u128::from(before), u128::from(after));
    let permille = (old.abs_diff(new) * 1000 + old / 2) / old;
    let sign = match (permille, after > before) {
        (0, _) => "±",
        (_, true) => "+",
        (_, false) => "−",
    };
    format!("{sign}{}.{} %", permille / 10, permille % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::tests as samples;

    #[test]
    fn packages_are_compared_whatever_their_version_is() {
        let mut earlier = samples::document_of(&["rocm", "rocm-sdk-core", "rocm-sdk-old"]);
        for file in earlier.files.iter_mut().skip(1) {
            file.sha256 = crate::digest::Sha256::of(b"other");
            file.size = 1000;
        }
        let set = samples::document_of(&["rocm", "rocm-sdk-core", "rocm-sdk-new"]);
        let before = by_identity(&earlier);
        let files = set.files.iter();
        let all = files.map(|file| change(file, before.get(&identity(file)).copied()));
        insta::assert_snapshot!(all.collect::<Vec<_>>().join("\n"), @"
        same bytes
        +1.18 MiB<br><sub>+123356.7 %</sub>
        **new**
        ");
        insta::assert_snapshot!(gone(&set, &before).concat(), @"| <del><code>rocm&#95;sdk&#95;old-7.13.0.dev0+ab.tar.gz</code></del> | 1000 B | **gone** |");
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
