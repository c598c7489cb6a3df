//! Hints for errors of this machine or its network. Any command can meet them.

use std::{error::Error as StdError, io};

use crate::{
    error::{self, Error},
    store::{StoreError, StoreFailureKind},
};

/// Adds a hint to an error that has none, if the disk, its permissions or the network caused it.
pub(super) fn advise(error: Error) -> Error {
    if !error::hints(&error).is_empty() {
        return error;
    }
    match error.chain().find_map(way_out) {
        Some(hint) => error::hinted(error, hint),
        None => error,
    }
}

fn way_out(cause: &(dyn StdError + 'static)) -> Option<&'static str> {
    use io::ErrorKind::{
        NotADirectory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    if let Some(failure) = cause.downcast_ref::<StoreError>() {
        let is_away = failure.kind() == StoreFailureKind::Unavailable;
        return is_away.then_some(
            "check the address, the network and the proxy (`HTTPS_PROXY`), and try again",
        );
    }
    match cause.downcast_ref::<io::Error>()?.kind() {
        StorageFull | QuotaExceeded => Some("free disk space, or choose another directory"),
        PermissionDenied => Some("choose a path that this user may read and write"),
        ReadOnlyFilesystem => Some("choose a directory on a file system that can be written"),
        NotADirectory => Some("pass a directory: a part of this path is a file"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Context as _, anyhow, hinted, render};

    fn advised(kind: io::ErrorKind) -> String {
        let error = Error::new(io::Error::from(kind)).context("failed to write `a`");
        render(&advise(error))
    }

    #[test]
    fn a_full_disk_has_a_hint() {
        insta::assert_snapshot!(advised(io::ErrorKind::StorageFull), @"
        error: failed to write `a`
          caused by: no storage space

        hint: free disk space, or choose another directory
        ");
    }

    #[test]
    fn a_store_that_does_not_answer_has_a_hint() {
        let silent =
            StoreError::new(StoreFailureKind::Unavailable, "s3://b/k").caused_by("no route");
        let error = Err::<(), _>(silent).context("failed to list").unwrap_err();
        insta::assert_snapshot!(render(&advise(error)), @"
        error: failed to list
          caused by: the store does not answer: `s3://b/k`
          caused by: no route

        hint: check the address, the network and the proxy (`HTTPS_PROXY`), and try again
        ");
    }

    #[test]
    fn errors_with_hints_and_errors_of_the_input_stay_as_they_are() {
        assert!(!advised(io::ErrorKind::InvalidData).contains("hint"));
        let full = hinted(
            io::Error::from(io::ErrorKind::StorageFull),
            "pass `--dest-dir`",
        );
        assert_eq!(error::hints(&advise(full)), ["pass `--dest-dir`"]);
        assert!(error::hints(&advise(anyhow!("no wheel"))).is_empty());
    }
}
