//! To come.

pub mod dist_info;
pub mod templates;
