//! What a file is to contain, said call by call.

use std::marker::PhantomData;

use super::{
    code::Code,
    plan::{At, Device, DeviceRelocations, Form, HashStyle, Plan},
    sections,
    shape::TableAt,
    tables::noise,
};

/// A file to be written; start with `SharedObject::new` or `Executable::new`.
#[derive(Clone, Debug)]
#[must_use]
pub struct Object<K> {
    pub(super) plan: Plan,
    kind: PhantomData<K>,
}

/// A shared object with an soname.
pub type SharedObject = Object<Shared>;

/// A program: static until it needs or calls something, and position independent from then on.
pub type Executable = Object<Program>;

#[derive(Clone, Debug)]
pub enum Shared {}

#[derive(Clone, Debug)]
pub enum Program {}

impl Object<Shared> {
    pub fn new(soname: &str) -> Self {
        Self::of(Form::Shared { soname: Some(soname.to_owned()) })
    }

    pub fn without_soname(mut self) -> Self {
        self.plan.form = Form::Shared { soname: None };
        self
    }

    /// Exports a function that returns a number.
    pub fn function(mut self, name: &str, value: i32) -> Self {
        let code = Code::returning(value);
        self.plan.exports.push((name.to_owned(), code));
        self
    }

    /// Exports a function that returns what a function of another library returns.
    pub fn calls(mut self, name: &str, import: &str) -> Self {
        let code = Code::jumping_to(self.plan.import(import));
        self.plan.exports.push((name.to_owned(), code));
        self
    }

    /// Leaves out `PT_PHDR`, as GNU ld does in a shared object.
    pub fn without_phdr(mut self) -> Self {
        self.plan.phdr = false;
        self
    }
}

impl Object<Program> {
    pub fn new() -> Self {
        Self::of(Form::Program { text: String::new(), status: 0, call: None, at: At::Usual })
    }

    /// Prints a text, to the letter, before it ends.
    pub fn prints(mut self, wanted: &str) -> Self {
        if let Form::Program { text, .. } = &mut self.plan.form {
            wanted.clone_into(text);
        }
        self
    }

    pub fn exits(mut self, wanted: u8) -> Self {
        if let Form::Program { status, .. } = &mut self.plan.form {
            *status = wanted;
        }
        self
    }

    /// Exits with what a function of a library returns.
    pub fn calls(mut self, import: &str) -> Self {
        let slot = self.plan.import(import);
        if let Form::Program { call, .. } = &mut self.plan.form {
            *call = Some(slot);
        }
        self
    }

    /// Stands at a fixed address even when it is dynamic (`ET_EXEC`).
    pub fn at_fixed_address(mut self) -> Self {
        if let Form::Program { at, .. } = &mut self.plan.form {
            *at = At::Fixed;
        }
        self
    }

    /// Position independent even when it is static (static-PIE).
    pub fn at_any_address(mut self) -> Self {
        if let Form::Program { at, .. } = &mut self.plan.form {
            *at = At::Anywhere;
        }
        self
    }
}

impl<K> Object<K> {
    fn of(form: Form) -> Self {
        Self {
            plan: Plan {
                form,
                needed: Vec::new(),
                versions: Vec::new(),
                rpath: None,
                runpath: None,
                imports: Vec::new(),
                exports: Vec::new(),
                build_id: None,
                hash: HashStyle::Gnu,
                spare_dynamic: 0,
                constants: Vec::new(),
                unloaded: Vec::new(),
                hole: None,
                device: None,
                bss: 0,
                code_first: false,
                table: TableAt::Start,
                phdr: true,
                section_headers: true,
                page: 0x1000,
            },
            kind: PhantomData,
        }
    }

    /// Adds a `DT_NEEDED`.
    pub fn needs(mut self, soname: &str) -> Self {
        self.plan.needed.push(soname.to_owned());
        self
    }

    /// Adds a `DT_NEEDED`, unless it is there, and a GNU symbol version that it must have.
    pub fn needs_version(mut self, soname: &str, version: &str) -> Self {
        let plan = &mut self.plan;
        if !plan.needed.iter().any(|known| known == soname) {
            plan.needed.push(soname.to_owned());
        }
        let version = version.to_owned();
        match plan.versions.iter_mut().find(|it| it.0 == soname) {
            Some((_, versions)) => versions.push(version),
            None => plan.versions.push((soname.to_owned(), vec![version])),
        }
        self
    }

    /// Sets `DT_RPATH`.
    pub fn rpath(mut self, path: &str) -> Self {
        self.plan.rpath = Some(path.to_owned());
        self
    }

    /// Sets `DT_RUNPATH`.
    pub fn runpath(mut self, path: &str) -> Self {
        self.plan.runpath = Some(path.to_owned());
        self
    }

    pub fn build_id(mut self, id: &[u8]) -> Self {
        self.plan.build_id = Some(id.to_vec());
        self
    }

    pub fn hash_style(mut self, style: HashStyle) -> Self {
        self.plan.hash = style;
        self
    }

    /// Spare entries at the end of the dynamic table, as GNU ld leaves them and lld does not.
    pub fn spare_dynamic_entries(mut self, count: usize) -> Self {
        self.plan.spare_dynamic = count;
        self
    }

    /// A section that is loaded, such as `.rocm_kpack_ref`.
    pub fn section(mut self, name: &str, bytes: &[u8]) -> Self {
        self.plan.constants.push((name.to_owned(), bytes.to_vec()));
        self
    }

    /// A section that is only in the file, such as `.comment`.
    pub fn unloaded_section(mut self, name: &str, bytes: &[u8]) -> Self {
        self.plan.unloaded.push((name.to_owned(), bytes.to_vec()));
        self
    }

    /// Bytes in `.rodata` that do not compress, so that the file has a size.
    pub fn payload(self, len: usize) -> Self {
        self.section(".rodata", &noise(len))
    }

    /// A section that takes memory but no bytes of the file, as the kpack split leaves
    /// `.hip_fatbin`.
    pub fn hollow_section(mut self, name: &str, len: u64) -> Self {
        self.plan.hole = Some((name.to_owned(), len));
        self
    }

    /// Device code: `.hip_fatbin` with the bytes, and a wrapper in `.hipFatBinSegment` for each
    /// offset of a bundle in them. At a fixed address nothing is relocated.
    pub fn device_code(
        mut self,
        bytes: &[u8],
        wrappers: &[u64],
        relocations: DeviceRelocations,
    ) -> Self {
        self.plan.device =
            Some(Device { bytes: bytes.to_vec(), wrappers: wrappers.to_vec(), relocations });
        self
    }

    /// Zeroes in memory after the data.
    pub fn bss(mut self, len: u64) -> Self {
        self.plan.bss = len;
        self
    }

    /// Puts the code directly behind the program headers, where nothing can make room for them.
    pub fn code_first(mut self) -> Self {
        self.plan.code_first = true;
        self
    }

    pub fn program_headers(mut self, place: TableAt) -> Self {
        self.plan.table = place;
        self
    }

    pub fn without_section_headers(mut self) -> Self {
        self.plan.section_headers = false;
        self
    }

    /// What segments are aligned to: a power of two, 4096 if nothing is said.
    pub fn page_size(mut self, size: u64) -> Self {
        self.plan.page = size;
        self
    }

    pub fn build(&self) -> Vec<u8> {
        sections::build(&self.plan)
    }
}
