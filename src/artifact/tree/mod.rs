//! Artifacts on disk: the facts that planning needs. They are read once, and are the same for any
//! order of directory entries and any number of threads.

use std::{path::PathBuf, sync::Arc};

use crate::{
    artifact::{ArtifactName, TherockManifest},
    elf,
    error::{Context, Hint, Result, ensure},
    relpath::RelPath,
};

mod facts;
mod merge;
mod scan;

pub use facts::{FileAt, FileKind, FileStamp, TreeForm};
pub use merge::{Collision, Merged, Owned, merge, same_content};

/// All artifacts of a directory, sorted by name.
#[derive(Clone, Debug)]
pub struct ArtifactTree {
    pub directory: PathBuf,
    pub artifacts: Vec<Artifact>,
    /// Everything else in the directory.
    pub skipped: Vec<Skipped>,
}

/// An unpacked artifact.
#[derive(Clone, Debug)]
pub struct Artifact {
    pub name: ArtifactName,
    /// The base directories that exist, in the order of the manifest.
    pub basedirs: Vec<Arc<RelPath>>,
    /// Sorted by base directory, then by path. A directory comes before its contents.
    pub files: Vec<TreeFile>,
}

/// A file, directory or symlink in a base directory of an artifact.
#[derive(Clone, Debug)]
pub struct TreeFile {
    /// The path in the install tree, relative to the base directory.
    pub path: RelPath,
    pub basedir: Arc<RelPath>,
    /// The absolute path on disk.
    pub source: PathBuf,
    pub content: TreeContent,
}

impl TreeFile {
    /// Whether this is a symlink to an absolute path, or to another such symlink. Its target
    /// depends on the host, so no install tree can contain it.
    pub fn leads_to_the_host(&self) -> bool {
        let TreeContent::Link { text, end } = &self.content else {
            return false;
        };
        let is_absolute = text.starts_with('/') || self.path.resolve_link(text).is_some();
        *end == LinkEnd::Escapes && is_absolute
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeContent {
    Directory,
    File(FileFacts),
    Link { text: String, end: LinkEnd },
}

/// The target of a symlink, after following all symlinks on the way, inside its base directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// Nothing in this base directory. Another artifact may contain the target.
    Dangling,
    /// An absolute path, or one above the base directory. It was not accessed.
    Escapes,
    Directory,
    File {
        path: RelPath,
        source: PathBuf,
        facts: FileFacts,
    },
}

/// Facts about a regular file. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    pub len: u64,
    pub mode: PermissionBits,
    pub kind: FileKind,
    /// Headers of an ELF file, unless the name already determines its kind.
    pub elf: Option<Arc<elf::ElfFacts>>,
    /// The error of reading a file that begins like an ELF file. Its kind is then `Other`.
    pub damage: Option<Arc<str>>,
    pub form: TreeForm,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PermissionBits {
    pub executable: bool,
    /// Not even the owner has write permission.
    pub read_only: bool,
    /// The setuid or setgid bit is set: the program runs as its owner or group.
    pub setuid: bool,
}

/// A directory entry that is not an artifact, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub name: String,
    pub reason: String,
}

impl ArtifactTree {
    pub fn artifact(&self, name: &str) -> Option<&Artifact> {
        let mut artifacts = self.artifacts.iter();
        artifacts.find(|artifact| artifact.name.to_string() == name)
    }

    /// Reads `therock_manifest.json` from the base artifact.
    pub fn therock_manifest(&self) -> Result<TherockManifest> {
        let path = TherockManifest::PATH;
        let base = self.artifact(TherockManifest::ARTIFACT);
        // If two base directories contain it, the later one wins, as in `merge`.
        let mut files = base.iter().flat_map(|base| base.files.iter().rev());
        let found = files.find_map(|file| match &file.content {
            TreeContent::File(facts) if file.path.as_str() == path => Some((&file.source, facts)),
            _ => None,
        });
        let (source, facts) = found
            .with_context(|| {
                let (artifact, directory) = (TherockManifest::ARTIFACT, self.directory.display());
                format!("no `{path}` in the artifact `{artifact}` of `{directory}`")
            })
            .hint(match base {
                None => format!("fetch `{}` too", TherockManifest::ARTIFACT),
                Some(_) => "every build of ROCm writes it: fetch the artifact again".to_owned(),
            })?;
        let read = || {
            let most = TherockManifest::MAX_LEN;
            ensure!(facts.len <= most, "more than {most} bytes");
            TherockManifest::parse(&fs_err::read(source)?)
        };
        read().with_context(|| format!("failed to read `{}`", source.display()))
    }
}
