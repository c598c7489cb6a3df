//! Error messages, causes, hints and exit codes.
//!
//! A message is a lower-case fragment, its causes say why it happened, and a hint says what the
//! user can do. Only this module decides the exit code (0, 1, 2 or 130).

mod machine;
mod secret;
mod stop;

use std::{
    borrow::Cow,
    error::Error as StdError,
    fmt::{self, Write as _},
    iter,
};

use itertools::Itertools as _;

pub use anyhow::{Context, Error, Result, anyhow, bail, ensure};

pub(crate) use self::machine::full_disk;
pub use self::{
    machine::advise,
    secret::{Secret, redact},
    stop::{Interrupted, Stop, TimeOver},
};

/// The exit code of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Done = 0,
    /// The work was done and the answer is no: there are findings, or a transfer failed.
    No = 1,
    /// The work could not be tried: wrong usage, environment or input.
    CouldNotTry = 2,
    /// The user interrupted the process.
    Interrupted = 130,
}

impl Exit {
    /// The number that the process ends with.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The exit code for an error. Unless the chain contains [`Interrupted`] or [`No`], it is
    /// `CouldNotTry`.
    pub fn of(error: &Error) -> Self {
        if error.chain().any(<dyn StdError>::is::<Interrupted>) {
            Self::Interrupted
        } else if error.chain().any(|it| it.is::<No>() || it.is::<Negative>()) {
            Self::No
        } else {
            Self::CouldNotTry
        }
    }
}

/// A negative answer rather than a failure: the work was done, and its result is no.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct No(pub String);

impl No {
    /// A title with a line for each reason. Of more than `most` it says how many are left out.
    pub fn list<T: fmt::Display>(
        title: impl fmt::Display,
        reasons: impl IntoIterator<Item = T>,
        most: usize,
    ) -> Self {
        let mut message = title.to_string();
        let mut left = reasons.into_iter();
        for reason in left.by_ref().take(most) {
            let _ = write!(message, "\n  {reason}");
        }
        match left.count() {
            0 => {}
            more => _ = write!(message, "\n  and {more} more"),
        }
        Self(message)
    }
}

/// Makes an error a negative answer. Its message, causes and hints stay as they are.
pub fn negative(error: Error) -> Error {
    Error::new(Negative(error))
}

/// An error that is a negative answer, as a [`No`] is.
#[derive(Debug, derive_more::Display)]
#[display("{_0}")]
struct Negative(Error);

impl StdError for Negative {
    /// Returns the wrapped error itself, as [`Hinted`] does.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.0.as_ref())
    }
}

/// Why a text is not a value of some type: `an empty key: ""`. All types that validate a text share
/// it, because callers only show it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {text:?}")]
pub struct Invalid {
    reason: Cow<'static, str>,
    text: String,
}

impl Invalid {
    /// An error whose message is the reason, and then the text that was not understood.
    pub fn new(reason: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self { reason: reason.into(), text: text.into() }
    }
}

