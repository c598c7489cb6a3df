//! Reads the GNU symbol versions that a file needs (`DT_VERNEED`), such as `GLIBC_2.28` of
//! `libc.so.6`. See [Symbol Versioning] in the Linux Standard Base.
//!
//! [Symbol Versioning]:
//! https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/symversion.html

use goblin::{
    container::Endian,
    elf::dynamic::{DT_VERNEED, DT_VERNEEDNUM},
};

use crate::elf::{
    ElfError, ReadAt,
    image::{DynamicEntry, ElfImage, value},
    strings::Strings,
};

/// Limit for damaged files, whose records may form a loop.
const MAX_RECORDS: usize = 1 << 12;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededVersions {
    pub library: String,
    pub versions: Vec<String>,
}

/// An `Elf64_Verneed` or `Elf64_Vernaux`. Both have 16 bytes, also in 32-bit files.
type VersionRecord = [u8; 16];

pub(super) fn versions<R: ReadAt + ?Sized>(
    image: &ElfImage<'_, R>,
    dynamic: &[DynamicEntry],
    strings: &Strings<'_, '_, R>,
) -> Result<Vec<NeededVersions>, ElfError> {
    let start = value(dynamic, DT_VERNEED).and_then(|address| image.locate(address));
    let Some((mut at, _)) = start else {
        return Ok(Vec::new());
    };
    let mut left = MAX_RECORDS;
    let mut needs = Vec::new();
    for _ in 0..value(dynamic, DT_VERNEEDNUM).unwrap_or(0) {
        let need = record(image, at, &mut left)?;
        let aux = at.saturating_add(word(image, &need, 8));
        needs.push(NeededVersions {
            library: strings.text(word(image, &need, 4))?,
            versions: names(image, strings, aux, half(image, &need, 2), &mut left)?,
        });
        let next = word(image, &need, 12);
        if next == 0 {
            break;
        }
        at = at.saturating_add(next);
    }
    Ok(needs)
}

fn names<R: ReadAt + ?Sized>(
    image: &ElfImage<'_, R>,
    strings: &Strings<'_, '_, R>,
    mut at: u64,
    count: u16,
    left: &mut usize,
) -> Result<Vec<String>, ElfError> {
    let mut names = Vec::new();
    for _ in 0..count {
        let version = record(image, at, left)?;
        names.push(strings.text(word(image, &version, 8))?);
        let next = word(image, &version, 12);
        if next == 0 {
            break;
        }
        at = at.saturating_add(next);
    }
    Ok(names)
}

fn record<R: ReadAt + ?Sized>(
    image: &ElfImage<'_, R>,
    at: u64,
    left: &mut usize,
) -> Result<VersionRecord, ElfError> {
    *left = left
        .checked_sub(1)
        .ok_or_else(|| ElfError::damaged("the needed versions have no end"))?;
    let bytes = image.bytes("table of needed versions", at, 16)?;
    VersionRecord::try_from(bytes).map_err(|_| ElfError::damaged("a short version record"))
}

fn half<R: ReadAt + ?Sized>(image: &ElfImage<'_, R>, record: &VersionRecord, at: usize) -> u16 {
    let bytes = [record[at], record[at + 1]];
    match image.ctx.le {
        Endian::Little => u16::from_le_bytes(bytes),
        Endian::Big => u16::from_be_bytes(bytes),
    }
}

fn word<R: ReadAt + ?Sized>(image: &ElfImage<'_, R>, record: &VersionRecord, at: usize) -> u64 {
    let bytes = [record[at], record[at + 1], record[at + 2], record[at + 3]];
    u64::from(match image.ctx.le {
        Endian::Little => u32::from_le_bytes(bytes),
        Endian::Big => u32::from_be_bytes(bytes),
    })
}
