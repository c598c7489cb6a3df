//! Windows binaries: finds their bundles and wrappers, and reads the markers of split ones. The
//! split itself does not change Windows binaries. See the
//! [PE format](https://learn.microsoft.com/en-us/windows/win32/debug/pe-format).

use std::{collections::BTreeSet, ops::Range};

use crate::{
    elf::{ReadAt, tables::number},
    error::{Context as _, Result, bail, ensure},
    kpack::{
        ByteRegion,
        host::{
            pe::{Pe, PeSection, header, sections},
            wrapper::{FAT, KnownMarkers, SPLIT, WRAPPER, WrapperReference},
        },
        marker::MAX_LEN,
    },
};

/// The names of sections in a PE image have at most eight bytes, so the linker cuts `.hip_fatbin`.
const CODE: &[u8; 8] = b".hip_fat";
const WRAPPERS: &[u8; 8] = b".hipFatB";
const MARKERS: &[u8; 8] = b".kpackrf";

/// The index of the base relocations in the data directories of the optional header.
const RELOCATIONS: u64 = 5;
/// Limit in bytes for damaged files: no binary has as many relocations.
const MOST_RELOCATIONS: u64 = 64 << 20;

/// The device code of a Windows binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Windows {
    /// Not a Windows binary, or one without device code.
    Plain,
    /// The range of the bundles in the file, and for each wrapper the offset in that range to which
    /// it leads.
    Fat { code: Range<u64>, wrapped: Vec<u64> },
    /// The code was removed; the marker and bundle number of each wrapper.
    Split(Vec<WrapperReference>),
}

/// The range of the bundles of a Windows binary; `None` for any other file. Reads only the headers,
/// so the start of a file is enough.
pub(super) fn code(file: &ByteRegion<'_, impl ReadAt + ?Sized>) -> Result<Option<Range<u64>>> {
    let Some(header) = header(file)? else {
        return Ok(None);
    };
    let sections = sections(file, header)?.into_iter();
    let mut code = sections.filter(|it| it.name == CODE);
    Ok(code.next().map(|it| it.file))
}

/// Finds the device code of any file.
pub fn windows(source: &(impl ReadAt + ?Sized)) -> Result<Windows> {
    let file = ByteRegion::whole(source);
    let Some(header) = header(&file)? else {
        return Ok(Windows::Plain);
    };
    // A file whose section table cannot be read is not loaded by Windows either.
    let Ok(sections) = sections(&file, header) else {
        return Ok(Windows::Plain);
    };
    let section = |name: &[u8]| sections.iter().find(|it| it.name == name).cloned();
    let code = section(CODE).map_or(0..0, |it| it.file);
    let Some(wrappers) = section(WRAPPERS) else {
        ensure!(
            section(MARKERS).is_none(),
            "a marker that no wrapper leads to"
        );
        let wrapped = Vec::new();
        return Ok(if code.is_empty() {
            Windows::Plain
        } else {
            Windows::Fat { code, wrapped }
        });
    };
    let pe = Pe::new(file, header, sections)?;
    let wrappers = pe.wrappers(&wrappers)?;
    let mut kinds: BTreeSet<u64> = wrappers.iter().map(|it| number(&it.1, 0, 4)).collect();
    match (kinds.pop_first(), kinds.pop_first()) {
        (Some(FAT), None) => Ok(Windows::Fat {
            wrapped: pe.wrapped(&wrappers, &code)?,
            code,
        }),
        (Some(SPLIT), None) => pe.references(&wrappers).map(Windows::Split),
        (None, None) => Ok(Windows::Plain),
        _ => bail!("wrappers of different or unknown kinds"),
    }
}

