//! `Changes`: compares the packages of a set, by size and digest, with those of an earlier set.

use std::collections::BTreeMap;

use crate::set::{SetJson, SetJsonFile};

/// How a package differs from the one in the earlier set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackageChange {
    New,
    /// It has the same bytes.
    Same,
    /// It has other bytes; this was its size.
    From(u64),
}

/// The packages of the earlier set, by their file name without the version.
#[derive(Debug)]
pub(super) struct Changes<'a> {
    before: BTreeMap<String, &'a SetJsonFile>,
    version: Option<String>,
    total: u64,
}

impl<'a> Changes<'a> {
    pub(super) fn since(earlier: &'a SetJson) -> Self {
        let files = earlier.files().iter();
        Self {
            before: files.map(|file| (identity(file), file)).collect(),
            version: earlier.identity.version.as_ref().map(ToString::to_string),
            total: earlier.files().iter().map(|file| file.size).sum(),
        }
    }

    pub(super) fn of(&self, file: &SetJsonFile) -> PackageChange {
        match self.before.get(&identity(file)) {
            None => PackageChange::New,
            Some(before) if before.sha256 == file.sha256 => PackageChange::Same,
            Some(before) => PackageChange::From(before.size),
        }
    }

    /// The packages of the earlier set that `set` does not have.
    pub(super) fn gone(&self, set: &SetJson) -> Vec<&'a SetJsonFile> {
        let mut before = self.before.clone();
        for file in set.files() {
            before.remove(&identity(file));
        }
        before.into_values().collect()
    }

    /// The version of the earlier set.
    pub(super) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The total size of the earlier set.
    pub(super) fn total(&self) -> u64 {
        self.total
    }
}

/// The path of a package without its version: `rocm_sdk_core--py3-none-linux_x86_64.whl`.
fn identity(file: &SetJsonFile) -> String {
    file.path().replace(&file.version.to_string(), "")
}

/// A change in percent: `+12.0 %`, `−0.3 %`, or `±0.0 %` if it is too small to show.
pub(super) fn percent(before: u64, after: u64) -> String {
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
        let same = earlier.files()[0].sha256;
        for file in earlier.files_mut().iter_mut().skip(1) {
            file.sha256 = crate::digest::Sha256::of(b"other");
            file.size = 1000;
        }
        let set = samples::document_of(&["rocm", "rocm-sdk-core", "rocm-sdk-new"]);
        assert_eq!(set.files()[0].sha256, same);
        let changes = Changes::since(&earlier);
        let all: Vec<PackageChange> = set.files().iter().map(|file| changes.of(file)).collect();
        assert_eq!(
            all,
            [
                PackageChange::Same,
                PackageChange::From(1000),
                PackageChange::New
            ]
        );
        let gone: Vec<&str> = changes.gone(&set).iter().map(|file| file.name()).collect();
        assert_eq!(gone, ["rocm_sdk_old-7.13.0.dev0+ab.tar.gz"]);
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
