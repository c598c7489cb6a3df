//! The rules about the tables that a dynamic loader uses. Each function returns the texts of the rules
//! that a file breaks.
//!
//! A loader trusts these tables: a wrong address or number in them is a crash, or a symbol that is not
//! found, when the file is loaded or later. The output of every linker keeps the rules, and a rule about
//! which linkers disagree is not here. Time is linear in the size of the tables.

use std::{collections::BTreeSet, ops::Range};

use goblin::elf::{
    dynamic::{
        DF_TEXTREL, DT_FINI, DT_FINI_ARRAY, DT_FINI_ARRAYSZ, DT_FLAGS, DT_GNU_HASH, DT_HASH,
        DT_INIT, DT_INIT_ARRAY, DT_INIT_ARRAYSZ, DT_JMPREL, DT_PLTRELSZ, DT_PREINIT_ARRAY,
        DT_PREINIT_ARRAYSZ, DT_RELA, DT_RELACOUNT, DT_RELASZ, DT_STRSZ, DT_STRTAB, DT_SYMTAB,
        DT_TEXTREL, DT_VERDEF, DT_VERNEED, DT_VERSYM,
    },
    program_header::{PF_R, PF_W, PF_X, PT_GNU_EH_FRAME, PT_GNU_RELRO, PT_TLS},
    reloc::{
        R_X86_64_32, R_X86_64_64, R_X86_64_COPY, R_X86_64_DTPMOD64, R_X86_64_DTPOFF64,
        R_X86_64_GLOB_DAT, R_X86_64_IRELATIVE, R_X86_64_JUMP_SLOT, R_X86_64_NONE, R_X86_64_PC32,
        R_X86_64_PC64, R_X86_64_RELATIVE, R_X86_64_SIZE32, R_X86_64_SIZE64, R_X86_64_TLSDESC,
        R_X86_64_TPOFF64,
    },
    section_header::{
        SHN_ABS, SHN_UNDEF, SHT_DYNSYM, SHT_FINI_ARRAY, SHT_GNU_HASH, SHT_GNU_VERDEF,
        SHT_GNU_VERNEED, SHT_GNU_VERSYM, SHT_HASH, SHT_INIT_ARRAY, SHT_PREINIT_ARRAY, SHT_RELA,
        SHT_STRTAB,
    },
    sym::{STB_LOCAL, STT_TLS},
};

use crate::{
    check::{
        RawElf,
        rules::{PAGE, check_sections, is_loaded},
        texts_of_broken,
    },
    source::read_exact_at,
    tables::{DT_RELR, Section, Segment, contains, number, range},
};
use rocwheel_base::error::Result;

const DT_RELRSZ: u64 = 35;
const SHT_RELR: u32 = 19;
/// The size of a symbol, and of a relocation with addend.
const SYMBOL: u64 = 24;
const RELOCATION: u64 = 24;
/// The size of an address.
const ADDRESS: u64 = 8;
/// The longest table that is held in memory. Linkers make none that is longer.
const LONGEST: u64 = 64 << 20;
/// The most loaded segments of a file that is examined.
const MOST_SEGMENTS: usize = 1024;
/// The entries of a table that are read at a time.
const CHUNK: u64 = 4096;

/// The relocations that glibc knows in a file for x86-64.
const RELOCATION_TYPES: [u32; 16] = [
    R_X86_64_NONE,
    R_X86_64_64,
    R_X86_64_PC32,
    R_X86_64_COPY,
    R_X86_64_GLOB_DAT,
    R_X86_64_JUMP_SLOT,
    R_X86_64_RELATIVE,
    R_X86_64_32,
    R_X86_64_DTPMOD64,
    R_X86_64_DTPOFF64,
    R_X86_64_TPOFF64,
    R_X86_64_PC64,
    R_X86_64_SIZE32,
    R_X86_64_SIZE64,
    R_X86_64_TLSDESC,
    R_X86_64_IRELATIVE,
];

/// A table to which the dynamic table leads.
struct LoaderTable {
    name: &'static str,
    /// The tag with its address.
    address: u64,
    /// The tag with its size, if there is one.
    size: Option<u64>,
    /// The size of one entry.
    entry: u64,
    /// The type of its section.
    section: u32,
}

