//! What we ship: from artifacts to the packages of a set.
//!
//! `packages.toml` is the policy; `plan` decides, `assemble` writes.

pub mod catalog;
pub mod devel_manifest;
pub mod dist_info;
pub mod naming;
pub mod selector;
pub mod templates;
