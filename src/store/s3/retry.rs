//! Retries for throttling that the SDK does not recognize: a 429 status and the `Retry-After`
//! header.

use std::time::Duration;

use aws_config::retry::ErrorKind;
use aws_sdk_s3::config::{
    interceptors::InterceptorContext,
    retry::{ClassifyRetry, RetryAction},
};

/// Wait at most this long, even if the server asks for more.
const LONGEST: Duration = Duration::from_mins(1);

/// Recognizes throttling by the HTTP status alone, and waits as many seconds as `Retry-After` says.
#[derive(Debug)]
pub(super) struct TooManyRequests;

impl ClassifyRetry for TooManyRequests {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let Some(response) = context.response() else {
            return RetryAction::NoActionIndicated;
        };
        let status = response.status().as_u16();
        action(status, response.headers().get("retry-after"))
    }

    fn name(&self) -> &'static str {
        "Patience"
    }
}

fn action(status: u16, after: Option<&str>) -> RetryAction {
    let seconds = after.and_then(|text| text.trim().parse().ok());
    match (status, seconds.map(Duration::from_secs)) {
        (429 | 503, Some(pause)) => RetryAction::retryable_error_with_explicit_delay(
            ErrorKind::ThrottlingError,
            pause.min(LONGEST),
        ),
        (429, None) => RetryAction::throttling_error(),
        _ => RetryAction::NoActionIndicated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_asked_for_by_status_and_seconds() {
        let shown = [
            action(429, None),
            action(429, Some("2")),
            action(503, Some(" 99999 ")),
            action(429, Some("Wed, 21 Oct 2026 07:28:00 GMT")),
            action(503, None),
            action(200, Some("2")),
        ];
        let shown = shown.map(|action| action.to_string());
        insta::assert_snapshot!(shown.join("\n"), @"
        retry throttling error error
        retry throttling error error after 2s
        retry throttling error error after 60s
        retry throttling error error
        no action indicated
        no action indicated
        ");
    }
}
