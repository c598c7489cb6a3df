//! Wheels as they should be, and as an attacker would make them.

use std::io::Cursor;

use proptest::prelude::*;

use super::*;
use crate::{
    error::Error,
    wheel::{
        deflate::{CompressionLevel, Deflater},
        test_bytes::prose,
        writer::{StorageMethod, Timestamp, ZipWriter},
    },
};

const METADATA: &str = "Metadata-Version: 2.4\nName: x\nVersion: 1\n";

fn path(text: &str) -> RelPath {
    text.parse().unwrap()
}

/// What is in the wheel of the tests, RECORD left out.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("x/__init__.py", Vec::new()),
        ("x/lib.so", prose(3_000, 1)),
        ("x/é, \"q\"", b"odd".to_vec()),
        ("x-1.dist-info/METADATA", METADATA.into()),
        ("x-1.dist-info/WHEEL", b"Wheel-Version: 1.0\n".to_vec()),
    ]
}

fn record(files: &[(&str, Vec<u8>)]) -> Record {
    let mut record = Record::default();
    for (name, content) in files {
        record.push(path(name), Sha256::of(content), content.len() as u64);
    }
    record.push_self(path("x-1.dist-info/RECORD"));
    record
}

fn archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::default(), Timestamp::FIRST);
    let mut deflater = Deflater::new(CompressionLevel::default());
    for (name, content) in files {
        let member = WheelMember {
            path: path(name),
            mode: FileMode::Regular,
            len: content.len() as u64,
        };
        let crc = crc32fast::hash(content);
        let mut room = vec![0; Deflater::room(content.len())];
        match deflater.member(content, &mut room) {
            None => writer.add(&member, StorageMethod::Stored, crc, content),
            Some(len) => writer.add(&member, StorageMethod::Deflated, crc, &room[..len]),
        }
        .unwrap();
    }
    writer.finish().unwrap().0.into_inner()
}

/// A wheel of files, with a RECORD that may say something else.
fn wheel(files: &[(&str, Vec<u8>)], record: &Record) -> Vec<u8> {
    let own = ("x-1.dist-info/RECORD", record.to_string().into_bytes());
    archive(&[files, &[own]].concat())
}

fn good() -> Vec<u8> {
    wheel(&files(), &record(&files()))
}

fn open(bytes: impl Into<Vec<u8>>) -> Result<WheelReader<Cursor<Vec<u8>>>, WheelError> {
    WheelReader::new(Cursor::new(bytes.into()))
}

fn faults(bytes: Vec<u8>) -> String {
    let faults = open(bytes).unwrap().verify().unwrap();
    let lines: Vec<String> = faults
        .into_iter()
        .map(|fault| format!("{:#}", Error::from(fault)))
        .collect();
    lines.join("\n")
}

fn refusal(bytes: impl Into<Vec<u8>>) -> String {
    format!("{:#}", Error::from(open(bytes).unwrap_err()))
}

/// The bytes with every occurrence of some of them replaced by as many others.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at..].starts_with(from))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    bytes
}

/// The bytes with a number changed in each header of one kind: the local ones or the central ones.
fn patched(bytes: &[u8], signature: [u8; 4], at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for place in 0..bytes.len() {
        if bytes[place..].starts_with(&signature) {
            bytes[place + at..][..value.len()].copy_from_slice(value);
        }
    }
    bytes
}

const LOCAL: [u8; 4] = *b"PK\x03\x04";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";

