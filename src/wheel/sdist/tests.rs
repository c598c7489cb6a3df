//! Source distributions, written the same everywhere and read with care.

use proptest::prelude::*;

use super::*;
use crate::{
    error::Error,
    wheel::test_bytes::{noise, prose},
};

const LIMIT: u64 = 1 << 20;

fn path(text: &str) -> RelPath {
    text.parse().unwrap()
}

fn files() -> Vec<(RelPath, Vec<u8>)> {
    [
        ("PKG-INFO", "Name: rocm\n"),
        ("setup.py", "import setuptools\n"),
        ("src/rocm.egg-info/PKG-INFO", "another\n"),
        ("src/rocm_sdk/__init__.py", ""),
        ("src/rocm_sdk/tests/é.py", "odd\n"),
    ]
    .map(|(name, content)| (path(name), content.as_bytes().to_vec()))
    .to_vec()
}

fn sdist(files: &[(RelPath, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_sdist(&mut bytes, &path("rocm-1.0"), files, 1_700_000_000).unwrap();
    bytes
}

fn gzip(tar: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(tar).unwrap();
    gzip.finish().unwrap()
}

/// An sdist of members that are as bad as they like.
fn crafted(members: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (name, kind, content) in members {
        let mut header = header(*kind, 0o644, content, 0);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[0] = b'x';
        header.set_cksum();
        tar.append(&header, *content).unwrap();
    }
    gzip(&tar.into_inner().unwrap())
}

fn refusal(bytes: &[u8]) -> String {
    format!("{:#}", Error::from(read_sdist(bytes, LIMIT).unwrap_err()))
}

#[test]
fn directories_come_before_their_files_and_nothing_depends_on_the_machine() {
    let bytes = sdist(&files());
    // No flags, no time, the best level, an unknown system.
    assert_eq!(bytes[..10], [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 2, 255]);
    let mut archive = Archive::new(GzDecoder::new(&bytes[..]));
    let lines: Vec<String> = archive
        .entries()
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            format!(
                "{:o} {} {} {} {:?}{:?} {} {}",
                header.mode().unwrap(),
                header.uid().unwrap(),
                header.gid().unwrap(),
                header.mtime().unwrap(),
                header.username().unwrap().unwrap(),
                header.groupname().unwrap().unwrap(),
                entry.size(),
                entry.path().unwrap().display(),
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    755 0 0 1700000000 """" 0 rocm-1.0/
    644 0 0 1700000000 """" 11 rocm-1.0/PKG-INFO
    644 0 0 1700000000 """" 18 rocm-1.0/setup.py
    755 0 0 1700000000 """" 0 rocm-1.0/src/
    755 0 0 1700000000 """" 0 rocm-1.0/src/rocm.egg-info/
    644 0 0 1700000000 """" 8 rocm-1.0/src/rocm.egg-info/PKG-INFO
    755 0 0 1700000000 """" 0 rocm-1.0/src/rocm_sdk/
    644 0 0 1700000000 """" 0 rocm-1.0/src/rocm_sdk/__init__.py
    755 0 0 1700000000 """" 0 rocm-1.0/src/rocm_sdk/tests/
    644 0 0 1700000000 """" 4 rocm-1.0/src/rocm_sdk/tests/é.py
    "#);
    assert_eq!(sdist(&files()), bytes);
}

#[test]
fn an_sdist_reads_back() {
    let read = read_sdist(&sdist(&files())[..], LIMIT).unwrap();
    assert_eq!(read.top, path("rocm-1.0"));
    assert_eq!(read.pkg_info, b"Name: rocm\n");
    let names: Vec<RelPath> = files().into_iter().map(|(name, _)| name).collect();
    assert_eq!(read.files, names);
}

#[test]
fn paths_of_any_length_survive() {
    let mut files = files();
    let long = [
        "d".repeat(90),
        "e".repeat(100),
        "f".repeat(101),
        "g".repeat(300),
    ];
    for (index, name) in long.iter().enumerate() {
        files.push((path(name), Vec::new()));
        files.push((
            path(&format!("x{}/{name}", long[(index + 1) % 4])),
            vec![7; index],
        ));
    }
    let read = read_sdist(&sdist(&files)[..], LIMIT).unwrap();
    let names: Vec<RelPath> = files.into_iter().map(|(name, _)| name).collect();
    assert_eq!(read.files, names);
}

#[test]
fn names_that_readers_would_disagree_about_are_refused() {
    let messages = [["two\nlines", "b"], ["b", "b"], ["b/c", "b"]].map(|names| {
        let files = names.map(|name| (path(name), Vec::new()));
        write_sdist(Vec::new(), &path("a"), &files, 0)
            .unwrap_err()
            .to_string()
    });
    insta::assert_snapshot!(messages.join("\n"), @r#"
    a control character in a name: "a/two\nlines"
    two members of one name: `a/b`
    two members of one name: `a/b`
    "#);
}

#[test]
fn an_sdist_that_must_not_be_extracted_is_refused_in_words() {
    let file = EntryType::Regular;
    let info: (&str, EntryType, &[u8]) = ("a-1/PKG-INFO", file, b"Name: a\n");
    let messages = [
        crafted(&[info, ("../evil", file, b"")]),
        crafted(&[info, ("/etc/passwd", file, b"")]),
        crafted(&[info, ("a-1/../../evil", file, b"")]),
        crafted(&[info, ("a-1/\\\\host", file, b"")]),
        crafted(&[info, ("a-1/link", EntryType::Symlink, b"")]),
        crafted(&[info, ("a-1/link", EntryType::Link, b"")]),
        crafted(&[info, ("a-1/device", EntryType::Char, b"")]),
        crafted(&[info, ("b-1/file", file, b"")]),
        crafted(&[info, ("file", file, b"")]),
        crafted(&[info, info]),
        crafted(&[("a-1/sub/PKG-INFO", file, b"")]),
        crafted(&[("a-1/", EntryType::Directory, b"")]),
        crafted(&[]),
    ]
    .map(|bytes| refusal(&bytes));
    insta::assert_snapshot!(messages.join("\n"), @r#"
    a member that must not be extracted: a path with `..`: "../evil"
    a member that must not be extracted: an absolute path: "/etc/passwd"
    a member that must not be extracted: a path with `..`: "a-1/../../evil"
    a member that must not be extracted: a backslash in a path: "a-1/\\\\host"
    a member that is neither a file nor a directory: `a-1/link`
    a member that is neither a file nor a directory: `a-1/link`
    a member that is neither a file nor a directory: `a-1/device`
    an sdist has one directory at its top, and nothing beside it: `b-1/file`
    an sdist has one directory at its top, and nothing beside it: `file`
    two members of one name: `a-1/PKG-INFO`
    no `PKG-INFO` in the directory at the top
    no `PKG-INFO` in the directory at the top
    no `PKG-INFO` in the directory at the top
    "#);
}

#[test]
fn bytes_that_are_no_sdist_are_refused_in_words() {
    let good = sdist(&files());
    let mut damaged = good.clone();
    let checksum = good.len() - 8;
    damaged[checksum] ^= 1;
    let messages = [
        refusal(b""),
        refusal(b"not gzip"),
        refusal(&gzip(b"not tar")),
        refusal(&gzip(&noise(5_000, 1))),
        refusal(&good[..good.len() / 2]),
        refusal(&good[..good.len() - 1]),
        refusal(&damaged),
    ];
    insta::assert_snapshot!(messages.join("\n"), @"
    not a `.tar.gz` that can be read to its end: unexpected end of file
    not a `.tar.gz` that can be read to its end: unexpected end of file
    not a `.tar.gz` that can be read to its end: failed to read entire block
    not a `.tar.gz` that can be read to its end: numeric field did not have utf-8 text: *K4�#��� when getting cksum for 
    not a `.tar.gz` that can be read to its end: incomplete deflate stream
    not a `.tar.gz` that can be read to its end: unexpected end of file
    not a `.tar.gz` that can be read to its end: corrupt gzip stream does not have a matching checksum
    ");
}

#[test]
fn no_more_is_unpacked_than_allowed() {
    let mut files = files();
    files.push((path("zeros"), vec![0; 3 << 20]));
    let bytes = sdist(&files);
    assert!(bytes.len() < 10_000);
    assert_eq!(refusal(&bytes), "more than 1048576 bytes when unpacked");
    assert!(read_sdist(&bytes[..], 4 << 20).is_ok());
    // Also when the end of the archive hides it.
    let hidden = [
        crafted(&[("a-1/PKG-INFO", EntryType::Regular, b"")]),
        Vec::new(),
    ]
    .concat();
    let mut tar = Vec::new();
    GzDecoder::new(&hidden[..]).read_to_end(&mut tar).unwrap();
    tar.resize(2 << 20, 0);
    assert_eq!(
        refusal(&gzip(&tar)),
        "more than 1048576 bytes when unpacked"
    );
}

#[test]
fn an_sdist_cut_short_anywhere_is_refused() {
    let mut files = files();
    files.push((path("noise"), [noise(300, 1), prose(300, 2)].concat()));
    let good = sdist(&files);
    for len in 0..good.len() {
        assert!(read_sdist(&good[..len], LIMIT).is_err(), "{len}");
    }
}

proptest! {
    #[test]
    fn any_files_read_back(names in proptest::collection::btree_set("[^/\\\\\\pC.]{1,150}(/[^/\\\\\\pC.]{1,150})?", 0..5)) {
        let mut files = vec![(path("PKG-INFO"), b"x".to_vec())];
        files.extend(names.iter().map(|name| (path(&format!("d/{name}")), name.clone().into_bytes())));
        let read = read_sdist(&sdist(&files)[..], LIMIT).unwrap();
        let names: Vec<RelPath> = files.into_iter().map(|(name, _)| name).collect();
        prop_assert_eq!(read.files, names);
    }

    #[test]
    fn any_bytes_are_an_sdist_or_an_error(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20)) {
        let mut tar = Vec::new();
        GzDecoder::new(&sdist(&files())[..]).read_to_end(&mut tar).unwrap();
        for (place, value) in changes {
            let place = place.index(tar.len());
            tar[place] = value;
        }
        let _ = read_sdist(&gzip(&tar)[..], LIMIT);
    }
}
