//! [`Layout`]: where a place has the packages of a set, beside their index.

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
    pub fn of(path: &str) -> (Self, &str) {
        match path.strip_prefix(Self::Dist.files()) {
            Some(below) => (Self::Dist, below),
            None => (Self::Flat, path),
        }
    }
}
