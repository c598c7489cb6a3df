//! To come.

pub mod devel_manifest;
pub mod dist_info;
pub mod selector;
pub mod templates;
