//! Locations in object storage (bucket and key), and their URLs.

use std::{
    borrow::{Borrow, Cow},
    net::Ipv4Addr,
    str::FromStr,
};

use derive_more::Display;
use itertools::Itertools as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::{Host, Url};

use rocwheel_base::{
    error::{Invalid, as_text},
    relpath::RelPath,
};

as_text!(Bucket);

/// What every location begins with.
const SCHEME: &str = "s3://";

/// The name of an object: `/`-separated and relative. It is never empty, and has no `.`, `..` or
/// empty segment, no control character and no backslash.
///
/// It may end in one `/`. It then names a directory, and an object with this key is the directory's
/// page.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<str>);

/// The name of a bucket, [as S3 allows
/// it](https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html).
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(Box<str>);

/// An object or a directory in a bucket: `s3://bucket/key`.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[display("s3://{bucket}/{key}")]
pub struct Location {
    /// The bucket.
    pub bucket: Bucket,
    /// The name of the object or directory in it.
    pub key: Key,
}

impl Key {
    /// The text, which ends in `/` for a directory.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it ends in `/`.
    pub fn is_directory(&self) -> bool {
        self.0.ends_with('/')
    }

    /// The key with a final `/`, for use as the prefix of a listing: `1-linux` would also list
    /// `1-linux-x`.
    #[must_use]
    pub fn directory(&self) -> Self {
        Self(format!("{}/", self.trimmed()).into())
    }

    /// The key of `path` below this directory. Fails if the path has control characters, which are
    /// not allowed in a key.
    pub fn join(&self, path: &RelPath) -> Result<Self, Invalid> {
        format!("{}/{path}", self.trimmed()).parse()
    }

    /// The key as a path, without the final `/` of a directory.
    #[expect(clippy::missing_panics_doc, reason = "a key obeys every rule of a path")]
    pub fn to_path(&self) -> RelPath {
        self.trimmed().parse().expect("a key is a path")
    }

    /// The last segment.
    pub fn file_name(&self) -> &str {
        let trimmed = self.trimmed();
        trimmed.rsplit('/').next().unwrap_or(trimmed)
    }

    fn trimmed(&self) -> &str {
        self.0.strip_suffix('/').unwrap_or(&self.0)
    }
}

impl Bucket {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Location {
    /// An object or a directory of a bucket.
    pub fn new(bucket: Bucket, key: Key) -> Self {
        Self { bucket, key }
    }

    /// Whether a text is meant as the location of an object in a bucket, right or wrong.
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// The location with a final `/`.
    #[must_use]
    pub fn directory(&self) -> Self {
        Self::new(self.bucket.clone(), self.key.directory())
    }

    /// The public HTTPS URL, at the global endpoint that works for every region.
    pub fn https(&self) -> String {
        let (bucket, key) = (&self.bucket, encode_path(self.key.as_str()));
        if bucket.as_str().contains('.') {
            // Amazon's wildcard certificate covers one label before the endpoint, and so does not
            // cover the name of a bucket with dots.
            format!("https://s3.amazonaws.com/{bucket}/{key}")
        } else {
            format!("https://{bucket}.s3.amazonaws.com/{key}")
        }
    }
}

/// All but the unreserved characters of RFC 3986: letters, digits, `-`, `.`, `_` and `~`. So `+`
/// becomes `%2B`, because S3 decodes a plain `+` as a space.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes one segment of a URL path.
pub fn percent_encode(segment: &str) -> String {
    utf8_percent_encode(segment, RESERVED).to_string()
}

/// Percent-encodes each segment of a path.
pub fn encode_path(path: &str) -> String {
    path.split('/').map(percent_encode).join("/")
}

/// `a+b` for `a%2Bb`. `None` if a `%` is not followed by two hexadecimal digits or if the bytes are
/// not UTF-8. The crate leaves such sequences unchanged, and a damaged page would then pass for a
/// valid one.
pub fn percent_decode(text: &str) -> Option<String> {
    let is_escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    let valid = text.split('%').skip(1).all(is_escape);
    let decoded = percent_decode_str(text).decode_utf8().ok();
    decoded.filter(|_| valid).map(Cow::into_owned)
}

/// Decodes one percent-encoded path component. `None` if it is `.` or `..`, or contains a path
/// separator or NUL.
pub fn decode_component(text: &str) -> Option<String> {
    let decoded = percent_decode(text)?;
    let is_safe = !decoded.contains(['/', '\\', '\0']) && !matches!(decoded.as_str(), "." | "..");
    is_safe.then_some(decoded)
}

impl FromStr for Key {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = text.strip_suffix('/').unwrap_or(text);
        let reason = if text.is_empty() {
            "an empty key"
        } else if text.starts_with('/') {
            "a key that begins with `/`"
        } else if text.chars().any(char::is_control) {
            "a key with a control character"
        } else if text.contains('\\') {
            "a key with a backslash"
        } else if path.split('/').any(str::is_empty) {
            "a key with an empty segment"
        } else if path.split('/').any(|segment| matches!(segment, "." | "..")) {
            "a key with `.` or `..`"
        } else {
            return Ok(Self(text.into()));
        };
        Err(Invalid::new(reason, text))
    }
}

