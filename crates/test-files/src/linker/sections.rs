//! Turns what a file is to contain into its sections.

use goblin::elf::{
    dynamic::{
        DF_1_PIE, DT_FLAGS_1, DT_GNU_HASH, DT_HASH, DT_NEEDED, DT_NULL, DT_RELA, DT_RELAENT,
        DT_RELASZ, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB, DT_SYMENT, DT_SYMTAB,
        DT_VERNEED, DT_VERNEEDNUM, DT_VERSYM,
    },
    header::{ET_DYN, ET_EXEC},
    reloc::R_X86_64_GLOB_DAT,
    section_header::{
        SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_DYNAMIC, SHT_DYNSYM, SHT_GNU_HASH,
        SHT_GNU_VERNEED, SHT_GNU_VERSYM, SHT_HASH, SHT_NOBITS, SHT_NOTE, SHT_PROGBITS, SHT_RELA,
        SHT_STRTAB,
    },
};

use super::{
    code::Code,
    device,
    layout::{self, Layout},
    plan::{At, DeviceRelocations, Form, HashStyle, Plan},
    shape::{Section, Shape, allocated},
    symbols::{self, Symbol},
    tables::{self, Strings},
};

const INTERPRETER: &str = "/lib64/ld-linux-x86-64.so.2";
const FIXED_BASE: u64 = 0x40_0000;
const WRITABLE: u32 = SHF_ALLOC | SHF_WRITE;

pub(super) fn build(plan: &Plan) -> Vec<u8> {
    let fixed = plan.is_fixed();
    let shape = Shape {
        elf_type: if fixed { ET_EXEC } else { ET_DYN },
        base: if fixed { FIXED_BASE } else { 0 },
        page: plan.page,
        table: plan.table,
        phdr: plan.phdr,
        section_headers: plan.section_headers,
    };
    layout::build(&shape, |at| sections(plan, at))
}

fn sections(plan: &Plan, at: &Layout) -> Vec<Section> {
    let code = code(plan);
    let (text, places) = text(&code, at);
    let mut sections = Vec::new();
    if plan.code_first {
        sections.push(text.clone());
    }
    sections.extend(interpreter(plan));
    sections.extend(
        plan.build_id
            .as_deref()
            .map(|id| allocated(".note.gnu.build-id", SHT_NOTE, tables::build_id(id)).align(4)),
    );
    let dynamic = if plan.is_dynamic() {
        let linking = Linking::new(plan, at, &places);
        sections.extend(linking.sections(plan, at));
        Some(linking.dynamic(plan, at))
    } else {
        None
    };
    for (name, bytes) in &plan.constants {
        sections.push(allocated(name, SHT_PROGBITS, bytes.clone()));
    }
    sections.extend(device::code(plan));
    sections.extend(plan.hole.iter().map(|(name, len)| {
        let hole = allocated(name, SHT_NOBITS, Vec::new());
        hole.hollow(*len).align(0x1000)
    }));
    if !plan.code_first {
        sections.push(text);
    }
    if let Some(bytes) = dynamic {
        let dynamic = allocated(".dynamic", SHT_DYNAMIC, bytes).flags(WRITABLE);
        sections.push(dynamic.align(8).entries(16).link(".dynstr"));
    }
    sections.extend(device::wrappers(plan, at));
    sections.extend(writable(plan));
    for (name, bytes) in &plan.unloaded {
        sections.push(allocated(name, SHT_PROGBITS, bytes.clone()).flags(0));
    }
    sections
}

fn interpreter(plan: &Plan) -> Option<Section> {
    let wanted = matches!(plan.form, Form::Program { .. }) && plan.is_linked();
    wanted.then(|| {
        let mut bytes = INTERPRETER.as_bytes().to_vec();
        bytes.push(0);
        allocated(".interp", SHT_PROGBITS, bytes)
    })
}

/// The functions in file order; what a program starts with comes first.
fn code(plan: &Plan) -> Vec<Code> {
    let start = match &plan.form {
        Form::Shared { .. } => None,
        Form::Program { text, status, call, .. } => Some(Code::program(text, *status, *call)),
    };
    let exports = plan.exports.iter().map(|(_, code)| code.clone());
    start.into_iter().chain(exports).collect()
}

