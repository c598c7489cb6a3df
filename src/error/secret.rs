//! Keeps secrets out of messages: the type [`Secret`], and a filter for texts that may contain one.

use std::sync::LazyLock;

use regex::Regex;

/// A token or key. `Debug` and `Display` show `***`.
#[derive(Clone, PartialEq, Eq, derive_more::Debug, derive_more::Display)]
#[debug("***")]
#[display("***")]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Call this only where it is sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Matches user names and passwords before a host, values of keys that hold a secret, and the tokens
/// of GitHub and access keys of AWS, which have a prefix of their own.
static SECRETS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?xi)
        (?<scheme> :// ) [^/\x20?\#`"]* (?<at> @ )
        | (?<key> x-(?:amz|goog)-signature= | x-amz-(?:credential|security-token)= | sig= | token=
            | aws_secret_access_key= | bearer\x20 ) [^\s&"'`<>,;]*
        | (?<edge> ^ | [^a-z0-9] ) (?: gh[pousr]_ | github_pat_ | akia ) [^\s&"'`<>,;]*
    "#;
    Regex::new(pattern).expect("a test compiles the pattern")
});

/// Replaces credentials in a text by `***`: signatures and tokens in URLs, user names and passwords
/// before a host, GitHub tokens and AWS access keys.
pub fn redact(text: &str) -> String {
    let masked = SECRETS.replace_all(text, "${scheme}${key}${edge}***${at}");
    masked.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_tokens_and_passwords_are_masked() {
        let shown = redact(
            "get https://u:hunter2@h/k?X-Amz-Signature=abc&x=1: Bearer ghs_abcd, token=t1 and github_pat_1, é",
        );
        assert_eq!(
            shown,
            "get https://***@h/k?X-Amz-Signature=***&x=1: Bearer ***, token=*** and ***, é"
        );
        assert_eq!(format!("{} {:?}", Secret::new("s"), Secret::new("s")), "*** ***");
    }

    #[test]
    fn ordinary_text_passes_unchanged() {
        let text = "link `a@b` in s3://bucket/key+1 at 12:30, tokens=3, signature=none";
        assert_eq!(
            redact(text),
            "link `a@b` in s3://bucket/key+1 at 12:30, tokens=3, signature=none"
        );
    }
}
