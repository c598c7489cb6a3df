//! One integration binary, so that it links once.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test has nobody to hand an error to"
)]

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/judges.rs"]

mod architecture;
mod cli;
mod elf;
mod judges;
mod launcher;
mod store;