/// `.text`, and the address and size of each function in it.
fn text(code: &[Code], at: &Layout) -> (Section, Vec<(u64, u64)>) {
    let start = at.address(".text");
    let got = at.address(".got");
    let mut bytes: Vec<u8> = Vec::new();
    let mut places = Vec::new();
    for function in code {
        bytes.resize(bytes.len().next_multiple_of(16), 0xcc);
        let address = start + bytes.len() as u64;
        places.push((address, function.len() as u64));
        bytes.extend(function.at(address, got));
    }
    let section = allocated(".text", SHT_PROGBITS, bytes).align(16);
    (section.flags(SHF_ALLOC | SHF_EXECINSTR), places)
}

fn writable(plan: &Plan) -> Vec<Section> {
    let mut sections = Vec::new();
    if !plan.imports.is_empty() {
        let got = allocated(".got", SHT_PROGBITS, vec![0; plan.imports.len() * 8]);
        sections.push(got.flags(WRITABLE).align(8).entries(8));
    }
    if plan.bss > 0 {
        let bss = allocated(".bss", SHT_NOBITS, Vec::new());
        sections.push(bss.flags(WRITABLE).align(32).hollow(plan.bss));
    }
    sections
}

/// What the dynamic loader reads.
struct Linking {
    symbols: Vec<Symbol>,
    strings: Strings,
    needed: Vec<u32>,
    versions: Vec<(u32, Vec<(u32, u32)>)>,
    soname: Option<u32>,
    rpath: Option<u32>,
    runpath: Option<u32>,
}

impl Linking {
    fn new(plan: &Plan, at: &Layout, places: &[(u64, u64)]) -> Self {
        let mut strings = Strings::default();
        let section = u16::try_from(at.index(".text")).unwrap_or(0);
        let imports = plan.imports.iter().map(|name| (name, None));
        // A program exports nothing, so its exports and its places never have to be told apart.
        let exports = plan.exports.iter().zip(places);
        let exports =
            exports.map(|((name, _), (address, size))| (name, Some((section, *address, *size))));
        let mut symbols: Vec<Symbol> = imports
            .chain(exports)
            .map(|(name, definition)| Symbol {
                name: name.clone(),
                place: strings.add(name),
                definition,
            })
            .collect();
        symbols::sort(&mut symbols);
        Self {
            symbols,
            needed: plan.needed.iter().map(|name| strings.add(name)).collect(),
            versions: needed_versions(plan, &mut strings),
            soname: match &plan.form {
                Form::Shared { soname } => soname.as_ref().map(|name| strings.add(name)),
                Form::Program { .. } => None,
            },
            rpath: plan.rpath.as_ref().map(|path| strings.add(path)),
            runpath: plan.runpath.as_ref().map(|path| strings.add(path)),
            strings,
        }
    }

    fn sections(&self, plan: &Plan, at: &Layout) -> Vec<Section> {
        let mut sections = Vec::new();
        if plan.hash != HashStyle::SysV {
            let table = symbols::gnu_hash_table(&self.symbols);
            let hash = allocated(".gnu.hash", SHT_GNU_HASH, table);
            sections.push(hash.align(8).link(".dynsym"));
        }
        if plan.hash != HashStyle::Gnu {
            let hash = allocated(".hash", SHT_HASH, symbols::sysv_hash_table(&self.symbols));
            sections.push(hash.align(8).entries(4).link(".dynsym"));
        }
        let table = allocated(".dynsym", SHT_DYNSYM, symbols::table(&self.symbols));
        let table = table.align(8).entries(24).link(".dynstr");
        // The index of the first symbol that is not local.
        sections.push(table.info(1));
        sections.extend(self.version_sections());
        let strings = self.strings.bytes().to_vec();
        sections.push(allocated(".dynstr", SHT_STRTAB, strings));
        sections.extend(self.relocations(plan, at));
        sections.extend(device::packed(plan, at));
        sections
    }

