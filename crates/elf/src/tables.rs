//! [`ElfTables`]: the headers of a file, from small reads at their offsets, in the form that edits need.
//!
//! goblin parses the single structures. Its `Elf::parse` is not used, because it needs the whole
//! file and reads all symbols and relocations.

use std::ops::Range;

use goblin::{
    container::{Container, Ctx, Endian},
    elf::{
        Elf, Header, ProgramHeader, SectionHeader,
        dynamic::{self, DF_1_PIE, DT_FLAGS_1, DT_NULL},
        header::{
            EI_CLASS, EI_DATA, ELFCLASS32, ELFCLASS64, ELFDATA2LSB, ELFDATA2MSB, EM_X86_64, ET_DYN,
            ET_EXEC,
        },
        program_header::{PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_NULL, PT_PHDR},
        section_header::{self, SHF_TLS, SHT_NOBITS, SHT_NULL},
    },
};

use crate::{Machine, ReadAt, source::read_exact_at};
use rocwheel_base::error::{Context as _, Result, bail, ensure};

/// `EM_AMDGPU`: a device code object. By its type it is a shared object, but no host can load it.
/// See the [AMDGPU ABI](https://llvm.org/docs/AMDGPUUsage.html#header).
const EM_AMDGPU: u16 = 224;
/// Limit for damaged files: a dynamic table of 4,096 entries.
const MAX_DYNAMIC: u64 = 1 << 16;

/// `SHF_ALLOC`: the section is loaded.
pub const ALLOC: u64 = 2;
/// `SHF_EXECINSTR`: the section has machine code.
pub const SECTION_EXECUTE: u64 = 4;

/// The size of a program header, of a section header, and of an entry of the dynamic table.
pub const SEGMENT: u64 = 56;
pub(crate) const SECTION: u64 = 64;
pub(crate) const ENTRY: usize = 16;

/// The tables that may move if the new address has the same bytes: the type of their section, and
/// the tag with their address. Nothing else in a file refers to such a table.
pub(super) const MOVABLE: [(u32, u64); 7] = [
    (section_header::SHT_HASH, dynamic::DT_HASH),
    (section_header::SHT_GNU_HASH, dynamic::DT_GNU_HASH),
    (section_header::SHT_DYNSYM, dynamic::DT_SYMTAB),
    (section_header::SHT_GNU_VERSYM, dynamic::DT_VERSYM),
    (section_header::SHT_GNU_VERNEED, dynamic::DT_VERNEED),
    (section_header::SHT_GNU_VERDEF, dynamic::DT_VERDEF),
    // A changed file has a copy of the strings, which may be longer.
    (section_header::SHT_STRTAB, dynamic::DT_STRTAB),
];
/// The tags whose value is an offset in the dynamic strings, without the tags of run paths.
pub(super) const STRING_TAGS: [u64; 7] = [
    dynamic::DT_NEEDED,
    dynamic::DT_SONAME,
    dynamic::DT_CONFIG,
    dynamic::DT_DEPAUDIT,
    dynamic::DT_AUDIT,
    DT_AUXILIARY,
    DT_FILTER,
];
const DT_AUXILIARY: u64 = 0x7fff_fffd;
const DT_FILTER: u64 = 0x7fff_ffff;
pub(super) const DT_RELR: u64 = 36;
/// All other tags that hold an address. What they refer to is code or data, which never moves.
pub(super) const FIXED_ADDRESSES: [u64; 11] = [
    dynamic::DT_PLTGOT,
    dynamic::DT_RELA,
    dynamic::DT_INIT,
    dynamic::DT_FINI,
    dynamic::DT_REL,
    dynamic::DT_JMPREL,
    dynamic::DT_INIT_ARRAY,
    dynamic::DT_FINI_ARRAY,
    dynamic::DT_PREINIT_ARRAY,
    DT_RELR,
    dynamic::DT_TLSDESC_PLT,
];
/// Limit for damaged files, whose version records may form a loop.
const MAX_VERSIONS: usize = 1 << 14;

