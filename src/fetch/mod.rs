//! Fetches the artifacts of a run into a directory, each in one stream from its source to the disk.
//!
//! `query` chooses a run, of those that `search` lists or the one that is named, and its source; `found`
//! tells about it. `source` and `run_artifacts` list its archives; `select`
//! decides which of them are wanted, and whether they are enough. `job` compares these with the
//! directory of `output`, and downloads what is due.

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

pub use self::{
    found::FoundRun,
    job::FetchJob,
    output::{OutputForm, fetched_for, provenance},
    query::{FetchRequest, SourceKind},
    run_artifacts::{LazyGitHub, open_artifact, storage_client},
    search::Search,
    select::Wish,
};