    fn version_sections(&self) -> Vec<Section> {
        if self.versions.is_empty() {
            return Vec::new();
        }
        // Every symbol is unversioned: 0 is the null symbol's, 1 that of all others.
        let mut indices = vec![0, 0];
        indices.extend(self.symbols.iter().flat_map(|_| 1_u16.to_le_bytes()));
        let needed = tables::needed_versions(&self.versions);
        let symbols = allocated(".gnu.version", SHT_GNU_VERSYM, indices);
        let needed = allocated(".gnu.version_r", SHT_GNU_VERNEED, needed);
        let count = u32::try_from(self.versions.len()).unwrap_or(0);
        vec![
            symbols.align(2).entries(2).link(".dynsym"),
            needed.align(8).link(".dynstr").info(count),
        ]
    }

    /// One relocation for each slot of the GOT.
    fn relocations(&self, plan: &Plan, at: &Layout) -> Option<Section> {
        let mut bytes = Vec::new();
        let got = at.address(".got");
        for (slot, import) in plan.imports.iter().enumerate() {
            let position = self.symbols.iter().position(|s| s.name == *import);
            let symbol = position.unwrap_or(0) as u64 + 1;
            let what = (symbol << 32) | u64::from(R_X86_64_GLOB_DAT);
            append!(bytes, got + slot as u64 * 8, what, 0_u64);
        }
        bytes.extend(device::relative(plan, at));
        (!bytes.is_empty()).then(|| {
            let relocations = allocated(".rela.dyn", SHT_RELA, bytes);
            relocations.align(8).entries(24).link(".dynsym")
        })
    }

    fn dynamic(&self, plan: &Plan, at: &Layout) -> Vec<u8> {
        let relocations = plan.imports.len() + plan.relocated(DeviceRelocations::Rela).len();
        let packed = plan.relocated(DeviceRelocations::Relr).len();
        let mut entries: Vec<(u64, u64)> = Vec::new();
        entries.extend(self.needed.iter().map(|name| (DT_NEEDED, u64::from(*name))));
        let texts = [(DT_SONAME, self.soname), (DT_RPATH, self.rpath), (DT_RUNPATH, self.runpath)];
        let texts = texts.iter().filter_map(|(tag, text)| Some((*tag, (*text)?.into())));
        entries.extend(texts);
        for (tag, section) in [
            (DT_GNU_HASH, ".gnu.hash"),
            (DT_HASH, ".hash"),
            (DT_STRTAB, ".dynstr"),
            (DT_SYMTAB, ".dynsym"),
            (DT_RELA, ".rela.dyn"),
            (device::DT_RELR, ".relr.dyn"),
            (DT_VERSYM, ".gnu.version"),
            (DT_VERNEED, ".gnu.version_r"),
        ] {
            let wanted = match tag {
                DT_GNU_HASH => plan.hash != HashStyle::SysV,
                DT_HASH => plan.hash != HashStyle::Gnu,
                DT_RELA => relocations > 0,
                device::DT_RELR => packed > 0,
                DT_VERSYM | DT_VERNEED => !self.versions.is_empty(),
                _ => true,
            };
            if wanted {
                entries.push((tag, at.address(section)));
            }
        }
        entries.push((DT_STRSZ, self.strings.bytes().len() as u64));
        entries.push((DT_SYMENT, 24));
        if relocations > 0 {
            entries.push((DT_RELASZ, relocations as u64 * 24));
            entries.push((DT_RELAENT, 24));
        }
        entries.extend(device::packed_size(packed));
        if !self.versions.is_empty() {
            entries.push((DT_VERNEEDNUM, self.versions.len() as u64));
        }
        if let Form::Program { at, .. } = &plan.form
            && *at != At::Fixed
        {
            entries.push((DT_FLAGS_1, DF_1_PIE));
        }
        entries.extend((0..=plan.spare_dynamic).map(|_| (DT_NULL, 0)));
        let words = entries.iter().flat_map(|(tag, value)| [tag, value]);
        words.flat_map(|word| word.to_le_bytes()).collect()
    }
}

fn needed_versions(plan: &Plan, strings: &mut Strings) -> Vec<(u32, Vec<(u32, u32)>)> {
    let versions = plan.versions.iter().map(|(library, versions)| {
        let names = versions.iter();
        let names = names.map(|name| (symbols::sysv_hash(name), strings.add(name)));
        let names = names.collect();
        (strings.add(library), names)
    });
    versions.collect()
}