/// The headers of a file, for any machine.
pub struct ElfTables<'a> {
    pub(crate) source: &'a dyn ReadAt,
    /// The first bytes of the file, which are the file header.
    pub header: [u8; 64],
    /// The same header, parsed.
    pub(crate) head: Header,
    /// The class and the byte order of the file.
    ctx: Ctx,
    /// The program headers, in the order of the file.
    pub segments: Vec<Segment>,
    /// The section headers of a linked file. Empty for other files, and without a section header table.
    pub sections: Vec<Section>,
}

/// A program header. `address` is `p_vaddr`, and `physical` is `p_paddr`, which linkers make the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `p_type`, such as `PT_LOAD`.
    pub kind: u32,
    /// `p_flags`: whether the memory may be read, written and run.
    pub flags: u32,
    /// `p_offset`: where its bytes begin in the file.
    pub offset: u64,
    /// `p_vaddr`: where they are loaded, relative to where the file is loaded.
    pub address: u64,
    /// `p_paddr`, which no loader of a host reads.
    pub physical: u64,
    /// `p_filesz`: how many bytes are in the file.
    pub file_size: u64,
    /// `p_memsz`: how many bytes it has in memory. Those behind `file_size` are zeros.
    pub memory_size: u64,
    /// `p_align`. The offset and the address have the same rest modulo this.
    pub align: u64,
}

/// A section header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The name; empty unless a reader fills it in.
    pub name: String,
    /// The offset of the name in the section name table.
    pub name_at: u32,
    /// `sh_type`, such as `SHT_DYNAMIC`.
    pub kind: u32,
    /// `sh_flags`, such as [`ALLOC`].
    pub flags: u64,
    /// `sh_addr`; 0 if the section is not loaded.
    pub address: u64,
    /// `sh_offset`: where its bytes begin in the file.
    pub offset: u64,
    /// `sh_size`. A section of type `SHT_NOBITS` has a size, and no bytes in the file.
    pub size: u64,
    /// `sh_link`: the index of another section, mostly the names that this one refers to.
    pub link: u32,
    /// `sh_info`, whose meaning depends on the type.
    pub info: u32,
    /// `sh_addralign`; 0 and 1 both mean that any address will do.
    pub align: u64,
    /// `sh_entsize`: the size of one entry; 0 if the section is no table.
    pub entry_size: u64,
}

/// One entry of the dynamic table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicEntry {
    /// `d_tag`, such as `DT_NEEDED`.
    pub tag: u64,
    /// `d_val` or `d_ptr`: an address, a size, or an offset in the dynamic strings. The tag decides.
    pub value: u64,
}

impl<'a> ElfTables<'a> {
    /// Reads the headers; `None` if the file does not begin with the magic number of ELF.
    pub fn read(source: &'a dyn ReadAt) -> Result<Option<Self>> {
        let mut bytes = [0; 64];
        let len = usize::try_from(source.len()).unwrap_or(usize::MAX).min(64);
        read_exact_at(source, 0, bytes.get_mut(..len).unwrap_or_default())?;
        if !bytes.starts_with(b"\x7fELF") {
            return Ok(None);
        }
        let container = match bytes.get(EI_CLASS) {
            Some(&ELFCLASS32) => Container::Little,
            Some(&ELFCLASS64) => Container::Big,
            _ => bail!("neither a 32-bit nor a 64-bit file"),
        };
        let endian = match bytes.get(EI_DATA) {
            Some(&ELFDATA2LSB) => Endian::Little,
            Some(&ELFDATA2MSB) => Endian::Big,
            _ => bail!("neither little-endian nor big-endian"),
        };
        let ctx = Ctx::new(container, endian);
        ensure!(len >= Header::size(ctx), "the file ends in its header, after {len} bytes");
        let header = Elf::parse_header(&bytes).context("a damaged header")?;
        let mut tables = Self {
            source,
            header: bytes,
            head: header,
            ctx,
            segments: Vec::new(),
            sections: Vec::new(),
        };
        tables.segments = tables.read_segments()?;
        if tables.is_linked() && tables.section_table_at() != 0 {
            tables.sections = tables.read_sections()?;
        }
        Ok(Some(tables))
    }

