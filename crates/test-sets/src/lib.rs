//! Makes the artifacts of two small runs for the tests of rocwheel, as CI would leave them: the sample, which the
//! program has built in, and the odd set, which is as legal and unlike it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::missing_panics_doc, reason = "a test that cannot go on has failed")]
#![expect(clippy::return_self_not_must_use, reason = "artifacts are described by chains of calls")]

mod families;
pub mod odd;
pub mod sample;
