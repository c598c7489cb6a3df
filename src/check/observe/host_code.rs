//! Reads the device code of a host library or program: still in it (fat), or moved to archives
//! (split).

use std::{collections::BTreeSet, ops::Range};

use crate::{
    check::facts::{Carried, HostCode, WindowsFile},
    elf::ReadAt,
    error::{Error, Result, bail, ensure},
    kpack::{
        ByteRegion,
        bundle::{self, Bundle},
        host::{self, FatFileKind},
    },
};

/// Reads an ELF file. `is_split` says that it has a marker.
pub(super) fn of_elf(file: &impl ReadAt, is_split: bool) -> HostCode {
    let found = if is_split {
        host::references(file).map(HostCode::Split)
    } else {
        fat(file)
    };
    found.unwrap_or_else(|error| damaged(&error))
}

/// Reads a Windows file, and the names of the libraries that it imports.
pub(super) fn of_windows(file: &impl ReadAt) -> WindowsFile {
    let code = match host::windows(file) {
        Ok(host::Windows::Plain) => Ok(HostCode::None),
        Ok(host::Windows::Split(references)) => Ok(HostCode::Split(references)),
        Ok(host::Windows::Fat { code, wrapped }) => wrapped_code(file, &code, &wrapped),
        Err(error) => Err(error),
    };
    let code = code.unwrap_or_else(|error| damaged(&error));
    let needed = match code {
        HostCode::None | HostCode::Damaged(_) => Ok(BTreeSet::new()),
        HostCode::Split(_) | HostCode::Fat(_) => host::imports(file),
    };
    WindowsFile {
        code,
        needed: needed.map_err(|error| format!("{error:#}")),
    }
}

fn fat(file: &impl ReadAt) -> Result<HostCode> {
    let code = match host::look(file)? {
        FatFileKind::Plain | FatFileKind::Split => return Ok(HostCode::None),
        FatFileKind::Fat(fat) => fat.code,
        // No wrapper leads to this code, but the library may load it by other means.
        FatFileKind::Stuck { code, .. } if !code.is_empty() => code,
        FatFileKind::Stuck { why, .. } => bail!("{why}"),
    };
    let section = section(file, &code)?;
    carried(&section, &bundle::find(&section)?)
}

/// The code of a file, whose wrappers must all lead to a bundle.
fn wrapped_code(file: &impl ReadAt, code: &Range<u64>, wrapped: &[u64]) -> Result<HostCode> {
    let section = section(file, code)?;
    let found = bundle::find(&section)?;
    let is_lost = |place: &&u64| !found.iter().any(|bundle| bundle.offset == **place);
    let lost = wrapped.iter().find(is_lost);
    ensure!(
        lost.is_none(),
        "a wrapper that leads to no bundle: to {:#x}",
        lost.unwrap_or(&0)
    );
    carried(&section, &found)
}

fn section<'a, R: ReadAt>(file: &'a R, code: &Range<u64>) -> Result<ByteRegion<'a, R>> {
    let len = code.end.saturating_sub(code.start);
    ByteRegion::new(file, "device code", code.start, len)
}

fn carried<R: ReadAt>(section: &ByteRegion<'_, R>, bundles: &[Bundle]) -> Result<HostCode> {
    let mut carried = Carried::default();
    for bundle in bundles {
        for (target, bytes) in bundle::parts(section, bundle)? {
            carried.add(target, bytes);
        }
    }
    Ok(HostCode::Fat(carried))
}

fn damaged(error: &Error) -> HostCode {
    HostCode::Damaged(format!("{error:#}"))
}
