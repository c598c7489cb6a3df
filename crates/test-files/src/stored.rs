//! Writes `.kpack` archives without compression, which rocwheel reads and never writes.

use std::collections::{BTreeMap, BTreeSet};

/// An archive of these code objects, each with its key and its target.
pub fn stored(codes: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let (mut places, mut index) = (Vec::new(), BTreeMap::<&str, Vec<_>>::new());
    for (ordinal, (key, target, code)) in codes.iter().enumerate() {
        let (offset, size) = (number(bytes.len()), number(code.len()));
        let entry = [
            ("type", text("hsaco")),
            ("ordinal", number(ordinal)),
            ("original_size", size.clone()),
        ];
        index.entry(key).or_default().push((*target, map(&entry)));
        places.push(map(&[("offset", offset), ("size", size)]));
        bytes.extend_from_slice(code);
    }
    let index: Vec<_> = index.iter().map(|(key, it)| (*key, map(it))).collect();
    let targets: BTreeSet<&str> = codes.iter().map(|(_, target, _)| *target).collect();
    let targets: Vec<_> = targets.into_iter().map(text).collect();
    let contents = map(&[
        ("format_version", number(1)),
        ("group_name", text("test")),
        ("gfx_arches", list(&targets)),
        ("toc", map(&index)),
        ("compression_scheme", text("none")),
        ("blobs", list(&places)),
    ]);
    let start = bytes.len() as u64;
    bytes[..8].copy_from_slice(b"KPAK\x01\0\0\0");
    bytes[8..16].copy_from_slice(&start.to_le_bytes());
    [bytes, contents].concat()
}

// `MessagePack`: a type, a length of two bytes, and the contents.

fn map(pairs: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let pairs = pairs.iter();
    let pairs: Vec<_> = pairs.map(|(key, it)| [text(key), it.clone()].concat()).collect();
    sized(0xde, pairs.len(), &pairs.concat())
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    sized(0xdc, items.len(), &items.concat())
}

fn text(text: &str) -> Vec<u8> {
    sized(0xda, text.len(), text.as_bytes())
}

fn number(number: usize) -> Vec<u8> {
    [&[0xcf][..], &(number as u64).to_be_bytes()].concat()
}

fn sized(kind: u8, len: usize, contents: &[u8]) -> Vec<u8> {
    let len = u16::try_from(len).expect("a short test");
    [&[kind][..], &len.to_be_bytes(), contents].concat()
}
