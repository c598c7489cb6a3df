//! Fetches the artifacts of a run into a directory, each in one stream from its source to the disk.
//!
//! `settle` chooses the run; `source` and `run_artifacts` list its archives; `select` and
//! `completeness` decide which of them are wanted. `plan` compares these with the output directory,
//! and `download_all` downloads what is due.

mod completeness;
mod download;
mod download_all;
mod inventory;
mod job;
mod merge;
mod output;
mod plan;
mod query;
mod run_artifacts;
mod select;
mod settle;
mod source;
mod state;
mod zip_directory;

pub use self::{
    job::{FetchJob, FetchRequest, Purpose},
    output::OutputForm,
    plan::FetchPlan,
    query::{Keeper, LazyGitHub, RunQuery, Search},
    select::Wish,
    state::fetched_for,
};
