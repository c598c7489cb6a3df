//! Errors of a store, classified by what the caller can do about them.

use std::{error::Error, fmt::Display, io};

use crate::error::{anyhow, hinted};

/// The classes of store errors; each says what the caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum StoreFailureKind {
    /// Continue without it.
    #[display("no such object")]
    NotFound,
    /// Compare it.
    #[display("an object is there already")]
    Exists,
    /// Other credentials, or an unsigned request, may help.
    #[display("access denied")]
    Denied,
    /// This store cannot hold this key: choose another one.
    #[display("not a usable key")]
    Unusable,
    /// The bytes are not the promised ones: check their source.
    #[display("wrong contents")]
    Differs,
    /// Retrying later may help.
    #[display("the store does not answer")]
    Unavailable,
    /// Anything else; no remedy is known.
    #[display("the store failed")]
    Failed,
}

/// An error of a store with the place where it happened and, if known, the cause.
#[derive(Debug, thiserror::Error)]
#[error("{kind}: `{place}`")]
pub struct StoreError {
    kind: StoreFailureKind,
    place: String,
    #[source]
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    pub fn new(kind: StoreFailureKind, place: impl Display) -> Self {
        let place = place.to_string();
        let cause = None;
        Self { kind, place, cause }
    }

    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Adds a hint that tells the user what to do.
    #[must_use]
    pub fn advised(self, hint: impl Display) -> Self {
        let cause = match &self.cause {
            Some(cause) => anyhow!("{cause}"),
            None => anyhow!("the server gave no reason"),
        };
        let cause = hinted(cause, hint.to_string());
        self.caused_by(cause.reallocate_into_boxed_dyn_error_without_backtrace())
    }

    /// Classifies an I/O error.
    pub fn from_io(place: impl Display, error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StoreFailureKind::NotFound,
            io::ErrorKind::AlreadyExists => StoreFailureKind::Exists,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreFailureKind::Denied
            }
            io::ErrorKind::InvalidFilename | io::ErrorKind::IsADirectory => {
                StoreFailureKind::Unusable
            }
            io::ErrorKind::TimedOut | io::ErrorKind::ResourceBusy => StoreFailureKind::Unavailable,
            _ => StoreFailureKind::Failed,
        };
        let plain = matches!(kind, StoreFailureKind::NotFound | StoreFailureKind::Exists);
        let failure = Self::new(kind, place);
        // "No such file" adds nothing to "no such object".
        if plain {
            failure
        } else {
            failure.caused_by(error)
        }
    }

    pub fn kind(&self) -> StoreFailureKind {
        self.kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::render;

    #[test]
    fn every_failure_has_its_words() {
        let kinds = [
            StoreFailureKind::NotFound,
            StoreFailureKind::Exists,
            StoreFailureKind::Denied,
            StoreFailureKind::Unusable,
            StoreFailureKind::Differs,
            StoreFailureKind::Unavailable,
            StoreFailureKind::Failed,
        ];
        let messages = kinds.map(|kind| StoreError::new(kind, "a/b").to_string());
        insta::assert_snapshot!(messages.join("\n"), @r"
        no such object: `a/b`
        an object is there already: `a/b`
        access denied: `a/b`
        not a usable key: `a/b`
        wrong contents: `a/b`
        the store does not answer: `a/b`
        the store failed: `a/b`
        ");
    }

    #[test]
    fn the_answer_of_the_system_is_the_cause_where_it_adds_something() {
        let error =
            |kind, text: &str| StoreError::from_io("a", io::Error::new(kind, text.to_owned()));
        let denied = error(
            io::ErrorKind::PermissionDenied,
            "permission denied (os error 13)",
        );
        let missing = error(io::ErrorKind::NotFound, "no such file or directory");
        assert_eq!(
            (denied.kind(), missing.kind()),
            (StoreFailureKind::Denied, StoreFailureKind::NotFound)
        );
        let shown = render(&denied.into()) + &render(&missing.into());
        insta::assert_snapshot!(shown, @r"
        error: access denied: `a`
          caused by: permission denied (os error 13)
        error: no such object: `a`
        ");
    }
}
