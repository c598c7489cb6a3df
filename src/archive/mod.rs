//! Tar archives and their compression. Archives are checked while they are read, as they may be
//! damaged or malicious, and the same input always gives the same bytes when they are written.

mod compress;
mod decompress;
#[cfg(test)]
pub(crate) mod hostile_tar;
mod read;
mod write;

pub use compress::compress;
pub use decompress::{BadStream, Decompressor};
pub use read::TarReader;
pub use write::{TarEntry, TarKind, TarPlan, TarStream};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_name_says_the_format() {
        let format = ArchiveFormat::from_file_name;
        assert_eq!(
            format("blas_lib_gfx942.tar.zst"),
            Some(ArchiveFormat::TarZst)
        );
        assert_eq!(format("blas_lib_gfx942.tar.xz"), Some(ArchiveFormat::TarXz));
        for other in ["a.tar.gz", "a.zst", ".tar.xz", "a.tar.zst.sha256sum", ""] {
            assert_eq!(format(other), None, "{other}");
        }
    }
}