/// Types that documents have as text: written with `Display`, and parsed with `FromStr`, so that an
/// invalid value is an error.
#[macro_export]
macro_rules! as_text {
    ($($value:ty),+) => { $(
        impl serde::Serialize for $value {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $value {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+ };
}
pub use as_text;

/// Adds a hint to an error without changing its message.
pub trait Hint<T> {
    /// Adds what the user can do, as an imperative: `pass --version`. The hint is printed below the
    /// message.
    fn hint(self, hint: impl Into<String>) -> Result<T>;
}

impl<T, E: Into<Error>> Hint<T> for Result<T, E> {
    fn hint(self, hint: impl Into<String>) -> Result<T> {
        self.map_err(|error| hinted(error, hint))
    }
}

/// Adds a hint to an error that is not in a `Result`.
pub fn hinted(error: impl Into<Error>, hint: impl Into<String>) -> Error {
    Error::new(Hinted { error: error.into(), hints: vec![hint.into()], are_all: false })
}

/// The error with other hints in place of all that it has. Its message and causes stay as they are.
pub fn with_hints(error: Error, hints: Vec<String>) -> Error {
    Error::new(Hinted { error, hints, are_all: true })
}

/// An error with hints. It stays in the chain of errors, where [`Exit::of`] and [`render`] find it.
#[derive(Debug, derive_more::Display)]
#[display("{error}")]
struct Hinted {
    error: Error,
    hints: Vec<String>,
    /// Whether the hints of the errors below do not count any more.
    are_all: bool,
}

impl StdError for Hinted {
    /// Returns the wrapped error itself and not its source. Otherwise the type of the wrapped error
    /// would be missing from the chain, and `Exit::of` could not find it.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.error.as_ref())
    }
}

/// Formats an error for the user: the message, its causes, then the hints.
pub fn render(error: &Error) -> String {
    let mut report = format!("error: {}\n", message(error));
    for cause in causes(error) {
        let _ = writeln!(report, "  caused by: {cause}");
    }
    for hint in hints(error) {
        let _ = writeln!(report, "\nhint: {hint}");
    }
    redact(&report)
}

/// The outermost message.
pub fn message(error: &Error) -> String {
    redact(&error.to_string())
}

/// The messages below the outermost one, outermost first.
pub fn causes(error: &Error) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    // These have the same message as the error inside them.
    let wraps = |error: &(dyn StdError + 'static)| error.is::<Hinted>() || error.is::<Negative>();
    let mut wrapped = error.chain().next().is_some_and(wraps);
    for cause in error.chain().skip(1) {
        if !wrapped {
            causes.push(redact(&cause.to_string()));
        }
        wrapped = wraps(cause);
    }
    causes
}

/// The message and its causes on one line.
pub fn one_line(error: &Error) -> String {
    let causes = causes(error).into_iter();
    iter::once(message(error)).chain(causes).join(": ")
}

/// Longer messages of servers are cut.
const LONGEST_CAUSE: usize = 300;

/// The innermost cause, on one line of bounded length. HTTP libraries wrap it in errors that repeat
/// the URL.
pub fn last_cause(error: &(dyn StdError + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    let message = redact(&last.to_string());
    let visible = message.chars().map(|c| if c.is_control() { ' ' } else { c });
    visible.take(LONGEST_CAUSE).collect()
}

/// The hints of an error, outermost first.
pub fn hints(error: &Error) -> Vec<String> {
    let mut hints = Vec::new();
    for hinted in error.chain().filter_map(|cause| cause.downcast_ref::<Hinted>()) {
        hints.extend(hinted.hints.iter().map(|it| redact(it)));
        if hinted.are_all {
            break;
        }
    }
    hints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing() -> Result<()> {
        let inner: Result<()> = Err(anyhow!("access denied")).hint("unset `AWS_PROFILE`");
        inner
            .context("failed to list `s3://bucket/1-linux/`")
            .context("failed to fetch artifacts of run 1")
    }

    #[test]
    fn an_error_shows_its_message_its_causes_and_then_its_hints() {
        insta::assert_snapshot!(render(&failing().unwrap_err()), @"
        error: failed to fetch artifacts of run 1
          caused by: failed to list `s3://bucket/1-linux/`
          caused by: access denied

        hint: unset `AWS_PROFILE`
        ");
    }

    #[test]
    fn two_hints_show_and_neither_is_a_cause() {
        let error = failing().hint("or pass `--no-sign-request`").unwrap_err();
        insta::assert_snapshot!(render(&error), @"
        error: failed to fetch artifacts of run 1
          caused by: failed to list `s3://bucket/1-linux/`
          caused by: access denied

        hint: or pass `--no-sign-request`

        hint: unset `AWS_PROFILE`
        ");
    }

    #[test]
    fn a_negative_answer_shows_what_the_error_in_it_shows() {
        let error = negative(failing().unwrap_err()).context("failed to upload");
        assert_eq!(Exit::of(&error), Exit::No);
        assert_eq!(Exit::of(&failing().unwrap_err()), Exit::CouldNotTry);
        insta::assert_snapshot!(render(&error), @"
        error: failed to upload
          caused by: failed to fetch artifacts of run 1
          caused by: failed to list `s3://bucket/1-linux/`
          caused by: access denied

        hint: unset `AWS_PROFILE`
        ");
    }

    #[test]
    fn the_exit_code_survives_context_and_hints() {
        let no: Result<()> = Err(No("2 findings".into()).into());
        assert_eq!(
            Exit::of(&no.hint("see above").context("failed to check").unwrap_err()),
            Exit::No
        );
        let stop: Result<()> = Err(Interrupted.into());
        assert_eq!(Exit::of(&stop.context("failed to build").unwrap_err()), Exit::Interrupted);
        assert_eq!(Exit::of(&anyhow!("no such directory")), Exit::CouldNotTry);
    }
}
