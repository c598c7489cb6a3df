//! Simulates the dynamic loader of a Linux host
//! ([ld.so(8)](https://man7.org/linux/man-pages/man8/ld.so.8.html)) for installed packages: where
//! each file is, what `$ORIGIN` is for it, and which library is found under a name.
//!
//! It uses paths and [`elf::ElfFacts`](crate::elf::ElfFacts) only, and does not depend on wheels.

mod installed_tree;
mod library_search;
mod system_libraries;

pub use installed_tree::{FileContents, InstalledFile, InstalledTree, join};
pub use library_search::{MissingLibrary, is_loadable, missing_libraries};
pub use system_libraries::{Dotted, SystemLibraries};
