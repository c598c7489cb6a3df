//! `upload`: a package set, with its index, to where a run keeps it.

mod destination;
mod execute;
mod plan;

pub use destination::{Destination, file_url};
pub use execute::{Outcome, look, verify, write};
pub use plan::{Bytes, Item, Others, Phase, Seen, There, UploadPlan, Why};
