//! `kpack ls` and `kpack extract`.

use std::{io::Cursor, path::Path, process::Command};

use rocwheel::kpack::archive::{ArchiveWriter, Packed, Scheme, key};

use super::binaries::{code_object, library};

/// Exit code, stdout and stderr of the binary, run in a directory.
fn run(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rocwheel"))
        .env_clear()
        .current_dir(directory)
        .args(arguments)
        .output()
        .unwrap();
    format!(
        "exit {}\n{}{}",
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap()
    )
}

fn archive(name: &str) -> Vec<u8> {
    let out = Cursor::new(Vec::new());
    let mut writer = ArchiveWriter::new(out, "demo_lib", "gfx942", Scheme::Zstd).unwrap();
    for (ordinal, size) in [(0, 5000), (1, 6000)] {
        let code = Packed::new(&code_object(&["add"], size), Scheme::Zstd).unwrap();
        let target = "gfx942:xnack+".parse().unwrap();
        writer
            .add(&key(name, ordinal), &target, &code, None)
            .unwrap();
    }
    writer.finish().unwrap().0.into_inner()
}

#[test]
fn a_fat_binary_shows_its_code() {
    let place = tempfile::tempdir().unwrap();
    fs_err::write(place.path().join("libfat.so"), library()).unwrap();
    insta::assert_snapshot!(run(place.path(), &["kpack", "ls", "libfat.so"]), @"");
    let json = run(
        place.path(),
        &[
            "kpack",
            "ls",
            "libfat.so",
            "--target",
            "gfx1100",
            "--format",
            "json",
        ],
    );
    insta::assert_snapshot!(json, @"");
}

#[test]
fn an_archive_shows_its_code() {
    let place = tempfile::tempdir().unwrap();
    fs_err::write(place.path().join("x.kpack"), archive("stage/lib/libx.so")).unwrap();
    insta::assert_snapshot!(run(place.path(), &["kpack", "ls", "x.kpack"]), @"");
}

#[test]
fn code_is_written_to_files() {
    let place = tempfile::tempdir().unwrap();
    fs_err::write(place.path().join("libfat.so"), library()).unwrap();
    fs_err::write(place.path().join("x.kpack"), archive("stage/lib/libx.so")).unwrap();
    let extract = |file: &str, more: &[&str]| {
        let arguments = [&["kpack", "extract", file, "--output-dir", "out"], more].concat();
        run(place.path(), &arguments)
    };
    insta::assert_snapshot!(extract("libfat.so", &["--target", "gfx90a"]), @"");
    insta::assert_snapshot!(extract("x.kpack", &[]), @"");
    let read = |name: &str| fs_err::read(place.path().join("out").join(name)).unwrap();
    assert_eq!(
        read("libfat.so.0.gfx90a-xnack-.hsaco"),
        code_object(&["add", "scale"], 8_000)
    );
    assert_eq!(
        read("stage/lib/libx.so.1.gfx942-xnack+.hsaco"),
        code_object(&["add"], 6000)
    );
    insta::assert_snapshot!(extract("libfat.so", &["--target", "gfx906"]), @"");
}

#[test]
fn an_archive_writes_nothing_outside_of_the_directory() {
    let place = tempfile::tempdir().unwrap();
    fs_err::write(place.path().join("x.kpack"), archive("../../escaped")).unwrap();
    let arguments = ["kpack", "extract", "x.kpack", "--output-dir", "a/b"];
    insta::assert_snapshot!(run(place.path(), &arguments), @"");
    assert!(!place.path().join("escaped.0.gfx942-xnack+.hsaco").exists());
}

#[test]
fn a_file_without_code_is_refused() {
    let place = tempfile::tempdir().unwrap();
    fs_err::write(place.path().join("text"), "no code").unwrap();
    insta::assert_snapshot!(run(place.path(), &["kpack", "ls", "text"]), @"");
    insta::assert_snapshot!(run(place.path(), &["kpack", "ls", "nowhere"]), @"");
    insta::assert_snapshot!(
        run(place.path(), &["kpack", "ls", "text", "--target", "sm_90"]),
        @""
    );
}
