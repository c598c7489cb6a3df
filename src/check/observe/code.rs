//! Reads device code: the targets of a file of device code, from its headers and not from its name, and the
//! code of host libraries and programs, which is inside them (fat) or has moved to archives (split).
//!
//! Files of device code are `.kpack` archives,
//! [offload bundles](https://clang.llvm.org/docs/ClangOffloadBundler.html), and code objects, which
//! are ELF files ([AMDGPU ABI](https://llvm.org/docs/AMDGPUUsage.html)).

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::Range,
    sync::LazyLock,
};

use crate::check::{
    facts::{Cell, DeviceCodeFacts},
    sparse::{Forward, SparseFile},
};
use rocwheel_base::error::{Error, Result, bail, ensure};
use rocwheel_elf::ReadAt;
use rocwheel_kpack::{
    ByteRegion, CodeTarget,
    archive::{self, KpackArchive},
    bundle::{self, Bundle},
    host::{self, FatFileKind},
};

/// The bytes kept of a bundle. A compressed bundle has its table of targets at the beginning of the
/// decompressed data, so its first bytes are enough.
const BEGIN: u64 = 4 << 20;
const EM_AMDGPU: u16 = 224;

/// Reads a file of device code. Nothing is read if it does not begin like an archive or a bundle.
pub(super) fn read(begin: &[u8], source: &mut impl Forward) -> io::Result<DeviceCodeFacts> {
    let code = if begin.starts_with(archive::MAGIC) {
        KpackArchive::open(SparseFile::archive(source)?)
            .map(|archive| DeviceCodeFacts::Archive(Box::new(archive)))
    } else if bundle::is_begin(begin) {
        let sparse = SparseFile::begin(source, BEGIN)?;
        let region = ByteRegion::whole(&sparse);
        bundle::bundle_at(&region, 0)
            .and_then(|bundle| bundle::targets(&region, &bundle))
            .map(DeviceCodeFacts::Objects)
    } else {
        return Ok(DeviceCodeFacts::None);
    };
    Ok(code.unwrap_or_else(|error| DeviceCodeFacts::Unreadable(format!("{error:#}"))))
}

/// The target of an ELF file that is a code object itself.
pub(super) fn of_elf(source: &dyn ReadAt) -> Option<DeviceCodeFacts> {
    let header = ByteRegion::whole(source).bytes("header", 0, 64).ok()?;
    let machine = header.get(18..20)?.try_into().ok()?;
    if u16::from_le_bytes(machine) != EM_AMDGPU {
        return None;
    }
    let flags = u32::from_le_bytes(header.get(48..52)?.try_into().ok()?);
    // A processor that is not in the table yet gives no target. It must not give a wrong one.
    let target = target(flags, header.get(8).copied()?);
    Some(DeviceCodeFacts::Objects(target.into_iter().collect()))
}

/// Decodes `e_flags` of a code object of version 3 or later. `version` is `EI_ABIVERSION`.
fn target(flags: u32, version: u8) -> Option<CodeTarget> {
    let mut name = PROCESSORS.get(&format!("{:#04x}", flags & 0xff))?.clone();
    // The feature bits have this meaning from code object version 4 on, which is ABI version 2:
    // 2 is off, 3 is on. Version 3 has other bits for them.
    if version >= 2 {
        for (shift, feature) in [(10, "sramecc"), (8, "xnack")] {
            match flags >> shift & 3 {
                2 => name.extend([":", feature, "-"]),
                3 => name.extend([":", feature, "+"]),
                _ => {}
            }
        }
    }
    name.parse().ok()
}

/// The device code of a host ELF file. `is_split` says that it has a marker.
pub(super) fn of_host(file: &dyn ReadAt, is_split: bool) -> DeviceCodeFacts {
    let code = if is_split {
        host::references(file).map(DeviceCodeFacts::Split)
    } else {
        read_fat_elf(file)
    };
    code.unwrap_or_else(damaged)
}

/// The device code of a host file for Windows.
pub(super) fn of_windows(file: &dyn ReadAt) -> DeviceCodeFacts {
    host::windows(file)
        .and_then(|binary| match binary {
            host::Windows::Plain => Ok(DeviceCodeFacts::None),
            host::Windows::Split(references) => Ok(DeviceCodeFacts::Split(references)),
            host::Windows::Fat { code, wrapped } => read_wrapped_code(file, &code, &wrapped),
        })
        .unwrap_or_else(damaged)
}

/// The file names of the libraries that a file for Windows imports.
pub(super) fn imports_of_windows(file: &dyn ReadAt) -> Result<BTreeSet<String>, String> {
    host::imports(file).map_err(|error| format!("{error:#}"))
}

