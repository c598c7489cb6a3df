//! `rocwheel` turns the artifacts of a ROCm CI run into Python packages that pip can install.
//!
//! The modules are declared bottom-up, one paragraph per layer. **A module uses only the paragraphs
//! above its own; siblings never use each other.** `tests/it/architecture.rs` enforces this rule,
//! the length of files, and which modules may access the disk, the network, the terminal, the
//! environment and threads. `docs/architecture.md` describes the design.

// Failing well.
pub mod error;

// Words: values with rules, and no I/O.
pub mod digest;
pub mod glob;
pub mod relpath;
pub mod target;
pub mod version;

// Tools, each of them once.
pub mod atomic;
pub mod parallel;
pub mod retry;
pub mod spool;

// Formats: bytes in, bytes out. Nothing here has heard of a run or a package.
pub mod archive;
pub mod elf;
pub mod location;
pub mod wheel;

// Device code: bundles, archives, and the host files that it leaves (uses elf).
pub mod kpack;

// What is said to people and to GitHub's log.
pub mod console;

// What CI built, and where it put it.
pub mod artifact;
pub mod run;

// What we ship: `packages.toml` is the policy, the rest is how.
pub mod package;

// Pages about a package set.
pub mod index;

// The world outside.
pub mod github;
pub mod store;

// A run's artifacts onto this disk.
pub mod fetch;

// What the dynamic loader of a host would do with installed files (uses elf).
pub mod loader;

// A package set at a place: read, indexed.
pub mod set;

// What is wrong with a package set.
pub mod check;

// What is said about a package set: job summary, outputs, documents.
pub mod report;

// The verbs: flags, calls of the nouns, and what is printed.
pub mod commands;