    /// Whether this is a program or a shared object, for any machine.
    pub fn is_linked(&self) -> bool {
        matches!(self.head.e_type, ET_DYN | ET_EXEC)
    }

    /// The machine that the file is for, from its class, byte order and `e_machine`.
    pub fn machine(&self) -> Machine {
        let host = self.ctx.is_big() && self.ctx.is_little_endian();
        match self.head.e_machine {
            EM_X86_64 if host => Machine::X86_64,
            EM_AMDGPU => Machine::AmdGpu,
            other => Machine::Other(other),
        }
    }

    fn read_segments(&self) -> Result<Vec<Segment>> {
        let count = self.head.e_phnum;
        // This number is `PN_XNUM`: the real number is in the first section header.
        ensure!(count != u16::MAX, "more than 65,534 program headers, which is not supported");
        let bytes = self.read_headers(&HeaderTable {
            what: "program",
            offset: self.head.e_phoff,
            count,
            stated_size: self.head.e_phentsize,
            size: ProgramHeader::size(self.ctx),
        })?;
        let headers = ProgramHeader::parse(&bytes, 0, count.into(), self.ctx)
            .context("a damaged program header table")?;
        Ok(headers.iter().map(Segment::from).collect())
    }

    /// Reads the section headers. `read` leaves out the section headers of an object file, which may be
    /// very many.
    pub fn read_sections(&self) -> Result<Vec<Section>> {
        let count = self.head.e_shnum;
        let size = SectionHeader::size(self.ctx);
        ensure!(count > 0, "more than 65,279 sections, which is not supported");
        let bytes = self.read_headers(&HeaderTable {
            what: "section",
            offset: self.head.e_shoff,
            count,
            stated_size: self.head.e_shentsize,
            size,
        })?;
        // The gABI stores the real number of sections in the size of the first header if the number
        // does not fit into `e_shnum`, and goblin follows that size. A damaged file could have any
        // size there, so a null header replaces the first one, which has no other use.
        let rest = SectionHeader::parse_from(&bytes, size, usize::from(count) - 1, self.ctx)
            .context("a damaged section header table")?;
        let headers = [SectionHeader::default()].into_iter().chain(rest);
        Ok(headers.map(|header| Section::from(&header)).collect())
    }

    fn read_headers(&self, table: &HeaderTable) -> Result<Vec<u8>> {
        let HeaderTable { what, offset, count, stated_size, size } = *table;
        ensure!(
            count == 0 || usize::from(stated_size) == size,
            "{what} headers of {stated_size} bytes instead of {size}"
        );
        // The offset of an empty table has no meaning, and may lie outside the file.
        let start = if count == 0 { 0 } else { offset };
        self.bytes(&format!("{what} header table"), start, u64::from(count) * size as u64)
    }

