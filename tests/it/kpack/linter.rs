//! What `eu-elflint --gnu-ld` of elfutils 0.188 says of sections and symbols, as far as a split can change
//! it. It is not among the judges that tests can install, so that these are its rules, after the gABI; it
//! was run once by hand on the same files, with the same answers.

use std::collections::BTreeMap;

use goblin::elf::{
    Elf, ProgramHeader, SectionHeader, Symtab,
    program_header::{PF_X, PT_LOAD},
    section_header::{SHF_ALLOC, SHF_EXECINSTR, SHF_TLS, SHT_NOBITS, SHT_NULL},
};

/// The sections and symbols that the linter complains about, and what it says of each.
pub(crate) fn complaints(file: &[u8]) -> BTreeMap<String, &'static str> {
    let elf = Elf::parse(file).unwrap();
    let mut said = BTreeMap::new();
    for section in &elf.section_headers {
        let is_tls = section.sh_flags & u64::from(SHF_TLS) != 0;
        if section.sh_flags & u64::from(SHF_ALLOC) != 0 && !is_tls {
            let name = elf.shdr_strtab.get_at(section.sh_name).unwrap();
            let what = of_section(&elf, section, file);
            said.extend(what.map(|what| (name.to_owned(), what)));
        }
    }
    let loads = elf.program_headers.iter().filter(|it| it.p_type == PT_LOAD);
    for load in loads.filter(|load| load.p_flags & PF_X != 0) {
        let runs = elf.section_headers.iter().any(|section| {
            let start = usize::try_from(section.sh_addr).unwrap();
            let is_code = section.sh_flags & u64::from(SHF_EXECINSTR) != 0;
            is_code && load.vm_range().contains(&start)
        });
        if !runs {
            said.insert("segment".to_owned(), "can be run, but has no code");
        }
    }
    for (table, symbols) in [(".dynsym", &elf.dynsyms), (".symtab", &elf.syms)] {
        said.extend(of_symbols(&elf, table, symbols));
    }
    said
}

/// The segment of a section is the first in which its first byte lies by its offset; a section without
/// bytes may lie in the zeros of a segment, which have no offset of their own.
fn segment<'a>(elf: &'a Elf<'_>, section: &SectionHeader) -> Option<&'a ProgramHeader> {
    let mut loads = elf.program_headers.iter().filter(|it| it.p_type == PT_LOAD);
    loads.find(|load| {
        let Some(inside) = section.sh_offset.checked_sub(load.p_offset) else {
            return false;
        };
        let has_bytes = inside < load.p_filesz;
        let at_the_end = inside == load.p_filesz && section.sh_size == 0;
        let in_zeros = section.sh_type == SHT_NOBITS && inside < load.p_memsz;
        has_bytes || at_the_end || in_zeros
    })
}

fn of_section(elf: &Elf<'_>, section: &SectionHeader, file: &[u8]) -> Option<&'static str> {
    let Some(load) = segment(elf, section) else {
        return Some("is in no segment");
    };
    if load.p_offset + load.p_memsz < section.sh_offset + section.sh_size {
        return Some("is not fully contained in its segment");
    }
    if section.sh_type == SHT_NOBITS && section.sh_offset < load.p_offset + load.p_filesz {
        let start = usize::try_from(section.sh_offset).unwrap();
        let bytes = file[start..].iter().take(usize::try_from(section.sh_size).unwrap());
        let mut others = bytes.filter(|byte| **byte != 0);
        return others.next().map(|_| "has no bytes, but some are read");
    }
    None
}

fn of_symbols(elf: &Elf<'_>, table: &str, symbols: &Symtab<'_>) -> BTreeMap<String, &'static str> {
    let is_dynamic = table == ".dynsym";
    let names = if is_dynamic { &elf.dynstrtab } else { &elf.strtab };
    let outside = symbols.iter().filter(|symbol| {
        let section = elf.section_headers.get(symbol.st_shndx);
        section.is_some_and(|section| {
            let is_tls = section.sh_flags & u64::from(SHF_TLS) != 0;
            let inside = symbol.st_value.wrapping_sub(section.sh_addr);
            section.sh_type != SHT_NULL
                && !is_tls
                && inside.saturating_add(symbol.st_size) > section.sh_size
        })
    });
    let name = |at| names.get_at(at).unwrap_or_default();
    let said = outside.map(|it| format!("{table}: {}", name(it.st_name)));
    said.map(|what| (what, "is out of bounds")).collect()
}
