//! The common parts of the HTML pages: the frame, the list of files, and escaping.

use std::{borrow::Cow, fmt::Write as _};

use crate::{
    index::{SetFile, html_style::STYLE},
    location::percent_encode,
};

/// A complete page. `title` is text and gets escaped; `lead`, which introduces the page, and
/// `content` are HTML.
pub(super) fn frame(title: &str, lead: &str, content: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n\
         <html lang=\"en\">\n\
         <head>\n\
         <meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"pypi:repository-version\" content=\"{version}\">\n\
         <title>{title}</title>\n\
         <style>{STYLE}</style>\n\
         </head>\n\
         <body>\n\
         <header>\n\
         <h1>{title}</h1>\n\
         {lead}\
         </header>\n\
         <main>\n\
         {content}\
         </main>\n\
         </body>\n\
         </html>\n",
        version = super::REPOSITORY_VERSION,
    )
}

/// Number and total size of files: `3 files, 1.2 GiB`.
pub(super) fn count_text(count: usize, noun: &str, size: u64) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{s}, {}", size_text(size))
}

/// A list of files for each version. The newest version is first, because people look for it;
/// installers do not depend on the order.
pub(super) fn versions_list(files: &[SetFile], directory: &str) -> String {
    let mut list = String::new();
    let versions: Vec<&[SetFile]> = by_version(files).collect();
    for files in &versions {
        // Most pages have one version. It is in every file name and needs no heading.
        if let Some(first) = files.first().filter(|_| versions.len() > 1) {
            let _ = writeln!(list, "<h2>{}</h2>", escape(&first.version.to_string()));
        }
        list.push_str("<ul>\n");
        for file in *files {
            item(&mut list, file, directory);
        }
        list.push_str("</ul>\n");
    }
    list
}

/// One list of the files of several projects, each newest first. Yanked files are left out.
pub(super) fn whole_list<'a>(
    projects: impl Iterator<Item = &'a [SetFile]>,
    directory: &str,
) -> String {
    let mut list = String::from("<ul>\n");
    let files = projects.flat_map(by_version).flatten();
    for file in files.filter(|file| file.yanked.is_none()) {
        item(&mut list, file, directory);
    }
    list + "</ul>\n"
}

fn by_version(files: &[SetFile]) -> impl Iterator<Item = &[SetFile]> {
    let versions = files.chunk_by(|a, b| a.version == b.version);
    versions.rev()
}

/// A list item: the link, and the size and other facts for people.
fn item(list: &mut String, file: &SetFile, directory: &str) {
    list.push_str("<li>");
    anchor(list, file, directory);
    if let Some(reason) = &file.yanked {
        let colon = if reason.is_empty() { "" } else { ": " };
        let _ = write!(list, " <em>yanked{colon}{}</em>", escape(reason));
    }
    let _ = writeln!(list, " <span>{}</span></li>", size_text(file.size));
}

/// The link to a file, with the attributes that installers read.
///
/// `data-dist-info-metadata` is the name in [PEP 658](https://peps.python.org/pep-0658/), and pip
/// 23 reads it. `data-core-metadata` is its new name in [PEP
/// 714](https://peps.python.org/pep-0714/). `data-size` and `data-upload-time` are not standardized
/// for HTML, but uv reads them.
fn anchor(list: &mut String, file: &SetFile, directory: &str) {
    let _ = write!(
        list,
        "<a href=\"{directory}{}{}#sha256={}\"",
        file.directory(),
        percent_encode(file.name.as_str()),
        file.sha256
    );
    let mut attribute = |name: &str, value: &str| {
        let _ = write!(list, " {name}=\"{}\"", escape(value));
    };
    if let Some(requires) = &file.requires_python {
        attribute("data-requires-python", requires);
    }
    if let Some(sidecar) = &file.metadata {
        let digest = format!("sha256={}", sidecar.sha256);
        attribute("data-core-metadata", &digest);
        attribute("data-dist-info-metadata", &digest);
    }
    if let Some(reason) = &file.yanked {
        attribute("data-yanked", reason);
    }
    attribute("data-size", &file.size.to_string());
    if let Some(time) = &file.upload_time {
        attribute("data-upload-time", &time.to_string());
    }
    let _ = write!(list, ">{}</a>", escape(file.name.as_str()));
}

/// Escapes text for an element or a quoted attribute.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    // Most texts are names or numbers, and need no copy.
    if text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\''))
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Bidirectional control characters could display a different file name.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// A size as text for people: `612.3 MiB`.
pub fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut tenths = u128::from(bytes) * 10;
    let mut unit = None;
    for name in UNITS {
        if tenths < 10 * 1024 {
            break;
        }
        tenths = (tenths + 512) / 1024;
        unit = Some(name);
    }
    match unit {
        None => format!("{bytes} B"),
        Some(unit) => format!("{}.{} {unit}", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let sizes = [
            0,
            1023,
            1024,
            1536,
            1_048_575,
            1_048_576,
            642_000_000,
            u64::MAX,
        ];
        let shown = sizes.map(size_text).join(", ");
        insta::assert_snapshot!(shown, @"0 B, 1023 B, 1.0 KiB, 1.5 KiB, 1.0 MiB, 1.0 MiB, 612.3 MiB, 16384.0 PiB");
    }

    proptest::proptest! {
        #[test]
        fn no_text_leaves_its_place(text in "\\PC*|[\"'<>&\\x00-\\x1f]*") {
            let escaped = escape(&text);
            let left = escaped.contains(['<', '>', '"', '\'', '\n', '\0']);
            proptest::prop_assert!(!left);
            for (at, _) in escaped.match_indices('&') {
                let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
                proptest::prop_assert!(known.iter().any(|name| escaped[at..].starts_with(name)));
            }
        }
    }
}
