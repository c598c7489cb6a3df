//! The artifacts of a run, each in one stream from where it is kept to a directory.
//!
//! `source` and `run_artifacts` list what a run has, `select` and `completeness` decide what of it is
//! wanted, `plan` compares that with the output directory, and `deliver` reads what is due.

pub mod completeness;
pub mod deliver;
pub mod either;
pub mod inventory;
pub mod leftovers;
mod merge;
pub mod output;
pub mod plan;
mod receive;
pub mod run_artifacts;
pub mod select;
pub mod source;
mod space;
pub mod state;
mod zip_directory;

pub use self::{
    output::OutputForm,
    plan::FetchPlan,
    select::{Pattern, Wish},
    state::fetched_for,
};
