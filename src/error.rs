//! Errors that say what to do next.
//!
//! A message is a lower-case fragment; its causes say why; a hint says what to do. What the process
//! answers (0, 1, 2 or 130) is decided here and nowhere else.

use std::{
    error::Error as StdError,
    fmt::{self, Write as _},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

pub use anyhow::{Context, Error, Result, anyhow, bail, ensure};

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The answer is no: a finding stands, a transfer failed.
    No = 1,
    /// It could not be tried: usage, environment, unusable input.
    CouldNotTry = 2,
    /// The user stopped it.
    Interrupted = 130,
}

impl Exit {
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The exit that an error asks for; most errors mean that nothing could be tried.
    pub fn of(error: &Error) -> Self {
        if error.chain().any(<dyn StdError>::is::<Interrupted>) {
            Self::Interrupted
        } else if error.chain().any(<dyn StdError>::is::<No>) {
            Self::No
        } else {
            Self::CouldNotTry
        }
    }
}

/// The user stopped the work; nothing is left under a final name.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Work that was given a time did not end in it.
#[derive(Debug, thiserror::Error)]
#[error("the time is over")]
pub struct TimeOver;

/// Whether the user asked to stop: set by a signal, looked at between two pieces of work.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// When to stop even if nobody asks.
    until: Arc<RwLock<Option<Instant>>>,
}

impl Stop {
    /// The flag itself, for whoever listens to signals.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// An error once the user has asked to stop, or once the time of `within` is over.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.asked.load(Ordering::Relaxed) || self.is_late() {
            Err(Interrupted)
        } else {
            Ok(())
        }
    }

    /// Stops work that looks at this after so much time, with `TimeOver`.
    pub fn within<T>(&self, time: Duration, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.set_end(Instant::now().checked_add(time));
        let done = work();
        let late = self.is_late();
        self.set_end(None);
        match done {
            Err(error) if late && self.check().is_ok() && Exit::of(&error) == Exit::Interrupted => {
                Err(TimeOver.into())
            }
            done => done,
        }
    }

    fn set_end(&self, end: Option<Instant>) {
        *self.until.write().unwrap_or_else(PoisonError::into_inner) = end;
    }

    fn is_late(&self) -> bool {
        let until = self.until.read().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|end| Instant::now() >= end)
    }
}

/// An answer rather than a failure: the work was done, and the result is no.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct No(pub String);

/// Adds a hint to an error and leaves its message alone.
pub trait Hint<T> {
    fn hint(self, hint: impl Into<String>) -> Result<T>;
}

impl<T, E: Into<Error>> Hint<T> for Result<T, E> {
    fn hint(self, hint: impl Into<String>) -> Result<T> {
        self.map_err(|error| hinted(error, hint))
    }
}

/// An error with a hint, for where there is no `Result` yet.
pub fn hinted(error: impl Into<Error>, hint: impl Into<String>) -> Error {
    let (error, hint) = (error.into(), hint.into());
    Error::new(Hinted { error, hint })
}

/// `Exit::of` and `render` look through it by the error's chain, so it also hands on its inside.
#[derive(Debug)]
struct Hinted {
    error: Error,
    hint: String,
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for Hinted {
    /// The wrapped error itself, not its source, so that its type stays visible in the chain.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.error.as_ref())
    }
}

/// The error, its causes, then its hints.
pub fn render(error: &Error) -> String {
    let mut text = format!("error: {}\n", message(error));
    for cause in causes(error) {
        let _ = writeln!(text, "  caused by: {cause}");
    }
    for hint in hints(error) {
        let _ = writeln!(text, "\nhint: {hint}");
    }
    redact(&text)
}

/// The outermost message alone.
pub fn message(error: &Error) -> String {
    redact(&error.to_string())
}

/// What lies behind the message, outermost first, each said once.
pub fn causes(error: &Error) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    let mut wrapped = error
        .chain()
        .next()
        .is_some_and(<dyn StdError>::is::<Hinted>);
    for cause in error.chain().skip(1) {
        // A hint's wrapper says what the error inside it says.
        if !wrapped {
            causes.push(redact(&cause.to_string()));
        }
        wrapped = cause.is::<Hinted>();
    }
    causes
}

/// What to do about it, outermost first.
pub fn hints(error: &Error) -> Vec<String> {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<Hinted>())
        .map(|hinted| redact(&hinted.hint))
        .collect()
}

