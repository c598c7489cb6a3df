//! What a build knows of the packages that it has made, so that `check`, `index` and `upload` need
//! not read them.

use std::{fmt, sync::Arc};

use serde::{Serialize, Serializer, ser::SerializeStruct as _};

use super::{content::SdkArchive, memory::WheelRecipe};
use crate::{index::PackageFile, package::split_tree::BuildArchives};
use rocwheel_base::{
    digest::{HashedStart, Sha256},
    io::FileIdentity,
    quantity::{count, many, size},
    relpath::RelPath,
};
use rocwheel_wheel::Source;

/// The packages of a finished set. The sources of their members stay readable as long as it lives.
#[derive(Debug)]
pub struct MadeSet {
    pub packages: Vec<MadePackage>,
    /// What was taken over from an earlier set. `None` if no earlier set was named.
    pub reused: Option<ReuseCount>,
    /// The archives of device code that some members were packed from. Dropping them removes their
    /// files.
    pub(in crate::package) _archives: Option<BuildArchives>,
}

/// How much of a set was taken over from an earlier one: wheels, and the bytes of these files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReuseCount {
    pub wheels: usize,
    pub of_wheels: usize,
    pub bytes: u64,
    pub of_bytes: u64,
}

/// `5 of 7 wheels (2.1 GiB of 2.3 GiB)`
impl fmt::Display for ReuseCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wheels = count(self.wheels);
        let of = many(self.of_wheels, "wheel");
        let bytes = size(self.bytes);
        let of_bytes = size(self.of_bytes);
        write!(f, "{wheels} of {of} ({bytes} of {of_bytes})")
    }
}

impl ReuseCount {
    /// Counts a wheel.
    pub(super) fn add(&mut self, len: u64, is_taken: bool) {
        self.of_wheels += 1;
        self.of_bytes += len;
        if is_taken {
            self.wheels += 1;
            self.bytes += len;
        }
    }
}

/// A finished package, and how it was made.
#[derive(Clone, Debug)]
pub struct MadePackage {
    /// The file in `dist/`.
    pub file: PackageFile,
    /// All members in their order: the members of a wheel with `.dist-info` and RECORD, or the files of
    /// an sdist, by their path below its top directory.
    pub members: Vec<BuiltMember>,
    /// The file that was written. `None` if another file has its name since.
    pub identity: Option<FileIdentity>,
    /// The beginning of a wheel that was just packed.
    pub start: Option<HashedStart>,
    /// What the bytes of a wheel follow from. `None` for an sdist.
    pub(super) recipe: Option<WheelRecipe>,
}

/// `{"path": …, "size": …, "sha256": …}`, with the path below `dist/`.
impl Serialize for MadePackage {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("MadePackage", 3)?;
        fields.serialize_field("path", self.file.below())?;
        fields.serialize_field("size", &self.file.size)?;
        fields.serialize_field("sha256", &self.file.sha256)?;
        fields.end()
    }
}

/// A member of a finished package.
#[derive(Clone, Debug)]
pub struct BuiltMember {
    pub path: RelPath,
    pub executable: bool,
    pub len: u64,
    pub sha256: Sha256,
    /// Where the bytes came from. For the development tree as xz, it names a file that is gone.
    pub source: Source,
    /// The development tree, whether it is packed or not.
    pub tree: Option<Arc<SdkArchive>>,
}

impl MadePackage {
    /// The METADATA of a wheel, or the PKG-INFO of an sdist.
    pub fn metadata(&self) -> Option<&[u8]> {
        let is_metadata = |path: &str| match path.split_once('/') {
            Some((top, name)) => top.ends_with(".dist-info") && name == "METADATA",
            None => path == "PKG-INFO",
        };
        // `.dist-info` is at the end of a wheel.
        self.members.iter().rev().find(|member| is_metadata(member.path.as_str()))?.as_text()
    }
}

impl BuiltMember {
    pub(super) fn text(path: &RelPath, text: &str) -> Self {
        Self {
            path: path.clone(),
            executable: false,
            len: text.len() as u64,
            sha256: Sha256::of(text.as_bytes()),
            source: Source::text(text),
            tree: None,
        }
    }

    /// Its bytes, if they are in memory.
    pub fn as_text(&self) -> Option<&[u8]> {
        self.source.as_bytes()
    }
}
