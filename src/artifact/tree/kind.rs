//! The kind of a file. Its name is considered first, then its contents.

use crate::elf;

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

    /// The kind of an ELF file whose name does not determine it.
    pub(super) fn of_elf(kind: elf::ElfKind) -> Self {
        match kind {
            elf::ElfKind::Executable => Self::Executable,
            elf::ElfKind::SharedObject => Self::SharedObject,
            elf::ElfKind::Other => Self::Other,
        }
    }
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
