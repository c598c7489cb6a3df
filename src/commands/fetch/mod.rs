//! `fetch`: the artifacts of a run, each in one stream from where it is kept to a directory.

pub mod completeness;
pub mod inventory;
pub mod select;
