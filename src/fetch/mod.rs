//! Fetches the artifacts of a run into a directory, each in one stream from its source to the disk.
//!
//! `query` chooses the run and the source, and `elsewhere` its bucket; `source` and `run_artifacts` list its archives; `select`
//! decides which of them are wanted, and whether they are enough. `job` compares these with the
//! directory of `output`, and downloads what is due.

mod download;
mod elsewhere;
mod job;
mod merge;
mod output;
mod query;
mod run_artifacts;
mod select;
mod source;

pub use self::{
    job::FetchJob,
    output::{OutputForm, fetched_for},
    query::{FetchRequest, Keeper, Search},
    run_artifacts::LazyGitHub,
    select::Wish,
};
