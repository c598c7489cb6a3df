//! The facts of a file that only its content tells.

use std::{path::Path, sync::Arc};

use crate::{
    artifact::tree::{FileAt, FileFacts, FileKind, PermissionBits, TreeForm},
    elf::{self, ElfError, ReadAt},
    error::Result,
    relpath::RelPath,
};

const ELF: &[u8] = b"\x7fELF";
const STATIC_LIBRARY: &[u8] = b"!<arch>\n";
const SCRIPT: &[u8] = b"#!";

/// What a file is, as far as its name or its content tells.
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

/// Opens the file only if its name does not say what it is.
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
    // Elsewhere there is no mode to say so.
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

/// Damage is a fact: the file may belong to tests, or to nothing that is shipped.
fn read_elf(file: &impl ReadAt) -> Result<FileNature> {
    let damage = match elf::read(file) {
        Ok(Some(facts)) => {
            return Ok(FileNature {
                elf: Some(facts.clone()),
                ..FileKind::of_elf(facts.kind).into()
            });
        }
        Ok(None) => None,
        Err(ElfError::Io(error)) => return Err(error.into()),
        Err(error) => Some(error.to_string()),
    };
    Ok(FileNature {
        damage,
        ..FileKind::Other.into()
    })
}