impl FromStr for Bucket {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let reason = if !(3..=63).contains(&text.len()) {
            "a bucket's name has 3 to 63 characters"
        } else if !text.chars().all(|c| is_edge(c) || matches!(c, '-' | '.')) {
            "a bucket's name has small letters, digits, `-` and `.`"
        } else if !text.starts_with(is_edge) || !text.ends_with(is_edge) || text.contains("..") {
            "a bucket's name begins and ends with a letter or digit, and has no `..`"
        } else if text.parse::<Ipv4Addr>().is_ok() {
            "a bucket's name is no address"
        } else {
            return Ok(Self(text.into()));
        };
        Err(Invalid::new(reason, text))
    }
}

impl FromStr for Location {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (bucket, key) = text
            .strip_prefix(SCHEME)
            .and_then(|rest| rest.split_once('/'))
            .filter(|(_, key)| !key.is_empty())
            .ok_or_else(|| Invalid::new("not a location such as `s3://bucket/key`", text))?;
        Ok(Self::new(bucket.parse()?, key.parse()?))
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

/// Whether no machine on the network can change what is sent to a URL: it uses TLS, or stays on this
/// machine.
pub fn is_private(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else {
        return false;
    };
    let is_this_machine = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    url.scheme() == "https" || is_this_machine
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Display};

    use proptest::prelude::*;

    use super::*;

    fn key(text: &str) -> Key {
        text.parse().unwrap()
    }

    fn path(text: &str) -> RelPath {
        text.parse().unwrap()
    }

    fn location(text: &str) -> Location {
        text.parse().unwrap()
    }

    fn refusals<T>(texts: &[&str]) -> String
    where
        T: FromStr<Err: Display> + Debug,
    {
        let messages: Vec<String> =
            texts.iter().map(|text| text.parse::<T>().err().unwrap().to_string()).collect();
        messages.join("\n")
    }

