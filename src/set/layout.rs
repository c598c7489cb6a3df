//! [`Layout`]: where a place has the packages of a set, beside their index.

use super::place::SetPlace;
use crate::{error::Result, store::Depth};

/// Where the packages and the find-links page are, relative to the directory of the set. The simple
/// index is in `simple/` in both layouts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, strum::Display,
)]
#[strum(serialize_all = "lowercase")]
pub enum Layout {
    /// The packages in `dist`, beside `simple`
    #[default]
    Dist,
    /// The packages beside `simple`, where TheRock's uploader puts them
    Flat,
}

impl Layout {
    /// The directory of the files, empty or ending in `/`.
    pub fn files(self) -> &'static str {
        match self {
            Self::Flat => "",
            Self::Dist => "dist/",
        }
    }

    /// The layout of a file, and its path below the directory of the files.
    pub(super) fn of(path: &str) -> (Self, &str) {
        match path.strip_prefix(Self::Dist.files()) {
            Some(below) => (Self::Dist, below),
            None => (Self::Flat, path),
        }
    }
}

/// Which directories of a place have its packages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackageDirectories {
    /// What `build` wrote: `dist` if it exists, otherwise the directory itself.
    #[default]
    Built,
    /// `dist` and the directory itself: several programs publish there.
    All,
}

impl SetPlace {
    /// The layout of the set: [`Layout::Dist`] if `dist/` exists.
    pub fn layout(&self) -> Result<Layout> {
        let has_dist = match self.local() {
            Some(root) => root.join("dist").is_dir(),
            None => !self.list(Layout::Dist.files(), Depth::All)?.is_empty(),
        };
        Ok(if has_dist { Layout::Dist } else { Layout::Flat })
    }

    /// The layouts of those directories, that of the set first.
    pub(super) fn layouts(&self, directories: PackageDirectories) -> Result<Vec<Layout>> {
        Ok(match (directories, self.layout()?) {
            (PackageDirectories::Built, layout) => vec![layout],
            (PackageDirectories::All, Layout::Dist) => vec![Layout::Dist, Layout::Flat],
            (PackageDirectories::All, Layout::Flat) => vec![Layout::Flat],
        })
    }
}
