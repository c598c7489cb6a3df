//! What a file is to contain, as one value.

use super::{code::Code, shape::TableAt};

/// Which hash tables the loader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashStyle {
    Gnu,
    SysV,
    Both,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) form: Form,
    pub(super) needed: Vec<String>,
    pub(super) versions: Vec<(String, Vec<String>)>,
    pub(super) rpath: Option<String>,
    pub(super) runpath: Option<String>,
    pub(super) imports: Vec<String>,
    pub(super) exports: Vec<(String, Code)>,
    pub(super) build_id: Option<Vec<u8>>,
    pub(super) hash: HashStyle,
    pub(super) spare_dynamic: usize,
    pub(super) constants: Vec<(String, Vec<u8>)>,
    pub(super) unloaded: Vec<(String, Vec<u8>)>,
    pub(super) hole: Option<(String, u64)>,
    pub(super) device: Option<Device>,
    pub(super) bss: u64,
    pub(super) code_first: bool,
    pub(super) table: TableAt,
    pub(super) phdr: bool,
    pub(super) section_headers: bool,
    pub(super) page: u64,
}

/// Device code, and the wrappers that lead to places in it.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) bytes: Vec<u8>,
    pub(super) wrappers: Vec<u64>,
    pub(super) relocations: DeviceRelocations,
}

/// How the pointers of wrappers get the load address added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceRelocations {
    /// By `R_X86_64_RELATIVE`; the file holds zeros, as lld leaves them.
    Rela,
    /// By `DT_RELR`: the file holds the addresses.
    Relr,
}

#[derive(Clone, Debug)]
pub(super) enum Form {
    Shared { soname: Option<String> },
    Program { text: String, status: u8, call: Option<usize>, at: At },
}

/// Where a program stands in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Wherever the kernel likes when it is dynamic; at a fixed address when it is static.
    Usual,
    Fixed,
    Anywhere,
}

impl Plan {
    pub(super) fn is_dynamic(&self) -> bool {
        match self.form {
            Form::Shared { .. } => true,
            Form::Program { at, .. } => at == At::Anywhere || self.is_linked(),
        }
    }

    /// Whether the dynamic loader has something to do, and so is asked for.
    pub(super) fn is_linked(&self) -> bool {
        !self.needed.is_empty() || !self.imports.is_empty()
    }

    /// The wrappers that are relocated in this way.
    pub(super) fn relocated(&self, how: DeviceRelocations) -> &[u64] {
        match &self.device {
            Some(device) if device.relocations == how && self.is_dynamic() && !self.is_fixed() => {
                &device.wrappers
            }
            _ => &[],
        }
    }

    pub(super) fn is_fixed(&self) -> bool {
        match self.form {
            Form::Shared { .. } => false,
            Form::Program { at, .. } => at == At::Fixed || !self.is_dynamic(),
        }
    }

    /// The slot of the GOT in which the loader puts an imported function.
    pub(super) fn import(&mut self, name: &str) -> usize {
        let known = self.imports.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.imports.push(name.to_owned());
            self.imports.len() - 1
        })
    }
}
