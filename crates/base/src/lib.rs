#![doc = include_str!("../README.md")]
//!
//! | module | what it has |
//! |---|---|
//! | [`error`] | messages, causes, hints, exit codes, secrets |
//! | [`digest`] [`glob`] [`quantity`] [`relpath`] [`target`] [`version`] | values with rules, and how sizes, counts and names are shown; no I/O |
//! | [`atomic`] | files and directories that get their name once they are whole; locks |
//! | [`io`] | whether a file is still the one that was read, and what is remembered of it |
//! | [`parallel`] | ordered work on threads, and streams that are read ahead on a thread |
//! | [`retry`] | trying again, and downloads that resume |
//! | [`spool`] | bytes in memory or in a temporary file |
#![warn(missing_docs)]

pub mod error;

pub mod digest;
pub mod glob;
pub mod quantity;
pub mod relpath;
pub mod target;
pub mod version;

pub mod atomic;
pub mod io;
pub mod parallel;
pub mod retry;
pub mod spool;
