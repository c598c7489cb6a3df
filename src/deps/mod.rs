//! The base index: the packages of others that ROCm packages, and packages built on them, need.
//!
//! The index of a run has ROCm packages only, and the base index has none of them, so that it does
//! not matter in which order an installer reads the two. `wishes` says what it has (`deps.toml`),
//! `lock` which files these are (`deps.lock`). `registry` reads a package index, `page` its pages and
//! `publisher` its attestations, `resolve` picks from
//! it, `update` proposes a lock, `sets` reads what given sets
//! need, `closure` finds what a lock lacks, and `mirror` copies its files; `leftovers` decides about those
//! that the lock has no longer. `concern` is what a person should know.

mod closure;
mod concern;
mod environment;
mod leftovers;
mod lock;
mod mirror;
mod page;
mod publisher;
mod registry;
mod resolve;
mod sets;
mod update;
mod wishes;

pub use self::{
    closure::{SetPackage, open_requirements},
    concern::ConcernKind,
    environment::PythonMinor,
    leftovers::LeftoverRule,
    lock::{DepsLock, LockChanges, LockedFile},
    mirror::{MirrorOptions, MirrorPlan},
    registry::{Registry, RegistryUrl},
    sets::packages_of,
    update::{UpdateOptions, ensure_closed, update},
    wishes::Wishes,
};
