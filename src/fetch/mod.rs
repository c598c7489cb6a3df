//! The artifacts of a run, each in one stream from where it is kept to a directory.
//!
//! `source` and `run_artifacts` list what a run has, `select` and `completeness` decide what of it is
//! wanted, `plan` compares that with the output directory, and `download_all` reads what is due.

mod candidates;
mod completeness;
mod download;
mod download_all;
pub mod inventory;
mod job;
mod leftovers;
mod merge;
pub mod output;
pub mod plan;
mod query;
mod run_artifacts;
pub mod select;
mod settle;
pub mod source;
mod space;
pub mod state;
mod zip_directory;

pub use self::{
    job::{FetchJob, FetchRequest, Purpose},
    output::OutputForm,
    plan::FetchPlan,
    query::{GitHubSettings, Keeper, RunQuery, Search},
    select::{ArchivePattern, Wish},
    state::fetched_for,
};
