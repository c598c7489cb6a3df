//! Sections and segments, before they have a place.

use goblin::elf::{
    program_header::{PF_R, PF_W, PF_X},
    section_header::{SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_NOBITS},
};

#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) align: u64,
    pub(super) entry_size: u64,
    pub(super) link: &'static str,
    pub(super) info: u32,
    pub(super) bytes: Vec<u8>,
    /// What it takes in memory alone, when it has no bytes.
    pub(super) hollow: u64,
}

/// Where the program header table lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableAt {
    /// After the file header, as every linker puts it.
    Start,
    /// At the end, in a segment of its own with spare slots, as the kpack split puts it.
    End { spare: u16 },
    /// The same, at an offset equal to its address, as the kpack split does for executables.
    EndPinned { spare: u16 },
}

/// How a file is laid out, apart from its sections.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) elf_type: u16,
    pub(super) base: u64,
    pub(super) page: u64,
    pub(super) table: TableAt,
    pub(super) phdr: bool,
    pub(super) section_headers: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) file_size: u64,
    pub(super) memory_size: u64,
    pub(super) align: u64,
}

/// A section that is loaded, for reading alone.
pub(super) fn allocated(name: &str, kind: u32, bytes: Vec<u8>) -> Section {
    Section { name: name.to_owned(), kind, flags: SHF_ALLOC, align: 1, bytes, ..Section::default() }
}

impl Section {
    pub(super) fn align(self, align: u64) -> Self {
        Self { align, ..self }
    }

    pub(super) fn flags(self, flags: u32) -> Self {
        Self { flags, ..self }
    }

    pub(super) fn entries(self, entry_size: u64) -> Self {
        Self { entry_size, ..self }
    }

    pub(super) fn link(self, link: &'static str) -> Self {
        Self { link, ..self }
    }

    pub(super) fn info(self, info: u32) -> Self {
        Self { info, ..self }
    }

    pub(super) fn hollow(self, hollow: u64) -> Self {
        Self { hollow, ..self }
    }

    pub(super) fn is_allocated(&self) -> bool {
        self.flags & SHF_ALLOC != 0
    }

    pub(super) fn segment_flags(&self) -> u32 {
        let flag = |section, segment| {
            if self.flags & section == 0 { 0 } else { segment }
        };
        PF_R | flag(SHF_WRITE, PF_W) | flag(SHF_EXECINSTR, PF_X)
    }

    pub(super) fn is_hole(&self) -> bool {
        self.kind == SHT_NOBITS && self.flags & SHF_WRITE == 0
    }

    pub(super) fn file_size(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn memory_size(&self) -> u64 {
        self.file_size().max(self.hollow)
    }
}

impl Segment {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        append!(bytes, self.kind, self.flags);
        append!(bytes, self.offset, self.address, self.address);
        append!(bytes, self.file_size, self.memory_size, self.align);
        bytes
    }

    pub(super) fn end(&self) -> u64 {
        self.address + self.memory_size
    }
}
