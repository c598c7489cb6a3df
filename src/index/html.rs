//! What HTML pages share: their frame, the link to a file, and escaping.

use std::fmt::Write as _;

use crate::{index::SetFile, location::percent_encode};

/// No script, no font, no picture from elsewhere; the browser's own light and dark colours.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem;line-height:1.2}\
li{margin:.25rem 0}\
a{font-family:ui-monospace,monospace;overflow-wrap:anywhere}";

/// A whole page around `content`. `title` is text, `content` is HTML.
pub(super) fn frame(title: &str, content: &str) -> String {
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
         <main>\n\
         <h1>{title}</h1>\n\
         {content}\
         </main>\n\
         </body>\n\
         </html>\n",
        version = super::REPOSITORY_VERSION,
    )
}

/// A list of files, one item a line; empty lists are valid HTML too.
pub(super) fn file_list(files: &[SetFile], directory: &str) -> String {
    let mut list = String::from("<ul>\n");
    for file in files {
        let _ = writeln!(
            list,
            "<li>{} {}{}</li>",
            anchor(file, directory),
            size_text(file.size),
            if file.yanked.is_some() {
                ", yanked"
            } else {
                ""
            },
        );
    }
    list + "</ul>\n"
}

/// The link to a file, with all that installers read from its attributes.
///
/// `data-dist-info-metadata` is the name that PEP 658 gave and pip 23 reads;
/// `data-core-metadata` is the one that PEP 714 put in its place. `data-size` and
/// `data-upload-time` are no standard, and uv reads them.
fn anchor(file: &SetFile, directory: &str) -> String {
    let mut anchor = format!(
        "<a href=\"{directory}{}#sha256={}\"",
        percent_encode(file.name.as_str()),
        file.sha256
    );
    let mut attribute = |name: &str, value: &str| {
        let _ = write!(anchor, " {name}=\"{}\"", escape(value));
    };
    if let Some(requires) = &file.requires_python {
        attribute("data-requires-python", requires);
    }
    if let Some(sidecar) = &file.metadata {
        let digest = format!("sha256={}", sidecar.sha256());
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
    let _ = write!(anchor, ">{}</a>", escape(file.name.as_str()));
    anchor
}

/// Text that stays text, in an element and in a quoted attribute alike.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // A direction override would show a name that is not the file's.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// A size for people: `612.3 MiB`.
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
