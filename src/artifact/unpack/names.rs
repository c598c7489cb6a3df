//! Names that Windows and macOS do not take, or do not tell apart.

use unicode_normalization::UnicodeNormalization as _;

use super::Content;

/// Whether a name is valid on Windows. In an artifact, `:` is written as `%3A` there, and a name that
/// has `%3A` would be read back as another one.
pub(super) fn windows_allows(name: &str, content: Content) -> bool {
    match content {
        Content::Artifact => {
            !name.to_ascii_lowercase().contains("%3a") && is_valid(&name.replace(':', "%3A"))
        }
        Content::Tree => is_valid(name),
    }
}

/// Whether Windows takes a name: no separators, no `:` (drive or alternate stream), no device
/// name such as `con` or `lpt1`, and no trailing dots and spaces, which Windows removes.
fn is_valid(name: &str) -> bool {
    const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
    let stem = name
        .split('.')
        .next()
        .unwrap_or(name)
        .trim_end()
        .to_ascii_lowercase();
    let numbered = ["com", "lpt"].into_iter().any(|device| {
        stem.strip_prefix(device)
            .is_some_and(|number| matches!(number.as_bytes(), [b'1'..=b'9']))
    });
    !name.contains(|c: char| c.is_control() || "<>:\"/\\|?*".contains(c))
        && !name.ends_with([' ', '.'])
        && !numbered
        && !DEVICES.contains(&stem.as_str())
}

/// A form that is the same for all names that Windows or macOS regard as one.
pub(super) fn fold(path: &str) -> String {
    if path.is_ascii() {
        path.to_ascii_lowercase()
    } else {
        path.chars().flat_map(char::to_lowercase).nfc().collect()
    }
}
