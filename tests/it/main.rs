//! One integration binary, so that it links once.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test has nobody to hand an error to"
)]

mod elf;
#[path = "support/judges.rs"]
mod judges;
mod python;