/// A text that must not be shown: a token, a key.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Masks what signs a URL or opens an account, wherever it stands in a text.
pub fn redact(text: &str) -> String {
    const KEYS: [&str; 9] = [
        "x-amz-signature=",
        "x-amz-credential=",
        "x-amz-security-token=",
        "x-goog-signature=",
        "sig=",
        "token=",
        "access_token=",
        "bearer ",
        "aws_secret_access_key=",
    ];
    const PREFIXES: [&str; 7] = [
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "akia",
    ];
    // ASCII lowering keeps every offset, so offsets found in `lower` hold in `text`.
    let lower = text.to_ascii_lowercase();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let rest = &lower[at..];
        let key = KEYS
            .iter()
            .filter(|key| rest.starts_with(**key))
            .map(|key| key.len())
            .max();
        let starts_word = at == 0 || !lower.as_bytes()[at - 1].is_ascii_alphanumeric();
        let prefix = PREFIXES
            .iter()
            .any(|prefix| starts_word && rest.starts_with(prefix));
        let user_info = rest
            .starts_with("://")
            .then(|| password_end(&rest[3..]))
            .flatten();
        if let Some(end) = user_info {
            out.push_str("://***@");
            at += 3 + end;
        } else if let Some(length) = key {
            out.push_str(&text[at..at + length]);
            out.push_str("***");
            at += length + secret_length(&rest[length..]);
        } else if prefix {
            out.push_str("***");
            at += secret_length(rest);
        } else {
            let next = text[at..].chars().next().map_or(1, char::len_utf8);
            out.push_str(&text[at..at + next]);
            at += next;
        }
    }
    out
}

/// How far a secret reaches: to the first character that none contains.
fn secret_length(text: &str) -> usize {
    text.find(|c: char| {
        c.is_whitespace() || matches!(c, '&' | '"' | '\'' | '`' | '<' | '>' | ',' | ';')
    })
    .unwrap_or(text.len())
}

/// Where the host begins in `user:password@host/…`, if that is what the text is.
fn password_end(text: &str) -> Option<usize> {
    let authority = text
        .find(['/', ' ', '?', '#', '`', '"'])
        .map_or(text, |end| &text[..end]);
    authority.rfind('@').map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing() -> Result<()> {
        let inner: Result<()> = Err(anyhow!("access denied")).hint("unset `AWS_PROFILE`");
        inner
            .context("list `s3://bucket/1-linux/`")
            .context("fetch artifacts of run 1")
    }

    #[test]
    fn an_error_shows_its_message_its_causes_and_then_its_hints() {
        insta::assert_snapshot!(render(&failing().unwrap_err()), @r"
        error: fetch artifacts of run 1
          caused by: list `s3://bucket/1-linux/`
          caused by: access denied

        hint: unset `AWS_PROFILE`
        ");
    }

    #[test]
    fn two_hints_show_and_neither_is_a_cause() {
        let error = failing().hint("or pass `--no-sign-request`").unwrap_err();
        insta::assert_snapshot!(render(&error), @r"
        error: fetch artifacts of run 1
          caused by: list `s3://bucket/1-linux/`
          caused by: access denied

        hint: or pass `--no-sign-request`

        hint: unset `AWS_PROFILE`
        ");
    }

    #[test]
    fn the_exit_code_survives_context_and_hints() {
        let no: Result<()> = Err(No("2 findings".into()).into());
        assert_eq!(
            Exit::of(&no.hint("see above").context("check").unwrap_err()),
            Exit::No
        );
        let stop: Result<()> = Err(Interrupted.into());
        assert_eq!(
            Exit::of(&stop.context("build").unwrap_err()),
            Exit::Interrupted
        );
        assert_eq!(Exit::of(&anyhow!("no such directory")), Exit::CouldNotTry);
    }

    #[test]
    fn a_stop_shows_in_every_copy_of_it() {
        let stop = Stop::default();
        let seen_by_a_worker = stop.clone();
        assert!(seen_by_a_worker.check().is_ok());
        stop.flag().store(true, Ordering::Relaxed);
        assert!(seen_by_a_worker.check().is_err());
    }

    #[test]
    fn work_that_takes_too_long_stops_and_the_next_does_not() {
        let stop = Stop::default();
        let seen_by_a_worker = stop.clone();
        let work = || Ok(seen_by_a_worker.check()?);
        let error = stop.within(Duration::ZERO, work).unwrap_err();
        assert!(error.is::<TimeOver>());
        stop.within(Duration::from_hours(1), work).unwrap();
        work().unwrap();
        // What fails for another reason, or because the user asked, is that.
        let broken = || -> Result<()> { bail!("the disk is full") };
        let error = stop.within(Duration::ZERO, broken).unwrap_err();
        assert_eq!(error.to_string(), "the disk is full");
        stop.flag().store(true, Ordering::Relaxed);
        let error = stop.within(Duration::ZERO, work).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Interrupted);
    }

    #[test]
    fn signatures_tokens_and_passwords_are_masked() {
        let shown = redact(
            "get https://u:hunter2@h/k?X-Amz-Signature=abc&x=1: Bearer ghs_abcd, token=t1 and github_pat_1, é",
        );
        assert_eq!(
            shown,
            "get https://***@h/k?X-Amz-Signature=***&x=1: Bearer ***, token=*** and ***, é"
        );
        assert_eq!(
            format!("{} {:?}", Secret::new("s"), Secret::new("s")),
            "*** ***"
        );
    }

    #[test]
    fn ordinary_text_passes_unchanged() {
        let text = "link `a@b` in s3://bucket/key+1 at 12:30, tokens=3, signature=none";
        assert_eq!(
            redact(text),
            "link `a@b` in s3://bucket/key+1 at 12:30, tokens=3, signature=none"
        );
    }
}
