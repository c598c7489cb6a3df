//! Hints for errors of this machine, which any command can meet.

use std::{error::Error as StdError, io};

use super::{Error, hinted, hints};

/// Adds a hint to an error that has none, if the disk or its permissions caused it.
pub fn advise(error: Error) -> Error {
    if !hints(&error).is_empty() {
        return error;
    }
    match error.chain().find_map(way_out) {
        Some(hint) => hinted(error, hint),
        None => error,
    }
}

/// The words for a full disk, if that caused an error. The message of the system names a temporary
/// file, so that it is another one for each file that was to be written.
pub(crate) fn full_disk(error: &Error) -> Option<String> {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    let mut causes = error.chain().filter_map(|it| it.downcast_ref());
    let full = causes.find(|it: &&io::Error| matches!(it.kind(), StorageFull | QuotaExceeded));
    full.map(|it| it.kind().to_string())
}

fn way_out(cause: &(dyn StdError + 'static)) -> Option<&'static str> {
    use io::ErrorKind::{
        FileTooLarge, NotADirectory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem,
        StorageFull,
    };
    match cause.downcast_ref::<io::Error>()?.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => {
            Some("free disk space, or choose another directory")
        }
        PermissionDenied => Some("choose a path that this user may read and write"),
        ReadOnlyFilesystem => Some("choose a directory on a file system that can be written"),
        NotADirectory => Some("pass a directory: a part of this path is a file"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{anyhow, render};

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
    fn errors_with_hints_and_errors_of_the_input_stay_as_they_are() {
        assert!(!advised(io::ErrorKind::InvalidData).contains("hint"));
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let full = advise(hinted(full, "pass `--output-dir`"));
        assert_eq!(hints(&full), ["pass `--output-dir`"]);
        assert!(hints(&advise(anyhow!("no wheel"))).is_empty());
    }
}
