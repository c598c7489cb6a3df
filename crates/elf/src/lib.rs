#![doc = include_str!("../README.md")]
//!
//! All code reads small ranges at offsets. The
//! [gABI](https://www.sco.com/developers/gabi/latest/contents.html) defines the format.
#![warn(missing_docs)]

mod check;
mod error;
mod facts;
mod launcher;
pub mod loader;
pub mod patch;
mod plan;
mod rpath;
mod source;
pub mod tables;

pub use check::{broken_rules, faults};
pub use error::ElfError;
pub use facts::{ElfFacts, ElfKind, Machine, NeededVersions, read};
pub use launcher::launcher;
pub use patch::{Patch, PatchedReader};
pub use plan::{EditPlan, Strategy, Unchanged, plan_rpath};
pub use rpath::Rpath;
pub use source::{ReadAt, ReadFrom, read_exact_at};
