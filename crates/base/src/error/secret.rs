//! Keeps secrets out of messages: the type [`Secret`], and a filter for texts that may contain one.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};

/// A token or key. `Debug` and `Display` show `***`.
#[derive(Clone, PartialEq, Eq, derive_more::Debug, derive_more::Display)]
#[debug("***")]
#[display("***")]
pub struct Secret(String);

impl Secret {
    /// Takes the text as it is, also an empty one.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Call this only where it is sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Matches user names and passwords before a host, with and without a scheme, values of keys that hold a
/// secret, and the tokens of GitHub and access keys of AWS, which have a prefix of their own.
static SECRETS: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r#"(?xi)
        (?<scheme> :// ) [^/\x20?\#`"]* (?<at> @ )
        | (?<before> ^ | [^a-z0-9._~%+-] ) [a-z0-9._~%+-]+ : [^\s/?\#`"'<>:@]+ (?<host> @ [a-z0-9\[] )
        | (?<key> (?: x-(?:amz|goog)-signature | x-amz-(?:credential|security-token) | sig | token
            | aws_secret_access_key | passw(?:or)?d ) (?: = | %3d ) | bearer\x20 ) [^\s&"'`<>,;]*
        | (?<edge> ^ | [^a-z0-9] | %[0-9a-f]{2} ) (?: gh[pousr]_ | github_pat_ | a(?:kia|sia) ) [^\s&"'`<>,;]*
        "#,
    )
});

/// Matches a URL with its query.
static URL_WITH_QUERY: LazyLock<Regex> = LazyLock::new(|| {
    compile(r#"(?<address>[A-Za-z][A-Za-z0-9+.-]*://[^\s?`"'<>]*)\?(?<query>[^\s`"'<>]*)"#)
});

/// The keys of queries that this program sends, and whose values help to find what went wrong. A server may
/// have put a secret behind any other key.
const PLAIN_KEYS: &str = "branch created delimiter event head_sha list-type name page partNumber per_page \
    prefix ref start-after status uploadId versionId";

fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a test compiles the pattern")
}

/// Replaces credentials in a text by `***`: values in the queries of URLs, tokens, user names and passwords
/// before a host, GitHub tokens and AWS access keys.
pub fn redact(text: &str) -> String {
    let without_queries = URL_WITH_QUERY.replace_all(text, |url: &Captures<'_>| {
        let items: Vec<Cow<'_, str>> = url["query"].split('&').map(mask_value).collect();
        format!("{}?{}", &url["address"], items.join("&"))
    });
    let masked =
        SECRETS.replace_all(&without_queries, "${scheme}${before}${key}${edge}***${at}${host}");
    masked.into_owned()
}

/// `key=value` of a query.
fn mask_value(item: &str) -> Cow<'_, str> {
    match item.split_once('=') {
        Some((key, _)) if !PLAIN_KEYS.split_whitespace().any(|plain| plain == key) => {
            Cow::Owned(format!("{key}=***"))
        }
        _ => Cow::Borrowed(item),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_tokens_and_passwords_are_masked() {
        let shown = redact(
            "get https://u:hunter2@h/k?X-Amz-Signature=abc&page=1: Bearer ghs_abcd, token=t1 and github_pat_1, é",
        );
        assert_eq!(
            shown,
            "get https://***@h/k?X-Amz-Signature=***&page=1: Bearer ***, token=*** and ***, é"
        );
        assert_eq!(format!("{} {:?}", Secret::new("s"), Secret::new("s")), "*** ***");
    }

    #[test]
    fn a_password_needs_no_scheme_and_a_secret_no_known_key() {
        let shown = [
            "`user:pw@host/simple/`",
            "//user:pw@host",
            "s3://user:pw@bucket/x",
            "file://user:pw@host/x",
            "open `/home/me/user:pw@host/simple`",
            "https://host/simple/?t=SECRET&page=2#x",
            "s3://bucket/x?versionId=1&key=SECRET",
        ];
        insta::assert_snapshot!(shown.map(redact).join("\n"), @"
        `***@host/simple/`
        //***@host
        s3://***@bucket/x
        file://***@host/x
        open `/home/me/***@host/simple`
        https://host/simple/?t=***&page=2#x
        s3://bucket/x?versionId=1&key=***
        ");
    }

    #[test]
    fn temporary_keys_and_escaped_values_are_masked() {
        let shown = [
            "the key ASIAQWERTYUIOP is not known",
            "aws_session_token=IQoJb3Jp, password=hunter2 passwd=hunter2; PASSWORD=x",
            "go to /login%3Ftoken%3Dabc%26page%3D2 with AWS_SESSION_TOKEN%3dIQoJ",
            "state%3DASIAQWERTYUIOP",
        ];
        insta::assert_snapshot!(shown.map(redact).join("\n"), @"
        the key *** is not known
        aws_session_token=***, password=*** passwd=***; PASSWORD=***
        go to /login%3Ftoken%3D*** with AWS_SESSION_TOKEN%3d***
        state%3D***
        ");
    }

    #[test]
    fn ordinary_text_passes_unchanged() {
        let text = "link `a@b` in s3://bucket/key+1 at 12:30, tokens=3, signature=none, \
            git@github.com:ROCm/TheRock.git: libamdhip64.so.7@hip_4.2, 1:2 @x, `&x=1`";
        assert_eq!(redact(text), text);
    }
}
