//! The built-in sample: the artifacts of a small run, with every kind of package, symlink and name
//! that real runs have.
//!
//! `sample.tar` contains the archives. They are made from `tests/it/support/sample`.

use crate::error::{Context as _, Result};

const EMBEDDED: &[u8] = include_bytes!("sample.tar");

/// One archive of the sample, such as `blas_lib_generic.tar.zst`.
pub struct SampleArchive {
    pub file_name: String,
    pub bytes: &'static [u8],
}

/// All archives of the sample.
pub fn archives() -> Result<Vec<SampleArchive>> {
    read(EMBEDDED).context("failed to read the built-in sample")
}

fn read(tar: &'static [u8]) -> Result<Vec<SampleArchive>> {
    let mut archives = Vec::new();
    for entry in tar::Archive::new(tar).entries()? {
        let entry = entry?;
        let start = usize::try_from(entry.raw_file_position())?;
        let len = usize::try_from(entry.size())?;
        let bytes = tar.get(start..).and_then(|rest| rest.get(..len));
        archives.push(SampleArchive {
            file_name: String::from_utf8(entry.path_bytes().into_owned())?,
            bytes: bytes.context("the file ends early")?,
        });
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
