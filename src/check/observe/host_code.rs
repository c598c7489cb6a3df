//! The device code of a library or a program for the host, whether it is in it or was taken out.

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

/// Of an ELF file; `is_split` says that it has a marker.
pub(super) fn of_elf(file: &impl ReadAt, is_split: bool) -> HostCode {
    let found = if is_split {
        host::references(file).map(HostCode::Split)
    } else {
        fat(file)
    };
    found.unwrap_or_else(|error| damaged(&error))
}

/// Of a file for Windows, with what it is linked with.
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
        // Code that no wrapper leads to is loaded by other means.
        FatFileKind::Stuck { code, .. } if !code.is_empty() => code,
        FatFileKind::Stuck { why, .. } => bail!("{why}"),
    };
    let section = section(file, &code)?;
    carried(&section, &bundle::find(&section)?)
}

/// Every wrapper leads to a bundle.
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
