//! A plan to files.

mod content;
pub mod pipeline;
