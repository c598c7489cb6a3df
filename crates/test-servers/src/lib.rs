//! Who the tests of rocwheel ask: servers in this process, among them a web server that gives any answer and a GitHub
//! that says and takes what GitHub's description of its API allows; and the programs of PyPI that tests compare with.
//!
//! They are a crate, and not a part of the tests, so that cargo sees the features that they turn on whenever it
//! builds the workspace: `cargo run` and `cargo test` compile the crates that both use once.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::missing_panics_doc, reason = "a test that cannot go on has failed")]
#![expect(clippy::return_self_not_must_use, reason = "answers are described by chains of calls")]

pub mod github;
pub mod http;
pub mod judges;
mod s3;

use sha2::{Digest as _, Sha256};

pub use s3::{S3Server, ServedS3};

/// The SHA-256 of bytes, in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
