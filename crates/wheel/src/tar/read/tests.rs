//! Valid archives, and those that an attacker would write.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::tar::TarPlan;
use rocwheel_base::error::render;
use rocwheel_test_files::tars::{Craft, files_and_sizes};

const MAX: u64 = 1 << 30;

fn walk(tar: &[u8]) -> Result<String> {
    let mut reader = TarReader::new(tar, MAX);
    let mut lines = String::new();
    while let Some(entry) = reader.next_entry()? {
        let mut content = Vec::new();
        reader.read_to_end(&mut content)?;
        let content = String::from_utf8_lossy(&content);
        writeln!(lines, "{} {:?} {content}", entry.path, entry.kind)?;
    }
    assert_eq!(reader.next_entry()?, None);
    Ok(lines)
}

/// The text of the error, one line for all causes.
fn refused(tar: impl AsRef<[u8]>) -> String {
    let error = walk(tar.as_ref()).expect_err("the tar was accepted");
    let causes = rocwheel_base::error::causes(&error);
    [vec![rocwheel_base::error::message(&error)], causes].concat().join(": ")
}

#[test]
fn members_are_read_as_they_were_written() {
    let long = "d/".repeat(80) + "é";
    let tar = Craft::default()
        .pax(b'g', &["comment=0123"])
        .directory("a/")
        .file("a/one", b"1")
        .file_with_mode("a/tool", b"#!/bin/sh", 0o4751)
        .file("a/empty", b"")
        .symlink("a/link", "../../anywhere")
        .hardlink("a/hard", "a/one")
        .pax(b'x', &["mtime=1.5", "path=b\nc", "SCHILY.xattr.x=\n\n"])
        .file("b?c", b"2")
        .pax(b'x', &["linkpath=ü"])
        .symlink("l", "?")
        .member("././@LongLink", b'L', format!("{long}\0").as_bytes(), |_| {})
        .file("d/d/d", b"3")
        .member("././@LongLink", b'K', b"a/one\0", |_| {})
        .hardlink("k", "a/on")
        .member("v7", 0, b"4", |header| {
            header.as_mut_bytes()[257..265].fill(0);
        })
        .end();
    insta::assert_snapshot!(walk(&tar).unwrap(), @r#"
    a Directory 
    a/one File { len: 1, executable: false } 1
    a/tool File { len: 9, executable: true } #!/bin/sh
    a/empty File { len: 0, executable: false } 
    a/link Symlink("../../anywhere") 
    a/hard Hardlink(RelPath("a/one")) 
    b
    c File { len: 1, executable: false } 2
    l Symlink("ü") 
    d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/é File { len: 1, executable: false } 3
    k Hardlink(RelPath("a/one")) 
    v7 File { len: 1, executable: false } 4
    "#);
}

#[test]
fn content_that_is_not_read_is_skipped() {
    let tar = Craft::default().file("a", &[7; 2000]).file("b", b"content").end();
    let mut reader = TarReader::new(tar.as_slice(), MAX);
    reader.next_entry().unwrap();
    reader.read_exact(&mut [0; 3]).unwrap();
    let entry = reader.next_entry().unwrap().unwrap();
    assert_eq!(entry.path.as_str(), "b");
}

#[test]
fn a_name_in_two_parts_is_joined() {
    let tar = Craft::default()
        .member("file", b'0', b"", |header| {
            header.as_ustar_mut().unwrap().prefix[..3].copy_from_slice(b"a/b");
        })
        .end();
    assert!(walk(&tar).unwrap().starts_with("a/b/file File"));
}

#[test]
fn a_tar_cut_off_anywhere_is_an_error() {
    let whole = Craft::default().pax(b'x', &["path=a"]).file("?", b"1").directory("b/").end();
    for len in 0..whole.len() {
        walk(&whole[..len]).unwrap_err();
    }
    insta::assert_snapshot!(refused([]), @"the tar is cut off at byte 0");
    insta::assert_snapshot!(refused(&whole[..100]), @"the tar is cut off at byte 100");
    insta::assert_snapshot!(refused(&whole[..1536]), @"the tar is cut off at byte 1536");
    insta::assert_snapshot!(refused(&whole[..1600]), @"the tar is cut off at byte 1600");
    insta::assert_snapshot!(refused(Craft::default().file("a", b"1").cut()), @"the tar is cut off at byte 1024");
    insta::assert_snapshot!(refused(Craft::default().file("a", b"1").bytes(&[0; 512]).cut()), @"the tar is cut off at byte 1536");
}

#[test]
fn what_follows_the_end_is_zeros_or_an_error() {
    let padded = Craft::default().file("a", b"1").bytes(&[0; 9_999]).end();
    walk(&padded).unwrap();
    let tail = |bytes: &[u8]| Craft::default().bytes(&[0; 1024]).bytes(bytes).cut();
    insta::assert_snapshot!(refused(tail(b"PK")), @"something follows the end of the tar");
    insta::assert_snapshot!(refused(Craft::default().bytes(&[0; 512]).file("a", b"1").end()), @"half an end mark at byte 0 of the tar");
}

#[test]
fn only_files_directories_and_links_are_members() {
    let kinds = [b'3', b'4', b'6', b'7', b'S', b'V', b'M', b'!', 0xff];
    let messages: Vec<String> = kinds
        .iter()
        .map(|&kind| refused(Craft::default().member("x", kind, b"", |_| {}).end()))
        .collect();
    insta::assert_snapshot!(messages.join("\n"), @"
    failed to read the tar header at byte 0: `x` is a character device
    failed to read the tar header at byte 0: `x` is a block device
    failed to read the tar header at byte 0: `x` is a named pipe
    failed to read the tar header at byte 0: `x` is a contiguous file
    failed to read the tar header at byte 0: `x` is a sparse file
    failed to read the tar header at byte 0: `x` is of an unknown kind: 'V'
    failed to read the tar header at byte 0: `x` is of an unknown kind: 'M'
    failed to read the tar header at byte 0: `x` is of an unknown kind: '!'
    failed to read the tar header at byte 0: `x` is of an unknown kind: 'ÿ'
    ");
    let sparse = ["GNU.sparse.major=1", "GNU.sparse.realsize=9"];
    insta::assert_snapshot!(refused(Craft::default().pax(b'x', &sparse).file("a", b"").end()), @"failed to read the tar header at byte 0: the next member is a sparse file");
}

#[test]
fn a_name_from_the_root_is_the_name_without_it() {
    let tar = Craft::default()
        .directory("./")
        .directory(".")
        .pax(b'x', &["path=./."])
        .directory("x")
        .directory("././a/")
        .file("./a/.b", b"1")
        .file(".c", b"2")
        .hardlink("./d", "./.c")
        .symlink("./e", "./../x")
        .end();
    insta::assert_snapshot!(walk(&tar).unwrap(), @r#"
    a Directory 
    a/.b File { len: 1, executable: false } 1
    .c File { len: 1, executable: false } 2
    d Hardlink(RelPath(".c")) 
    e Symlink("./../x")
    "#);
    insta::assert_snapshot!(refused(Craft::default().symlink("./", "x").end()), @r#"failed to read the tar header at byte 0: an empty path: """#);
    insta::assert_snapshot!(refused(Craft::default().hardlink("a", "./").end()), @r#"failed to read the tar header at byte 0: failed to hard link `a`: an empty path: """#);
    insta::assert_snapshot!(refused(Craft::default().hardlink("a", "./../b").end()), @r#"failed to read the tar header at byte 0: failed to hard link `a`: a path with `..`: "../b""#);
    insta::assert_snapshot!(refused(Craft::default().directory("./../").end()), @r#"failed to read the tar header at byte 0: a path with `..`: "..""#);
    insta::assert_snapshot!(refused(Craft::default().directory("/").end()), @r#"failed to read the tar header at byte 0: an empty path: """#);
    insta::assert_snapshot!(refused(Craft::default().member("./", b'5', b"x", |_| {}).end()), @"failed to read the tar header at byte 0: `./` is no file, and has 1 bytes");
}

#[test]
fn names_that_leave_the_archive_are_refused() {
    let names = [
        "/etc/passwd",
        "../x",
        "a/../../x",
        "./../a",
        ".//etc/passwd",
        "a/./b",
        "./",
        ".",
        "a//b",
        "",
        "a\\b",
        "a/",
    ];
    let messages: Vec<String> =
        names.iter().map(|name| refused(Craft::default().file(name, b"").end())).collect();
    insta::assert_snapshot!(messages.join("\n"), @r#"
    failed to read the tar header at byte 0: an absolute path: "/etc/passwd"
    failed to read the tar header at byte 0: a path with `..`: "../x"
    failed to read the tar header at byte 0: a path with `..`: "a/../../x"
    failed to read the tar header at byte 0: a path with `..`: "../a"
    failed to read the tar header at byte 0: an absolute path: "/etc/passwd"
    failed to read the tar header at byte 0: a path that is not in its shortest form: "a/./b"
    failed to read the tar header at byte 0: an empty path: ""
    failed to read the tar header at byte 0: a path that is not in its shortest form: "."
    failed to read the tar header at byte 0: a path that is not in its shortest form: "a//b"
    failed to read the tar header at byte 0: an empty path: ""
    failed to read the tar header at byte 0: a backslash in a path: "a\\b"
    failed to read the tar header at byte 0: a path that is not in its shortest form: "a/"
    "#);
    insta::assert_snapshot!(refused(Craft::default().directory("../").end()), @r#"failed to read the tar header at byte 0: a path with `..`: "..""#);
    insta::assert_snapshot!(refused(Craft::default().hardlink("a", "/etc/passwd").end()), @r#"failed to read the tar header at byte 0: failed to hard link `a`: an absolute path: "/etc/passwd""#);
    insta::assert_snapshot!(refused(Craft::default().hardlink("a", "").end()), @r#"failed to read the tar header at byte 0: failed to hard link `a`: an empty path: """#);
    insta::assert_snapshot!(refused(Craft::default().symlink("a", "").end()), @"failed to read the tar header at byte 0: link `a` has no target");
    insta::assert_snapshot!(refused(Craft::default().pax(b'x', &["path=/x"]).file("a", b"").end()), @r#"failed to read the tar header at byte 1024: an absolute path: "/x""#);
    insta::assert_snapshot!(refused(Craft::default().pax(b'x', &["path=a\0b"]).file("a", b"").end()), @r#"failed to read the tar header at byte 1024: a NUL in a path: "a\0b""#);
    insta::assert_snapshot!(refused(Craft::default().pax(b'x', &["linkpath=a\0b"]).symlink("a", "b").end()), @r#"failed to read the tar header at byte 1024: link `a` has a NUL: "a\0b""#);
    let latin = |header: &mut Header| header.as_old_mut().name[..2].copy_from_slice(b"\xe9\xe8");
    insta::assert_snapshot!(refused(Craft::default().member("", b'0', b"", latin).end()), @r#"failed to read the tar header at byte 0: a name that is not UTF-8: "��""#);
}

#[test]
fn headers_that_contradict_themselves_are_refused() {
    let pax = |records: &[&str]| Craft::default().pax(b'x', records).file("a", b"12").end();
    insta::assert_snapshot!(refused(pax(&["size=1024"])), @"failed to read the tar header at byte 1024: `a`: its header says 2 bytes, its extension 1024");
    insta::assert_snapshot!(refused(pax(&["size=2", "size=2"])), @"failed to read the tar header at byte 0: two values for `size`");
    insta::assert_snapshot!(refused(pax(&["path=a", "path=b"])), @"failed to read the tar header at byte 0: two values for `path`");
    insta::assert_snapshot!(refused(pax(&["size=+2"])), @r#"failed to read the tar header at byte 0: not a size: "+2""#);
    insta::assert_snapshot!(refused(pax(&["size=99999999999999999999"])), @r#"failed to read the tar header at byte 0: not a size: "99999999999999999999""#);
    walk(&pax(&["size=2"])).unwrap();

    let long = Craft::default().member("././@LongLink", b'L', b"a\0", |_| {});
    insta::assert_snapshot!(refused(long.clone().pax(b'x', &["path=b"]).file("c", b"").end()), @"failed to read the tar header at byte 1024: two values for `path`");
    insta::assert_snapshot!(refused(long.end()), @"the tar announces a member and ends instead");
    insta::assert_snapshot!(refused(Craft::default().member("d/", b'5', b"content", |_| {}).end()), @"failed to read the tar header at byte 0: `d` is no file, and has 7 bytes");
    insta::assert_snapshot!(refused(Craft::default().pax(b'g', &["path=b"]).file("c", b"").end()), @"failed to read the tar header at byte 0: a global header with `path`");
}

#[test]
fn damaged_headers_are_refused() {
    let field =
        |change: fn(&mut Header)| refused(Craft::default().member("a", b'0', b"", change).end());
    insta::assert_snapshot!(field(|header| header.as_old_mut().size = *b"99999999999\0"), @"failed to read the tar header at byte 0: numeric field was not a number: 99999999999 when getting size for a");
    insta::assert_snapshot!(field(|header| header.as_old_mut().mode = *b"rwxr-xr-"), @"failed to read the tar header at byte 0: numeric field was not a number: rwxr-xr- when getting mode for a");
    insta::assert_snapshot!(field(|header| header.set_size(u64::MAX)), @"`a` has 18446744073709551615 bytes, and takes the archive beyond 1073741824 bytes");

    // 2^64, 2^80 and -1 in base 256.
    for (at, byte) in [(3, 1), (1, 1), (0, 0x7f)] {
        let member = Craft::default().member("a", b'0', b"", |header| {
            header.set_size(u64::MAX);
            header.as_old_mut().size[4..].fill(0);
            header.as_old_mut().size[at] |= byte;
        });
        assert_eq!(
            refused(member.end()),
            "failed to read the tar header at byte 0: its size is negative, or 2^64 bytes and more"
        );
    }

    let mut flipped = Craft::default().file("a", b"").end();
    flipped[0] ^= 2;
    insta::assert_snapshot!(refused(flipped), @"failed to read the tar header at byte 0: its checksum is 3194, and should be 3196");
    insta::assert_snapshot!(refused(b"<html>".repeat(100)), @"failed to read the tar header at byte 0: this is not a tar header");
    let pax = |content: &[u8]| refused(Craft::default().member("x", b'x', content, |_| {}).end());
    insta::assert_snapshot!(pax(b"99 path=a\n"), @"failed to read the tar header at byte 0: not a list of pax records");
    for content in
        [&b"5 a=b"[..], b"\n", b"0 a=b\n", b"1 a=b\n", b"-6 a=b\n", b"6 ab!\n", b"12", b"\0"]
    {
        assert_eq!(pax(content), pax(b"99 path=a\n"));
    }
}

#[test]
fn a_huge_extension_is_refused_before_it_is_read() {
    let huge = Craft::default().member("x", b'x', b"", |header| header.set_size(1 << 40));
    insta::assert_snapshot!(refused(huge.end()), @"failed to read the tar header at byte 0: an extension header of 1099511627776 bytes, but at most 1048576 are allowed");
}

#[test]
fn a_name_longer_than_any_path_is_refused_and_not_shown() {
    let named = |len| {
        Craft::default()
            .member("././@LongLink", b'L', &vec![b'x'; len], |_| {})
            .file("x", b"")
            .end()
    };
    walk(&named(4096)).unwrap();
    insta::assert_snapshot!(refused(named(4097)), @"failed to read the tar header at byte 0: a name of 4097 bytes, but at most 4096 are allowed");
    let link = Craft::default().member("././@LongLink", b'K', &vec![b'x'; 4097], |_| {});
    insta::assert_snapshot!(refused(link.symlink("x", "").end()), @"failed to read the tar header at byte 0: a name of 4097 bytes, but at most 4096 are allowed");
}

#[test]
fn a_tar_beyond_its_limit_is_refused_at_the_member_that_goes_there() {
    let walk = |tar: &[u8], max_len| {
        let mut reader = TarReader::new(tar, max_len);
        while reader.next_entry()?.is_some() {}
        Ok(())
    };
    let tar = Craft::default().file("a", b"1").file("b", &[0; 600]).end();
    let len = tar.len() as u64;
    let error = |max_len| {
        let result: Result<()> = walk(&tar, max_len);
        render(&result.unwrap_err())
    };
    walk(&tar, len).unwrap();
    insta::assert_snapshot!(error(len - 1), @"error: the archive goes beyond 3583 bytes");
    insta::assert_snapshot!(error(2000), @"error: `b` has 600 bytes, and takes the archive beyond 2000 bytes");
    insta::assert_snapshot!(error(600), @"error: the archive goes beyond 600 bytes");
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        files in files_and_sizes(),
    ) {
        let entries: Vec<TarEntry> = files.iter().map(|(name, &len)| TarEntry {
            path: name.parse().unwrap(),
            kind: TarKind::File { len, executable: len % 2 == 0 },
        }).collect();
        let plan = TarPlan::new(entries.clone(), 0).unwrap();
        let tar = plan.stream(|index| {
            let TarKind::File { len, .. } = entries[index].kind else { unreachable!() };
            Ok(io::repeat(1).take(len))
        });
        let mut reader = TarReader::new(tar, MAX);
        let mut back = Vec::new();
        while let Some(entry) = reader.next_entry().unwrap() {
            back.push(entry);
        }
        prop_assert_eq!(&back, &entries);
        prop_assert_eq!(reader.at, plan.len);
    }

    #[test]
    fn no_bytes_make_it_panic(mut tar in prop::collection::vec(any::<u8>(), 512), at in 0_usize..2048, byte in any::<u8>()) {
        let _ = walk(&tar);
        tar = Craft::default().pax(b'x', &["path=a", "size=3"]).file("b", b"123").end();
        if let Some(changed) = tar.get_mut(at) { *changed = byte; }
        let _ = walk(&tar);
    }
}
