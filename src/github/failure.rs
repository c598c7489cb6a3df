//! Errors of GitHub's API, classified by what the user can do about them.

use std::time::Duration;

use crate::error::{Error, anyhow, hinted};

/// The classes of API errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ApiFailureKind {
    #[error("GitHub does not accept the token")]
    Token,
    /// The token, or an anonymous user, lacks a permission.
    #[error("GitHub denies access")]
    Denied,
    /// It does not exist, or is private.
    #[error("GitHub has no such thing")]
    NotFound,
    /// It existed, but has expired.
    #[error("GitHub does not have it any more")]
    Gone,
    /// The rate limit is exceeded; with the time until it is lifted.
    #[error("GitHub's rate limit is spent for {} min", .0.as_secs().div_ceil(60))]
    Limited(Duration),
    /// No usable response, even after retries.
    #[error("GitHub does not answer now")]
    Unavailable,
    /// The response is not what the API promises.
    #[error("not an answer of GitHub's API")]
    Strange,
    /// The storage server does not have the bytes that GitHub's API describes.
    #[error("GitHub has it, and it cannot be read")]
    Unreadable,
}

/// Whether requests carry a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    Sent,
    None,
}

impl ApiFailureKind {
    /// The error for a request to `address`, with the cause that was told and a hint.
    pub(super) fn error(self, address: &str, cause: &str, token: Token) -> Error {
        let path = address.split('?').next().unwrap_or_default();
        let message = format!("{self}: `{path}`");
        let error = if cause.is_empty() {
            anyhow!(message)
        } else {
            anyhow!("{cause}").context(message)
        };
        hinted(error, self.hint(path, token))
    }

    fn hint(self, path: &str, token: Token) -> String {
        let is_anonymous = token == Token::None;
        let hint = match self {
            Self::Token => {
                "renew the token in `--github-token`, `GITHUB_TOKEN` or `GH_TOKEN`, or do without: public repositories need none"
            }
            Self::Denied if is_anonymous => {
                "pass `--github-token`, set `GITHUB_TOKEN` or `GH_TOKEN`, or log in with `gh auth login`"
            }
            Self::Denied => {
                "the token needs `actions: read` and `contents: read` for this repository"
            }
            Self::NotFound => return not_found(path, token),
            Self::Gone => "what a run kept has expired: take a newer run, or `--bucket`",
            Self::Limited(_) if is_anonymous => {
                "pass `--github-token`, or set `GITHUB_TOKEN`: with a token far more may be asked"
            }
            Self::Limited(_) => "try again when the limit is lifted, or use another token",
            Self::Unavailable => {
                "look at https://www.githubstatus.com and at the proxy, and try again"
            }
            Self::Strange => "look at `--github-api-url`",
            Self::Unreadable => "try again; if it is the same, its job has to upload it again",
        };
        hint.to_owned()
    }
}

/// The hint for something that was not found: the flag that named it.
fn not_found(path: &str, token: Token) -> String {
    let flags = [
        ("/actions/runs/", " and `--run-id`"),
        ("/actions/workflows/", " and `--workflow`"),
        ("/commits/", " and `--commit`"),
        ("/pulls/", " and `--pr`"),
    ];
    let flag = flags.iter().find(|(part, _)| path.contains(part));
    let flag = flag.map_or("", |(_, flag)| flag);
    let private = match token {
        Token::None => "a private repository needs `--github-token`",
        Token::Sent => "of a private repository, the token may not know",
    };
    format!("look at `--repository`{flag}; {private}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::render;

    #[test]
    fn every_failure_has_its_words_and_its_hint() {
        let kinds = [
            ApiFailureKind::Token,
            ApiFailureKind::Denied,
            ApiFailureKind::NotFound,
            ApiFailureKind::Gone,
            ApiFailureKind::Limited(Duration::from_secs(61)),
            ApiFailureKind::Unavailable,
            ApiFailureKind::Strange,
            ApiFailureKind::Unreadable,
        ];
        let mut said = String::new();
        for token in [Token::Sent, Token::None] {
            for kind in kinds {
                let error = kind.error("https://h/repos/a/b?token=x", "", token);
                said.push_str(&render(&error).replace("\n\n", "\n"));
            }
        }
        insta::assert_snapshot!(said, @"
        error: GitHub does not accept the token: `https://h/repos/a/b`
        hint: renew the token in `--github-token`, `GITHUB_TOKEN` or `GH_TOKEN`, or do without: public repositories need none
        error: GitHub denies access: `https://h/repos/a/b`
        hint: the token needs `actions: read` and `contents: read` for this repository
        error: GitHub has no such thing: `https://h/repos/a/b`
        hint: look at `--repository`; of a private repository, the token may not know
        error: GitHub does not have it any more: `https://h/repos/a/b`
        hint: what a run kept has expired: take a newer run, or `--bucket`
        error: GitHub's rate limit is spent for 2 min: `https://h/repos/a/b`
        hint: try again when the limit is lifted, or use another token
        error: GitHub does not answer now: `https://h/repos/a/b`
        hint: look at https://www.githubstatus.com and at the proxy, and try again
        error: not an answer of GitHub's API: `https://h/repos/a/b`
        hint: look at `--github-api-url`
        error: GitHub has it, and it cannot be read: `https://h/repos/a/b`
        hint: try again; if it is the same, its job has to upload it again
        error: GitHub does not accept the token: `https://h/repos/a/b`
        hint: renew the token in `--github-token`, `GITHUB_TOKEN` or `GH_TOKEN`, or do without: public repositories need none
        error: GitHub denies access: `https://h/repos/a/b`
        hint: pass `--github-token`, set `GITHUB_TOKEN` or `GH_TOKEN`, or log in with `gh auth login`
        error: GitHub has no such thing: `https://h/repos/a/b`
        hint: look at `--repository`; a private repository needs `--github-token`
        error: GitHub does not have it any more: `https://h/repos/a/b`
        hint: what a run kept has expired: take a newer run, or `--bucket`
        error: GitHub's rate limit is spent for 2 min: `https://h/repos/a/b`
        hint: pass `--github-token`, or set `GITHUB_TOKEN`: with a token far more may be asked
        error: GitHub does not answer now: `https://h/repos/a/b`
        hint: look at https://www.githubstatus.com and at the proxy, and try again
        error: not an answer of GitHub's API: `https://h/repos/a/b`
        hint: look at `--github-api-url`
        error: GitHub has it, and it cannot be read: `https://h/repos/a/b`
        hint: try again; if it is the same, its job has to upload it again
        ");
    }
}
