//! Archives that are unpacked whole, and attacks that leave nothing.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use tempfile::TempDir;

use super::*;
use rocwheel_base::error::{Exit, render};
use rocwheel_test_files::tars::{Craft, compress};

mod by_hand;
mod links;
mod manifest;

const MANIFEST: &str = ArtifactManifest::FILE_NAME;

fn name() -> ArchiveName {
    "x_lib_generic.tar.zst".parse().unwrap()
}

/// An archive with the base directories `a/stage` and `b`.
fn archive() -> Craft {
    Craft::default().file(MANIFEST, b"a/stage\nb\n")
}

fn zst(tar: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    compress(name().format.extension(), tar, &mut out).unwrap();
    out
}

fn unpack_zst(archive: &[u8], destination: &TempDir, limits: &UnpackLimits) -> Result<Unpacked> {
    let stop = Stop::default();
    stage(archive, &name(), destination.path(), limits, &stop, &|_| {})?.commit()
}

fn unpack_tar(tar: &[u8], destination: &TempDir) -> Result<Unpacked> {
    unpack_zst(&zst(tar), destination, &UnpackLimits::default())
}

/// The contents of a directory, one line each: path, mode, and contents or link text.
fn listing(directory: &Path) -> String {
    let mut lines = Vec::new();
    let mut ahead = vec![directory.to_owned()];
    while let Some(next) = ahead.pop() {
        for entry in fs_err::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let place = path.strip_prefix(directory).unwrap().display();
            lines.push(format!("{place} {}", describe(&path)));
            if fs_err::symlink_metadata(&path).unwrap().is_dir() {
                ahead.push(path);
            }
        }
    }
    lines.sort();
    lines.join("\n")
}

fn describe(path: &Path) -> String {
    let found = fs_err::symlink_metadata(path).unwrap();
    if found.is_symlink() {
        format!("-> {}", fs_err::read_link(path).unwrap().display())
    } else if found.is_dir() {
        mode(path)
    } else {
        format!("{} {:?}", mode(path), fs_err::read_to_string(path).unwrap())
    }
}

#[cfg(unix)]
fn mode(path: &Path) -> String {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs_err::metadata(path).unwrap().permissions().mode();
    format!("{:o}", mode & 0o7777)
}

#[cfg(not(unix))]
fn mode(_: &Path) -> String {
    "mode".to_owned()
}

/// The error of an archive, of which nothing may be left.
fn refused_zst(archive: &[u8], limits: &UnpackLimits) -> String {
    let destination = TempDir::new().unwrap();
    let error = unpack_zst(archive, &destination, limits).expect_err("the archive was accepted");
    assert_eq!(listing(destination.path()), "");
    assert_eq!(Exit::of(&error).code(), 2);
    let text = render(&error);
    let text = text.strip_prefix("error: failed to unpack `x_lib_generic.tar.zst`\n  caused by: ");
    text.expect("the archive is named").trim_end().to_owned()
}

fn refused_with(limits: &UnpackLimits, tar: Craft) -> String {
    refused_zst(&zst(&tar.end()), limits)
}

fn refused(tar: Craft) -> String {
    refused_with(&UnpackLimits::default(), tar)
}

