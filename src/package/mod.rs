//! To come.

pub mod dist_info;
pub mod selector;
pub mod templates;
