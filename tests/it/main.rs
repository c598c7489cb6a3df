//! One integration binary, so that it links once.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod architecture;
mod check;
mod cli;
mod elf;
mod judges;
mod launcher;
mod pipeline;
mod publish;
mod python;
mod store;
