//! A processor with its features, of which a `Target` and a `CodeTarget` are made. See
//! [target ID](https://llvm.org/docs/AMDGPUUsage.html#target-id) of LLVM.

use std::borrow::Cow;

use itertools::Itertools as _;

/// The length of the longest processor or feature: both become parts of the names of files.
const MAX_LENGTH: usize = 60;
/// A code object is accepted with each subset of its features, so their number doubles with each feature. Real
/// targets have at most two.
const MAX_FEATURES: usize = 4;

/// `gfx90a:xnack-:sramecc+` in its parts. The features are in the order of LLVM, in which the runtime asks for
/// them. Which processors there are is known to the types that are made of it.
#[derive(Debug)]
pub struct TargetId<'a> {
    /// The part before the first `:`, such as `gfx90a`.
    pub processor: &'a str,
    /// The features with their signs, sorted: `sramecc+`, `xnack-`.
    pub features: Vec<&'a str>,
}

impl<'a> TargetId<'a> {
    /// Parses a text with features behind `:`. An error says what it is not.
    pub fn parse(text: &'a str) -> Result<Self, &'static str> {
        let mut parts = text.split(':');
        let processor = parts.next().unwrap_or(text);
        if processor.len() > MAX_LENGTH {
            return Err("not a processor such as `gfx942` or `gfx9-4-generic`");
        }
        let features: Vec<&str> = parts.sorted_unstable().collect();
        if features.len() > MAX_FEATURES || !features.iter().all(|feature| is_feature(feature)) {
            return Err("not features such as `xnack+`");
        }
        let mut names = features.iter().map(|feature| feature.trim_end_matches(['+', '-']));
        if !names.all_unique() {
            return Err("a feature is named twice");
        }
        Ok(Self { processor, features })
    }

    /// The text by which targets are compared: `gfx90a:sramecc+:xnack-`.
    pub fn canonical(&self) -> String {
        [&[self.processor], self.features.as_slice()].concat().join(":")
    }
}

/// Whether a text is a feature: `xnack+`, `sramecc-`.
fn is_feature(text: &str) -> bool {
    text.strip_suffix(['+', '-']).is_some_and(|name| {
        !name.is_empty() && name.len() <= MAX_LENGTH && name.chars().all(|c| c.is_ascii_lowercase())
    })
}

/// The text of a target with its features behind `:`, because names of files and of packages have them behind
/// `-`: `gfx942-xnack+`.
pub(super) fn with_colons(text: &str) -> Cow<'_, str> {
    if !text.contains('-') {
        return Cow::Borrowed(text);
    }
    let mut changed = text.to_owned();
    for feature in ["xnack", "sramecc"] {
        for sign in ["+", "-"] {
            changed = changed.replace(&format!("-{feature}{sign}"), &format!(":{feature}{sign}"));
        }
    }
    Cow::Owned(changed)
}

/// The text by which the text of a target or of a family is compared: with colons, and with features in order.
pub(super) fn canonical(text: &str) -> Cow<'_, str> {
    let colons = with_colons(text);
    // Nothing is out of order among fewer than two features.
    if colons.matches(':').count() < 2 {
        return colons;
    }
    let ordered = TargetId::parse(&colons).map(|id| id.canonical());
    ordered.map_or_else(|_| colons.clone(), Cow::Owned)
}

/// Whether code for a target runs with XNACK off, which is the usual mode of devices. Code for `gfx942:xnack+`
/// and for `gfx9-4-generic:xnack+` does not.
pub fn runs_with_xnack_off(text: &str) -> bool {
    !with_colons(text).split(':').skip(1).any(|feature| feature == "xnack+")
}