#[rustfmt::skip]
const LOADER_TABLES: [LoaderTable; 13] = [
    LoaderTable { name: "DT_SYMTAB", address: DT_SYMTAB, size: None, entry: 1, section: SHT_DYNSYM },
    LoaderTable { name: "DT_STRTAB", address: DT_STRTAB, size: Some(DT_STRSZ), entry: 1, section: SHT_STRTAB },
    LoaderTable { name: "DT_HASH", address: DT_HASH, size: None, entry: 1, section: SHT_HASH },
    LoaderTable { name: "DT_GNU_HASH", address: DT_GNU_HASH, size: None, entry: 1, section: SHT_GNU_HASH },
    LoaderTable { name: "DT_VERSYM", address: DT_VERSYM, size: None, entry: 1, section: SHT_GNU_VERSYM },
    LoaderTable { name: "DT_VERNEED", address: DT_VERNEED, size: None, entry: 1, section: SHT_GNU_VERNEED },
    LoaderTable { name: "DT_VERDEF", address: DT_VERDEF, size: None, entry: 1, section: SHT_GNU_VERDEF },
    LoaderTable { name: "DT_RELA", address: DT_RELA, size: Some(DT_RELASZ), entry: RELOCATION, section: SHT_RELA },
    LoaderTable { name: "DT_JMPREL", address: DT_JMPREL, size: Some(DT_PLTRELSZ), entry: RELOCATION, section: SHT_RELA },
    LoaderTable { name: "DT_RELR", address: DT_RELR, size: Some(DT_RELRSZ), entry: ADDRESS, section: SHT_RELR },
    LoaderTable { name: "DT_INIT_ARRAY", address: DT_INIT_ARRAY, size: Some(DT_INIT_ARRAYSZ), entry: ADDRESS, section: SHT_INIT_ARRAY },
    LoaderTable { name: "DT_FINI_ARRAY", address: DT_FINI_ARRAY, size: Some(DT_FINI_ARRAYSZ), entry: ADDRESS, section: SHT_FINI_ARRAY },
    LoaderTable { name: "DT_PREINIT_ARRAY", address: DT_PREINIT_ARRAY, size: Some(DT_PREINIT_ARRAYSZ), entry: ADDRESS, section: SHT_PREINIT_ARRAY },
];

/// What a dynamic loader uses of a program or library, beside the loaded segments: the tables to which
/// the dynamic table leads, and the segments about memory, TLS and exceptions.
pub(super) fn check_loader_tables(raw: &RawElf<'_>) -> Result<Vec<String>> {
    let memory = LoadedMemory::of(raw);
    // No linker makes so many, and each section is compared with each of them.
    if memory.segments.len() > MOST_SEGMENTS {
        return Ok(Vec::new());
    }
    let mut broken = check_described_memory(raw)?;
    broken.extend(check_sections(raw));
    for table in &LOADER_TABLES {
        broken.extend(check_place(raw, table));
    }
    broken.extend(check_functions(raw, &memory));
    // The entries of a table that is elsewhere have no meaning.
    if broken.is_empty() {
        let symbols = SymbolTable::find(raw);
        if let Some(symbols) = &symbols {
            broken.extend(check_symbols(raw, &memory, symbols)?);
            broken.extend(check_versions(raw, symbols)?);
            broken.extend(check_hash_table(raw, symbols)?);
        }
        for table in [RelocationTable::Data, RelocationTable::Functions] {
            broken.extend(check_relocations(raw, &memory, table, symbols.as_ref())?);
        }
        broken.extend(check_relative_relocations(raw, &memory)?);
    }
    Ok(broken)
}

/// The segments that describe memory: what becomes read-only is loaded, TLS has a possible alignment, and
/// the table for exceptions has the only version that there is.
fn check_described_memory(raw: &RawElf<'_>) -> Result<Vec<String>> {
    let first = |kind| raw.tables.first(kind).filter(|segment| segment.memory_size > 0);
    let is_mapped = |segment: &Segment| {
        // The loader rounds both ends down, and the kernel maps whole pages.
        let memory = segment.memory();
        let pages = memory.start / PAGE..memory.end / PAGE;
        let mut loads = raw.tables.loads();
        loads.any(|load| {
            let memory = load.memory();
            contains(&(memory.start / PAGE..memory.end.div_ceil(PAGE)), &pages)
        })
    };
    let has_version = |segment: &Segment| -> Result<bool> {
        let mut version = [0];
        read_exact_at(raw.tables.source, segment.offset, &mut version)?;
        Ok(version == [1])
    };
    let exceptions = match first(PT_GNU_EH_FRAME) {
        Some(segment) => is_loaded(raw, segment) && has_version(segment)?,
        None => true,
    };
    let tls = first(PT_TLS);
    Ok(texts_of_broken([
        (!first(PT_GNU_RELRO).is_none_or(is_mapped), "`PT_GNU_RELRO` is in no segment"),
        (
            tls.is_some_and(|tls| tls.align > 1 && !tls.align.is_power_of_two()),
            "the alignment of `PT_TLS` is no power of two",
        ),
        (
            tls.is_some_and(|tls| tls.file_size > tls.memory_size),
            "`PT_TLS` is larger than its memory",
        ),
        (!exceptions, "`PT_GNU_EH_FRAME` leads to no table for exceptions"),
    ]))
}

