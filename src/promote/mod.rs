//! Promotes a tested package set to another version or place: what was tested is what is released,
//! byte for byte, except where the version is named.
//!
//! *Observe*: [`CandidateSet::read`] reads the texts of each package that
//! name its version, by `promote.toml`. *Decide*: [`decide`] makes a plan that prints itself, or says
//! all that is in the way. *Act*: [`write`] edits the wheels ([`crate::wheel::WheelEdit`]). Members that
//! do not change are copied as they are compressed, so that a promoted set is the one that a build
//! under the other version would have made.

mod decide;
mod frameworks;
mod observe;
mod places;
mod plan;
mod texts;
mod write;

pub use self::{
    decide::{PromotionRequest, decide},
    frameworks::FrameworkTies,
    observe::CandidateSet,
    places::{ProductName, ProductPlace, ReleasePlaces},
    plan::PromotionPlan,
    write::{PromotionRecord, write},
};