#[cfg(unix)]
#[test]
fn an_archive_becomes_a_directory() {
    let tar = archive()
        .directory("a/")
        .directory("a/stage/")
        .file_with_mode("a/stage/bin/tool", b"#!", 0o6777)
        .file_with_mode("a/stage/read-only", b"r", 0o400)
        .symlink("a/stage/lib", "../../b/lib")
        .directory("b/empty/")
        .directory("b/empty/")
        .file("b/lib/one", b"1")
        .hardlink("a/stage/hard", "b/lib/one")
        .symlink("b/elsewhere", "nothing/../here")
        .end();
    let destination = TempDir::new().unwrap();
    let unpacked = unpack_tar(&tar, &destination).unwrap();
    assert_eq!(unpacked.directory, destination.path().join("x_lib_generic"));
    assert_eq!(unpacked.files, 4);
    assert_eq!(unpacked.bytes, 4);
    insta::assert_snapshot!(listing(&unpacked.directory), @r##"
    a 755
    a/stage 755
    a/stage/bin 755
    a/stage/bin/tool 755 "#!"
    a/stage/hard 644 "1"
    a/stage/lib -> ../../b/lib
    a/stage/read-only 644 "r"
    artifact_manifest.txt 644 "a/stage\nb\n"
    b 755
    b/elsewhere -> nothing/../here
    b/empty 755
    b/lib 755
    b/lib/one 644 "1"
    "##);
    fs_err::write(unpacked.directory.join("a/stage/hard"), "one file").unwrap();
    assert!(listing(&unpacked.directory).contains("b/lib/one 644 \"one file\""));
}

#[test]
fn an_artifact_may_be_empty() {
    let destination = TempDir::new().unwrap();
    unpack_tar(&Craft::default().file(MANIFEST, b"").end(), &destination).unwrap();
    unpack_tar(&archive().end(), &destination).unwrap();
    assert!(destination.path().join("x_lib_generic").join(MANIFEST).is_file());
}

#[test]
fn nothing_lands_outside_the_listed_directories() {
    for name in ["x", "a/x", "a/stage2/x", "a/stage", "b"] {
        assert!(refused(archive().file(name, b"")).contains(&format!("`{name}` lies in none")));
    }
    insta::assert_snapshot!(refused(archive().directory("c/")), @"`c` lies in none of the directories that `artifact_manifest.txt` lists");
    insta::assert_snapshot!(refused(archive().symlink("a", "b")), @"`a` lies in none of the directories that `artifact_manifest.txt` lists");
    insta::assert_snapshot!(refused(archive().file("../y_lib_generic/x", b"")), @r#"
    failed to read the tar header at byte 1024
      caused by: a path with `..`: "../y_lib_generic/x"
    "#);
    insta::assert_snapshot!(refused(archive().file("/tmp/x", b"")), @r#"
    failed to read the tar header at byte 1024
      caused by: an absolute path: "/tmp/x"
    "#);
}

#[test]
fn a_name_is_used_once() {
    insta::assert_snapshot!(refused(archive().file("b/x", b"1").file("b/x", b"2")), @"two members are called `b/x`");
    insta::assert_snapshot!(refused(archive().symlink("b/x", "y").file("b/x", b"2")), @"two members are called `b/x`");
    insta::assert_snapshot!(refused(archive().file("b/x", b"1").directory("b/x")), @"two members are called `b/x`");
    insta::assert_snapshot!(refused(archive().directory("b/x").file("b/x", b"")), @"two members are called `b/x`");
    insta::assert_snapshot!(refused(archive().directory("b/x").symlink("b/x", "y")), @"two members are called `b/x`");
}

#[test]
fn devices_and_pipes_are_refused() {
    for kind in [b'3', b'4', b'6', b'S'] {
        refused(archive().member("b/x", kind, b"", |_| {}));
    }
    insta::assert_snapshot!(refused(archive().member("b/x", b'3', b"", |_| {})), @"
    failed to read the tar header at byte 1024
      caused by: `b/x` is a character device
    ");
}

#[test]
fn names_that_clash_by_case_are_refused_where_case_is_ignored() {
    let clashing = || archive().file("b/E/x", b"1").file("b/e/y", b"2");
    let refuse = UnpackLimits { ignores_case: true, ..UnpackLimits::default() };
    insta::assert_snapshot!(refused_with(&refuse, clashing()), @"`b/e` and `b/E` differ only in case");
    let base = Craft::default().file(MANIFEST, b"b\nB\n").file("b/x", b"").file("B/y", b"");
    insta::assert_snapshot!(refused_with(&refuse, base), @"`B` and `b` differ only in case");
}

#[cfg(not(any(windows, target_vendor = "apple")))]
#[test]
fn names_that_clash_by_case_are_unpacked_where_case_counts() {
    let tar = archive().file("b/E/x", b"1").file("b/e/x", b"2").end();
    let destination = TempDir::new().unwrap();
    let unpacked = unpack_tar(&tar, &destination).unwrap();
    insta::assert_snapshot!(listing(&unpacked.directory.join("b")), @r#"
    E 755
    E/x 644 "1"
    e 755
    e/x 644 "2"
    "#);
}

#[test]
fn what_goes_beyond_a_limit_is_refused_in_words() {
    let limits = |change: fn(&mut UnpackLimits)| {
        let mut limits = UnpackLimits::default();
        change(&mut limits);
        limits
    };
    let two = || archive().file("b/one", &[0; 9000]).file("b/two", b"");
    let bytes = limits(|limits| limits.bytes = 9000);
    insta::assert_snapshot!(refused_with(&bytes, two()), @"`b/one` has 9000 bytes, and takes the archive beyond 9000 bytes");
    // The manifest, `b` and one file.
    let members = limits(|limits| limits.members = 3);
    insta::assert_snapshot!(refused_with(&members, two()), @"more than 3 files, directories and links, from `b/two` on");
    let paths = limits(|limits| limits.paths = 21 + 1 + 5);
    insta::assert_snapshot!(refused_with(&paths, two()), @"more than 27 bytes of names, from `b/two` on");
    let name = limits(|limits| limits.name = 4);
    let archive = Craft::default().file("artifact_manifest.txt", b"b").file("b/12345", b"");
    insta::assert_snapshot!(refused_with(&name, archive), @"a name of 5 bytes, but at most 4 are allowed: `b/12345`");
}

#[test]
fn an_archive_that_is_cut_off_leaves_nothing() {
    let whole = zst(&archive().file("b/x", b"content").file("b/y", b"more").end());
    for len in (0..whole.len()).step_by(7) {
        refused_zst(&whole[..len], &UnpackLimits::default());
    }
    insta::assert_snapshot!(refused_zst(&whole[..whole.len() - 9], &UnpackLimits::default()), @"
    the zstd data is cut off

    hint: download the archive again; if that does not help, rebuild it in its run
    ");
    let cut = zst(&archive().file("b/x", b"content").cut());
    insta::assert_snapshot!(refused_zst(&cut, &UnpackLimits::default()), @"
    the tar is cut off at byte 2048

    hint: download the archive again; if that does not help, rebuild it in its run
    ");
    insta::assert_snapshot!(refused_zst(b"<html>", &UnpackLimits::default()), @"
    this is not zstd data

    hint: download the archive again; if that does not help, rebuild it in its run
    ");
}

#[test]
fn a_broken_archive_leaves_the_older_artifact_as_it_was() {
    let destination = TempDir::new().unwrap();
    unpack_tar(&archive().file("b/old", b"1").end(), &destination).unwrap();
    let before = listing(destination.path());
    unpack_tar(&archive().file("b/new", b"2").cut(), &destination).unwrap_err();
    assert_eq!(listing(destination.path()), before);
    let unpacked = unpack_tar(&archive().file("b/new", b"2").end(), &destination).unwrap();
    assert!(unpacked.directory.join("b/new").exists());
    assert!(!unpacked.directory.join("b/old").exists());
    let names: Vec<_> = fs_err::read_dir(destination.path()).unwrap().collect();
    assert_eq!(names.len(), 1);
}

#[cfg(unix)]
#[test]
fn links_where_an_artifact_goes_are_replaced_and_not_followed() {
    let destination = TempDir::new().unwrap();
    let outside = TempDir::new().unwrap();
    fs_err::write(outside.path().join("precious"), "").unwrap();
    let link = destination.path().join("x_lib_generic");
    fs_err::os::unix::fs::symlink(outside.path(), link).unwrap();
    let unpacked = unpack_tar(&archive().file("b/x", b"").end(), &destination).unwrap();
    assert!(!fs_err::symlink_metadata(unpacked.directory).unwrap().is_symlink());
    assert_eq!(listing(outside.path()).lines().count(), 1);
    assert_eq!(fs_err::read_dir(destination.path()).unwrap().count(), 1);
}

#[test]
fn a_file_in_the_way_is_left_alone() {
    let destination = TempDir::new().unwrap();
    let file = destination.path().join("x_lib_generic");
    fs_err::write(&file, "precious").unwrap();
    let error = unpack_tar(&archive().end(), &destination).unwrap_err();
    let text = render(&error).replace(&destination.path().display().to_string(), "DIR");
    insta::assert_snapshot!(text, @"
    error: failed to unpack `x_lib_generic.tar.zst`
      caused by: a file has this name already: `DIR/x_lib_generic`

    hint: remove it, or unpack to another directory
    ");
    assert_eq!(fs_err::read_to_string(file).unwrap(), "precious");
}

#[test]
fn a_stage_that_is_dropped_leaves_nothing() {
    let destination = TempDir::new().unwrap();
    let archive = zst(&archive().file("b/x", b"content").end());
    let stop = Stop::default();
    let limits = UnpackLimits::default();
    let staged = stage(archive.as_slice(), &name(), destination.path(), &limits, &stop, &|_| {});
    let staged = staged.unwrap();
    assert_eq!(staged.unpacked.files, 1);
    assert!(!staged.unpacked.directory.exists());
    drop(staged);
    assert_eq!(listing(destination.path()), "");
}

#[test]
fn a_user_who_stops_finds_nothing_half_done() {
    let destination = TempDir::new().unwrap();
    let archive = zst(&archive().file("b/x", &vec![1; 100_000]).end());
    let stop = Stop::default();
    let seen = Cell::new(0);
    let progress = |bytes| {
        seen.set(seen.get() + bytes);
        stop.flag().store(true, Relaxed);
    };
    let limits = UnpackLimits::default();
    let result = stage(archive.as_slice(), &name(), destination.path(), &limits, &stop, &progress);
    assert_eq!(Exit::of(&result.err().unwrap()), Exit::Interrupted);
    assert_eq!(listing(destination.path()), "");
    assert!((1..100_000).contains(&seen.get()));
}

#[test]
fn progress_counts_the_tar_and_the_archive_is_read_to_its_end() {
    struct Counted<'a>(&'a [u8], &'a AtomicUsize);
    impl Read for Counted<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let read = self.0.read(buf)?;
            self.1.fetch_add(read, Relaxed);
            Ok(read)
        }
    }
    let tar = archive().file("b/x", &[1; 10_000]).end();
    let archive = zst(&tar);
    let (stop, seen, read) = (Stop::default(), Cell::new(0), AtomicUsize::new(0));
    let destination = TempDir::new().unwrap();
    stage(
        Counted(&archive, &read),
        &name(),
        destination.path(),
        &UnpackLimits::default(),
        &stop,
        &|bytes| seen.set(seen.get() + bytes),
    )
    .unwrap();
    assert_eq!(seen.get(), tar.len() as u64);
    assert_eq!(read.load(Relaxed), archive.len());
}

#[test]
fn names_that_windows_cannot_have_are_known() {
    for name in [
        "con",
        "NUL.txt",
        "Com1.log",
        "lpt9",
        "CONIN$",
        "conout$.txt",
        "com²",
        "LPT¹.log",
        "a.",
        "a ",
        "a\tb",
        "a?",
        "\u{7f}",
        "con:x.",
        "a%3Ab",
        "a%3ab",
        "a?:b",
    ] {
        assert!(!windows_allows(name), "{name:?}");
    }
    for name in [
        "a",
        "console",
        "com0",
        "com10",
        ".hidden",
        "libx.so.1",
        "é",
        "a b",
        "blas_lib_gfx942:xnack+.kpack",
    ] {
        assert!(windows_allows(name), "{name:?}");
    }
}

#[test]
fn names_that_differ_by_case_or_normal_form_are_one() {
    for (one, other) in [("Read", "READ"), ("xY", "Xy"), ("caf\u{e9}", "cafe\u{301}"), ("É", "é")]
    {
        assert_eq!(fold(one), fold(other), "{one} {other}");
    }
    for (one, other) in [("a", "b"), ("a.b", "a-b"), ("é", "e"), ("STRASSE", "straße")] {
        assert_ne!(fold(one), fold(other), "{one} {other}");
    }
}