    #[test]
    fn a_key_that_is_no_plain_path_is_refused_in_words() {
        let refused =
            ["", "/", "/a", "a//b", "a//", "./a", "a/..", "a/../b", "a\nb", "a\u{85}", "a\\b"];
        insta::assert_snapshot!(refusals::<Key>(&refused), @r#"
        an empty key: ""
        a key that begins with `/`: "/"
        a key that begins with `/`: "/a"
        a key with an empty segment: "a//b"
        a key with an empty segment: "a//"
        a key with `.` or `..`: "./a"
        a key with `.` or `..`: "a/.."
        a key with `.` or `..`: "a/../b"
        a key with a control character: "a\nb"
        a key with a control character: "a\u{85}"
        a key with a backslash: "a\\b"
        "#);
        for text in ["a", "a/", "a/b c+d", "1-linux/python/é/"] {
            assert_eq!(key(text).to_string(), text);
        }
    }

    #[test]
    fn a_directory_ends_in_one_slash() {
        assert_eq!(key("a/b").directory(), key("a/b/"));
        assert_eq!(key("a/b/").directory(), key("a/b/"));
        assert!(key("a/").is_directory() && !key("a").is_directory());
        assert_eq!(key("a/b/").file_name(), "b");
        assert_eq!(key("a").file_name(), "a");
        assert_eq!(key("a/b/").to_path(), path("a/b"));
    }

    #[test]
    fn paths_go_below_a_key() {
        for base in ["a/b", "a/b/"] {
            let joined = key(base).join(&path("c/d.whl")).unwrap();
            assert_eq!(joined, key("a/b/c/d.whl"));
        }
        insta::assert_snapshot!(key("a").join(&path("b\nc")).unwrap_err(), @r#"a key with a control character: "a/b\nc""#);
    }

    #[test]
    fn a_name_that_no_bucket_can_have_is_refused_in_words() {
        let long = "a".repeat(64);
        let refused = [
            "",
            "ab",
            &long,
            "Therock",
            "the_rock",
            "-therock",
            "therock.",
            "the..rock",
            "127.0.0.1",
            "the/rock",
        ];
        insta::assert_snapshot!(refusals::<Bucket>(&refused), @r#"
        a bucket's name has 3 to 63 characters: ""
        a bucket's name has 3 to 63 characters: "ab"
        a bucket's name has 3 to 63 characters: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        a bucket's name has small letters, digits, `-` and `.`: "Therock"
        a bucket's name has small letters, digits, `-` and `.`: "the_rock"
        a bucket's name begins and ends with a letter or digit, and has no `..`: "-therock"
        a bucket's name begins and ends with a letter or digit, and has no `..`: "therock."
        a bucket's name begins and ends with a letter or digit, and has no `..`: "the..rock"
        a bucket's name is no address: "127.0.0.1"
        a bucket's name has small letters, digits, `-` and `.`: "the/rock"
        "#);
    }

    #[test]
    fn a_location_reads_and_shows_as_s3() {
        for text in ["s3://therock-ci-artifacts/1-linux/a+b c", "s3://abc/d/"] {
            assert_eq!(location(text).to_string(), text);
        }
        let refused = [
            "",
            "s3://",
            "s3://abc",
            "s3://abc/",
            "s3:///key",
            "https://abc/d",
            "s3://AB/c",
            "s3://abc/../d",
        ];
        insta::assert_snapshot!(refusals::<Location>(&refused), @r#"
        not a location such as `s3://bucket/key`: ""
        not a location such as `s3://bucket/key`: "s3://"
        not a location such as `s3://bucket/key`: "s3://abc"
        not a location such as `s3://bucket/key`: "s3://abc/"
        a bucket's name has 3 to 63 characters: ""
        not a location such as `s3://bucket/key`: "https://abc/d"
        a bucket's name has 3 to 63 characters: "AB"
        a key with `.` or `..`: "../d"
        "#);
        let base = location("s3://abc/d");
        assert_eq!(base.directory(), location("s3://abc/d/"));
        assert_eq!((base.bucket.as_str(), base.key.as_str()), ("abc", "d"));
    }

    #[test]
    fn an_address_is_encoded_segment_by_segment() {
        let table = [
            (
                "s3://therock-ci-artifacts/42-linux/python/dist/rocm-7.13.0.dev0+8027b7b9.tar.gz",
                "https://therock-ci-artifacts.s3.amazonaws.com/42-linux/python/dist/rocm-7.13.0.dev0%2B8027b7b9.tar.gz",
            ),
            (
                "s3://abc/rccl_test_gfx942:xnack+.tar.zst",
                "https://abc.s3.amazonaws.com/rccl_test_gfx942%3Axnack%2B.tar.zst",
            ),
            ("s3://abc/simple/", "https://abc.s3.amazonaws.com/simple/"),
            (
                "s3://my.own.bucket/a b%c/é",
                "https://s3.amazonaws.com/my.own.bucket/a%20b%25c/%C3%A9",
            ),
        ];
        for (text, address) in table {
            assert_eq!(location(text).https(), address);
        }
        assert_eq!(percent_encode("a/b?c#d&(e)'~_"), "a%2Fb%3Fc%23d%26%28e%29%27~_");
    }

    #[test]
    fn what_was_encoded_comes_back_and_damage_does_not() {
        for text in ["a+b é/%", "", "\0"] {
            assert_eq!(percent_decode(&percent_encode(text)).as_deref(), Some(text));
        }
        for text in ["%", "%2", "%zz", "%ff", "a%+1"] {
            assert_eq!(percent_decode(text), None, "{text}");
        }
        for text in ["a%2Fb", "a%5cb", "%2e%2E", ".", "%00"] {
            assert_eq!(decode_component(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_key_leads_out_and_every_path_without_controls_is_one(text in "[a./\\\\é\n]{0,10}") {
            let as_path = text.strip_suffix('/').unwrap_or(&text).parse::<RelPath>();
            let is_key = text.parse::<Key>().is_ok();
            prop_assert_eq!(is_key, as_path.is_ok() && !text.contains('\n'));
            if is_key {
                prop_assert_eq!(key(&text).to_path(), as_path.unwrap());
            }
        }

        #[test]
        fn an_encoded_segment_decodes_to_itself(text in "\\PC{0,12}") {
            let encoded = percent_encode(&text);
            prop_assert!(encoded.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%".contains(&b)));
            let mut decoded = Vec::new();
            let mut rest = encoded.as_bytes();
            while let [byte, after @ ..] = rest {
                if *byte == b'%' {
                    let digits = std::str::from_utf8(&after[..2]).unwrap();
                    decoded.push(u8::from_str_radix(digits, 16).unwrap());
                    rest = &after[2..];
                } else {
                    decoded.push(*byte);
                    rest = after;
                }
            }
            prop_assert_eq!(decoded, text.into_bytes());
        }
    }

    #[test]
    fn what_is_encrypted_or_stays_here_is_private() {
        for url in [
            "https://s3.example.org",
            "http://127.0.0.1:8333",
            "http://127.8.0.1/x",
            "http://localhost",
            "http://[::1]:9000",
        ] {
            assert!(is_private(url), "{url}");
        }
        for url in [
            "http://s3.example.org",
            "http://10.0.0.1:8333",
            "http://localhost.example.org",
            "http://127.0.0.1.example.org:80",
            "http://[2001:db8::1]:9000",
            "127.0.0.1",
            "",
        ] {
            assert!(!is_private(url), "{url}");
        }
    }
}
