//! Replaces the versions of a set by one word, so that files of two versions can be compared.

use itertools::Itertools as _;

use rocwheel_base::version::Version;

/// What stands for a version of the set.
const WORD: &str = "{version}";

/// The versions of the packages of a set, which are replaced in texts and paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VersionFold(Vec<String>);

impl VersionFold {
    pub(super) fn of(versions: impl Iterator<Item = Version>) -> Self {
        // The longest first: `7.14.0` is the beginning of `7.14.0rc1`.
        let longest_first = |version: &String| (std::cmp::Reverse(version.len()), version.clone());
        let names = versions
            .map(|version| version.to_string())
            // A version such as `2` could be any number.
            .filter(|version| version.contains('.'))
            .unique()
            .sorted_by_key(longest_first);
        Self(names.collect())
    }

    /// Replaces each version that is not a part of a longer number by the word.
    pub(super) fn replace_versions(&self, text: &str) -> String {
        let mut folded = text.to_owned();
        for version in &self.0 {
            // Most texts name no version, and need no copy.
            if !folded.contains(version.as_str()) {
                continue;
            }
            let mut out = String::with_capacity(folded.len());
            let mut copied_to = 0;
            for (start, _) in folded.match_indices(version.as_str()) {
                let end = start + version.len();
                if is_whole_version(&folded[..start], &folded[end..]) {
                    out.push_str(&folded[copied_to..start]);
                    out.push_str(WORD);
                    copied_to = end;
                }
            }
            out.push_str(&folded[copied_to..]);
            folded = out;
        }
        folded
    }
}

/// Whether a version that stands between these texts is whole: `1.0` is a part of `21.0`, `1.0.1` and
/// `1.0rc1`. A full stop behind it ends a sentence.
fn is_whole_version(before: &str, after: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut following = after.chars();
    let continues = match following.next() {
        Some('.') => following.next().is_some_and(is_digit),
        Some(c) => c.is_ascii_alphanumeric(),
        None => false,
    };
    let number_before = before.strip_suffix('.').unwrap_or(before);
    !continues && !number_before.ends_with(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(versions: &[&str], text: &str) -> String {
        let versions = versions.iter().map(|it| it.parse().unwrap());
        VersionFold::of(versions).replace_versions(text)
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
