//! Hints for errors of this machine or its network. Any command can meet them.

use crate::{
    error::{self, Error},
    store::{StoreError, StoreFailureKind},
};

/// Adds a hint to an error that has none, if the disk, its permissions or the network caused it.
pub(super) fn advise(error: Error) -> Error {
    let is_away = |failure: &StoreError| failure.kind() == StoreFailureKind::Unavailable;
    let mut failures = error.chain().filter_map(|it| it.downcast_ref());
    if error::hints(&error).is_empty() && failures.any(is_away) {
        let hint = "check the address, the network and the proxy (`HTTPS_PROXY`), and try again";
        return error::hinted(error, hint);
    }
    error::advise(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Context as _, render};

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
}
