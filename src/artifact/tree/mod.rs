//! Artifacts on disk: the facts that planning needs. They are read once, and are the same for any
//! order of directory entries and any number of threads.

mod merge;
mod scan;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::artifact::{ArtifactName, TherockManifest};
use rocwheel_base::{
    error::{Context, Hint, Result, ensure},
    io::{FileAt, FileIdentity},
    relpath::RelPath,
    version::BaseVersion,
};
use rocwheel_elf::{ElfError, ElfKind, Patch, PatchedReader};

pub use merge::{Collision, Merged, Owned, merge, same_content, same_entry};

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
    pub executable: bool,
    pub kind: FileKind,
    /// The headers of an ELF file. `None` if the name determines the kind, because the file is not read then.
    pub elf: Option<Arc<rocwheel_elf::ElfFacts>>,
    /// The error of reading a file that begins like an ELF file. Its kind is then `Other`.
    pub damage: Option<Arc<str>>,
    pub form: TreeForm,
    /// The file as it was when it was listed. If it changes, a later step that reads it fails. `None` if the
    /// file is not written yet.
    pub identity: Option<FileIdentity>,
}

impl FileFacts {
    /// The facts of a file whose contents are not known yet.
    pub fn new(len: u64, executable: bool) -> Self {
        Self {
            len,
            executable,
            kind: FileKind::Other,
            elf: None,
            damage: None,
            form: TreeForm::Whole,
            identity: None,
        }
    }
}

/// A directory entry that is not an artifact, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub name: String,
    pub reason: String,
    pub is_directory: bool,
}

impl ArtifactTree {
    pub fn artifact(&self, name: &str) -> Option<&Artifact> {
        self.artifacts.iter().find(|artifact| artifact.name.to_string() == name)
    }

    /// Reads `therock_manifest.json` from the base artifact, and the base version beside it.
    pub fn therock_manifest(&self) -> Result<TherockManifest> {
        let path = TherockManifest::PATH;
        let base = self.artifact(TherockManifest::ARTIFACT);
        // If two base directories contain the file, the file of the later base directory wins, as in `merge`.
        let find = |path: &str| {
            base.iter().flat_map(|base| base.files.iter().rev()).find_map(|file| {
                match &file.content {
                    TreeContent::File(facts) if file.path.as_str() == path => {
                        Some((&file.source, facts))
                    }
                    _ => None,
                }
            })
        };
        let read = |(source, facts): (&PathBuf, &FileFacts)| {
            let read_within_limit = || {
                let most = TherockManifest::MAX_LEN;
                ensure!(facts.len <= most, "more than {most} bytes");
                Ok(fs_err::read(source)?)
            };
            read_within_limit().with_context(|| format!("failed to read `{}`", source.display()))
        };
        let manifest_file = find(path)
            .with_context(|| {
                let artifact = TherockManifest::ARTIFACT;
                let directory = self.directory.display();
                format!("no `{path}` in the artifact `{artifact}` of `{directory}`")
            })
            .hint(match base {
                None => format!("fetch `{}` too", TherockManifest::ARTIFACT),
                Some(_) => "every build of ROCm writes it: fetch the artifact again".to_owned(),
            })?;
        let mut manifest = TherockManifest::parse(&read(manifest_file)?)
            .with_context(|| format!("failed to read `{}`", manifest_file.0.display()))?;
        manifest.base_version = find(BaseVersion::FILE)
            .map(read)
            .transpose()?
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(manifest)
    }
}

/// Whether a file is used as it is on disk, or with changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TreeForm {
    /// All bytes as they are on disk.
    #[default]
    Whole,
    /// Without the device code, which the patch removes while reading.
    WithoutCode(Arc<Patch>),
    /// The file does not exist yet: it is written once the contents of the set are decided. Its
    /// length is unknown.
    ToCome,
}

