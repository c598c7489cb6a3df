//! Artifacts on disk, as the facts that planning needs: read once, the same in any directory order
//! and with any number of threads.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    artifact::{ArtifactName, TherockManifest},
    elf,
    error::{Context, Hint, Result, anyhow},
    relpath::RelPath,
};

mod facts;
mod file_at;
mod form;
mod kind;
mod list;
mod merge;
mod scan;
mod walk;

pub use file_at::FileAt;
pub use form::TreeForm;
pub use kind::FileKind;
pub use merge::{Collision, Merged, Owned, merge, same_content};

/// Every artifact of a directory, in the order of their names.
#[derive(Clone, Debug)]
pub struct ArtifactTree {
    pub directory: PathBuf,
    pub artifacts: Vec<Artifact>,
    /// What else the directory holds.
    pub skipped: Vec<Skipped>,
}

/// An unpacked artifact.
#[derive(Clone, Debug)]
pub struct Artifact {
    pub name: ArtifactName,
    /// The base directories that exist, in the manifest's order.
    pub basedirs: Vec<Arc<RelPath>>,
    /// By base directory, then by path; a directory comes before what is in it.
    pub files: Vec<TreeFile>,
}

/// Something in a base directory of an artifact.
#[derive(Clone, Debug)]
pub struct TreeFile {
    /// Its place in the install tree, which all base directories are merged into.
    pub path: RelPath,
    pub basedir: Arc<RelPath>,
    /// Absolute.
    pub source: PathBuf,
    pub content: TreeContent,
}

impl TreeFile {
    /// Whether this is a symlink to an absolute path, or to another symlink like that. Which file it
    /// leads to depends on the host, so that no tree can have it.
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

/// Where a link ends, all links on the way followed, inside its own base directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// At nothing; another artifact may have it.
    Dangling,
    /// At an absolute path, or above the base directory. Nothing there was looked at.
    Escapes,
    Directory,
    File {
        path: RelPath,
        source: PathBuf,
        facts: FileFacts,
    },
}

/// A regular file. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    pub len: u64,
    pub mode: PermissionBits,
    pub kind: FileKind,
    /// Of a file whose name does not say its kind.
    pub elf: Option<Arc<elf::ElfFacts>>,
    /// Why a file that begins like an ELF file could not be read as one; its kind is `Other`.
    pub damage: Option<Arc<str>>,
    pub form: TreeForm,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PermissionBits {
    pub executable: bool,
    /// Not even the owner may write.
    pub read_only: bool,
    /// Runs as its owner or group.
    pub setuid: bool,
}

/// Something that is no artifact, and why.
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

    /// What the build says of itself.
    pub fn therock_manifest(&self) -> Result<TherockManifest> {
        let path = TherockManifest::PATH;
        let file = self
            .base_file(path)
            .with_context(|| {
                let (artifact, directory) = (TherockManifest::ARTIFACT, self.directory.display());
                format!("no `{path}` in the artifact `{artifact}` of `{directory}`")
            })
            .hint(match self.artifact(TherockManifest::ARTIFACT) {
                None => format!("fetch `{}` too", TherockManifest::ARTIFACT),
                Some(_) => "every build of ROCm writes it: fetch the artifact again".to_owned(),
            })?;
        let source = file.source.display();
        TherockManifest::parse(&read_small(file)?).with_context(|| format!("read `{source}`"))
    }

    fn base_file(&self, path: &str) -> Option<&TreeFile> {
        let base = self.artifact(TherockManifest::ARTIFACT)?;
        // Where two base directories have it, the later one counts, as in `merge`.
        let mut files = base.files.iter().rev();
        files
            .find(|file| file.path.as_str() == path && matches!(file.content, TreeContent::File(_)))
    }
}

/// Reads a file that is small unless something is wrong.
fn read_small(file: &TreeFile) -> Result<Vec<u8>> {
    match &file.content {
        TreeContent::File(facts) if facts.len > TherockManifest::MAX_LEN => {
            Err(anyhow!("more than {} bytes", TherockManifest::MAX_LEN))
                .with_context(|| format!("read `{}`", file.source.display()))
        }
        _ => Ok(fs_err::read(&file.source)?),
    }
}

/// The path of a place below a directory.
fn below(directory: &Path, path: &RelPath) -> PathBuf {
    // Component by component, for the separators of Windows.
    path.components()
        .fold(directory.to_owned(), |at, component| at.join(component))
}
