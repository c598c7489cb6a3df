//! Keeps secrets out of messages: the type [`Secret`], and a filter for texts that may contain one.

use std::fmt;

/// A token or key. `Debug` and `Display` show `***`.
#[derive(Clone, PartialEq, Eq)]
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

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Replaces credentials in a text by `***`: signatures and tokens in URLs, user names and passwords
/// before a host, GitHub tokens and AWS access keys.
pub fn redact(text: &str) -> String {
    const KEYS: [&str; 9] = [
        "x-amz-signature=",
        "x-amz-credential=",
        "x-amz-security-token=",
        "x-goog-signature=",
        "sig=",
        "token=",
        "access_token=",
        "bearer ",
        "aws_secret_access_key=",
    ];
    const PREFIXES: [&str; 7] = [
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "akia",
    ];
    // ASCII lower-casing keeps the length, so offsets in `lower` are valid in `text`.
    let lower = text.to_ascii_lowercase();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let rest = &lower[at..];
        let key = KEYS
            .iter()
            .filter(|key| rest.starts_with(**key))
            .map(|key| key.len())
            .max();
        let starts_word = at == 0 || !lower.as_bytes()[at - 1].is_ascii_alphanumeric();
        let prefix = PREFIXES
            .iter()
            .any(|prefix| starts_word && rest.starts_with(prefix));
        let user_info = rest
            .starts_with("://")
            .then(|| password_end(&rest[3..]))
            .flatten();
        if let Some(end) = user_info {
            out.push_str("://***@");
            at += 3 + end;
        } else if let Some(length) = key {
            out.push_str(&text[at..at + length]);
            out.push_str("***");
            at += length + secret_length(&rest[length..]);
        } else if prefix {
            out.push_str("***");
            at += secret_length(rest);
        } else {
            let next = text[at..].chars().next().map_or(1, char::len_utf8);
            out.push_str(&text[at..at + next]);
            at += next;
        }
    }
    out
}

/// The length of a secret: up to the first character that ends one.
fn secret_length(text: &str) -> usize {
    text.find(|c: char| {
        c.is_whitespace() || matches!(c, '&' | '"' | '\'' | '`' | '<' | '>' | ',' | ';')
    })
    .unwrap_or(text.len())
}

/// The offset of the host in `user:password@host/…`; `None` without user information.
fn password_end(text: &str) -> Option<usize> {
    let authority = text
        .find(['/', ' ', '?', '#', '`', '"'])
        .map_or(text, |end| &text[..end]);
    authority.rfind('@').map(|at| at + 1)
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
        assert_eq!(
            format!("{} {:?}", Secret::new("s"), Secret::new("s")),
            "*** ***"
        );
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
