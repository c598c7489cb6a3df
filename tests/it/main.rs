//! One integration binary, so that it links once.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod architecture;
mod cli;
mod elf;
mod fetch;
mod github;
mod judges;
mod launcher;
mod publish;
mod python;
mod s3;
mod store;
