//! Tests of what is found in the artifacts of a run.

#[cfg(target_os = "linux")]
mod hosted;

use std::io::{Cursor, Write as _};

use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::*;
use rocwheel_base::error::render;
use rocwheel_store::Ranged;

const NAME: &str = "blas_lib_gfx942.tar.zst";

fn zip(members: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in members {
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn refused(bytes: Vec<u8>) -> String {
    render(&list_zipped(Cursor::new(bytes), &mut BTreeSet::new()).unwrap_err())
}

#[test]
fn archives_are_found_in_any_directory_and_nothing_else_is() {
    let bytes = zip(
        &[
            ("a/b/", b""),
            ("readme", b"x"),
            ("a/b/base_lib_generic.tar.xz", b"abc"),
            ("logs/ccache_logs.tar.zst", b"x"),
            (NAME, b""),
        ],
        CompressionMethod::Deflated,
    );
    let mut unknown = BTreeSet::new();
    let found = list_zipped(Cursor::new(&bytes), &mut unknown).unwrap();
    assert_eq!(unknown.iter().join(" "), "ccache_logs.tar.zst");
    let shown: Vec<_> =
        found.iter().map(|zipped| (zipped.name.to_string(), zipped.member.size)).collect();
    assert_eq!(shown, [("base_lib_generic.tar.xz".into(), 3), (NAME.into(), 0)]);
}

#[test]
fn a_zip_file_is_read_from_its_end_in_few_parts() {
    let long = vec![7; 1 << 20];
    let mut members: Vec<(String, &[u8])> = vec![("long".to_owned(), &long)];
    members.extend((0..2000).map(|at| (format!("{at:040}"), &[][..])));
    members.push((NAME.to_owned(), b"abc"));
    let members: Vec<_> = members.iter().map(|(name, it)| (name.as_str(), *it)).collect();
    let bytes = zip(&members, CompressionMethod::Stored);
    let end = bytes[bytes.len() - 100..].to_vec();
    let mut parts = Vec::new();
    let ranged = Ranged::new(bytes.len() as u64, |range| {
        let [start, end] = [range.start, range.end].map(|it| usize::try_from(it).unwrap());
        parts.push(end - start);
        Ok(bytes[start..end].to_vec())
    });
    assert_eq!(list_zipped(ranged.with_end(end), &mut BTreeSet::new()).unwrap().len(), 1);
    assert!(parts.len() < 20, "{parts:?}");
}

#[test]
fn what_must_not_be_unpacked_is_refused_in_words() {
    let stored = CompressionMethod::Stored;
    let mut said = String::new();
    for path in ["../", "/", "a/../../", "a\\"] {
        said += &refused(zip(&[(&format!("{path}{NAME}"), b"x")], stored));
    }
    said += &refused(b"<html>".to_vec());
    said += &refused(zip(&[(NAME, b"x")], stored)[..60].to_vec());
    insta::assert_snapshot!(said, @r#"
    error: a member that must not be unpacked
      caused by: a path with `..`: "../blas_lib_gfx942.tar.zst"
    error: a member that must not be unpacked
      caused by: an absolute path: "/blas_lib_gfx942.tar.zst"
    error: a member that must not be unpacked
      caused by: a path with `..`: "a/../../blas_lib_gfx942.tar.zst"
    error: a member that must not be unpacked
      caused by: a backslash in a path: "a\\blas_lib_gfx942.tar.zst"
    error: not a zip file that can be read
      caused by: invalid Zip archive: Could not find EOCD
    error: not a zip file that can be read
      caused by: invalid Zip archive: Could not find EOCD
    "#);
}

#[test]
fn a_damaged_directory_is_an_error_and_no_panic() {
    let whole = zip(&[("readme", b"x"), (NAME, b"abc")], CompressionMethod::Deflated);
    for at in 0..whole.len() {
        for value in [0, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            let _ = list_zipped(Cursor::new(bytes), &mut BTreeSet::new());
        }
        let _ = list_zipped(Cursor::new(whole[..at].to_vec()), &mut BTreeSet::new());
    }
}

#[test]
fn an_artifact_that_names_a_platform_is_for_that_alone() {
    for (name, linux, windows) in [
        ("artifacts-gfx942", true, true),
        ("artifacts-linux-gfx942", true, false),
        ("Windows_gfx942", false, true),
        ("linux-and-windows", true, true),
        ("linuxbrew", true, true),
    ] {
        let found = [Platform::Linux, Platform::Windows].map(|it| is_for_platform(name, it));
        assert_eq!(found, [linux, windows], "{name}");
    }
}
