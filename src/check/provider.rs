//! Libraries that work although a library they are linked with has no device code for a target:
//! `optional_providers.toml`, parsed and validated once.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::error::{Context as _, Result, ensure};

static BUILTIN: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    parse(include_str!("optional_providers.toml")).expect("a test reads the built-in list")
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProvider {
    optional: Vec<Pair>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    /// A file name, in lower case for Windows. A `*` at its end matches any version.
    consumer: String,
    /// A SONAME, in the same form.
    provider: String,
    why: String,
}

/// Whether the library `consumer` works without device code in `provider`.
pub(super) fn is_optional(consumer: &str, provider: &str) -> bool {
    BUILTIN
        .iter()
        .any(|pair| fits(&pair.consumer, consumer) && fits(&pair.provider, provider))
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

fn parse(text: &str) -> Result<Vec<Pair>> {
    let raw: RawProvider =
        toml::from_str(text).context("failed to read the list of optional providers")?;
    for pair in &raw.optional {
        ensure!(
            !pair.why.is_empty(),
            "a pair without a reason: `{}`",
            pair.consumer
        );
    }
    Ok(raw.optional)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_is_read() {
        assert!(is_optional("librocblas.so.5.1", "libhipblaslt.so.1"));
        assert!(is_optional("rocblas.dll", "libhipblaslt.dll"));
        assert!(!is_optional("libhipblaslt.so.1", "librocblas.so.5"));
        assert!(!is_optional("librocblas.so.5", "librocblas.so.5"));
    }

    #[test]
    fn a_pair_has_a_reason() {
        let text = "[[optional]]\nconsumer = 'a'\nprovider = 'b'\nwhy = ''\n";
        let refused = parse(text).unwrap_err();
        insta::assert_snapshot!(refused, @"a pair without a reason: `a`");
    }
}
