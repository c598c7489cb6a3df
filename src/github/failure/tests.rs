//! Tests of how refused requests are understood and reported.

use super::*;
use crate::error::render;

#[test]
fn a_rate_limit_is_not_a_denial_and_says_how_long_it_lasts() {
    let none = [None; 3];
    let table = [
        (429, "", none, Some(60)),
        (429, "", [Some(7), None, None], Some(7)),
        (403, "", [Some(7), Some(0), Some(1100)], Some(7)),
        (403, "", [None, Some(0), Some(1100)], Some(101)),
        (403, "", [None, Some(0), Some(900)], Some(1)),
        (403, "", [None, Some(0), None], Some(60)),
        (
            403,
            "You have exceeded a secondary Rate Limit",
            none,
            Some(60),
        ),
        (
            403,
            "Resource not accessible by integration",
            [None, Some(9), Some(1100)],
            None,
        ),
        (404, "rate limit", [Some(1), Some(0), None], None),
        (200, "", [None, Some(0), Some(1100)], None),
    ];
    let names = ["retry-after", "x-ratelimit-remaining", "x-ratelimit-reset"];
    for (status, message, numbers, expected) in table {
        let number = |name: &str| numbers[names.iter().position(|it| *it == name).unwrap()];
        let wait = limit(status, message, number, 1000).map(|it| it.as_secs());
        assert_eq!(wait, expected, "{status} {message} {numbers:?}");
    }
}

#[test]
fn every_failure_has_its_words_and_its_hint() {
    let kinds = [
        ApiFailureKind::Denied,
        ApiFailureKind::NotFound,
        ApiFailureKind::Gone,
        ApiFailureKind::Limited(Duration::from_secs(61)),
        ApiFailureKind::Unavailable,
        ApiFailureKind::Unreachable,
        ApiFailureKind::Unexpected,
    ];
    let mut said = String::new();
    for has_token in [true, false] {
        for kind in kinds {
            let error = kind.error("/repos/a/b?token=x", "", has_token);
            said.push_str(&render(&error).replace("\n\n", "\n"));
        }
    }
    insta::assert_snapshot!(said, @"
    error: GitHub denies access: `/repos/a/b`
    hint: renew the token, or give it `actions: read` and `contents: read` for this repository; public ones need none
    error: GitHub has no such thing: `/repos/a/b`
    hint: check `--repository` and the name that was looked up; the token may not know a private repository
    error: GitHub does not have it any more: `/repos/a/b`
    hint: what a run kept has expired: take a newer run, or `--bucket`
    error: GitHub's rate limit is spent for 2 min: `/repos/a/b`
    hint: try again when the limit is lifted, or use another token
    error: GitHub does not answer now: `/repos/a/b`
    hint: look at https://www.githubstatus.com and at the proxy, and try again
    error: GitHub cannot be reached: `/repos/a/b`
    hint: check the network, the proxy (`HTTPS_PROXY`) and `--github-api-url`, and try again
    error: not an answer of GitHub's API: `/repos/a/b`
    hint: look at `--github-api-url`
    error: GitHub denies access: `/repos/a/b`
    hint: pass `--github-token`, set `GITHUB_TOKEN` or `GH_TOKEN`, or log in with `gh auth login`
    error: GitHub has no such thing: `/repos/a/b`
    hint: check `--repository` and the name that was looked up; a private repository needs `--github-token`
    error: GitHub does not have it any more: `/repos/a/b`
    hint: what a run kept has expired: take a newer run, or `--bucket`
    error: GitHub's rate limit is spent for 2 min: `/repos/a/b`
    hint: pass `--github-token`, or set `GITHUB_TOKEN`: with a token far more may be asked
    error: GitHub does not answer now: `/repos/a/b`
    hint: look at https://www.githubstatus.com and at the proxy, and try again
    error: GitHub cannot be reached: `/repos/a/b`
    hint: check the network, the proxy (`HTTPS_PROXY`) and `--github-api-url`, and try again
    error: not an answer of GitHub's API: `/repos/a/b`
    hint: look at `--github-api-url`
    ");
}
