//! Other readers find what was written, and the archive has exactly the announced length.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use rocwheel_base::error::anyhow;
use rocwheel_test_files::tars::files_and_sizes;

fn path(text: &str) -> RelPath {
    text.parse().unwrap()
}

fn directory(text: &str) -> TarEntry {
    TarEntry { path: path(text), kind: TarKind::Directory }
}

fn file(text: &str, len: u64) -> TarEntry {
    TarEntry { path: path(text), kind: TarKind::File { len, executable: text.starts_with("bin/") } }
}

fn link(text: &str, to: &str) -> TarEntry {
    TarEntry { path: path(text), kind: TarKind::Symlink(to.to_owned()) }
}

/// The content of a planned file: its index as a byte, repeated.
fn content(plan: &TarPlan, index: usize) -> Vec<u8> {
    let len = usize::try_from(content_len(&plan.entries[index])).unwrap();
    vec![u8::try_from(index % 251).unwrap(); len]
}

fn bytes(plan: &TarPlan) -> Vec<u8> {
    let mut out = Vec::new();
    plan.stream(|index| Ok(io::Cursor::new(content(plan, index)))).read_to_end(&mut out).unwrap();
    out
}

/// What the `tar` crate reads, with a line for each member.
fn listing(tar: &[u8]) -> String {
    let mut archive = tar::Archive::new(tar);
    let lines = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let header = entry.header().clone();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        format!(
            "{:?} {:o} {}:{} @{} {} {} {}",
            header.entry_type(),
            header.mode().unwrap(),
            header.uid().unwrap(),
            header.gid().unwrap(),
            header.mtime().unwrap(),
            content.len(),
            String::from_utf8_lossy(&entry.path_bytes()),
            String::from_utf8_lossy(&entry.link_name_bytes().unwrap_or_default()),
        )
        .trim_end()
        .to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A block, with a dot for each run of zeros.
fn readable(block: &[u8]) -> String {
    let parts = block.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(".")
}

#[test]
fn a_stream_reads_back_as_planned_and_is_as_long_as_announced() {
    let long = format!("lib/{}/x.so", "long-name/".repeat(12).trim_end_matches('/'));
    let entries = vec![
        directory("lib"),
        file("lib/a.so.1", 1000),
        link("lib/a.so", "a.so.1"),
        file("bin/tool", 512),
        file("empty", 0),
        file(&long, 3),
        link("share/ünï", &format!("../{long}")),
        TarEntry { path: path("lib/same"), kind: TarKind::Hardlink(path("lib/a.so.1")) },
    ];
    let plan = TarPlan::new(entries, 315_532_800).unwrap();
    let tar = bytes(&plan);
    assert_eq!(tar.len() as u64, plan.len);
    insta::assert_snapshot!(listing(&tar), @"
    Directory 755 0:0 @315532800 0 lib/
    Regular 644 0:0 @315532800 1000 lib/a.so.1
    Symlink 777 0:0 @315532800 0 lib/a.so a.so.1
    Regular 755 0:0 @315532800 512 bin/tool
    Regular 644 0:0 @315532800 0 empty
    Regular 644 0:0 @315532800 3 lib/long-name/long-name/long-name/long-name/long-name/long-name/long-name/long-name/long-name/long-name/long-name/long-name/x.so
    Symlink 777 0:0 @315532800 0 share/ünï ../lib/long-name/long-name/long-name/long-name/long-name/long-name/long-name/long-name/long-name/long-name/long-name/long-name/x.so
    Link 644 0:0 @315532800 0 lib/same lib/a.so.1
    ");
}

#[test]
fn the_bytes_are_pinned() {
    let plan = TarPlan::new(vec![file("bin/é", 2), link("x", "bin/é")], 1).unwrap();
    let blocks: Vec<String> = bytes(&plan).chunks(512).map(readable).collect();
    insta::assert_debug_snapshot!(blocks, @r#"
    [
        "././@PaxHeader.0000644.0000000.0000000.00000000017.00000000001.0010232.x.ustar.00",
        "15 path=bin/é\n",
        "bin/?.0000755.0000000.0000000.00000000002.00000000001.0006612.0.ustar.00",
        "",
        "././@PaxHeader.0000644.0000000.0000000.00000000023.00000000001.0010227.x.ustar.00",
        "19 linkpath=bin/é\n",
        "x.0000777.0000000.0000000.00000000000.00000000001.0007006.2bin/?.ustar.00",
        "",
        "",
    ]
    "#);
}

#[test]
fn a_file_beyond_8_gib_gets_a_size_record_and_the_length_counts_it() {
    let largest = TarPlan::new(vec![file("a", OCTAL_MAX)], 0).unwrap();
    assert_eq!(largest.len, 512 + (OCTAL_MAX + 1) + 1024);
    let larger = TarPlan::new(vec![file("a", OCTAL_MAX + 1)], 0).unwrap();
    assert_eq!(larger.len, 1024 + 512 + (OCTAL_MAX + 1) + 1024);

    let mut start = vec![0; 1536];
    larger.stream(|_| Ok(io::repeat(7))).read_exact(&mut start).unwrap();
    assert!(start[512..].starts_with(b"19 size=8589934592\n\0"));
    // A reader without pax support sees an empty file.
    assert_eq!(start[1024 + 124..1024 + 136], *b"00000000000\0");
}

#[test]
fn a_file_that_changed_since_it_was_planned_ends_the_stream() {
    let plan = TarPlan::new(vec![file("lib/x", 3), file("y", 0)], 0).unwrap();
    let error = |x: &'static [u8], y: &'static [u8]| {
        let mut stream = plan.stream(|index| Ok([x, y][index]));
        stream.read_to_end(&mut Vec::new()).unwrap_err().to_string()
    };
    insta::assert_snapshot!(error(b"12", b""), @"`lib/x` has fewer bytes than planned: 3");
    insta::assert_snapshot!(error(b"1234", b""), @"`lib/x` has more bytes than planned: 3");
    insta::assert_snapshot!(error(b"123", b"!"), @"`y` has more bytes than planned: 0");
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let plan = TarPlan::new(vec![file("lib/x", 3)], 0).unwrap();
    let mut stream = plan.stream(|_| Err::<&[u8], _>(anyhow!("permission denied")));
    let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
    insta::assert_snapshot!(rocwheel_base::error::render(&error.into()), @"
    error: failed to read `lib/x`
      caused by: permission denied
    ");
}

#[test]
fn what_no_tar_can_hold_is_refused() {
    let refused = |entries, mtime| TarPlan::new(entries, mtime).unwrap_err().to_string();
    insta::assert_snapshot!(refused(vec![], OCTAL_MAX + 1), @"a time that no tar header can hold: 8589934592");
    insta::assert_snapshot!(refused(vec![link("a/b", "")], 0), @r#"link `a/b` leads nowhere: """#);
    insta::assert_snapshot!(refused(vec![link("a/b", "x\0y")], 0), @r#"link `a/b` leads nowhere: "x\0y""#);
    insta::assert_snapshot!(refused(vec![file("a", u64::MAX)], 0), @"the members of the archive add up to more than a tar can hold");
}

#[test]
fn a_record_counts_its_own_digits() {
    for len in 1..1_200 {
        let record = render_record("path", &"x".repeat(len));
        let digits = record.split(' ').next().unwrap();
        assert_eq!(digits, record.len().to_string());
    }
}

proptest! {
    #[test]
    fn any_plan_is_as_long_as_announced_and_reads_back(
        files in files_and_sizes(),
        most in 1_usize..700,
    ) {
        let files: BTreeMap<String, u64> = files;
        let entries = files.iter().map(|(name, len)| file(name, *len)).collect();
        let plan = TarPlan::new(entries, 9).unwrap();
        let mut stream = plan.stream(|index| Ok(io::Cursor::new(content(&plan, index))));
        let mut tar = Vec::new();
        let mut buf = vec![0; most];
        loop {
            let read = stream.read(&mut buf).unwrap();
            tar.extend_from_slice(&buf[..read]);
            if read == 0 { break; }
        }
        prop_assert_eq!(tar.len() as u64, plan.len);
        let back: Vec<String> = tar::Archive::new(tar.as_slice()).entries().unwrap()
            .map(|entry| String::from_utf8(entry.unwrap().path_bytes().into_owned()).unwrap())
            .collect();
        let planned: Vec<String> = files.into_keys().collect();
        prop_assert_eq!(back, planned);
    }
}