#[expect(clippy::needless_pass_by_value, reason = "`unwrap_or_else` passes it so")]
fn damaged(error: Error) -> DeviceCodeFacts {
    DeviceCodeFacts::Damaged(format!("{error:#}"))
}

/// The device code inside an ELF file without a marker.
fn read_fat_elf(file: &dyn ReadAt) -> Result<DeviceCodeFacts> {
    let code = match host::look(file)? {
        FatFileKind::Plain | FatFileKind::Split => return Ok(DeviceCodeFacts::None),
        FatFileKind::Fat(fat) => fat.code,
        // The code cannot be moved to archives, for example because no wrapper leads to it. The library may still
        // load the code by other means.
        FatFileKind::Unsplittable { code, .. } if !code.is_empty() => code,
        FatFileKind::Unsplittable { why, .. } => bail!("{why}"),
    };
    let section = ByteRegion::new(file, "device code", &code)?;
    count_code(&section, &bundle::find(&section)?)
}

/// The code of a file for Windows. `wrapped` are the offsets to which its wrappers lead: a bundle must be
/// at each.
fn read_wrapped_code(
    file: &dyn ReadAt,
    code: &Range<u64>,
    wrapped: &[u64],
) -> Result<DeviceCodeFacts> {
    let section = ByteRegion::new(file, "device code", code)?;
    let bundles = bundle::find(&section)?;
    for offset in wrapped {
        let leads_to_bundle = bundles.iter().any(|bundle| bundle.offset == *offset);
        ensure!(leads_to_bundle, "a wrapper that leads to no bundle: to {offset:#x}");
    }
    count_code(&section, &bundles)
}

/// The amount of code for each target in the bundles of a file.
fn count_code(section: &ByteRegion<'_>, bundles: &[Bundle]) -> Result<DeviceCodeFacts> {
    let mut cells: BTreeMap<CodeTarget, Cell> = BTreeMap::new();
    for bundle in bundles {
        for (target, bytes) in bundle::parts(section, bundle)? {
            cells.entry(target).or_default().add(Cell::of_code(bytes));
        }
    }
    Ok(DeviceCodeFacts::Fat(cells))
}

/// The processors by `EF_AMDGPU_MACH`, `0x4c`.
static PROCESSORS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    toml::from_str(include_str!("processors.toml")).expect("a test reads the built-in list")
});

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_base::target::TargetTable;
    use rocwheel_elf::ReadFrom;
    use rocwheel_test_files::bundles::{compress, raw};

    fn object(flags: u32, version: u8) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[8] = version;
        bytes[18..20].copy_from_slice(&EM_AMDGPU.to_le_bytes());
        bytes[48..52].copy_from_slice(&flags.to_le_bytes());
        bytes
    }

    fn shown(code: DeviceCodeFacts) -> String {
        match code {
            DeviceCodeFacts::Objects(targets) => {
                let targets: Vec<&str> = targets.iter().map(CodeTarget::as_str).collect();
                targets.join(" ")
            }
            DeviceCodeFacts::Unreadable(why) => why,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_code_object_says_what_it_is_for() {
        let said = |flags, version| shown(of_elf(&object(flags, version)).unwrap());
        assert_eq!(said(0x4c, 3), "gfx942");
        assert_eq!(said(0x13f, 3), "gfx90a");
        assert_eq!(said(0xe3f, 2), "gfx90a:sramecc+:xnack-");
        assert_eq!(said(0xe3f, 1), "gfx90a");
        assert_eq!(said(0x5f, 4), "gfx9-4-generic");
        assert_eq!(said(0x21, 3), "");
        assert!(of_elf(&&b"\x7fELF"[..]).is_none());
    }

    #[test]
    fn every_target_that_is_known_can_be_told() {
        for target in TargetTable::builtin().known() {
            let mut names = PROCESSORS.values();
            assert!(names.any(|name| name == target.as_str()), "{target}");
        }
    }

    fn looked(bytes: &[u8]) -> DeviceCodeFacts {
        read(bytes, &mut ReadFrom::new(bytes, 0)).unwrap()
    }

    #[test]
    fn a_bundle_of_every_form_says_what_it_holds() {
        let raw = raw(&[("gfx90a:xnack+", vec![1; 9000]), ("gfx942", vec![2; 9000])]);
        let compressed = compress(&raw, 2, "zstd").unwrap();
        for bytes in [raw, compressed] {
            assert_eq!(shown(looked(&bytes)), "gfx90a:xnack+ gfx942");
            let cut = bytes.get(..34).unwrap();
            assert!(matches!(looked(cut), DeviceCodeFacts::Unreadable(_)));
        }
        assert_eq!(shown(looked(b"text")), "None");
        assert_eq!(shown(looked(b"__C")), "None");
        insta::assert_snapshot!(shown(looked(b"KPAK")), @"the header lies outside of what holds it: 4 bytes at 4 of 4");
    }
}
