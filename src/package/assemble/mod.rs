//! A plan to files.

mod content;
