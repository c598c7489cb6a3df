//! Fetches the artifacts of a run into a directory, each in one stream from its source to the disk.
//!
//! `query` takes the run that is named, or chooses one of the runs that `search` lists, and chooses the
//! source of its artifacts; `found` describes the run. `source` and `run_artifacts` list the archives of the
//! run; `select` decides which archives are wanted, and whether they are enough. `job` compares these with
//! the directory of `output`, and `download` fetches the archives that are missing. `merge` makes one tree of
//! all artifacts (`--flatten`).

mod download;
mod found;
mod job;
mod merge;
mod output;
mod query;
mod run_artifacts;
mod search;
mod select;
mod source;

#[cfg(test)]
pub use self::run_artifacts::{open_artifact, storage_client};
pub use self::{
    job::FetchJob,
    output::{OutputForm, fetched_for, provenance},
    query::{FetchRequest, SourceKind},
    run_artifacts::LazyGitHub,
    search::Search,
    select::Wish,
};