/// A table lies in a segment that can be read. If the file has sections of its kind, it begins and ends
/// with one.
fn check_place(raw: &RawElf<'_>, table: &LoaderTable) -> Option<String> {
    let LoaderTable { name, .. } = table;
    let address = raw.value(table.address)?;
    let size = table.size.map(|tag| raw.value(tag).unwrap_or(0));
    // Where an empty table begins has no meaning.
    if size == Some(0) {
        return None;
    }
    if size.is_some_and(|size| size % table.entry != 0) {
        return Some(format!("the size of `{name}` is no multiple of {}", table.entry));
    }
    let memory = range(address, size.unwrap_or(1));
    let is_readable = raw
        .tables
        .loads()
        .any(|load| load.flags & PF_R != 0 && contains(&(load.address..load.file_end()), &memory));
    if !is_readable {
        return Some(format!("`{name}` is in no segment that can be read: {address:#x}"));
    }
    let sections: Vec<Range<u64>> = raw
        .tables
        .sections
        .iter()
        .filter(|section| section.kind == table.section && section.is_loaded() && section.size > 0)
        .map(Section::memory)
        .collect();
    let agrees = sections.is_empty()
        || (sections.iter().any(|section| section.start == memory.start)
            && (size.is_none() || sections.iter().any(|section| section.end == memory.end)));
    (!agrees).then(|| format!("no section agrees on `{name}`: {address:#x}"))
}

/// The functions that a loader calls lie in a segment with code.
fn check_functions(raw: &RawElf<'_>, memory: &LoadedMemory<'_>) -> Vec<String> {
    [("DT_INIT", DT_INIT), ("DT_FINI", DT_FINI)]
        .into_iter()
        .filter_map(|(name, tag)| Some((name, raw.value(tag).filter(|address| *address != 0)?)))
        .filter(|(_, address)| !memory.can_run_at(*address))
        .map(|(name, address)| format!("`{name}` is where no code can run: {address:#x}"))
        .collect()
}

/// The loaded segments, in which an address is found in a few steps: a table may have millions of
/// addresses.
struct LoadedMemory<'a> {
    /// They ascend and do not overlap, as `check_loads` has found.
    segments: Vec<&'a Segment>,
    /// Whether a loader makes all segments writable while it relocates.
    has_text_relocations: bool,
}

impl<'a> LoadedMemory<'a> {
    fn of(raw: &'a RawElf<'_>) -> Self {
        Self {
            segments: raw.tables.loads().collect(),
            has_text_relocations: raw.value(DT_TEXTREL).is_some()
                || raw.value(DT_FLAGS).is_some_and(|flags| flags & DF_TEXTREL != 0),
        }
    }

    /// The segment that holds a range of memory.
    fn segment_around(&self, memory: &Range<u64>) -> Option<&'a Segment> {
        let after = self.segments.partition_point(|segment| segment.address <= memory.start);
        let segment = self.segments.get(after.checked_sub(1)?)?;
        contains(&segment.memory(), memory).then_some(segment)
    }

    fn can_run_at(&self, address: u64) -> bool {
        let segment = self.segment_around(&range(address, 1));
        segment.is_some_and(|segment| segment.flags & PF_X != 0)
    }

    /// Whether an address can be written there.
    fn can_write_at(&self, address: u64) -> bool {
        let segment = self.segment_around(&range(address, ADDRESS));
        segment.is_some_and(|segment| self.has_text_relocations || segment.flags & PF_W != 0)
    }

    /// Whether an address is between the first and the last byte, or right behind the last one.
    fn spans(&self, address: u64) -> bool {
        let start = self.segments.first().map_or(0, |segment| segment.address);
        let end = self.segments.last().map_or(0, |segment| segment.memory().end);
        start <= address && address <= end
    }
}

