//! Promotes a tested package set to another version or place: what was tested is what is released,
//! byte for byte, except where a text names the version.
//!
//! *Observe*: [`CandidateSet::read`] reads the texts of each package that name its version;
//! `promote.toml` says which texts these are. *Decide*: [`decide`] makes a plan that prints itself, or
//! refuses and lists every reason. *Act*: [`write`] edits the wheels ([`rocwheel_wheel::WheelEdit`]).
//! Members that do not change are copied as they are compressed, so that a promoted set has the same
//! bytes as a set that is built under the other version.

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
