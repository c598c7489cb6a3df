//! The built-in sample: the artifacts of a small run, with every kind of package, symlink and name
//! that real runs have.
//!
//! `sample.tar.zst` contains the archives, which are made from `crates/test-sets/src/sample`. It compresses
//! them once more, because many of their bytes are the same in several archives.

use std::io::Read;

use rocwheel_base::error::{Context as _, Result};
use rocwheel_wheel::tar::{ArchiveFormat, Decompressor};

const EMBEDDED: &[u8] = include_bytes!("sample.tar.zst");

/// One archive of the sample, such as `blas_lib_generic.tar.zst`.
pub struct SampleArchive {
    pub file_name: String,
    pub bytes: Vec<u8>,
}

/// All archives of the sample.
pub fn archives() -> Result<Vec<SampleArchive>> {
    read(EMBEDDED).context("failed to read the built-in sample")
}

fn read(compressed: &[u8]) -> Result<Vec<SampleArchive>> {
    let tar = Decompressor::new(ArchiveFormat::TarZst, compressed)?;
    let mut archives = Vec::new();
    for entry in tar::Archive::new(tar).entries()? {
        let mut entry = entry?;
        let file_name = String::from_utf8(entry.path_bytes().into_owned())?;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        archives.push(SampleArchive { file_name, bytes });
    }
    Ok(archives)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::ArchiveName;

    #[test]
    fn every_archive_is_an_artifact_and_no_name_appears_twice() {
        let archives = archives().unwrap();
        let mut names: Vec<&str> = archives.iter().map(|it| it.file_name.as_str()).collect();
        for name in &names {
            name.parse::<ArchiveName>().unwrap();
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_file_that_ends_early_is_an_error() {
        for len in [1, 600, EMBEDDED.len() / 2] {
            assert!(read(&EMBEDDED[..len]).is_err(), "{len}");
        }
    }
}