/// The dynamic symbols.
struct SymbolTable {
    /// The offset in the file.
    place: u64,
    count: u64,
}

impl SymbolTable {
    /// `None` if nothing says how many symbols there are.
    fn find(raw: &RawElf<'_>) -> Option<Self> {
        let address = raw.value(DT_SYMTAB)?;
        let mut sections = raw.tables.sections.iter();
        let section =
            sections.find(|section| section.kind == SHT_DYNSYM && section.address == address)?;
        let count = section.size / SYMBOL;
        let place = raw.tables.place(address, count * SYMBOL)?;
        Some(Self { place, count })
    }
}

/// Shows a table to `visit`, entry by entry, with the number of each. The table is read in chunks, since
/// it may have many megabytes.
fn visit_entries(
    raw: &RawElf<'_>,
    place: u64,
    size: u64,
    count: u64,
    mut visit: impl FnMut(u64, &[u8]),
) -> Result<()> {
    let mut chunk = Vec::new();
    for first in (0..count).step_by(usize::try_from(CHUNK)?) {
        chunk.resize(usize::try_from(CHUNK.min(count - first) * size)?, 0);
        read_exact_at(raw.tables.source, place + first * size, &mut chunk)?;
        for (index, entry) in (first..).zip(chunk.chunks_exact(usize::try_from(size)?)) {
            visit(index, entry);
        }
    }
    Ok(())
}

