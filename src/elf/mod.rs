//! ELF files: what they say about themselves, and how their run path is changed.
//!
//! Everything works through positional reads, so that cost and memory follow the headers and not
//! the size of the file. `docs/elf.md` explains the strategy and lists what was seen in practice.

mod check;
mod edit;
mod error;
mod facts;
mod image;
mod launcher;
pub(crate) mod patch;
mod plan;
mod rpath;
mod source;
mod strings;
pub(crate) mod tables;
mod versions;
/// Writes ELF files for tests, without a compiler.
#[cfg(test)]
#[expect(dead_code, reason = "the integration tests use all of it")]
#[path = "../../tests/it/support/linker/mod.rs"]
pub(crate) mod write;

pub use check::{broken_rules, faults};
pub use edit::{EditPlan, Strategy, Untouchable};
pub use error::ElfError;
pub use facts::{ElfFacts, ElfKind, Machine, read};
pub use launcher::{InvalidLauncherTarget, launcher};
pub use patch::{Patch, PatchedReader};
pub use plan::plan_rpath;
pub use rpath::{InvalidRpath, Rpath};
pub use source::ReadAt;
pub(crate) use source::read_exact_at;
pub use versions::NeededVersions;
