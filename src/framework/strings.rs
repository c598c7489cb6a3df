//! The names of libraries among the strings of a binary: what it may open at run time.

use std::{collections::BTreeSet, io};

use memchr::memmem::Finder;

use crate::{
    elf::{ReadAt, read_exact_at},
    spool::Spool,
};

const CHUNK: usize = 1 << 20;
/// The longest name that is found. Chunks overlap by as much.
const LONGEST: usize = 256;
/// Limit for damaged files.
const MOST: usize = 10_000;

/// The strings that name a library with its file name or its absolute path: `libamd_smi.so`,
/// `/opt/rocm/lib/librocm_smi64.so.1`. They also are the names in its own tables.
pub(super) fn library_names(binary: &Spool) -> io::Result<BTreeSet<String>> {
    let finder = Finder::new(b".so");
    let mut names = BTreeSet::new();
    let (mut at, mut buffer) = (0, vec![0; CHUNK + 2 * LONGEST]);
    while at < binary.len() && names.len() < MOST {
        let bytes = fill(binary, at, &mut buffer)?;
        let dots = finder.find_iter(bytes);
        names.extend(dots.filter_map(|dot| name_around(bytes, dot)));
        at = at.saturating_add(CHUNK as u64);
    }
    Ok(names)
}

/// Whether a binary has one of these names anywhere, also as a part of another text.
pub(super) fn mentions(binary: &Spool, names: &[&str]) -> io::Result<bool> {
    let finders: Vec<Finder<'_>> = names.iter().map(Finder::new).collect();
    let (mut at, mut buffer) = (0, vec![0; CHUNK + LONGEST]);
    while at < binary.len() && !finders.is_empty() {
        let bytes = fill(binary, at, &mut buffer)?;
        if finders.iter().any(|it| it.find(bytes).is_some()) {
            return Ok(true);
        }
        at = at.saturating_add(CHUNK as u64);
    }
    Ok(false)
}

/// As many bytes as there are at an offset, up to the size of the buffer.
fn fill<'a>(binary: &Spool, at: u64, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let rest = usize::try_from(binary.len().saturating_sub(at)).unwrap_or(usize::MAX);
    let len = rest.min(buffer.len());
    let bytes = &mut buffer[..len];
    read_exact_at(binary, at, bytes)?;
    Ok(bytes)
}

/// The whole string with `.so` at an offset, if it is a name.
fn name_around(bytes: &[u8], dot: usize) -> Option<String> {
    let (before, rest) = (bytes.get(..dot)?, bytes.get(dot..)?);
    let start = before.iter().rposition(|byte| !is_inner(*byte))?.saturating_add(1);
    // A string begins after the NUL of the one before it.
    (dot.saturating_sub(start) < LONGEST && bytes.get(start.checked_sub(1)?) == Some(&0))
        .then_some(())?;
    let end = rest.iter().take(LONGEST).position(|byte| *byte == 0)?;
    let name = str::from_utf8(bytes.get(start..dot.saturating_add(end))?).ok()?;
    let (directory, file) = name.rsplit_once('/').unwrap_or(("", name));
    let version = file.split_once(".so")?.1;
    let is_version = version.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit());
    let is_place = directory.is_empty() && !name.starts_with('/') || directory.starts_with('/');
    (file.starts_with("lib") && is_version && is_place).then(|| name.to_owned())
}

fn is_inner(byte: u8) -> bool {
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
