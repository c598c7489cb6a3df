//! What every module of these tests may use.
//!
//! | module | what it has |
//! |---|---|
//! | `program` | the `rocwheel` binary, and what a run of it came to |
//! | `place` | directories to work in, and copies of them |
//! | `sample` | the sample: its archives, and its packages, built once for all tests |

pub(crate) mod place;
pub(crate) mod program;
pub(crate) mod sample;
