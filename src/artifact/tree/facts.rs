//! What a file is: its kind, by its name or its contents, the headers of ELF files, and whether it
//! is used as it is on disk.

use std::{io, path::Path, sync::Arc, time::SystemTime};

#[cfg(unix)]
use fs_err::os::unix::fs::FileExt;
#[cfg(windows)]
use fs_err::os::windows::fs::FileExt;

use crate::{
    artifact::tree::{FileFacts, PermissionBits},
    elf::{self, ElfKind, Patch, PatchedReader, ReadAt},
    error::Result,
};

/// An open file. Its length is fixed when it is opened.
#[derive(Debug)]
pub struct FileAt {
    file: fs_err::File,
    len: u64,
}

impl FileAt {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = fs_err::File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }
}

impl ReadAt for FileAt {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        return self.file.read_at(buffer, offset);
        #[cfg(windows)]
        return self.file.seek_read(buffer, offset);
    }
}

/// Length, modification time and inode of a file. If another program writes or replaces the file,
/// at least one of them is expected to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    pub len: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

impl FileStamp {
    pub fn of(path: &Path) -> io::Result<Self> {
        let found = fs_err::metadata(path)?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&found);
        #[cfg(not(unix))]
        let inode = 0;
        Ok(Self {
            len: found.len(),
            modified: found.modified().ok(),
            inode,
        })
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

/// Reads the facts. The file is opened only if its name does not determine its kind.
pub(super) fn facts(source: &Path, len: u64, mode: PermissionBits) -> Result<FileFacts> {
    let name = source.file_name().unwrap_or_default();
    let by_name = FileKind::of_name(&name.to_string_lossy());
    let mut facts = FileFacts {
        len,
        mode,
        kind: by_name.unwrap_or(FileKind::Other),
        elf: None,
        damage: None,
        form: TreeForm::Whole,
    };
    if by_name.is_none() {
        read(&FileAt::open(source)?, &mut facts)?;
    }
    // Only Unix has modes. On other systems, programs and scripts are executable.
    if !cfg!(unix) {
        facts.mode.executable = matches!(facts.kind, FileKind::Executable | FileKind::Script);
    }
    Ok(facts)
}

/// Determines the kind from the contents. A damaged ELF file is a fact and not an error: it may
/// belong to tests, or not be shipped at all.
fn read(file: &FileAt, facts: &mut FileFacts) -> Result<()> {
    let mut head = [0; 8];
    let len = usize::try_from(file.len()).unwrap_or(usize::MAX);
    let (head, _) = head.split_at_mut(len.min(8));
    elf::read_exact_at(file, 0, head)?;
    if head.starts_with(b"\x7fELF") {
        match elf::read(file) {
            Ok(Some(elf)) => {
                facts.kind = match elf.kind {
                    ElfKind::Executable => FileKind::Executable,
                    ElfKind::SharedObject => FileKind::SharedObject,
                    ElfKind::Other => FileKind::Other,
                };
                facts.elf = Some(Arc::new(elf));
            }
            Ok(None) => {}
            Err(error) if error.is::<io::Error>() => return Err(error),
            Err(error) => {
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
        for name in [
            "a.TXT", "a.so", "a.a", "a.dll", "txt", ".h", "a.", "a.h.in", "a.cpp",
        ] {
            assert_eq!(kind(name), None, "{name}");
        }
    }
}
