//! Translates error responses of S3 into [`StoreError`], without the signature or credentials of
//! the request.

use aws_sdk_s3::error::{ErrorMetadata, ProvideErrorMetadata, SdkError};
use itertools::Itertools as _;

use crate::{StoreError, StoreFailureKind};
use rocwheel_base::error::last_cause;

/// The codes with which servers refuse credentials. Their status differs by server.
const DENIED: [&str; 4] =
    ["ExpiredToken", "InvalidToken", "TokenRefreshRequired", "AuthorizationHeaderMalformed"];

const NO_CREDENTIALS: &str = "no AWS credentials were found: set `AWS_PROFILE` or `AWS_ACCESS_KEY_ID`; the pull request of a fork mostly has none, and keeps its packages with `--output-dir`";

/// As whom the server sees us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signer {
    /// Somebody with credentials.
    Known,
    /// No credentials were found.
    Unknown,
    /// The user asked for unsigned requests.
    Anonymous,
}

/// A failed request of any kind.
pub(super) type S3Failure = SdkError<ErrorMetadata>;

/// The failure of a request, without what only requests of its kind have.
pub(super) fn to_failure<E: ProvideErrorMetadata>(error: SdkError<E>) -> S3Failure {
    error.map_service_error(|error| error.meta().clone())
}

/// The error of a request that is not sent again.
pub(super) fn store_error(place: &str, signer: Signer, failure: &S3Failure) -> StoreError {
    let without_answer = |kind| StoreError::new(kind, place).caused_by(last_cause(failure));
    let answer = match failure {
        SdkError::ServiceError(answer) => answer.err(),
        // The request was not sent. It would not be sent the next time either.
        SdkError::ConstructionFailure(_) => return without_answer(StoreFailureKind::Failed),
        SdkError::DispatchFailure(failure) if failure.is_user() => {
            return without_answer(StoreFailureKind::Failed);
        }
        // A response that could not be parsed counts as no response, even with a good status.
        _ => return without_answer(StoreFailureKind::Unavailable),
    };
    let status = read_status(failure).unwrap_or_default();
    if (200..300).contains(&status) && answer.code().is_none() {
        // The server's dialect differs from S3. For example, rclone names the root element of the
        // response to CreateMultipartUpload differently. Only the raw body can tell the user what
        // happened.
        let body = one_line(&read_body(failure));
        let cause = format!("the answer is not one of S3's (HTTP {status}): {body}");
        return StoreError::failed(place, cause);
    }
    error_of_answer(place, signer, status, answer)
}

/// The error for a write for which no credentials were found.
pub(super) fn refuse_unsigned_write(place: &str) -> StoreError {
    StoreError::new(StoreFailureKind::Denied, place)
        .caused_by("nothing is written without credentials, unless `--no-sign-request` asks for it")
        .advised(NO_CREDENTIALS)
}

