//! `rocwheel` turns the artifacts of a ROCm CI run into Python packages that pip can install.
//!
//! The modules are declared bottom-up: each uses what is declared above it, and the five libraries of
//! `crates/`. `docs/architecture.md` describes the design.
#![expect(unreachable_pub, reason = "a program has no API: `pub` is for the other rooms")]

use std::process::ExitCode;

// Messages to the terminal and to GitHub's log.
mod console;

// The GPUs of this machine, as its kernel describes them, and whether they can be used.
mod gpu;

// What CI ran: runs, their groups, and the place of their outputs.
mod run;

// What CI built: artifacts.
mod artifact;

// What the packages are: `packages.toml`, their names, and the Python that ships in them.
mod policy;

// What an index says of a set: its files, its document, its pages, its install lines. No I/O.
mod index;

// Services: GitHub's API, and the stores that have files.
mod github;

// The three ends of a build: the artifacts of a run are downloaded, packages are planned and made, and
// sets in a directory or a bucket are read, indexed and published.
mod fetch;
mod package;
mod place;

// Finds what is wrong with a package set.
mod check;

// Says what differs between two package sets.
mod diff;

// Wheels of frameworks on a package set: what they need, and how they are tied to it.
mod framework;

// Promotes a tested set to another version or place.
mod promote;

// Installs packages of a set.
mod install;

// The base index: packages of others that the packages of a set need.
mod deps;

// Reports about a package set: job summary, step outputs, JSON documents.
mod report;

// The commands: their flags, the calls of the modules above, and their output.
mod commands;

/// The one of musl makes threads wait for each other.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    commands::main()
}
