//! [`VersionTexts`]: what `promote.toml` says about the texts that name a version.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::{error::Result, glob::Glob};

static BUILTIN: LazyLock<VersionTexts> = LazyLock::new(|| {
    VersionTexts::parse(include_str!("promote.toml")).expect("a test reads the built-in policy")
});

/// Which files of a package name its version.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionTexts {
    text: Vec<VersionText>,
    leftovers: LeftoverSearch,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionText {
    path: Glob,
    form: TextForm,
}

/// How a text names a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TextForm {
    /// METADATA and PKG-INFO: a header, and pins of other packages.
    Metadata,
    /// Pins in the sections of setuptools.
    Requires,
    /// Pins in any text: `rocm-sdk-core==7.14.0`.
    Pins,
    /// `__version__ = '7.14.0'`
    Python,
    /// `"version": "7.14.0"`, once.
    Json,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeftoverSearch {
    longest: u64,
    search: Vec<Glob>,
    stay: Vec<Glob>,
}

impl VersionTexts {
    pub(super) fn builtin() -> &'static Self {
        &BUILTIN
    }

    fn parse(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// How a file names the version; `None` if it does not.
    pub(super) fn form(&self, path: &str) -> Option<TextForm> {
        let mut texts = self.text.iter();
        texts.find(|it| it.path.matches(path)).map(|it| it.form)
    }

    /// Whether a file must not name the version that is left.
    pub(super) fn is_searched(&self, path: &str, len: u64) -> bool {
        let LeftoverSearch {
            longest,
            search,
            stay,
        } = &self.leftovers;
        let is_in = |globs: &[Glob]| globs.iter().any(|it| it.matches(path));
        len <= *longest && is_in(search) && !is_in(stay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_says_which_texts_name_the_version() {
        let policy = VersionTexts::builtin();
        let form = |path| policy.form(path);
        let metadata = "rocm_sdk_core-7.14.0rc1.dist-info/METADATA";
        assert_eq!(form(metadata), Some(TextForm::Metadata));
        let links = "_rocm_sdk_libraries/.devel_links/gfx942.json";
        assert_eq!(form(links), Some(TextForm::Json));
        assert_eq!(form("_rocm_sdk_core/share/README.md"), None);
        assert!(policy.is_searched("_rocm_sdk_core/lib/cmake/hip/a.cmake", 10));
        assert!(!policy.is_searched("_rocm_sdk_core/lib/cmake/hip/a.cmake", 1 << 21));
        let manifest = "_rocm_sdk_core/share/therock/therock_manifest.json";
        assert!(!policy.is_searched(manifest, 10));
    }
}
