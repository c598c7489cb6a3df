//! Lists the code objects of any file that contains some: an archive, bundles or a fat binary. This
//! is what `kpack ls` prints.

use itertools::Itertools as _;
use serde::Serialize;

use crate::{
    ByteRegion, CodeTarget,
    archive::{self, KpackArchive},
    bundle,
    host::{self, FatFileKind, WrapperReference},
};
use rocwheel_base::error::{Context as _, Result};
use rocwheel_elf::ReadAt;

/// The kind of a file with device code.
#[derive(Clone, Debug, derive_more::Display, PartialEq, Eq)]
pub enum CodeFile {
    /// A `.kpack` archive.
    #[display("archive")]
    Archive,
    /// A file of bundles, such as the compiler leaves beside an object file.
    #[display("bundles")]
    Bundles,
    /// A binary with its device code.
    #[display("fat binary")]
    Fat,
    /// A binary whose device code was removed, and the references of its wrappers.
    #[display("split binary")]
    Split(Vec<WrapperReference>),
}

/// A code object of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundCode {
    /// In an archive, the key without the number of the bundle; otherwise empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The number of the bundle; in an archive, the number in the key.
    pub bundle: usize,
    /// The target that the code is for.
    pub target: CodeTarget,
    /// Its size once it is decoded.
    pub size: u64,
    /// Its size in the file; `None` in a compressed bundle, which is compressed as a whole.
    #[serde(rename = "stored", skip_serializing_if = "Option::is_none")]
    pub packed: Option<u64>,
    /// `none`, `zstd`, `CCOB v2 zlib`.
    pub compression: String,
}

/// Reads the bytes of a code object. `None` if that would take too much memory.
pub type ReadCode<'a> = dyn Fn() -> Result<Option<Vec<u8>>> + 'a;

/// Calls `each` with every code object of a file, and a function that reads its bytes. A code object, or a compressed
/// bundle, of more than `most` bytes is not read: a small file may say that it has gigabytes. `None` for a file
/// without device code.
pub fn each(
    source: &dyn ReadAt,
    most: u64,
    mut each: impl FnMut(&FoundCode, &ReadCode<'_>) -> Result<()>,
) -> Result<Option<CodeFile>> {
    let file = ByteRegion::whole(source);
    if file.has(0, archive::MAGIC)? {
        let archive = KpackArchive::open(source)?;
        for code in archive.codes() {
            let (name, number) = code.key.rsplit_once('#').unwrap_or((&code.key, "0"));
            let description = FoundCode {
                name: name.to_owned(),
                bundle: number
                    .parse()
                    .with_context(|| format!("failed to read the key `{}`", code.key))?,
                target: code.target.clone(),
                size: code.size,
                packed: Some(code.packed),
                compression: archive.scheme().to_string(),
            };
            let is_small = code.size.max(code.packed) <= most;
            each(&description, &|| is_small.then(|| archive.read(code)).transpose())?;
        }
        return Ok(Some(CodeFile::Archive));
    }
    if file.has(0, bundle::RAW)? || file.has(0, bundle::COMPRESSED)? {
        each_in_bundles(&file, most, each)?;
        return Ok(Some(CodeFile::Bundles));
    }
    let code = match host::look(source)? {
        FatFileKind::Fat(fat) => fat.code,
        // Code that must stay in its binary can still be looked at.
        FatFileKind::Unsplittable { code, .. } => code,
        FatFileKind::Split => return Ok(Some(CodeFile::Split(host::references(source)?))),
        FatFileKind::Plain => return Ok(None),
    };
    each_in_bundles(&ByteRegion::new(source, "device code", &code)?, most, each)?;
    Ok(Some(CodeFile::Fat))
}

/// Calls `each` with every code object of the bundles of a section.
fn each_in_bundles(
    section: &ByteRegion<'_>,
    most: u64,
    mut each: impl FnMut(&FoundCode, &ReadCode<'_>) -> Result<()>,
) -> Result<()> {
    for (ordinal, bundle) in bundle::find(section)?.iter().enumerate() {
        let opening = || format!("failed to open bundle {ordinal}");
        let compression = bundle.compression.as_ref();
        let describe = |target: &CodeTarget, size: u64| FoundCode {
            name: String::new(),
            bundle: ordinal,
            target: target.clone(),
            size,
            packed: compression.is_none().then_some(size),
            compression: compression.map_or("none".to_owned(), ToString::to_string),
        };
        if compression.is_some() && bundle.unpacked() > most {
            for (target, size) in bundle::parts(section, bundle).with_context(opening)? {
                each(&describe(&target, size), &|| Ok(None))?;
            }
            continue;
        }
        let opened = bundle::open(section, bundle).with_context(opening)?;
        for (target, entry) in opened.code() {
            let is_small = entry.size <= most;
            let read = || is_small.then(|| opened.read(entry)).transpose();
            each(&describe(target, entry.size), &read)?;
        }
    }
    Ok(())
}

/// The names of the kernels in a code object; empty if it cannot be parsed.
pub fn kernels(code: &[u8]) -> Vec<String> {
    let Ok(elf) = goblin::elf::Elf::parse(code) else {
        return Vec::new();
    };
    // Each kernel, such as `add`, has a kernel descriptor with the symbol `add.kd`; see
    // https://llvm.org/docs/AMDGPUUsage.html#symbols.
    elf.dynsyms
        .iter()
        .filter_map(|symbol| elf.dynstrtab.get_at(symbol.st_name))
        .filter_map(|name| name.strip_suffix(".kd"))
        .map(str::to_owned)
        .sorted()
        .collect()
}
