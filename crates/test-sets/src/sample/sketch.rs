//! `Sketch`: one artifact of the sample while it is being described.

use std::io::{self, Cursor, Read};

use rocwheel_base::{
    error::{Context as _, Result},
    relpath::RelPath,
};
use rocwheel_test_files::{
    linker::{Executable, SharedObject},
    tars,
};
use rocwheel_wheel::tar::{ArchiveFormat, TarEntry, TarKind, TarPlan};

use super::device::{self, Kernels};

/// Every member's time: 2020-01-01.
const TIME: u64 = 1_577_836_800;

pub struct Sketch {
    name: String,
    format: ArchiveFormat,
    stages: Vec<&'static str>,
    members: Vec<(String, Content)>,
}

enum Content {
    Directory,
    Bytes(Vec<u8>),
    Program(Vec<u8>),
    Link(String),
    HardLink(String),
}

impl Sketch {
    pub fn zst(name: &str) -> Self {
        Self::new(name, ArchiveFormat::TarZst)
    }

    pub fn xz(name: &str) -> Self {
        Self::new(name, ArchiveFormat::TarXz)
    }

    fn new(name: &str, format: ArchiveFormat) -> Self {
        Self { name: name.to_owned(), format, stages: Vec::new(), members: Vec::new() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// `blas_lib_generic.tar.zst`.
    pub fn file_name(&self) -> String {
        format!("{}{}", self.name, self.format.extension())
    }

    /// What follows lies in this directory of the build tree.
    pub fn stage(mut self, stage: &'static str) -> Self {
        self.stages.push(stage);
        self
    }

    pub fn directory(self, path: &str) -> Self {
        self.with(path, Content::Directory)
    }

    pub fn text(self, path: &str, text: &str) -> Self {
        self.with(path, Content::Bytes(text.as_bytes().to_vec()))
    }

    pub fn bytes(self, path: &str, bytes: Vec<u8>) -> Self {
        self.with(path, Content::Bytes(bytes))
    }

    pub fn script(self, path: &str, text: &str) -> Self {
        self.with(path, Content::Program(text.as_bytes().to_vec()))
    }

    /// An executable that prints a text.
    pub fn tool(self, path: &str, says: &str) -> Self {
        let program = Executable::new().prints(says).build();
        self.with(path, Content::Program(program))
    }

    pub fn program(self, path: &str, program: Vec<u8>) -> Self {
        self.with(path, Content::Program(program))
    }

    pub fn link(self, path: &str, text: &str) -> Self {
        self.with(path, Content::Link(text.to_owned()))
    }

    pub fn hard_link(self, path: &str, to: &str) -> Self {
        let to = self.staged(to);
        self.with(path, Content::HardLink(to))
    }

    /// A library whose device code was taken out of it: `Kernels` says what that was.
    pub fn split_library(
        self,
        directory: &str,
        soname: &str,
        minor: &str,
        kernels: &Kernels,
        shape: impl FnOnce(SharedObject) -> SharedObject,
    ) -> Self {
        let bytes = device::split(shape(SharedObject::new(soname)), kernels);
        self.library_of(directory, soname, minor, bytes)
    }

    /// The archive with the device code of some libraries for a target.
    pub fn archive(self, libraries: &[Kernels], target: &str) -> Self {
        let path = format!(".kpack/{}_{target}.kpack", device::group(libraries));
        self.bytes(&path, device::archive(libraries, target))
    }

    /// A library under its full version, and the two links that lead to it.
    ///
    /// `library("lib", "librocblas.so.5", ".1", …)` gives `librocblas.so.5.1`, which calls itself
    /// `librocblas.so.5`, and the links `librocblas.so.5` and `librocblas.so`.
    pub fn library(
        self,
        directory: &str,
        soname: &str,
        minor: &str,
        shape: impl FnOnce(SharedObject) -> SharedObject,
    ) -> Self {
        let bytes = shape(SharedObject::new(soname)).build();
        self.library_of(directory, soname, minor, bytes)
    }

    fn library_of(self, directory: &str, soname: &str, minor: &str, bytes: Vec<u8>) -> Self {
        let full = format!("{soname}{minor}");
        let (bare, _) = soname.split_once(".so.").unwrap_or((soname, ""));
        let at = |name: &str| format!("{directory}/{name}");
        let library = self.with(&at(&full), Content::Program(bytes));
        let versioned = library.with(&at(soname), Content::Link(full));
        versioned.with(&at(&format!("{bare}.so")), Content::Link(soname.to_owned()))
    }

    fn with(mut self, path: &str, content: Content) -> Self {
        let path = self.staged(path);
        self.members.push((path, content));
        self
    }

    fn staged(&self, path: &str) -> String {
        format!("{}/{path}", self.stages.last().copied().unwrap_or("stage"))
    }

    pub fn pack(&self) -> Result<Vec<u8>> {
        let manifest = self.stages.join("\n") + "\n";
        let mut entries = vec![file("artifact_manifest.txt".parse()?, manifest.len(), false)];
        for (path, content) in &self.members {
            entries.push(content.entry(path.parse()?)?);
        }
        let tar = TarPlan::new(entries, TIME)?.stream(|index| {
            let member = index.checked_sub(1).and_then(|index| self.members.get(index));
            let bytes = match member {
                None => manifest.as_bytes(),
                Some((_, Content::Bytes(bytes) | Content::Program(bytes))) => bytes,
                Some(_) => &[],
            };
            Ok(Cursor::new(bytes.to_vec()))
        });
        compress(self.format, tar).with_context(|| format!("pack `{}`", self.name))
    }
}

/// Compresses a tar as CI does.
pub fn compress(format: ArchiveFormat, tar: impl Read) -> io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    tars::compress(format.extension(), tar, &mut packed)?;
    Ok(packed)
}

impl Content {
    fn entry(&self, path: RelPath) -> Result<TarEntry> {
        Ok(match self {
            Self::Directory => TarEntry { path, kind: TarKind::Directory },
            Self::Bytes(bytes) => file(path, bytes.len(), false),
            Self::Program(bytes) => file(path, bytes.len(), true),
            Self::Link(text) => TarEntry { path, kind: TarKind::Symlink(text.clone()) },
            Self::HardLink(to) => TarEntry { path, kind: TarKind::Hardlink(to.parse()?) },
        })
    }
}

fn file(path: RelPath, len: usize, executable: bool) -> TarEntry {
    TarEntry { path, kind: TarKind::File { len: len as u64, executable } }
}
