//! Errors of GitHub's API, classified by what the user can do about them.

use std::{error::Error as StdError, fmt, time::Duration};

use crate::error::{Error, hinted};

/// The classes of API errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiFailureKind {
    /// GitHub does not accept the token.
    Token,
    /// The token, or an anonymous user, lacks a permission.
    Denied,
    /// It does not exist, or is private.
    NotFound,
    /// It existed, but has expired.
    Gone,
    /// The rate limit is exceeded; with the time until it is lifted.
    Limited(Duration),
    /// No usable response, even after retries.
    Unavailable,
    /// The response is not what the API promises.
    Strange,
    /// The storage server does not have the bytes that GitHub's API describes.
    Unreadable,
}

/// An error of GitHub's API.
#[derive(Debug)]
pub struct GitHubError {
    pub kind: ApiFailureKind,
    /// The requested path, without the query.
    address: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl GitHubError {
    pub(super) fn new(kind: ApiFailureKind, address: &str) -> Self {
        Self {
            kind,
            address: address.split('?').next().unwrap_or_default().to_owned(),
            cause: None,
        }
    }

    #[must_use]
    pub(super) fn caused_by(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Adds a hint, which depends on whether a token was sent.
    pub(super) fn advise(self, with_token: Token) -> Error {
        let anonymous = with_token == Token::None;
        let hint = match self.kind {
            ApiFailureKind::Token => {
                "renew the token in `--github-token`, `GITHUB_TOKEN` or `GH_TOKEN`, or do without: public repositories need none"
            }
            ApiFailureKind::Denied if anonymous => {
                "pass `--github-token`, set `GITHUB_TOKEN` or `GH_TOKEN`, or log in with `gh auth login`"
            }
            ApiFailureKind::Denied => {
                "the token needs `actions: read` and `contents: read` for this repository"
            }
            ApiFailureKind::NotFound => return self.advise_where(with_token),
            ApiFailureKind::Gone => "what a run kept has expired: take a newer run, or `--bucket`",
            ApiFailureKind::Limited(_) if anonymous => {
                "pass `--github-token`, or set `GITHUB_TOKEN`: with a token far more may be asked"
            }
            ApiFailureKind::Limited(_) => {
                "try again when the limit is lifted, or use another token"
            }
            ApiFailureKind::Unavailable => {
                "look at https://www.githubstatus.com and at the proxy, and try again"
            }
            ApiFailureKind::Strange => "look at `--github-api-url`",
            ApiFailureKind::Unreadable => {
                "try again; if it is the same, its job has to upload it again"
            }
        };
        hinted(self, hint)
    }

    /// The hint for something that was not found: the flag that named it.
    fn advise_where(self, with_token: Token) -> Error {
        let flags = [
            ("/actions/runs/", "--run-id"),
            ("/actions/workflows/", "--workflow"),
            ("/commits/", "--commit"),
            ("/pulls/", "--pr"),
        ];
        let flag = flags.iter().find(|(part, _)| self.address.contains(part));
        let flag = flag.map(|(_, flag)| format!(" and `{flag}`"));
        let private = match with_token {
            Token::None => "a private repository needs `--github-token`",
            Token::Sent => "of a private repository, the token may not know",
        };
        let hint = format!(
            "look at `--repository`{}; {private}",
            flag.unwrap_or_default()
        );
        hinted(self, hint)
    }
}

/// Whether requests carry a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    Sent,
    None,
}

impl fmt::Display for GitHubError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = &self.address;
        match self.kind {
            ApiFailureKind::Token => write!(f, "GitHub does not accept the token: `{address}`"),
            ApiFailureKind::Denied => write!(f, "GitHub denies access: `{address}`"),
            ApiFailureKind::NotFound => write!(f, "GitHub has no such thing: `{address}`"),
            ApiFailureKind::Gone => write!(f, "GitHub does not have it any more: `{address}`"),
            ApiFailureKind::Limited(wait) => {
                let minutes = wait.as_secs().div_ceil(60);
                write!(
                    f,
                    "GitHub's rate limit is spent for {minutes} min: `{address}`"
                )
            }
            ApiFailureKind::Unavailable => write!(f, "GitHub does not answer now: `{address}`"),
            ApiFailureKind::Strange => write!(f, "not an answer of GitHub's API: `{address}`"),
            ApiFailureKind::Unreadable => {
                write!(f, "GitHub has it, and it cannot be read: `{address}`")
            }
        }
    }
}

impl StdError for GitHubError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let cause = self.cause.as_ref()?;
        Some(cause.as_ref())
    }
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
                let error = GitHubError::new(kind, "https://h/repos/a/b?token=x").advise(token);
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
