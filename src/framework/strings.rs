//! The names of libraries among the strings of a binary: what it may open at run time.

use std::{collections::BTreeSet, io};

use memchr::memmem::Finder;

use rocwheel_base::spool::Spool;
use rocwheel_elf::{ReadAt, read_exact_at};

const CHUNK: usize = 1 << 20;
/// The longest name that is found. Chunks overlap by as much, so that a name across two chunks is found.
const LONGEST: usize = 256;
/// A damaged or hostile file may have any number of names.
const MOST: usize = 10_000;

/// The strings that name a library with its file name or its absolute path: `libamd_smi.so`,
/// `/opt/rocm/lib/librocm_smi64.so.1`. The SONAME and the needed libraries of the binary are among them.
pub(super) fn library_names(binary: &Spool) -> io::Result<BTreeSet<String>> {
    let finder = Finder::new(b".so");
    let mut names = BTreeSet::new();
    let mut buffer = vec![0; CHUNK + 2 * LONGEST];
    let mut offset = 0;
    while offset < binary.len() && names.len() < MOST {
        let bytes = read_chunk(binary, offset, &mut buffer)?;
        names.extend(finder.find_iter(bytes).filter_map(|dot| name_around(bytes, dot)));
        offset = offset.saturating_add(CHUNK as u64);
    }
    Ok(names)
}

/// Whether a binary has one of these names anywhere, also as a part of another text.
pub(super) fn mentions(binary: &Spool, names: &[&str]) -> io::Result<bool> {
    let finders: Vec<Finder<'_>> = names.iter().map(Finder::new).collect();
    let mut buffer = vec![0; CHUNK + LONGEST];
    let mut offset = 0;
    while offset < binary.len() && !finders.is_empty() {
        let bytes = read_chunk(binary, offset, &mut buffer)?;
        if finders.iter().any(|finder| finder.find(bytes).is_some()) {
            return Ok(true);
        }
        offset = offset.saturating_add(CHUNK as u64);
    }
    Ok(false)
}

/// Reads from an offset until the buffer is full or the file ends.
fn read_chunk<'a>(binary: &Spool, offset: u64, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let left = usize::try_from(binary.len().saturating_sub(offset)).unwrap_or(usize::MAX);
    let len = left.min(buffer.len());
    let bytes = &mut buffer[..len];
    read_exact_at(binary, offset, bytes)?;
    Ok(bytes)
}

/// The string around the `.so` at an offset, from NUL to NUL, if it is the name of a library.
fn name_around(bytes: &[u8], dot: usize) -> Option<String> {
    let before = bytes.get(..dot)?;
    let after = bytes.get(dot..)?;
    let nul = before.iter().rposition(|byte| !is_part_of_name(*byte))?;
    let start = nul.saturating_add(1);
    // A string begins after the NUL that ends the string before it. Anything else is a part of a text.
    if dot.saturating_sub(start) >= LONGEST || bytes.get(nul) != Some(&0) {
        return None;
    }
    let end = after.iter().take(LONGEST).position(|byte| *byte == 0)?;
    let name = str::from_utf8(bytes.get(start..dot.saturating_add(end))?).ok()?;
    let (directory, file) = name.rsplit_once('/').unwrap_or(("", name));
    let version = file.split_once(".so")?.1;
    let is_version = version.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit());
    let is_file_name = directory.is_empty() && !name.starts_with('/');
    let is_absolute = directory.starts_with('/');
    let is_name = file.starts_with("lib") && is_version && (is_file_name || is_absolute);
    is_name.then(|| name.to_owned())
}

fn is_part_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'.' | b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bytes: &[u8]) -> Vec<String> {
        let mut spool = Spool::new(10);
        spool.push(bytes).unwrap();
        library_names(&spool).unwrap().into_iter().collect()
    }

    #[test]
    fn names_of_libraries_are_found_and_texts_about_them_are_not() {
        let found = names(
            b"\x7fELF\0libamd_smi.so\0libamdhip64.so.7\0/opt/rocm/lib/librocm_smi64.so.1\0cannot open libx.so\0\
              libx.so is gone\0../lib/liby.so\0x.so\0lib.so.d\0libz.so.1.so\0lib+a-b.so\0libcut.so",
        );
        assert_eq!(
            found,
            ["/opt/rocm/lib/librocm_smi64.so.1", "lib+a-b.so", "libamd_smi.so", "libamdhip64.so.7"]
        );
    }

    #[test]
    fn a_name_across_two_chunks_is_found() {
        for shift in 0..30 {
            let mut bytes = vec![1; CHUNK - shift];
            bytes.extend(b"\0libamd_smi.so\0");
            assert_eq!(names(&bytes), ["libamd_smi.so"], "{shift}");
        }
    }
}
