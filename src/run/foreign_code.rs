//! [`ForeignCode`]: artifacts and packages whose code is not the repository's own.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Buckets, Repository, Run, RunId, RunOrigin};

/// The run that built the code of a fork, or of which nothing says whose code it built.
///
/// `fetch` leaves it beside the artifacts of such a run, and `build` in `set.json`: the job that publishes the packages
/// is often another one, with the role of the repository. A bucket that forks do not share takes no such set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ForeignCode {
    pub repository: Repository,
    pub run_id: RunId,
    /// `None` if it was deleted, or if GitHub did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_repository: Option<Repository>,
}

impl ForeignCode {
    /// `None` if the code is of TheRock, or of another repository of its owner. `origin` and `head` are what
    /// GitHub told about the run. Without them, what is in a bucket that forks do not share is trusted, because
    /// no role lets the code of a fork write there.
    pub fn of(
        run: &Run,
        origin: Option<RunOrigin>,
        head: Option<&str>,
        is_from_github: bool,
    ) -> Option<Self> {
        let buckets = Buckets::builtin();
        let home_owner = buckets.home().owner();
        let is_own = match origin {
            Some(origin) => {
                origin == RunOrigin::Own && run.repository.owner().eq_ignore_ascii_case(home_owner)
            }
            None => run.id.is_local() || !is_from_github && !buckets.takes_forks(&run.bucket),
        };
        (!is_own).then(|| Self {
            repository: run.repository.clone(),
            run_id: run.id.clone(),
            head_repository: head.and_then(|head| head.parse().ok()),
        })
    }
}

/// `run 7 of ROCm/TheRock built the code of me/TheRock`
impl fmt::Display for ForeignCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} of {} ", self.run_id, self.repository)?;
        match &self.head_repository {
            Some(head) => write!(f, "built the code of {head}"),
            None => f.write_str("may have built the code of a fork"),
        }
    }
}

/// Where artifacts are from, as far as `fetch` knows. Their manifest may be from another run, whose artifacts were
/// copied to this run; and the manifest of a fork's run is code of the fork.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The run that they were fetched from.
    pub run_id: Option<RunId>,
    pub foreign_code: Option<ForeignCode>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Platform, RunContext, RunReference};

    #[test]
    fn what_is_not_known_to_be_our_own_code_is_foreign() {
        let told = |url: &str, bucket: &str, origin, head, is_from_github| {
            let reference: RunReference = url.parse().unwrap();
            let context =
                RunContext { bucket: Some(bucket.parse().unwrap()), ..RunContext::default() };
            let run = context.resolve(&reference, Platform::Linux, |_| unreachable!());
            let code = ForeignCode::of(&run.unwrap(), origin, head, is_from_github);
            code.map_or_else(|| "own".to_owned(), |it| it.to_string())
        };
        let (ours, own, fork) = ("7", Some(RunOrigin::Own), Some(RunOrigin::Fork));
        let libraries = "https://github.com/ROCm/rocm-libraries/actions/runs/7";
        let theirs = "https://github.com/me/TheRock/actions/runs/7";
        let (ci, shared) = ("therock-ci-artifacts", "therock-ci-artifacts-external");
        let (home, me) = (Some("ROCm/TheRock"), Some("me/TheRock"));
        let foreign = "run 7 of ROCm/TheRock built the code of me/TheRock";
        let unknown = "run 7 of ROCm/TheRock may have built the code of a fork";
        for (url, bucket, origin, head, is_from_github, expected) in [
            (ours, ci, own, home, false, "own"),
            (ours, ci, own, home, true, "own"),
            (ours, shared, fork, me, false, foreign),
            (ours, "mine", fork, me, true, foreign),
            // It was deleted.
            (ours, shared, fork, None, false, unknown),
            (libraries, shared, own, Some("ROCm/rocm-libraries"), false, "own"),
            // A run of a fork builds the code of the repository that it belongs to.
            (theirs, shared, own, me, true, "run 7 of me/TheRock built the code of me/TheRock"),
            // GitHub did not tell.
            (ours, ci, None, None, false, "own"),
            (ours, ci, None, None, true, unknown),
            (ours, shared, None, None, false, unknown),
            ("local", "mine", None, None, false, "own"),
        ] {
            let said = told(url, bucket, origin, head, is_from_github);
            assert_eq!(said, expected, "{url} {bucket} {origin:?}");
        }
    }
}