impl TreeForm {
    /// Opens the file with its changes applied, for reading at any offset.
    pub fn open(&self, path: &Path) -> io::Result<PatchedReader<FileAt>> {
        let file = FileAt::open(path)?;
        let change = match self {
            Self::Whole | Self::ToCome => Patch::nothing(file.len()),
            Self::WithoutCode(change) => (**change).clone(),
        };
        Ok(PatchedReader::new(file, change))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// Text, by its name. Other text files are `Other`.
    Text,
    /// Device code, by its name only.
    Hsaco,
    /// A static library.
    Archive,
    Executable,
    SharedObject,
    /// A file that begins with `#!`. The kernel runs it if its mode allows that.
    Script,
    Other,
}

impl FileKind {
    /// The kind that follows from the name alone, if any. The same on every platform, and case
    /// matters.
    pub fn of_name(name: &str) -> Option<Self> {
        // In `.txt`, the dot begins a hidden file and not a suffix.
        let (stem, suffix) = name.rsplit_once('.')?;
        match suffix {
            _ if stem.is_empty() => None,
            "txt" | "h" | "hpp" => Some(Self::Text),
            "hsaco" | "co" => Some(Self::Hsaco),
            "lib" => Some(Self::Archive),
            "exe" => Some(Self::Executable),
            _ => None,
        }
    }

    /// Whether a dynamic loader may load the file.
    pub fn is_loaded(self) -> bool {
        matches!(self, Self::Executable | Self::SharedObject)
    }
}

/// Completes the facts of a file with what its name or its contents say. The file is opened only if
/// its name does not determine its kind.
fn complete_facts(facts: &FileFacts, source: &Path) -> Result<FileFacts> {
    let name = source.file_name().unwrap_or_default();
    let mut facts = facts.clone();
    match FileKind::of_name(&name.to_string_lossy()) {
        Some(kind) => facts.kind = kind,
        None => read_kind(&FileAt::open(source)?, &mut facts)?,
    }
    // Only Unix has modes. On other systems, programs and scripts are executable.
    if !cfg!(unix) {
        facts.executable = matches!(facts.kind, FileKind::Executable | FileKind::Script);
    }
    Ok(facts)
}

/// Determines the kind from the contents. A damaged ELF file is a fact and not an error: it may
/// belong to tests, or not be shipped at all.
fn read_kind(file: &FileAt, facts: &mut FileFacts) -> Result<()> {
    let mut buffer = [0; 8];
    let len = usize::try_from(file.len()).unwrap_or(usize::MAX);
    let head = &mut buffer[..len.min(8)];
    rocwheel_elf::read_exact_at(file, 0, head)?;
    if head.starts_with(b"\x7fELF") {
        match rocwheel_elf::read(file) {
            Ok(Some(elf)) => {
                facts.kind = match elf.kind {
                    ElfKind::Executable => FileKind::Executable,
                    ElfKind::SharedObject => FileKind::SharedObject,
                    ElfKind::Other => FileKind::Other,
                };
                facts.elf = Some(Arc::new(elf));
            }
            Ok(None) => {}
            // The file could not be read, which says nothing about its content.
            Err(ElfError::Unread(error)) => return Err(error.into()),
            Err(ElfError::Refused(error)) => {
                facts.damage = Some(format!("a damaged ELF file: {error:#}").into());
            }
        }
    } else if head == b"!<arch>\n" {
        facts.kind = FileKind::Archive;
    } else if head.starts_with(b"#!") {
        facts.kind = FileKind::Script;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_names_decide_and_case_counts() {
        let kind = FileKind::of_name;
        assert_eq!(kind("a.txt"), Some(FileKind::Text));
        assert_eq!(kind("a.b.hpp"), Some(FileKind::Text));
        assert_eq!(kind("Kernels.so-000-gfx942.hsaco"), Some(FileKind::Hsaco));
        assert_eq!(kind("a.co"), Some(FileKind::Hsaco));
        assert_eq!(kind("a.lib"), Some(FileKind::Archive));
        assert_eq!(kind("a.exe"), Some(FileKind::Executable));
        for name in ["a.TXT", "a.so", "a.a", "a.dll", "txt", ".h", "a.", "a.h.in", "a.cpp"] {
            assert_eq!(kind(name), None, "{name}");
        }
    }
}
