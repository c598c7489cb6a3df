//! Tests of how refused requests are understood and reported.

use http::HeaderName;

use super::*;
use rocwheel_base::error::render;

/// The headers of an answer: `retry-after`, and how many requests remain until which time.
fn headers([retry_after, remaining, reset]: [Option<u64>; 3]) -> HeaderMap {
    let names = ["retry-after", "x-ratelimit-remaining", "x-ratelimit-reset"];
    let numbers = [retry_after, remaining, reset];
    let told = names.into_iter().zip(numbers);
    told.filter_map(|(name, number)| Some((HeaderName::from_static(name), number?.into())))
        .collect()
}

#[test]
fn a_rate_limit_is_not_a_denial_and_says_how_long_it_lasts() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let (none, soon, past) = ([None; 3], Some(now + 100), Some(now - 100));
    let table = [
        (429, "", none, Some(60)),
        (429, "", [Some(7), None, None], Some(7)),
        (403, "", [Some(7), Some(0), soon], Some(7)),
        (403, "", [None, Some(0), soon], Some(101)),
        (403, "", [None, Some(0), past], Some(1)),
        (403, "", [None, Some(0), None], Some(60)),
        (403, "", [None, Some(0), Some(u64::MAX)], Some(60)),
        (403, "You have exceeded a secondary Rate Limit", none, Some(60)),
        (403, "Resource not accessible", [None, Some(9), soon], None),
        (404, "rate limit", [Some(1), Some(0), None], None),
        (200, "", [None, Some(0), soon], None),
    ];
    for (status, message, numbers, expected) in table {
        let wait = match ApiFailureKind::of_answer(status, &headers(numbers), message) {
            // The clock of the test went on since it was read.
            Some(ApiFailureKind::Limited(wait)) => Some(wait.as_secs_f32().ceil()),
            _ => None,
        };
        assert_eq!(wait, expected.map(|it: u16| f32::from(it)), "{status} {message} {numbers:?}");
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
    for kind in kinds {
        let error = kind.error("/repos/a/b?token=x", "why");
        said.push_str(&render(&error).replace("\n\n", "\n"));
    }
    insta::assert_snapshot!(said, @"
    error: GitHub denies access: `/repos/a/b`
      caused by: why
    hint: pass a token that is valid and has `actions: read` and `contents: read` for this repository (`GITHUB_TOKEN`, `GH_TOKEN`, `gh auth login`); public repositories need none
    error: GitHub has no such thing: `/repos/a/b`
      caused by: why
    hint: check `--repository` and the name that was looked up; a private repository needs a token that can read it (`GITHUB_TOKEN`)
    error: GitHub does not have it any more: `/repos/a/b`
      caused by: why
    hint: what a run kept has expired: take a newer run, or `--bucket`
    error: GitHub's rate limit is spent for 2 min: `/repos/a/b`
      caused by: why
    hint: try again when the limit is lifted, or pass another token (`GITHUB_TOKEN`): without one, far less may be asked
    error: GitHub does not answer now: `/repos/a/b`
      caused by: why
    hint: look at https://www.githubstatus.com and at the proxy, and try again
    error: GitHub cannot be reached: `/repos/a/b`
      caused by: why
    hint: check the network, the proxy (`HTTPS_PROXY`), the certificates (`SSL_CERT_FILE`) and `GITHUB_API_URL`, and try again
    error: not an answer of GitHub's API: `/repos/a/b`
      caused by: why
    hint: set `GITHUB_API_URL` to the address of the API, which ends in `/api/v3` on a GitHub Enterprise server
    ");
}
