//! [`SelectorPlan`]: the sdist beside the device wheels of a framework, which selects one of them on the
//! machine that installs it.

use std::path::Path;

use fs_err as fs;
use serde::Serialize;

use crate::policy::selector::DeviceSelector;
use rocwheel_base::{digest::Sha256, error::Result, relpath::RelPath};
use rocwheel_wheel::{ChangedFile, DistName, PackageFilename};

/// An sdist that is written beside device wheels.
#[derive(Clone, Debug, Serialize)]
pub struct SelectorPlan {
    pub file: String,
    #[serde(skip)]
    pub(super) name: PackageFilename,
    /// The paths and texts of its files.
    #[serde(skip)]
    texts: Vec<(RelPath, String)>,
}

impl SelectorPlan {
    pub(super) fn of(selector: &DeviceSelector<'_>) -> Result<Self> {
        let name = PackageFilename::new(DistName::clone(selector.name), selector.version, None);
        Ok(Self { file: name.to_string(), texts: selector.files()?, name })
    }

    /// The name of its project.
    pub fn project(&self) -> &DistName {
        &self.name.name
    }

    /// Writes it into a directory.
    pub fn write(&self, directory: &Path, time: u64) -> Result<ChangedFile> {
        let top = self.name.top().parse()?;
        let mut bytes = Vec::new();
        rocwheel_wheel::tar::write_sdist(&mut bytes, &top, &self.texts, time)?;
        fs::write(directory.join(&self.file), &bytes)?;
        Ok(ChangedFile {
            file: self.file.clone(),
            size: bytes.len() as u64,
            sha256: Sha256::of(&bytes),
        })
    }
}
