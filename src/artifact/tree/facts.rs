//! Reads the facts about a file that its name does not tell: its kind, and the headers of ELF
//! files.

use std::{io, path::Path, sync::Arc};

use crate::{
    artifact::tree::{FileAt, FileFacts, FileKind, PermissionBits, TreeForm},
    elf::{self, ReadAt},
    error::Result,
    relpath::RelPath,
};

const ELF: &[u8] = b"\x7fELF";
const STATIC_LIBRARY: &[u8] = b"!<arch>\n";
const SCRIPT: &[u8] = b"#!";

/// The kind of a file, from its name or its contents.
struct FileNature {
    kind: FileKind,
    elf: Option<elf::ElfFacts>,
    damage: Option<String>,
}

impl From<FileKind> for FileNature {
    fn from(kind: FileKind) -> Self {
        Self {
            kind,
            elf: None,
            damage: None,
        }
    }
}

/// Reads the facts. The file is opened only if its name does not determine its kind.
pub(super) fn facts(
    path: &RelPath,
    source: &Path,
    len: u64,
    mode: PermissionBits,
) -> Result<FileFacts> {
    let content = match FileKind::of_name(path.file_name()) {
        Some(kind) => kind.into(),
        None => read(&FileAt::open(source)?)?,
    };
    // Only Unix has modes. On other systems, programs and scripts are executable.
    let runs = matches!(content.kind, FileKind::Executable | FileKind::Script);
    let executable = if cfg!(unix) { mode.executable } else { runs };
    Ok(FileFacts {
        len,
        mode: PermissionBits { executable, ..mode },
        kind: content.kind,
        elf: content.elf.map(Arc::new),
        damage: content.damage.map(Into::into),
        form: TreeForm::Whole,
    })
}

fn read(file: &impl ReadAt) -> Result<FileNature> {
    let mut head = [0; 8];
    let len = usize::try_from(file.len()).unwrap_or(usize::MAX);
    let (head, _) = head.split_at_mut(len.min(8));
    elf::read_exact_at(file, 0, head)?;
    let head = &*head;
    if head.starts_with(ELF) {
        return read_elf(file);
    }
    let kind = if head == STATIC_LIBRARY {
        FileKind::Archive
    } else if head.starts_with(SCRIPT) {
        FileKind::Script
    } else {
        FileKind::Other
    };
    Ok(kind.into())
}

/// Reads an ELF file. A damaged one is a fact and not an error: it may belong to tests, or not be
/// shipped at all.
fn read_elf(file: &impl ReadAt) -> Result<FileNature> {
    let damage = match elf::read(file) {
        Ok(Some(facts)) => {
            return Ok(FileNature {
                elf: Some(facts.clone()),
                ..FileKind::of_elf(facts.kind).into()
            });
        }
        Ok(None) => None,
        Err(error) if error.is::<io::Error>() => return Err(error),
        Err(error) => Some(format!("a damaged ELF file: {error:#}")),
    };
    Ok(FileNature {
        damage,
        ..FileKind::Other.into()
    })
}
