//! Builds the [`InstalledTree`] of a set: all packages installed into one directory, with the
//! development files unpacked.

use crate::{
    archive::TarKind,
    check::facts::{Elf, SetFacts},
    loader::{FileContents, InstalledTree},
};

pub(super) fn tree(set: &SetFacts) -> InstalledTree<'_> {
    let mut tree = InstalledTree::default();
    for wheel in &set.wheels {
        for member in &wheel.members {
            let content = member.content.as_ref();
            let contents = content.map_or(FileContents::Unknown, |it| contents(it.elf.as_ref()));
            tree.add_file(&member.path, &wheel.file, contents);
        }
    }
    for wheel in &set.wheels {
        for devel in wheel.unpacked() {
            let path = devel.entry.path.as_str();
            match &devel.entry.kind {
                TarKind::Directory => tree.add_directory(path),
                TarKind::Symlink(text) => tree.add_link(path, text, &wheel.file),
                TarKind::Hardlink(_) => {}
                TarKind::File { .. } => {
                    tree.add_file(path, &wheel.file, contents(devel.elf.as_ref()));
                }
            }
        }
    }
    tree.add_libraries_behind_links();
    tree
}

fn contents(elf: Option<&Elf>) -> FileContents<'_> {
    match elf {
        Some(Elf::Read(elf)) => FileContents::Elf(&elf.facts),
        Some(Elf::Damaged(_) | Elf::TooLarge) => FileContents::Unknown,
        None => FileContents::Other,
    }
}
