//! The policy that is compiled into rocwheel.

use std::sync::LazyLock;

use super::Catalog;
use crate::error::{Context as _, Result};

pub(super) const TEXT: &str = include_str!("../packages.toml");

/// The policy that is compiled into rocwheel. It is parsed once.
pub static CATALOG: LazyLock<Catalog> =
    LazyLock::new(|| Catalog::built_in().expect("a test reads the built-in policy"));

impl Catalog {
    /// The `packages.toml` that is compiled into rocwheel.
    pub fn built_in() -> Result<Self> {
        Self::parse(TEXT).context("failed to read the built-in `packages.toml`")
    }
}
