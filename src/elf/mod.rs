//! ELF files: reads the facts that packaging needs, and plans the edit of the run path.
//!
//! All code reads small ranges at offsets, so time and memory depend on the headers and not on the
//! size of the file. `docs/elf.md` explains the strategies and lists the files they were tested
//! with. The [gABI](https://www.sco.com/developers/gabi/latest/contents.html) defines the format.

mod check;
mod facts;
mod launcher;
pub(crate) mod patch;
mod plan;
mod rpath;
mod source;
pub(crate) mod tables;

pub use check::{broken_rules, faults};
pub use facts::{ElfFacts, ElfKind, Machine, NeededVersions, read};
pub use launcher::launcher;
pub use patch::{Patch, PatchedReader};
pub use plan::{EditPlan, Strategy, Unchanged, plan_rpath};
pub use rpath::Rpath;
pub use source::ReadAt;
pub(crate) use source::{ReadFrom, read_exact_at};
