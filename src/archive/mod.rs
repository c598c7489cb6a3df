//! Tar archives and their compression. Archives are checked while they are read, as they may be
//! damaged or malicious, and the same input always gives the same bytes when they are written.

mod decompress;
mod read;
#[cfg(test)]
pub(crate) mod tests;
mod write;

pub use decompress::Decompressor;
pub use read::TarReader;
pub use write::{TarEntry, TarKind, TarPlan};

/// The format of an archive, as told by its file extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArchiveFormat {
    TarZst,
    TarXz,
}

impl ArchiveFormat {
    /// All formats, in order of preference.
    pub const ALL: [Self; 2] = [Self::TarZst, Self::TarXz];

    /// `.tar.zst` or `.tar.xz`.
    pub fn extension(self) -> &'static str {
        match self {
            Self::TarZst => ".tar.zst",
            Self::TarXz => ".tar.xz",
        }
    }

    /// The format of a file, by its extension. `None` for a name that consists only of an
    /// extension.
    pub fn from_file_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| {
            name.strip_suffix(format.extension())
                .is_some_and(|stem| !stem.is_empty())
        })
    }
}