/// The body of an error response. Errors are buffered in memory; other bodies are empty here.
pub(super) fn read_body(failure: &S3Failure) -> String {
    let bytes = failure.raw_response().and_then(|response| response.body().bytes());
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

pub(super) fn read_status<E>(error: &SdkError<E>) -> Option<u16> {
    error.raw_response().map(|response| response.status().as_u16())
}

/// The error for an answer of the server, with a hint if the answer tells what would help.
fn error_of_answer(place: &str, signer: Signer, status: u16, answer: &ErrorMetadata) -> StoreError {
    let code = answer.code();
    let kind = kind_of_answer(status, code);
    // The server's message, on one line and of bounded length.
    let message = [code, answer.message()].into_iter().flatten().map(one_line).join(": ");
    let cause = if message.is_empty() {
        format!("HTTP {status}")
    } else {
        format!("{message} (HTTP {status})")
    };
    let error = StoreError::new(kind, place).caused_by(cause);
    let hint = match (kind, code) {
        // These kinds say all that the answer says.
        (StoreFailureKind::NotFound | StoreFailureKind::Exists, _) => {
            return StoreError::new(kind, place);
        }
        (StoreFailureKind::Denied, Some("RequestTimeTooSkewed")) => "set the clock of this machine",
        (StoreFailureKind::Denied, Some("ExpiredToken" | "TokenRefreshRequired")) => {
            "the credentials have expired: get new ones, and run the same again; uploaded files stay"
        }
        (StoreFailureKind::Denied, _) => match signer {
            Signer::Known => {
                "choose other credentials with `--profile`; a public bucket is read with `--no-sign-request`"
            }
            Signer::Unknown => NO_CREDENTIALS,
            Signer::Anonymous => "leave `--no-sign-request` out",
        },
        (_, Some("NoSuchBucket")) => "name another bucket with `--bucket`",
        _ => return error,
    };
    error.advised(hint)
}

fn kind_of_answer(status: u16, code: Option<&str>) -> StoreFailureKind {
    match (status, code.unwrap_or_default()) {
        // If the server does not know the request now, it will not know the request later.
        (_, "NoSuchBucket" | "NotImplemented") => StoreFailureKind::Failed,
        (_, "KeyTooLongError" | "InvalidURI") => StoreFailureKind::Unusable,
        (_, "RequestTimeout" | "SlowDown" | "InternalError") => StoreFailureKind::Unavailable,
        (_, code) if DENIED.contains(&code) => StoreFailureKind::Denied,
        // The response to a HEAD has no error code. The remaining cause of such a 400 is bad
        // credentials.
        (400, "" | "BadRequest") | (401 | 403, _) => StoreFailureKind::Denied,
        (404, _) => StoreFailureKind::NotFound,
        // AWS has the first code for conditional writes, and the second for other writes. For other codes of this
        // status, another attempt would fail as well.
        (409, "ConditionalRequestConflict" | "OperationAborted" | "") => StoreFailureKind::Conflict,
        (412, _) => StoreFailureKind::Exists,
        (429 | 500..=599, _) => StoreFailureKind::Unavailable,
        _ => StoreFailureKind::Failed,
    }
}

/// What the user reads of a text that a server sent.
pub(super) fn one_line(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    visible.take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_base::error::render;

    fn shown(status: u16, code: Option<&str>, message: Option<&str>) -> String {
        let mut answer = ErrorMetadata::builder();
        if let Some(code) = code {
            answer = answer.code(code);
        }
        if let Some(message) = message {
            answer = answer.message(message);
        }
        let error = error_of_answer("s3://b/k", Signer::Known, status, &answer.build());
        render(&error.into())
    }

    #[test]
    fn an_answer_comes_with_what_helps() {
        let shown = [
            shown(404, Some("NoSuchKey"), Some("no")),
            shown(404, None, None),
            shown(404, Some("NoSuchBucket"), Some("The bucket does not exist")),
            shown(412, Some("PreconditionFailed"), None),
            shown(409, Some("ConditionalRequestConflict"), None),
            shown(403, Some("AccessDenied"), Some("Access\nDenied")),
            shown(403, None, None),
            shown(400, None, None),
            shown(400, Some("ExpiredToken"), Some("The token has expired")),
            shown(403, Some("RequestTimeTooSkewed"), None),
            shown(400, Some("InvalidDigest"), None),
            shown(400, Some("KeyTooLongError"), None),
            shown(503, Some("SlowDown"), Some("reduce your rate")),
            shown(301, None, None),
        ];
        insta::assert_snapshot!(shown.join(""), @"
        error: no such object: `s3://b/k`
        error: no such object: `s3://b/k`
        error: the store failed: `s3://b/k`
          caused by: NoSuchBucket: The bucket does not exist (HTTP 404)

        hint: name another bucket with `--bucket`
        error: an object is there already: `s3://b/k`
        error: another write is in progress: `s3://b/k`
          caused by: ConditionalRequestConflict (HTTP 409)
        error: access denied: `s3://b/k`
          caused by: AccessDenied: Access Denied (HTTP 403)

        hint: choose other credentials with `--profile`; a public bucket is read with `--no-sign-request`
        error: access denied: `s3://b/k`
          caused by: HTTP 403

        hint: choose other credentials with `--profile`; a public bucket is read with `--no-sign-request`
        error: access denied: `s3://b/k`
          caused by: HTTP 400

        hint: choose other credentials with `--profile`; a public bucket is read with `--no-sign-request`
        error: access denied: `s3://b/k`
          caused by: ExpiredToken: The token has expired (HTTP 400)

        hint: the credentials have expired: get new ones, and run the same again; uploaded files stay
        error: access denied: `s3://b/k`
          caused by: RequestTimeTooSkewed (HTTP 403)

        hint: set the clock of this machine
        error: the store failed: `s3://b/k`
          caused by: InvalidDigest (HTTP 400)
        error: not a usable key: `s3://b/k`
          caused by: KeyTooLongError (HTTP 400)
        error: the store does not answer: `s3://b/k`
          caused by: SlowDown: reduce your rate (HTTP 503)
        error: the store failed: `s3://b/k`
          caused by: HTTP 301
        ");
    }

    #[test]
    fn a_denial_comes_with_what_may_help() {
        let shown = [Signer::Unknown, Signer::Anonymous]
            .map(|signer| {
                error_of_answer("s3://b/k", signer, 403, &ErrorMetadata::builder().build())
            })
            .map(|error| render(&error.into()));
        insta::assert_snapshot!(shown.join(""), @"
        error: access denied: `s3://b/k`
          caused by: HTTP 403

        hint: no AWS credentials were found: set `AWS_PROFILE` or `AWS_ACCESS_KEY_ID`; the pull request of a fork mostly has none, and keeps its packages with `--output-dir`
        error: access denied: `s3://b/k`
          caused by: HTTP 403

        hint: leave `--no-sign-request` out
        ");
    }

    #[test]
    fn a_long_answer_is_cut() {
        let long = "x".repeat(9999);
        assert!(shown(500, Some("E"), Some(&long)).len() < 400);
    }
}