/// The first text for each rule. A damaged table breaks a rule in most of its entries.
#[derive(Default)]
struct FirstTexts(Vec<(&'static str, String)>);

impl FirstTexts {
    fn add(&mut self, is_broken: bool, rule: &'static str, text: impl FnOnce() -> String) {
        if is_broken && self.0.iter().all(|(known, _)| *known != rule) {
            self.0.push((rule, text()));
        }
    }

    fn into_vec(self) -> Vec<String> {
        self.0.into_iter().map(|(rule, entry)| format!("{entry}: {rule}")).collect()
    }
}

/// The name of a symbol lies in the dynamic strings, and what it stands for in a segment.
///
/// Whether its section exists is not asked: no loader reads that, and `strip` leaves other numbers.
fn check_symbols(
    raw: &RawElf<'_>,
    memory: &LoadedMemory<'_>,
    symbols: &SymbolTable,
) -> Result<Vec<String>> {
    let strings = raw.value(DT_STRSZ).unwrap_or(0);
    let tls = raw.tables.first(PT_TLS).map_or(0, |segment| segment.memory_size);
    let mut broken = FirstTexts::default();
    visit_entries(raw, symbols.place, SYMBOL, symbols.count, |index, symbol| {
        let Symbol { name, section, value, size, is_tls, .. } = Symbol::parse(symbol);
        let text = || format!("symbol {index}");
        broken.add(name >= strings, "its name is outside of the dynamic strings", text);
        if section == u64::from(SHN_UNDEF) || section == u64::from(SHN_ABS) {
            return;
        }
        let end = value.saturating_add(size);
        // A symbol such as `_end` is behind the last byte of a segment.
        let is_inside =
            if is_tls { end <= tls } else { memory.segment_around(&(value..end)).is_some() };
        broken.add(!is_inside, "it is in no segment", text);
    })?;
    Ok(broken.into_vec())
}

/// The fields of a symbol.
struct Symbol {
    name: u64,
    is_local: bool,
    is_tls: bool,
    section: u64,
    value: u64,
    size: u64,
}

impl Symbol {
    fn parse(bytes: &[u8]) -> Self {
        let info = number(bytes, 4, 1);
        Self {
            name: number(bytes, 0, 4),
            is_local: info >> 4 == u64::from(STB_LOCAL),
            is_tls: info & 0xf == u64::from(STT_TLS),
            section: number(bytes, 6, 2),
            value: number(bytes, 8, 8),
            size: number(bytes, 16, 8),
        }
    }
}

/// The version of each symbol is one that the file defines or needs.
fn check_versions(raw: &RawElf<'_>, symbols: &SymbolTable) -> Result<Vec<String>> {
    /// The number without the bit of a hidden version.
    const INDEX: u64 = 0x7fff;
    let Some(place) =
        raw.value(DT_VERSYM).and_then(|address| raw.tables.place(address, symbols.count * 2))
    else {
        return Ok(Vec::new());
    };
    // 0 is a local symbol, and 1 a global one without a version.
    let mut known = BTreeSet::from([0, 1]);
    for table in [DT_VERDEF, DT_VERNEED] {
        let records = raw.tables.version_records(raw.entries(), table)?;
        known.extend(records.into_iter().flat_map(|record| record.indexes));
    }
    let mut broken = FirstTexts::default();
    visit_entries(raw, place, 2, symbols.count, |index, version| {
        let is_known = known.contains(&(number(version, 0, 2) & INDEX));
        broken.add(!is_known, "its version is not defined", || format!("symbol {index}"));
    })?;
    Ok(broken.into_vec())
}

/// `DT_GNU_HASH` leads to each symbol that the file exports.
///
/// The [table](https://flapenguin.me/elf-dt-gnu-hash) has a Bloom filter, the first symbol of each
/// bucket, and a hash for each symbol, whose lowest bit is set at the end of a bucket. The symbols of a
/// bucket follow each other, so one pass over the symbols shows whether each of them is found.
fn check_hash_table(raw: &RawElf<'_>, symbols: &SymbolTable) -> Result<Vec<String>> {
    let Some(address) = raw.value(DT_GNU_HASH) else {
        return Ok(Vec::new());
    };
    let bytes = |address: u64, len: u64| -> Result<Option<Vec<u8>>> {
        let Some(place) = raw.tables.place(address, len).filter(|_| len <= LONGEST) else {
            return Ok(None);
        };
        raw.tables.bytes("table", place, len).map(Some)
    };
    let outside = || Ok(vec!["`DT_GNU_HASH` ends outside of its segment".to_owned()]);
    let Some(header) = bytes(address, 16)? else {
        return outside();
    };
    let [buckets, first, words, shift] = [0, 4, 8, 12].map(|at| number(&header, at, 4));
    let hashed = symbols.count.saturating_sub(first);
    let len = words * 8 + buckets * 4 + hashed * 4;
    let Some(table) = bytes(address.saturating_add(16), len)? else {
        return if len > LONGEST { Ok(Vec::new()) } else { outside() };
    };
    let strings = raw.strings().filter(|strings| strings.end - strings.start <= LONGEST);
    let Some(strings) = strings else {
        return Ok(Vec::new());
    };
    let strings =
        raw.tables.bytes("dynamic strings", strings.start, strings.end - strings.start)?;
    // The loader masks with the number of words.
    if !words.is_power_of_two() || (buckets == 0 && hashed > 0) {
        return Ok(vec!["`DT_GNU_HASH` has a size that no loader accepts".to_owned()]);
    }
    let word_at = |index: u64, at: u64, size: usize| {
        number(&table, usize::try_from(at + index * size as u64).unwrap_or(usize::MAX), size)
    };
    let filter = |word: u64| word_at(word, 0, 8);
    let bucket = |index: u64| word_at(index, words * 8, 4);
    let chain = |index: u64| word_at(index, words * 8 + buckets * 4, 4);
    // A table without symbols names the first one anyway. Then none may be exported.
    let is_empty = (0..buckets).all(|index| bucket(index) == 0);
    let (first, hashed) = if is_empty { (symbols.count, 0) } else { (first, hashed) };
    let mut broken = FirstTexts::default();
    let mut last_bucket = None;
    visit_entries(raw, symbols.place, SYMBOL, symbols.count, |index, bytes| {
        let symbol = Symbol::parse(bytes);
        let text = || format!("symbol {index}");
        let rule = "`DT_GNU_HASH` does not lead to it";
        if index < first {
            let is_exported = symbol.section != u64::from(SHN_UNDEF) && !symbol.is_local;
            return broken.add(is_exported, rule, text);
        }
        let name = strings.get(usize::try_from(symbol.name).unwrap_or(usize::MAX)..);
        let name = name.unwrap_or_default().split(|byte| *byte == 0).next().unwrap_or_default();
        let hash = gnu_hash(name);
        // x86-64 shifts by the lowest five bits of the number.
        let bits = 1 << (hash % 64) | 1 << ((hash >> (shift % 32)) % 64);
        let bucket_index = hash % buckets;
        let hash_in_table = chain(index - first);
        let is_first = last_bucket != Some(bucket_index);
        let is_last_before = index == first || chain(index - first - 1) & 1 == 1;
        let is_listed = filter(hash / 64 % words) & bits == bits
            && hash_in_table | 1 == hash | 1
            && is_first == is_last_before
            && (!is_first || bucket(bucket_index) == index);
        broken.add(!is_listed, rule, text);
        last_bucket = Some(bucket_index);
    })?;
    let has_end = hashed == 0 || chain(hashed - 1) & 1 == 1;
    broken.add(!has_end, "its last bucket has no end", || "`DT_GNU_HASH`".to_owned());
    Ok(broken.into_vec())
}

/// The hash of a name in `DT_GNU_HASH`.
fn gnu_hash(name: &[u8]) -> u64 {
    let hash =
        name.iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add((*byte).into()));
    hash.into()
}

/// A table of relocations with addends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RelocationTable {
    /// `DT_RELA`
    Data,
    /// `DT_JMPREL`: the functions of other libraries, which may be bound when they are called.
    Functions,
}

