//! `rocwheel` turns the artifacts of a ROCm CI run into Python packages that pip can install.
//!
//! The modules are declared bottom-up: each uses what is declared above it. `tests/it/architecture.rs` says
//! which of them may access the disk, the network, the terminal, the environment and threads, and
//! `docs/architecture.md` describes the design.

pub use rocwheel_base::{
    as_text, atomic, digest, error, glob, io, parallel, quantity, relpath, retry, spool, target,
    version,
};
pub use rocwheel_elf::{self as elf, loader};
pub use rocwheel_kpack as kpack;
pub use rocwheel_store::{self as store, location};
pub use rocwheel_wheel::{self as wheel, tar as archive};

// Messages to the terminal and to GitHub's log.
pub mod console;

// The GPUs of this machine, as its kernel describes them, and whether they can be used.
pub mod gpu;

// What CI ran: runs, their groups, and the place of their outputs.
pub mod run;

// What CI built: artifacts.
pub mod artifact;

// What the packages are: `packages.toml`, their names, and the Python that ships in them.
pub mod policy;

// What an index says of a set: its files, its document, its pages, its install lines. No I/O.
pub mod index;

// Services: GitHub's API, and the stores that have files.
pub mod github;

// The three ends of a build: the artifacts of a run are downloaded, packages are planned and made, and
// sets in a directory or a bucket are read, indexed and published.
pub mod fetch;
pub mod package;
pub mod place;

// Finds what is wrong with a package set.
pub mod check;

// Says what differs between two package sets.
pub mod diff;

// Wheels of frameworks on a package set: what they need, and how they are tied to it.
pub mod framework;

// Promotes a tested set to another version or place.
pub mod promote;

// Installs packages of a set.
pub mod install;

// The base index: packages of others that the packages of a set need.
pub mod deps;

// Reports about a package set: job summary, step outputs, JSON documents.
pub mod report;

// The commands: their flags, the calls of the modules above, and their output.
pub mod commands;
