//! Replaces the versions of a set by one word, so that files of two versions can be compared.

use itertools::Itertools as _;

use crate::version::Version;

/// What stands for a version of the set.
const WORD: &str = "{version}";

/// The versions of the packages of a set, which are replaced in texts and paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VersionFold(Vec<String>);

impl VersionFold {
    pub(super) fn of(versions: impl Iterator<Item = Version>) -> Self {
        // A version such as `2` could be any number.
        let versions = versions.map(|it| it.to_string()).filter(|it| it.contains('.'));
        // The longest first: `7.14.0` is the beginning of `7.14.0rc1`.
        let longest = |text: &String| (std::cmp::Reverse(text.len()), text.clone());
        Self(versions.unique().sorted_by_key(longest).collect())
    }

    /// The text with the word instead of each version that is not a part of another number.
    pub(super) fn text(&self, text: &str) -> String {
        let mut folded = text.to_owned();
        for version in &self.0 {
            if !folded.contains(version.as_str()) {
                continue;
            }
            let (mut out, mut at) = (String::with_capacity(folded.len()), 0);
            for (start, _) in folded.match_indices(version.as_str()) {
                let (before, after) = (&folded[..start], &folded[start + version.len()..]);
                if start >= at && is_end(before, after) {
                    out.push_str(&folded[at..start]);
                    out.push_str(WORD);
                    at = start + version.len();
                }
            }
            out.push_str(&folded[at..]);
            folded = out;
        }
        folded
    }
}

/// Whether a version ends between these texts: `1.0` does not in `21.0`, `1.0.1` and `1.0rc1`.
fn is_end(before: &str, after: &str) -> bool {
    let is_number = |c: char| c.is_ascii_digit();
    let mut rest = after.chars();
    let next = rest.next();
    let is_longer = match next {
        Some('.') => rest.next().is_some_and(is_number),
        Some(c) => c.is_ascii_alphanumeric(),
        None => false,
    };
    let is_part = before.ends_with(is_number)
        || before.strip_suffix('.').is_some_and(|before| before.ends_with(is_number));
    !is_longer && !is_part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(versions: &[&str], text: &str) -> String {
        let versions = versions.iter().map(|it| it.parse().unwrap());
        VersionFold::of(versions).text(text)
    }

    #[test]
    fn a_version_is_replaced_where_it_is_one() {
        let text = "a-7.14.0.dist-info 7.14.0, 7.14.0rc1 7.14.0.1 17.14.0 1.7.14.0 ==7.14.0.";
        insta::assert_snapshot!(
            folded(&["7.14.0"], text),
            @"a-{version}.dist-info {version}, 7.14.0rc1 7.14.0.1 17.14.0 1.7.14.0 =={version}."
        );
        insta::assert_snapshot!(
            folded(&["7.14.0", "7.14.0rc1", "2"], "2 7.14.0rc1 7.14.0rc1+x 7.14.0"),
            @"2 {version} {version}+x {version}"
        );
        assert_eq!(folded(&[], "7.14.0"), "7.14.0");
    }
}