/// Each relocation has a type that loaders know, a symbol that exists, and a place that they may write.
fn check_relocations(
    raw: &RawElf<'_>,
    memory: &LoadedMemory<'_>,
    table: RelocationTable,
    symbols: Option<&SymbolTable>,
) -> Result<Vec<String>> {
    let (address_tag, size_tag, count_tag) = match table {
        RelocationTable::Data => (DT_RELA, DT_RELASZ, Some(DT_RELACOUNT)),
        RelocationTable::Functions => (DT_JMPREL, DT_PLTRELSZ, None),
    };
    let size = raw.value(size_tag).unwrap_or(0);
    let place = raw.value(address_tag).and_then(|address| raw.tables.place(address, size));
    let Some(place) = place else {
        return Ok(Vec::new());
    };
    // A loader relocates the first ones as relative ones, and does not look at their type.
    let relative = count_tag.and_then(|tag| raw.value(tag)).unwrap_or(0);
    let mut broken = FirstTexts::default();
    visit_entries(raw, place, RELOCATION, size / RELOCATION, |index, bytes| {
        let address = number(bytes, 0, 8);
        let kind = u32::try_from(number(bytes, 8, 4)).unwrap_or(u32::MAX);
        let symbol = number(bytes, 12, 4);
        let addend = number(bytes, 16, 8);
        let text = || format!("relocation {index} at {address:#x}");
        broken.add(!RELOCATION_TYPES.contains(&kind), "no loader knows its type", text);
        broken.add(
            symbols.is_some_and(|symbols| symbol >= symbols.count.max(1)),
            "its symbol does not exist",
            text,
        );
        broken.add(
            index < relative && kind != R_X86_64_RELATIVE,
            "`DT_RELACOUNT` counts it, and it is not relative",
            text,
        );
        if kind == R_X86_64_NONE {
            return;
        }
        broken.add(!memory.can_write_at(address), "it is in no segment that can be written", text);
        let leads_nowhere = match kind {
            R_X86_64_RELATIVE => !memory.spans(addend),
            R_X86_64_IRELATIVE => !memory.can_run_at(addend),
            _ => false,
        };
        broken.add(leads_nowhere, "it leads out of the file", text);
    })?;
    Ok(broken.into_vec())
}

/// The places in `DT_RELR` can be written. An even number is the address of one, and an odd number a
/// bitmap of the 63 addresses behind the ones before.
fn check_relative_relocations(raw: &RawElf<'_>, memory: &LoadedMemory<'_>) -> Result<Vec<String>> {
    let size = raw.value(DT_RELRSZ).unwrap_or(0);
    let place = raw.value(DT_RELR).and_then(|address| raw.tables.place(address, size));
    let Some(place) = place else {
        return Ok(Vec::new());
    };
    let mut broken = FirstTexts::default();
    let mut next = 0_u64;
    visit_entries(raw, place, ADDRESS, size / ADDRESS, |index, bytes| {
        let entry = number(bytes, 0, 8);
        let last = if entry & 1 == 0 {
            next = entry.wrapping_add(ADDRESS);
            entry
        } else {
            let last = next.wrapping_add(ADDRESS * u64::from(62 - (entry.leading_zeros().min(62))));
            next = next.wrapping_add(63 * ADDRESS);
            last
        };
        broken.add(!memory.can_write_at(last), "it is in no segment that can be written", || {
            format!("entry {index} of `DT_RELR`, {last:#x}")
        });
    })?;
    Ok(broken.into_vec())
}