impl<R: ReadAt + ?Sized> Pe<'_, R> {
    /// The address and the bytes of each wrapper.
    ///
    /// In an image that can be moved, each pointer needs a base relocation; otherwise the loader
    /// would leave it wrong.
    fn wrappers(&self, section: &PeSection) -> Result<Vec<(u64, Vec<u8>)>> {
        let len = section.file.end.saturating_sub(section.file.start);
        ensure!(
            len.is_multiple_of(WRAPPER),
            "`.hipFatB` holds no whole number of wrappers: {len} bytes"
        );
        let bytes = self.file.bytes("wrappers", section.file.start, len)?;
        let address = |index: usize| section.address.saturating_add(index as u64 * WRAPPER);
        let wrappers = bytes.chunks_exact(24).enumerate();
        let wrappers: Vec<_> = wrappers
            .map(|(index, bytes)| (address(index), bytes.to_vec()))
            .collect();
        let relocated = self.relocated()?;
        for (address, bytes) in &wrappers {
            ensure!(
                number(bytes, 4, 4) == 1,
                "a wrapper of an unknown kind: at {address:#x}"
            );
            let is_moved = relocated
                .as_ref()
                .is_none_or(|places| places.contains(&address.saturating_add(8)));
            ensure!(is_moved, "a wrapper that is not relocated: at {address:#x}");
        }
        Ok(wrappers)
    }

    /// For each wrapper, the offset in the section of the bundles to which it leads.
    fn wrapped(&self, wrappers: &[(u64, Vec<u8>)], code: &Range<u64>) -> Result<Vec<u64>> {
        let targets = wrappers.iter().map(|(address, bytes)| {
            let place = self.locate(number(bytes, 8, 8)).map(|it| it.start);
            let place = place.filter(|it| code.contains(it));
            let place = place
                .with_context(|| format!("a wrapper that leads to no bundle: at {address:#x}"))?;
            Ok(place.saturating_sub(code.start))
        });
        targets.collect()
    }

    /// For each wrapper, its marker and the number of its bundle.
    fn references(&self, wrappers: &[(u64, Vec<u8>)]) -> Result<Vec<WrapperReference>> {
        let mut markers = KnownMarkers::default();
        let references = wrappers.iter().map(|(address, bytes)| {
            let place = self.locate(number(bytes, 8, 8));
            let place = place
                .with_context(|| format!("a wrapper that leads to no bytes: at {address:#x}"))?;
            let len = place.end.saturating_sub(place.start).min(MAX_LEN as u64);
            Ok(WrapperReference {
                marker: markers.at(place.start, || self.file.bytes("marker", place.start, len))?,
                // The runtime uses only the lower 32 bits.
                index: number(bytes, 16, 4),
            })
        });
        references.collect()
    }

    /// The addresses of the 64-bit words that the loader relocates; `None` for an image without
    /// base relocations, which is only loaded at its preferred address.
    fn relocated(&self) -> Result<Option<BTreeSet<u64>>> {
        /// `IMAGE_REL_BASED_DIR64`
        const WHOLE: u64 = 10;
        let Some((address, size)) = self.table(RELOCATIONS)? else {
            return Ok(None);
        };
        ensure!(size <= MOST_RELOCATIONS, "relocations of {size} bytes");
        let place = self.place(address);
        let place = place.context("relocations outside of the file")?;
        let bytes = self.file.bytes("relocations", place.start, size)?;
        let mut rest = bytes.as_slice();
        let mut places = BTreeSet::new();
        while rest.len() >= 8 {
            let (page, len) = (number(rest, 0, 4), number(rest, 4, 4));
            let len = usize::try_from(len).unwrap_or(usize::MAX).max(8);
            let block = rest.get(8..len);
            let block = block.context("relocations that run over")?;
            for entry in block.chunks_exact(2).map(|it| number(it, 0, 2)) {
                if entry >> 12 == WHOLE {
                    places.insert(page.saturating_add(entry & 0xfff));
                }
            }
            rest = rest.get(len..).unwrap_or_default();
        }
        Ok(Some(places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::render,
        kpack::{
            Marker, PLACEHOLDER,
            host::pe::{
                self,
                tests::{BASE, Part},
            },
        },
    };

    /// With a table of these places that are relocated.
    fn binary(parts: &[Part<'_>], relocated: &[u32]) -> Vec<u8> {
        let table: Vec<u8> = relocated
            .iter()
            .flat_map(|at| {
                let entry = u16::try_from(at & 0xfff).unwrap() | 10 << 12;
                let block = [(at & !0xfff).to_le_bytes(), 12_u32.to_le_bytes()].concat();
                [block, entry.to_le_bytes().to_vec(), vec![0, 0]].concat()
            })
            .collect();
        let parts = [parts, &[(b".reloc\0\0", 0x9000, &table)]].concat();
        let len = u32::try_from(table.len()).unwrap();
        pe::tests::binary(&parts, &[(5, 0x9000, len)])
    }

    fn wrapper(magic: u64, address: u64, index: u32) -> Vec<u8> {
        let magic = u32::try_from(magic).unwrap().to_le_bytes();
        let [one, zero] = [1_u32, 0].map(u32::to_le_bytes);
        let pointer = (BASE + address).to_le_bytes();
        [&magic, &one, &pointer[..], &index.to_le_bytes(), &zero].concat()
    }

    fn split(wrappers: &[u8], relocated: &[u32]) -> Vec<u8> {
        let marker = Marker::new(1, &["blas_lib"], "bin/rocblas.dll")
            .render()
            .unwrap();
        let parts: [Part<'_>; 3] = [
            (b".hip_fat", 0x1000, b""),
            (b".hipFatB", 0x2000, wrappers),
            (b".kpackrf", 0x3000, &marker),
        ];
        binary(&parts, relocated)
    }

    #[test]
    fn wrappers_of_a_split_binary_lead_to_markers() {
        let wrappers = [wrapper(SPLIT, 0x3000, 0), wrapper(SPLIT, 0x3000, 7)].concat();
        let bytes = split(&wrappers, &[0x2008, 0x2020]);
        let Windows::Split(found) = windows(&bytes).unwrap() else {
            panic!("not split");
        };
        let paths = [format!("../.kpack/blas_lib_{PLACEHOLDER}.kpack")];
        assert_eq!(found[0].marker.kpack_search_paths, paths);
        assert_eq!(found[1].marker.kernel_name, "bin/rocblas.dll");
        assert_eq!([found[0].index, found[1].index], [0, 7]);
    }

    #[test]
    fn wrappers_of_a_fat_binary_lead_into_its_code() {
        let wrappers = [wrapper(FAT, 0x1000, 0), wrapper(FAT, 0x1800, 0)].concat();
        let code = [7; 0x1801];
        let parts: [Part<'_>; 2] = [(CODE, 0x1000, &code), (b".hipFatB", 0x4000, &wrappers)];
        let bytes = binary(&parts, &[0x4008, 0x4020]);
        let place = 0x400..0x400 + 0x1801;
        assert_eq!(code_of(&bytes), Some(place.clone()));
        let found = windows(&bytes).unwrap();
        let expected = Windows::Fat {
            code: place,
            wrapped: vec![0, 0x800],
        };
        assert_eq!(found, expected);
    }

    fn code_of(bytes: &[u8]) -> Option<Range<u64>> {
        code(&ByteRegion::whole(bytes)).unwrap()
    }

    #[test]
    fn other_files_have_none() {
        let plain = binary(&[(b".text\0\0\0", 0x1000, b"code")], &[]);
        for bytes in [&plain[..], b"", b"MZ", b"\x7fELF", &[b'M', b'Z'].repeat(40)] {
            assert_eq!(windows(bytes).unwrap(), Windows::Plain);
            assert_eq!(code_of(bytes), None);
        }
    }

    #[test]
    fn what_leads_nowhere_is_refused_in_words() {
        let one = |magic, address| wrapper(magic, address, 0);
        let mixed = [one(SPLIT, 0x3000), one(FAT, 0x1000)].concat();
        let refused = [
            split(&one(SPLIT, 0x3000), &[0x2000]),
            split(&one(SPLIT, 0x8000), &[0x2008]),
            split(&one(SPLIT, 0x2000), &[0x2008]),
            split(&one(FAT, 0x3000), &[0x2008]),
            split(&mixed, &[0x2008, 0x2020]),
            split(&mixed[..30], &[]),
            split(&one(7, 0x3000), &[0x2008]),
            binary(&[(b".kpackrf", 0x3000, b"x")], &[]),
        ];
        let refused = refused.map(|bytes| render(&windows(&bytes).unwrap_err()));
        insta::assert_snapshot!(refused.concat(), @"
        error: a wrapper that is not relocated: at 0x2000
        error: a wrapper that leads to no bytes: at 0x2000
        error: failed to read a marker
          caused by: invalid type: integer `72`, expected struct Marker
        error: a wrapper that leads to no bundle: at 0x2000
        error: wrappers of different or unknown kinds
        error: `.hipFatB` holds no whole number of wrappers: 30 bytes
        error: wrappers of different or unknown kinds
        error: a marker that no wrapper leads to
        ");
    }

    #[test]
    fn damage_is_answered() {
        let bytes = split(&wrapper(SPLIT, 0x3000, 0), &[0x2008]);
        for at in 0..bytes.len().min(0x400) {
            for value in [0, 0xff, bytes[at] ^ 1] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = (windows(&damaged), code(&ByteRegion::whole(&damaged)));
            }
            let _ = windows(&bytes[..at]);
        }
    }
}
