//! Formats an error with its causes on one line, for facts about damaged files.

use std::error::Error;

pub(super) fn reasons(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