#[test]
fn a_wheel_tells_what_it_holds() {
    let mut reader = open(good()).unwrap();
    let names: Vec<String> = reader
        .members()
        .iter()
        .map(|member| format!("{} {}", member.path, member.len))
        .collect();
    insta::assert_snapshot!(names.join("\n"), @r#"
    x/__init__.py 0
    x/lib.so 3000
    x/é, "q" 3
    x-1.dist-info/METADATA 41
    x-1.dist-info/WHEEL 19
    x-1.dist-info/RECORD 373
    "#);
    assert_eq!(reader.dist_info().as_str(), "x-1.dist-info");
    assert_eq!(reader.metadata().unwrap().to_string(), METADATA);
    assert_eq!(reader.metadata_bytes().unwrap(), METADATA.as_bytes());
    assert_eq!(reader.record().unwrap(), record(&files()));
    assert_eq!(
        reader.read(&path("x/lib.so"), 3_000).unwrap(),
        prose(3_000, 1)
    );
    assert!(reader.verify().unwrap().is_empty());
}

#[test]
fn a_member_that_is_longer_than_allowed_or_missing_is_an_error() {
    let mut reader = open(good()).unwrap();
    let errors = [
        reader.read(&path("x/lib.so"), 2_999).unwrap_err(),
        reader.read(&path("x/nothing"), 1).unwrap_err(),
        open(archive(&files())).unwrap().record().unwrap_err(),
        open(archive(&[("x-1.dist-info/METADATA", b"Name".to_vec())]))
            .unwrap()
            .metadata()
            .unwrap_err(),
        open(archive(&[("x-1.dist-info/RECORD", b"a,b".to_vec())]))
            .unwrap()
            .verify()
            .unwrap_err(),
    ]
    .map(|error| format!("{:#}", Error::from(error)));
    insta::assert_snapshot!(errors.join("\n"), @r#"
    `x/lib.so` has more than 2999 bytes
    no `x/nothing` in the wheel
    no `x-1.dist-info/RECORD` in the wheel
    line 1 is no `Name: value`: "Name"
    row 1 of RECORD: three columns expected, not 2
    "#);
}

#[test]
fn every_way_in_which_record_is_not_true_is_found_at_once() {
    let mut said = files();
    said[0].1 = b"more".to_vec();
    said[1].1[7] ^= 1;
    said[3] = ("x/gone", Vec::new());
    insta::assert_snapshot!(faults(wheel(&files(), &record(&said))), @"
    `x/__init__.py` has 0 bytes, but 4 in RECORD
    `x/lib.so` has SHA-256 6d6197bc6e3c00e8a160f00d44f07cee5fd95318486ced33bb7c9a2e90d229c6, but a585734abe93774cc5f18df87d31105c172973c2ece198aa03e39bbc43fc8959 in RECORD
    `x-1.dist-info/METADATA` is in the wheel, but not in RECORD
    `x/gone` is in RECORD, but not in the wheel
    ");
}

#[test]
fn record_must_list_itself_and_hash_all_others() {
    let mut rows = record(&files()).to_string();
    rows = rows.replace("x-1.dist-info/RECORD,,\n", "");
    rows = rows.replace(
        "x/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0",
        "x/__init__.py,,",
    );
    let record = Record::parse(rows.as_bytes()).unwrap();
    insta::assert_snapshot!(faults(wheel(&files(), &record)), @"
    `x/__init__.py` has no hash in RECORD
    `x-1.dist-info/RECORD` is in the wheel, but not in RECORD
    ");
}

#[test]
fn signatures_of_record_need_no_row() {
    let signed = [files(), vec![("x-1.dist-info/RECORD.jws", b"{}".to_vec())]].concat();
    assert_eq!(faults(wheel(&signed, &record(&files()))), "");
}

#[test]
fn a_member_whose_bytes_are_damaged_is_named() {
    let good = good();
    let packed = good.windows(3).position(|bytes| bytes == b"odd").unwrap();
    let mut stored = good.clone();
    stored[packed] ^= 1;
    insta::assert_snapshot!(faults(stored), @r#"`x/é, "q"` cannot be read to its end: Invalid checksum"#);
}

#[test]
fn a_member_that_inflates_to_more_than_it_says_is_not_followed() {
    let zeros = vec![0; 50 << 20];
    let own = files()[3].clone();
    let files = [("x/bomb", zeros.clone()), own];
    let bomb = wheel(&files, &record(&files));
    // Both headers say 100 bytes, and so does RECORD.
    let small = replaced(&bomb, &(50_u32 << 20).to_le_bytes(), &100_u32.to_le_bytes());
    let mut reader = open(small).unwrap();
    let member = reader.members()[0].clone();
    assert_eq!(member.len, 100);
    match reader.digest(&member) {
        Ok((_, len)) => assert_eq!(len, 101),
        Err(error) => assert!(matches!(error, WheelError::Io(_)), "{error}"),
    }
    assert!(reader.read(&member.path, 1_000).is_err());
    assert!(!reader.verify().unwrap().is_empty());
}

#[test]
fn an_archive_that_readers_could_understand_in_two_ways_is_refused() {
    let good = good();
    let twice = archive(&[files(), files()[..1].to_vec()].concat());
    let renamed = {
        // One name in the directory, another before the bytes.
        let at = good
            .windows(8)
            .position(|bytes| bytes == b"x/lib.so")
            .unwrap();
        let mut bytes = good.clone();
        bytes[at] = b'y';
        bytes
    };
    let mut comment = good.clone();
    let len = comment.len();
    comment[len - 2] = 3;
    comment.extend(b"PK!");
    let messages = [
        refusal([b"#!/bin/sh\n", &good[..]].concat()),
        refusal([&good[..], b"\0"].concat()),
        refusal([&good[..], &good[..]].concat()),
        refusal(comment),
        refusal(twice),
        refusal(renamed),
        refusal(patched(&good, CENTRAL, 24, &9_u32.to_le_bytes())),
    ];
    insta::assert_snapshot!(messages.join("\n"), @"
    an archive that does not begin with the first byte of the file
    an archive that does not end with the last byte of the file
    an archive that does not begin with the first byte of the file
    an archive that does not end with the last byte of the file
    two members of one name
    not a zip archive that can be trusted: invalid Zip archive: header inconsistency detected: Local file header filename mismatch (does not match central directory)
    not a zip archive that can be trusted: invalid Zip archive: header inconsistency detected: uncompressed size mismatch (does not match central directory)
    ");
}

#[test]
fn a_member_that_an_installer_must_not_extract_is_refused() {
    let good = good();
    let both =
        |at, value: &[u8]| patched(&patched(&good, LOCAL, at, value), CENTRAL, at + 2, value);
    let messages = [
        refusal(replaced(&good, b"x/lib.so", b"../ib.so")),
        refusal(replaced(&good, b"x/lib.so", b"/etc/pwd")),
        refusal(replaced(&good, b"x/lib.so", b"x\\lib.so")),
        refusal(replaced(&good, b"x/lib.so", b"C:lib.\0o")),
        refusal(both(8, &[12, 0])),
        refusal(both(6, &[1, 0])),
        refusal(patched(
            &good,
            CENTRAL,
            38,
            &(0o120_777_u32 << 16).to_le_bytes(),
        )),
    ];
    insta::assert_snapshot!(messages.join("\n"), @r#"
    a member that must not be extracted: a path with `..`: "../ib.so"
    a member that must not be extracted: an absolute path: "/etc/pwd"
    a member that must not be extracted: a backslash in a path: "x\\lib.so"
    a member that must not be extracted: a NUL in a path: "C:lib.\0o"
    a member that an installer cannot read: `x/__init__.py` is neither stored nor deflated
    a member that an installer cannot read: `x/__init__.py` is encrypted
    a member that an installer cannot read: `x/__init__.py` is a link
    "#);
}

#[test]
fn what_is_no_wheel_is_refused_in_words() {
    let messages = [
        refusal(b"".as_slice()),
        refusal(b"not a zip".as_slice()),
        refusal(vec![0; 1_000]),
        refusal(archive(&[])),
        refusal(archive(&[("x/a", Vec::new()), ("a.dist-info", Vec::new())])),
        refusal(archive(&[
            ("a.dist-info/METADATA", Vec::new()),
            ("b.dist-info/METADATA", Vec::new()),
        ])),
    ];
    insta::assert_snapshot!(messages.join("\n"), @"
    not a zip archive that can be trusted: invalid Zip archive: Could not find EOCD
    not a zip archive that can be trusted: invalid Zip archive: Could not find EOCD
    an archive that does not end with the last byte of the file
    a wheel has one `.dist-info` directory: found none
    a wheel has one `.dist-info` directory: found none
    a wheel has one `.dist-info` directory: found a.dist-info, b.dist-info
    ");
}

#[test]
fn a_wheel_cut_short_anywhere_is_refused() {
    let good = good();
    for len in 0..good.len() {
        assert!(open(&good[..len]).is_err(), "{len}");
    }
}

/// What an installer makes of a wheel in which nothing is wrong.
fn installed(bytes: Vec<u8>) -> Option<Vec<(RelPath, Vec<u8>)>> {
    let mut reader = open(bytes).ok()?;
    let faults = reader.verify().ok()?;
    let members = reader.members().to_vec();
    let files = members.into_iter().map(|member| {
        let content = reader.read(&member.path, 10_000).unwrap();
        (member.path, content)
    });
    faults.is_empty().then(|| files.collect())
}

#[test]
fn no_changed_byte_changes_unseen_what_is_installed() {
    let good = good();
    let whole = installed(good.clone());
    assert_eq!(whole.as_ref().map(Vec::len), Some(6));
    for at in 0..good.len() {
        for bit in [1, 0x40] {
            let mut bytes = good.clone();
            bytes[at] ^= bit;
            let changed = installed(bytes);
            assert!(changed.is_none() || changed == whole, "byte {at}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_wheel_or_an_error(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30)) {
        let mut bytes = good();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if let Ok(mut reader) = open(bytes) {
            let _ = reader.verify();
            let _ = reader.metadata();
        }
    }
}
