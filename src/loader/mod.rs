//! What the dynamic loader of a Linux host would do with packages once they are installed: which
//! files lie where, what `$ORIGIN` stands for in each, and which library is found under a name
//! (ld.so(8)).
//!
//! It knows paths and [`elf::ElfFacts`](crate::elf::ElfFacts), and nothing of wheels.

mod installed_tree;
mod library_search;
mod system_libraries;

pub use installed_tree::{FileContents, InstalledFile, InstalledTree, join};
pub use library_search::{LibrarySearches, SearchOutcome, is_loadable};
pub use system_libraries::{Dotted, SystemLibraries};
