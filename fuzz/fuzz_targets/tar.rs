//! Tar archives: what is accepted can be written again and is the same then, and no member is longer than was asked
//! for.
//! The first byte says how the rest is compressed; if it is not, the rest describes the members.
#![no_main]

use std::{
    io::{Cursor, Read},
    ops::Range,
};

use libfuzzer_sys::fuzz_target;
use rocwheel_wheel::tar::{
    ArchiveFormat, Decompressor, TarEntry, TarKind, TarPlan, TarReader, read_sdist,
};

/// How long the uncompressed archive may be.
const LONGEST: u64 = 1 << 20;
const BLOCK: usize = 512;
/// The fields of a header.
const NAME: Range<usize> = 0..100;
const SIZE: Range<usize> = 124..136;
const CHECKSUM: Range<usize> = 148..156;
const TYPE: usize = 156;
const LINK: Range<usize> = 157..257;

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    match first % 4 {
        0 => check(archive(rest).as_slice()),
        1 => check(Decompressor::new(ArchiveFormat::TarZst, rest).expect("a decoder")),
        2 => check(Decompressor::new(ArchiveFormat::TarXz, rest).expect("a decoder")),
        _ => _ = read_sdist(rest, &"a-1".parse().expect("a path")),
    }
});

/// An archive of the members that the data describe, with 0xff between them: type, length, name, and behind 0xfe the
/// content. A header of zeros is long, and its checksum is hard to guess.
fn archive(data: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    for member in data.split(|byte| *byte == 0xff) {
        let [kind, len, rest @ ..] = member else {
            continue;
        };
        let mut parts = rest.splitn(2, |byte| *byte == 0xfe);
        let name = parts.next().unwrap_or_default();
        let content = parts.next().unwrap_or_default();
        let mut header = [0; BLOCK];
        for (place, byte) in header[NAME].iter_mut().zip(name) {
            *place = *byte;
        }
        for (place, byte) in header[LINK].iter_mut().zip(content) {
            *place = *byte;
        }
        header[SIZE].copy_from_slice(format!("{len:011o}\0").as_bytes());
        header[TYPE] = *kind;
        header[CHECKSUM].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        file.extend(header);
        let mut content = content.to_vec();
        content.resize(usize::from(*len), 0);
        content.resize(content.len().next_multiple_of(BLOCK), 0);
        file.extend(content);
    }
    file.resize(file.len() + 2 * BLOCK, 0);
    file
}

fn check(source: impl Read) {
    let Some((entries, contents)) = read(source) else {
        return;
    };
    let total: usize = contents.iter().map(Vec::len).sum();
    assert!(total as u64 <= LONGEST, "more than was asked for");
    let Ok(plan) = TarPlan::new(entries.clone(), 0) else {
        return;
    };
    let mut bytes = Vec::new();
    let open = {
        let contents = contents.clone();
        move |index: usize| Ok(Cursor::new(contents[index].clone()))
    };
    plan.stream(open).read_to_end(&mut bytes).expect("an archive");
    assert_eq!(bytes.len() as u64, plan.len);
    // What is written has more headers for long names, and so may be longer than what was read.
    let Some((again, same)) = read_up_to(bytes.as_slice(), u64::MAX) else {
        panic!("what was written cannot be read: {entries:?}");
    };
    assert_eq!((again, same), (entries, contents));
}

fn read(source: impl Read) -> Option<(Vec<TarEntry>, Vec<Vec<u8>>)> {
    read_up_to(source, LONGEST)
}

/// The members and their contents; `None` if the archive is refused.
fn read_up_to(source: impl Read, longest: u64) -> Option<(Vec<TarEntry>, Vec<Vec<u8>>)> {
    let mut tar = TarReader::new(source, longest);
    let (mut entries, mut contents) = (Vec::new(), Vec::new());
    while let Some(entry) = tar.next_entry().ok()? {
        let mut bytes = Vec::new();
        tar.read_to_end(&mut bytes).ok()?;
        let len = if let TarKind::File { len, .. } = entry.kind { len } else { 0 };
        assert_eq!(bytes.len() as u64, len);
        entries.push(entry);
        contents.push(bytes);
    }
    Some((entries, contents))
}
