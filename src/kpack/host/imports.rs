//! Reads the names of the libraries that a Windows binary imports. See *The .idata Section* and
//! *Delay-Load Import Tables* in the
//! [PE format](https://learn.microsoft.com/en-us/windows/win32/debug/pe-format).

use std::collections::BTreeSet;

use crate::{
    elf::{ReadAt, tables::number},
    error::{Context as _, Result, bail},
    kpack::{
        ByteRegion,
        host::pe::{Pe, header, sections},
    },
};

/// A table of libraries: the index of its data directory, the size of an entry, and the offset in
/// the entry of the address of the name.
type ImportTable = (u64, u64, usize);

const AT_START: ImportTable = (1, 20, 12);
/// Delay-loaded libraries: Windows loads them when one of their functions is first called.
const AT_FIRST_USE: ImportTable = (13, 32, 4);
/// Limit for damaged files: no binary imports as many libraries.
const MOST: u64 = 4096;
/// Limit for a name in bytes: `MAX_PATH` of Windows.
const LONGEST: u64 = 260;

/// The names of the libraries that a Windows binary imports, in the case in which it has them.
/// Empty for any other file.
pub fn imports(source: &(impl ReadAt + ?Sized)) -> Result<BTreeSet<String>> {
    let file = ByteRegion::whole(source);
    let Some(header) = header(&file)? else {
        return Ok(BTreeSet::new());
    };
    let pe = Pe::new(file, header, sections(&file, header)?)?;
    let mut names = BTreeSet::new();
    for table in [AT_START, AT_FIRST_USE] {
        pe.libraries(table, &mut names)?;
    }
    Ok(names)
}

impl<R: ReadAt + ?Sized> Pe<'_, R> {
    /// Adds the names of one table. Like the loader, it ignores the size of the table, and reads up
    /// to the entry without a name.
    fn libraries(
        &self,
        (table, len, name): ImportTable,
        names: &mut BTreeSet<String>,
    ) -> Result<()> {
        let Some((address, _)) = self.table(table)? else {
            return Ok(());
        };
        for index in 0..=MOST {
            let place = self.place(address.saturating_add(index.saturating_mul(len)));
            let place = place.context("a table of libraries that runs out of its section")?;
            let entry = self.file.bytes("table of libraries", place.start, len)?;
            match number(&entry, name, 4) {
                0 => return Ok(()),
                name => names.insert(self.library(name)?),
            };
        }
        bail!("more than {MOST} libraries")
    }

    fn library(&self, address: u64) -> Result<String> {
        let place = self.place(address);
        let place =
            place.with_context(|| format!("a library whose name is nowhere: at {address:#x}"))?;
        let len = place.end.saturating_sub(place.start).min(LONGEST);
        let bytes = self.file.bytes("name of a library", place.start, len)?;
        let end = bytes.iter().position(|byte| *byte == 0);
        let name = end.and_then(|end| bytes.get(..end));
        let name =
            name.with_context(|| format!("a library whose name has no end: at {address:#x}"))?;
        Ok(String::from_utf8_lossy(name).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{error::render, kpack::host::pe::tests::binary};

    const START: u32 = 0x2000;

    /// The bytes of two tables, with the names behind them; where the second one begins.
    fn tables(at_start: &[&str], at_first_use: &[&str]) -> (Vec<u8>, usize) {
        let lens = [(at_start, AT_START), (at_first_use, AT_FIRST_USE)]
            .map(|(names, (_, len, _))| (names.len() + 1) * usize::try_from(len).unwrap());
        let mut bytes = vec![0; lens[0] + lens[1]];
        let mut add = |at: usize, name: &str| {
            let address = START + u32::try_from(bytes.len()).unwrap();
            bytes[at..at + 4].copy_from_slice(&address.to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.push(0);
        };
        for (index, name) in at_start.iter().enumerate() {
            add(index * 20 + 12, name);
        }
        for (index, name) in at_first_use.iter().enumerate() {
            add(lens[0] + index * 32 + 4, name);
        }
        (bytes, lens[0])
    }

    fn linked(at_start: &[&str], at_first_use: &[&str]) -> Vec<u8> {
        let (bytes, second) = tables(at_start, at_first_use);
        let second = START + u32::try_from(second).unwrap();
        binary(
            &[
                (b".text\0\0\0", 0x1000, b"code"),
                (b".rdata\0\0", START, &bytes),
            ],
            &[(1, START, 20), (13, second, 32)],
        )
    }

    fn refused(bytes: &[u8]) -> String {
        render(&imports(bytes).unwrap_err())
    }

    #[test]
    fn every_library_is_named_whenever_it_is_loaded() {
        let bytes = linked(&["amdhip64_7.dll", "KERNEL32.dll"], &["rocblas.dll"]);
        let names: Vec<String> = imports(&bytes).unwrap().into_iter().collect();
        assert_eq!(names, ["KERNEL32.dll", "amdhip64_7.dll", "rocblas.dll"]);
    }

    #[test]
    fn a_binary_may_need_nothing() {
        assert_eq!(imports(&linked(&[], &[])).unwrap(), BTreeSet::new());
        let bare = binary(&[(b".text\0\0\0", 0x1000, b"code")], &[]);
        assert_eq!(imports(&bare).unwrap(), BTreeSet::new());
        assert_eq!(imports(&b"\x7fELF"[..]).unwrap(), BTreeSet::new());
    }

    #[test]
    fn what_leads_nowhere_is_refused_in_words() {
        let (table, _) = tables(&["a.dll"], &[]);
        let with = |bytes: &[u8], at| binary(&[(b".rdata\0\0", START, bytes)], &[(1, at, 40)]);
        let mut nowhere = table.clone();
        nowhere[12] = 0xff;
        let mut endless = vec![b'a'; 500];
        endless[12..16].copy_from_slice(&(START + 20).to_le_bytes());
        // A name without letters, over and over.
        let mut one = [0; 20];
        one[12..16].copy_from_slice(&START.to_le_bytes());
        let many = one.repeat(5000);
        insta::assert_snapshot!([
            refused(&with(&table, 0x9000)),
            refused(&with(&table[..20], START)),
            refused(&with(&nowhere, START)),
            refused(&with(&endless, START)),
            refused(&with(&many, START)),
        ].concat(), @"
        error: a table of libraries that runs out of its section
        error: a library whose name is nowhere: at 0x2048
        error: a library whose name is nowhere: at 0x20ff
        error: a library whose name has no end: at 0x2014
        error: more than 4096 libraries
        ");
    }

    proptest! {
        #[test]
        fn damage_is_answered(at in 0..0x600_usize, byte: u8, end in 0..0x600_usize) {
            let mut bytes = linked(&["amdhip64_7.dll", "KERNEL32.dll"], &["rocblas.dll"]);
            bytes[at] = byte;
            let _ = imports(&bytes);
            let _ = imports(&bytes[..end]);
        }
    }
}
