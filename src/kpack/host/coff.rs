//! As much of Windows binaries as it takes to see whether there is device code in them.

use std::ops::Range;

use crate::{elf::ReadAt, error::Result, kpack::Region};

/// Section names are cut to eight bytes.
const CODE: &[u8; 8] = b".hip_fat";

/// Where the bundles of a Windows binary lie; `None` for any other file.
pub(super) fn code(file: &Region<'_, impl ReadAt + ?Sized>) -> Result<Option<Range<u64>>> {
    if !file.has(0, b"MZ")? || file.len() < 64 {
        return Ok(None);
    }
    let header = file.number("header", 0x3c, 4)?;
    if !file.has(header, b"PE\0\0")? {
        return Ok(None);
    }
    let count = file.number("number of sections", header.saturating_add(6), 2)?;
    let optional = file.number("length of a header", header.saturating_add(20), 2)?;
    let table = header.saturating_add(24).saturating_add(optional);
    for index in 0..count {
        let entry = file.bytes(
            "section",
            table.saturating_add(index.saturating_mul(40)),
            40,
        )?;
        if entry.starts_with(CODE) {
            let size = super::image::number(&entry, 16, 4);
            let used = super::image::number(&entry, 8, 4);
            let start = super::image::number(&entry, 20, 4);
            return Ok(Some(start..start.saturating_add(size.min(used))));
        }
    }
    Ok(None)
}