    /// Reads a range of the file. The range is checked before memory is allocated for it, so a
    /// damaged length cannot allocate more than the size of the file.
    pub(crate) fn bytes(&self, what: &str, offset: u64, len: u64) -> Result<Vec<u8>> {
        let size = self.source.len();
        let is_inside = offset.checked_add(len).is_some_and(|end| end <= size);
        let (true, Ok(count)) = (is_inside, usize::try_from(len)) else {
            bail!("the {what} lies outside the file: {len} bytes at {offset} of {size}");
        };
        let mut bytes = vec![0; count];
        read_exact_at(self.source, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Whether the file has only debug information. Such a file (`objcopy --only-keep-debug`) has
    /// the headers of the original, but not the bytes of its loaded sections.
    pub(crate) fn is_debug_only(&self) -> bool {
        let Some(dynamic) = self.first(PT_DYNAMIC) else {
            return false;
        };
        // Before binutils 2.35, `objcopy` left the sizes in the program headers, so the section
        // type has to be checked too.
        dynamic.file_size == 0
            || self.sections.iter().any(|section| {
                section.kind == SHT_NOBITS
                    && section.address == dynamic.address
                    && section.size > 0
                    && section.flags & u64::from(SHF_TLS) == 0
            })
    }

    /// All slots of the dynamic table, with the spare ones behind `DT_NULL`.
    pub(crate) fn slots(&self) -> Result<Vec<DynamicEntry>> {
        let Some(table) = self.first(PT_DYNAMIC) else {
            return Ok(Vec::new());
        };
        let len = table.file_size;
        ensure!(len <= MAX_DYNAMIC, "a dynamic table of {len} bytes");
        let bytes = self.bytes("dynamic table", table.offset, len)?;
        let size = self.ctx.size();
        let slots = bytes.chunks_exact(2 * size).map(|entry| DynamicEntry {
            tag: self.number(entry, 0, size),
            value: self.number(entry, size, size),
        });
        Ok(slots.collect())
    }

    /// The entries of the dynamic table before `DT_NULL`; `None` if there is no table, or if it is
    /// not terminated.
    pub fn dynamic(&self) -> Result<Option<Vec<DynamicEntry>>> {
        let mut entries = self.slots()?;
        let used = count_used(&entries);
        let is_terminated = used < entries.len();
        entries.truncate(used);
        Ok(is_terminated.then_some(entries))
    }

    /// The length of the file.
    pub fn file_len(&self) -> u64 {
        self.source.len()
    }

    /// Whether this is a program at a fixed address (`ET_EXEC`).
    pub fn is_fixed(&self) -> bool {
        self.head.e_type == ET_EXEC
    }

    /// Whether this is a program: at a fixed address, or position-independent.
    pub fn is_executable(&self, dynamic: &[DynamicEntry]) -> bool {
        self.is_fixed()
            || self.first(PT_INTERP).is_some()
            || last_value(dynamic, DT_FLAGS_1).is_some_and(|flags| flags & DF_1_PIE != 0)
    }

    /// The address at which a program starts (`e_entry`).
    pub(crate) fn entry(&self) -> u64 {
        self.head.e_entry
    }

    /// The offset of the program headers in the file.
    pub fn segment_table_at(&self) -> u64 {
        self.head.e_phoff
    }

    /// The offset of the section headers in the file; 0 if there are none.
    pub fn section_table_at(&self) -> u64 {
        self.head.e_shoff
    }

    /// The index of the section with the names (`e_shstrndx`).
    pub fn name_section_index(&self) -> usize {
        self.head.e_shstrndx.into()
    }

    /// The range of the program headers in the file.
    pub fn segment_table_range(&self) -> Range<u64> {
        range(self.segment_table_at(), self.segments.len() as u64 * SEGMENT)
    }

    /// The range of the section headers in the file; empty for a file that is not linked.
    pub fn section_table_range(&self) -> Range<u64> {
        range(self.section_table_at(), self.sections.len() as u64 * SECTION)
    }

    /// The segments that are loaded (`PT_LOAD`), in the order of the table.
    pub fn loads(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == PT_LOAD)
    }

    /// The loaded segment that contains a whole range of the file.
    pub(super) fn load_around(&self, file: &Range<u64>) -> Option<&Segment> {
        self.loads().find(|load| load.covers(file))
    }

    /// The first segment of a type (`p_type`).
    pub fn first(&self, kind: u32) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.kind == kind)
    }

    /// The offset in the file of `len` bytes at an address; `None` if no segment loads all of them.
    pub fn place(&self, address: u64, len: u64) -> Option<u64> {
        self.loads().find_map(|load| {
            let inside = address.checked_sub(load.address)?;
            let rest = load.file_size.checked_sub(inside)?;
            (rest >= len).then(|| load.offset.saturating_add(inside))
        })
    }

    /// A number in the byte order of the file.
    pub(super) fn number(&self, bytes: &[u8], at: usize, size: usize) -> u64 {
        let mut digits = bytes.get(at..at + size).unwrap_or_default().to_vec();
        if !self.ctx.is_little_endian() {
            digits.reverse();
        }
        number(&digits, 0, size)
    }

    /// Whether anything but a run path has its name in a part of the dynamic strings: an entry of the
    /// dynamic table, a version, or a symbol. The answer is also yes if it cannot be known: a wrong no
    /// would let the planner write over a name.
    pub(super) fn is_named(&self, dynamic: &[DynamicEntry], part: &Range<u64>) -> Result<bool> {
        let is_inside = |offset: &u64| part.contains(offset);
        let strings_at = last_value(dynamic, dynamic::DT_STRTAB);
        let strings = self.sections.iter().position(|section| {
            section.kind == section_header::SHT_STRTAB
                && section.is_loaded()
                && Some(section.address) == strings_at
        });
        let symbols_at = last_value(dynamic, dynamic::DT_SYMTAB);
        let has_symbols = self.sections.iter().any(|section| {
            section.kind == section_header::SHT_DYNSYM && Some(section.address) == symbols_at
        });
        // Only the section headers say how many symbols the table has.
        let Some(strings) = strings.filter(|_| has_symbols) else {
            return Ok(true);
        };
        let mut entries = dynamic.iter().filter(|entry| STRING_TAGS.contains(&entry.tag));
        if entries.any(|entry| is_inside(&entry.value)) {
            return Ok(true);
        }
        for table in [dynamic::DT_VERNEED, dynamic::DT_VERDEF] {
            let records = self.version_records(dynamic, table)?;
            if records.iter().flat_map(|record| &record.names).any(is_inside) {
                return Ok(true);
            }
        }
        for section in self.sections.iter().filter(|section| section.link as usize == strings) {
            match section.kind {
                section_header::SHT_DYNSYM if self.is_symbol_named(section, part)? => {
                    return Ok(true);
                }
                // The names of these were compared above: here, or as entries and versions.
                section_header::SHT_DYNSYM
                | section_header::SHT_DYNAMIC
                | section_header::SHT_GNU_VERNEED
                | section_header::SHT_GNU_VERDEF => {}
                // Another table with names in these strings, whose format is not known.
                _ => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Whether a symbol of a table has its name in a part of its strings. A table may have megabytes, so
    /// it is read in chunks.
    fn is_symbol_named(&self, table: &Section, part: &Range<u64>) -> Result<bool> {
        const SYMBOL: usize = 24;
        let mut chunk = vec![0; SYMBOL << 12];
        let file = table.file();
        let mut offset = file.start;
        while offset < file.end {
            let len = usize::try_from(file.end - offset)?.min(chunk.len());
            let symbols = &mut chunk[..len];
            read_exact_at(self.source, offset, symbols)?;
            let mut names = symbols.chunks(SYMBOL).map(|symbol| number(symbol, 0, 4));
            if names.any(|name| part.contains(&name)) {
                return Ok(true);
            }
            offset += len as u64;
        }
        Ok(false)
    }

    /// The records of the needed (`DT_VERNEED`) or defined (`DT_VERDEF`) GNU symbol versions. See
    /// [Symbol Versioning] in the Linux Standard Base.
    ///
    /// The records have the same fields in files of both classes, and the byte order of the file.
    ///
    /// [Symbol Versioning]:
    /// https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/symversion.html
    pub(super) fn version_records(
        &self,
        dynamic: &[DynamicEntry],
        table: u64,
    ) -> Result<Vec<VersionRecord>> {
        let format =
            if table == dynamic::DT_VERNEED { &NEEDED_VERSIONS } else { &DEFINED_VERSIONS };
        let mut left = MAX_VERSIONS;
        // The distance to the next record is the last field that is read, so a record is read up to it.
        let mut read_record = |address: u64, last_field: usize| -> Result<_> {
            left = left.checked_sub(1).context("the symbol versions have no end")?;
            let mut record = vec![0; last_field + 4];
            let offset = self
                .place(address, record.len() as u64)
                .context("a symbol version is in no segment")?;
            read_exact_at(self.source, offset, &mut record)?;
            Ok(record)
        };
        let mut records = Vec::new();
        let mut next_address = last_value(dynamic, table);
        for _ in 0..last_value(dynamic, format.count_tag).unwrap_or(0) {
            let Some(address) = next_address else { break };
            let record = read_record(address, format.next)?;
            let library = format.name.map(|field| self.number(&record, field, 4));
            let mut names = Vec::from_iter(library);
            let defined = format.index.map(|field| self.number(&record, field, 2));
            let mut indexes = Vec::from_iter(defined);
            let mut inner_address = address.saturating_add(self.number(&record, format.inner, 4));
            for _ in 0..self.number(&record, format.inner_count, 2) {
                let version = read_record(inner_address, format.inner_next)?;
                names.push(self.number(&version, format.inner_name, 4));
                indexes.extend(format.inner_index.map(|field| self.number(&version, field, 2)));
                let step = self.number(&version, format.inner_next, 4);
                inner_address = inner_address.saturating_add(step);
                // A distance of 0 ends the list, even if the stated number is larger.
                if step == 0 {
                    break;
                }
            }
            records.push(VersionRecord { names, indexes });
            let step = self.number(&record, format.next, 4);
            next_address = (step > 0).then(|| address.saturating_add(step));
        }
        Ok(records)
    }
}

/// A record of the needed or defined symbol versions.
pub(super) struct VersionRecord {
    /// The offsets of its names in the dynamic strings. The first name of a needed record is the library.
    pub(super) names: Vec<u64>,
    /// The numbers that symbols use for its versions.
    pub(super) indexes: Vec<u64>,
}

/// A table of program headers or section headers, as the file header describes it.
struct HeaderTable {
    what: &'static str,
    offset: u64,
    count: u16,
    /// The size of one header in the file header. A table of any other size than `size` is refused.
    stated_size: u16,
    /// The size of one header by the class of the file.
    size: usize,
}

/// Where the fields of version records are: a list of records, each with a list of inner records. A
/// number is the offset of a field in its record.
struct VersionFormat {
    /// The tag of the dynamic table with the number of records.
    count_tag: u64,
    /// The name of a record. Only needed versions have it: the library.
    name: Option<usize>,
    /// The number of a defined version.
    index: Option<usize>,
    /// The number of inner records.
    inner_count: usize,
    /// The distance to the first inner record.
    inner: usize,
    /// The distance to the next record, or 0.
    next: usize,
    /// The name of an inner record: the version.
    inner_name: usize,
    /// The number of a needed version.
    inner_index: Option<usize>,
    /// The distance to the next inner record, or 0.
    inner_next: usize,
}

/// `Elf64_Verneed` and `Elf64_Vernaux`.
const NEEDED_VERSIONS: VersionFormat = VersionFormat {
    count_tag: dynamic::DT_VERNEEDNUM,
    name: Some(4),
    index: None,
    inner_count: 2,
    inner: 8,
    next: 12,
    inner_name: 8,
    inner_index: Some(6),
    inner_next: 12,
};
/// `Elf64_Verdef` and `Elf64_Verdaux`.
const DEFINED_VERSIONS: VersionFormat = VersionFormat {
    count_tag: dynamic::DT_VERDEFNUM,
    name: None,
    index: Some(4),
    inner_count: 6,
    inner: 12,
    next: 16,
    inner_name: 0,
    inner_index: None,
    inner_next: 4,
};

impl Segment {
    /// Its program header as bytes of a 64-bit little-endian file.
    pub fn render(&self) -> Vec<u8> {
        [
            [self.kind, self.flags].map(u32::to_le_bytes).concat(),
            [self.offset, self.address, self.physical].map(u64::to_le_bytes).concat(),
            [self.file_size, self.memory_size, self.align].map(u64::to_le_bytes).concat(),
        ]
        .concat()
    }

    /// The range of its bytes in the file.
    pub fn file(&self) -> Range<u64> {
        range(self.offset, self.file_size)
    }

    /// The range of addresses that it has in memory.
    pub fn memory(&self) -> Range<u64> {
        range(self.address, self.memory_size)
    }

    /// Gives it a size, all of which is in the file.
    pub fn resize(&mut self, size: u64) {
        self.file_size = size;
        self.memory_size = size;
    }

    /// The address behind the last byte that is loaded from the file.
    pub fn file_end(&self) -> u64 {
        self.address.saturating_add(self.file_size)
    }

    /// The distance between the segment's address and its offset in the file.
    pub fn bias(&self) -> u64 {
        self.address.wrapping_sub(self.offset)
    }

    pub(crate) fn covers(&self, range: &Range<u64>) -> bool {
        contains(&self.file(), range)
    }

    /// Whether it gives a meaning to a part of the file, as `PT_NOTE` does: it is neither loaded,
    /// nor the program headers, nor unused.
    pub(super) fn is_meaningful(&self) -> bool {
        !matches!(self.kind, PT_LOAD | PT_PHDR | PT_NULL)
    }
}

impl From<&ProgramHeader> for Segment {
    fn from(header: &ProgramHeader) -> Self {
        Self {
            kind: header.p_type,
            flags: header.p_flags,
            offset: header.p_offset,
            address: header.p_vaddr,
            physical: header.p_paddr,
            file_size: header.p_filesz,
            memory_size: header.p_memsz,
            align: header.p_align,
        }
    }
}

impl Section {
    /// Its section header as bytes of a 64-bit little-endian file.
    pub fn render(&self) -> Vec<u8> {
        [
            [self.name_at, self.kind].map(u32::to_le_bytes).concat(),
            [self.flags, self.address, self.offset, self.size].map(u64::to_le_bytes).concat(),
            [self.link, self.info].map(u32::to_le_bytes).concat(),
            [self.align, self.entry_size].map(u64::to_le_bytes).concat(),
        ]
        .concat()
    }

    /// Its bytes in the file; an empty range for `SHT_NOBITS`.
    pub fn file(&self) -> Range<u64> {
        let has_none = matches!(self.kind, SHT_NULL | SHT_NOBITS);
        range(self.offset, if has_none { 0 } else { self.size })
    }

    /// The range of addresses that it has in memory, if it is loaded.
    pub fn memory(&self) -> Range<u64> {
        range(self.address, self.size)
    }

    /// Whether the section is in memory when the file runs.
    pub fn is_loaded(&self) -> bool {
        self.flags & ALLOC != 0
    }
}

impl From<&SectionHeader> for Section {
    fn from(header: &SectionHeader) -> Self {
        Self {
            name: String::new(),
            name_at: u32::try_from(header.sh_name).unwrap_or(0),
            kind: header.sh_type,
            flags: header.sh_flags,
            address: header.sh_addr,
            offset: header.sh_offset,
            size: header.sh_size,
            link: header.sh_link,
            info: header.sh_info,
            align: header.sh_addralign,
            entry_size: header.sh_entsize,
        }
    }
}

/// Counts the entries before the terminating `DT_NULL`, or all entries without one.
pub(crate) fn count_used(slots: &[DynamicEntry]) -> usize {
    slots.iter().position(|entry| entry.tag == DT_NULL).unwrap_or(slots.len())
}

/// The value of a tag. If the tag is repeated, the loader uses the last entry.
pub fn last_value(dynamic: &[DynamicEntry], tag: u64) -> Option<u64> {
    dynamic.iter().rev().find(|entry| entry.tag == tag).map(|entry| entry.value)
}

/// Whether a tag has the address of a table that may move.
pub(super) fn is_movable(tag: u64) -> bool {
    MOVABLE.iter().any(|(_, movable)| *movable == tag)
}

/// Whether the value of a tag is an address.
pub(super) fn is_address(tag: u64) -> bool {
    is_movable(tag) || FIXED_ADDRESSES.contains(&tag)
}

pub(super) fn contains(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Whether two ranges overlap. An empty range counts if it lies inside of the other.
pub fn overlaps(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

pub(crate) fn range(start: u64, len: u64) -> Range<u64> {
    start..start.saturating_add(len)
}

/// A little-endian number of at most eight bytes; 0 if `bytes` ends before them.
pub fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let digits = bytes.get(at..at.saturating_add(size)).unwrap_or_default();
    digits.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}
