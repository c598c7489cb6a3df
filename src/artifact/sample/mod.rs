//! The built-in sample: a small run as CI would leave it, with every kind of package, link and
//! name that a real one has. Nothing in it was compiled, and everything in it runs.

mod core;
mod device;
mod libraries;
mod rest;
mod sketch;

use crate::{archive::Format, error::Result};

use sketch::Sketch;

/// The version of the sample, which no real release has.
pub const VERSION: &str = "0.0.1.dev0";
/// The commit that the sample says it was built from.
pub const COMMIT: &str = "5a6d91e000000000000000000000000000000000";
/// The targets that the sample has device code for; `gfx942` also has a variant with xnack.
pub const TARGETS: [&str; 2] = ["gfx1100", "gfx942"];

/// One archive of the sample.
pub struct SampleArchive(Sketch);

impl SampleArchive {
    /// `blas_lib_generic.tar.zst`.
    pub fn file_name(&self) -> String {
        format!("{}{}", self.0.name(), self.0.format().extension())
    }

    /// The stem, which names the artifact.
    pub fn stem(&self) -> &str {
        self.0.name()
    }

    pub fn format(&self) -> Format {
        self.0.format()
    }

    /// The same bytes every time.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        self.0.pack()
    }
}

/// Every archive of the sample, in both compressions.
pub fn archives() -> Vec<SampleArchive> {
    let sketches = core::sketches()
        .into_iter()
        .chain(libraries::sketches())
        .chain(rest::sketches());
    sketches.map(SampleArchive).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::ArtifactName;

    #[test]
    fn every_archive_is_an_artifact_and_no_name_appears_twice() {
        let mut names: Vec<String> = archives()
            .iter()
            .map(|archive| archive.stem().to_owned())
            .collect();
        for name in &names {
            name.parse::<ArtifactName>().unwrap();
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn both_compressions_are_there_and_the_bytes_are_always_the_same() {
        let archives = archives();
        for format in [Format::TarZst, Format::TarXz] {
            let archive = archives
                .iter()
                .find(|archive| archive.format() == format)
                .unwrap();
            assert_eq!(archive.bytes().unwrap(), archive.bytes().unwrap());
        }
    }
}
