//! Renders program headers (`Elf64_Phdr`) and section headers (`Elf64_Shdr`), little-endian. See
//! the [gABI](https://www.sco.com/developers/gabi/latest/contents.html).

use goblin::elf::{ProgramHeader, SectionHeader};

pub(super) fn segment_bytes(segment: &ProgramHeader) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(segment.p_type.to_le_bytes());
    bytes.extend(segment.p_flags.to_le_bytes());
    let words = [
        segment.p_offset,
        segment.p_vaddr,
        segment.p_paddr,
        segment.p_filesz,
        segment.p_memsz,
        segment.p_align,
    ];
    bytes.extend(words.into_iter().flat_map(u64::to_le_bytes));
    bytes
}

pub(super) fn section_bytes(section: &SectionHeader) -> Vec<u8> {
    let name = u32::try_from(section.sh_name).unwrap_or(0);
    let mut bytes = Vec::new();
    bytes.extend(name.to_le_bytes());
    bytes.extend(section.sh_type.to_le_bytes());
    for word in [
        section.sh_flags,
        section.sh_addr,
        section.sh_offset,
        section.sh_size,
    ] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(section.sh_link.to_le_bytes());
    bytes.extend(section.sh_info.to_le_bytes());
    bytes.extend(section.sh_addralign.to_le_bytes());
    bytes.extend(section.sh_entsize.to_le_bytes());
    bytes
}
