//! `kpack ls` and `kpack extract`.

use rocwheel::kpack::archive::{ArchiveWriter, Packed, key};

use super::binaries::{code_object, library};
use crate::support::prelude::*;

fn archive(name: &str) -> Vec<u8> {
    let out = Cursor::new(Vec::new());
    let mut writer = ArchiveWriter::new(out, "demo_lib", "gfx942").unwrap();
    for (ordinal, size) in [(0, 5000), (1, 6000)] {
        let code = Packed::new(&code_object(&["add"], size)).unwrap();
        let target = "gfx942:xnack+".parse().unwrap();
        let key = key(name, ordinal);
        writer.add(&key, &target, &code, None).unwrap();
    }
    writer.finish().unwrap().0.into_inner()
}

#[test]
fn a_fat_binary_shows_its_code() {
    let t = Sandbox::new();
    t.write("libfat.so", library());
    insta::assert_snapshot!(t.run("kpack ls libfat.so").all(), @"
    exit 0
    libfat.so: fat binary, 4 code objects, 38.23 KiB
    BUNDLE  TARGET         SIZE   STORED  COMPRESSION   KERNELS
    #0      gfx1100        11256  11256   none          add, scale
    #0      gfx90a:xnack+  10248  10248   none          add, scale
    #0      gfx90a:xnack-  9256   9256    none          add, scale
    #1      gfx90a         8392   -       CCOB v3 zstd  a, b, c, and 2 more
    ");
    let json = t
        .run("kpack ls libfat.so --target gfx1100 --format json")
        .all();
    insta::assert_snapshot!(json, @r#"
    exit 0
    {"schema":"rocwheel-report-v1","command":"kpack ls","file":"libfat.so","kind":"fat binary","code_objects":[{"bundle":0,"target":"gfx1100","size":11256,"stored":11256,"compression":"none","kernels":["add","scale"]}]}
    "#);
}

#[test]
fn an_archive_shows_its_code() {
    let t = Sandbox::new();
    t.write("x.kpack", archive("stage/lib/libx.so"));
    insta::assert_snapshot!(t.run("kpack ls x.kpack").all(), @"
    exit 0
    x.kpack: archive, 2 code objects, 13.08 KiB
    BUNDLE               TARGET         SIZE  STORED  COMPRESSION  KERNELS
    stage/lib/libx.so#0  gfx942:xnack+  6200  5420    zstd         add
    stage/lib/libx.so#1  gfx942:xnack+  7192  6412    zstd         add
    ");
}

#[test]
fn code_is_written_to_files() {
    let t = Sandbox::new();
    t.write("libfat.so", library());
    t.write("x.kpack", archive("stage/lib/libx.so"));
    let extract = |what: &str| {
        let line = format!("kpack extract {what} --output-dir out");
        t.run(&line).all()
    };
    insta::assert_snapshot!(extract("libfat.so --target gfx90a"), @"
    exit 0
    out/libfat.so.0.gfx90a-xnack+.hsaco
    out/libfat.so.0.gfx90a-xnack-.hsaco
    out/libfat.so.1.gfx90a.hsaco
       Extracted 3 code objects, 27.24 KiB
    ");
    insta::assert_snapshot!(extract("x.kpack"), @"
    exit 0
    out/stage/lib/libx.so.0.gfx942-xnack+.hsaco
    out/stage/lib/libx.so.1.gfx942-xnack+.hsaco
       Extracted 2 code objects, 13.08 KiB
    ");
    let read = |name: &str| fs_err::read(t.path("out").join(name)).unwrap();
    let code = code_object(&["add", "scale"], 8_000);
    assert!(read("libfat.so.0.gfx90a-xnack-.hsaco") == code);
    let code = code_object(&["add"], 6000);
    assert!(read("stage/lib/libx.so.1.gfx942-xnack+.hsaco") == code);
    insta::assert_snapshot!(extract("libfat.so --target gfx906"), @"
    exit 2
    error: none of 4 code objects is for a wanted target

    hint: `rocwheel kpack ls` lists the targets
    ");
}

#[test]
fn an_archive_writes_nothing_outside_of_the_directory() {
    let t = Sandbox::new();
    t.write("x.kpack", archive("../../escaped"));
    insta::assert_snapshot!(t.run("kpack extract x.kpack --output-dir a/b").all(), @r#"
    exit 2
    error: failed to read `x.kpack`
      caused by: failed to make a file name of a code object
      caused by: a path with `..`: "../../escaped.0.gfx942-xnack+.hsaco"
    "#);
    assert!(!t.path("escaped.0.gfx942-xnack+.hsaco").exists());
}

#[test]
fn no_file_of_an_archive_has_a_colon() {
    let t = Sandbox::new();
    t.write("x.kpack", archive("C:/x:y"));
    insta::assert_snapshot!(t.run("kpack extract x.kpack --output-dir out").all(), @"
    exit 0
    out/C-/x-y.0.gfx942-xnack+.hsaco
    out/C-/x-y.1.gfx942-xnack+.hsaco
       Extracted 2 code objects, 13.08 KiB
    ");
}

#[test]
fn a_file_without_code_is_refused() {
    let t = Sandbox::new();
    t.write("text", "no code");
    let said = ["text", ".", "nowhere", "text --target sm_90"].map(|what| {
        let said = t.run(&format!("kpack ls {what}"));
        assert_eq!(said.code, 2, "{what}");
        said.stderr
    });
    insta::assert_snapshot!(said.concat(), @r#"
    error: failed to read `text`
      caused by: no device code: neither an archive, nor bundles, nor a fat binary
    error: a directory: `.`

    hint: pass a file: a binary, a bundle, a `.kpack` archive or a wheel
    error: failed to open file `nowhere`: No such file or directory (os error 2)
    error: invalid value 'sm_90' for '--target <TARGET>': not a processor such as `gfx942` or `gfx9-4-generic`: "sm_90"

    For more information, try '--help'.
    "#);
}

#[test]
fn a_wheel_shows_the_code_of_its_archives_and_binaries() {
    let t = Sandbox::new();
    let members = [
        ("x/.kpack/x.kpack", archive("lib/libx.so")),
        ("x/lib/libfat.so.1", library()),
        ("x/lib/libscript.so", b"INPUT(libx.so.1)".to_vec()),
        ("x-1.dist-info/METADATA", Vec::new()),
    ];
    let members = members.map(|(name, bytes)| (name.to_owned(), 0o100_644, bytes));
    t.write("x.whl", zipped(&members.to_vec()));
    insta::assert_snapshot!(t.run("kpack ls x.whl --target gfx942,gfx1100").all(), @"
    exit 0
    x.whl: wheel, 3 code objects, 24.07 KiB
    BUNDLE                          TARGET         SIZE   STORED  COMPRESSION  KERNELS
    x/.kpack/x.kpack/lib/libx.so#0  gfx942:xnack+  6200   5420    zstd         add
    x/.kpack/x.kpack/lib/libx.so#1  gfx942:xnack+  7192   6412    zstd         add
    x/lib/libfat.so.1#0             gfx1100        11256  11256   none         add, scale
    ");
    insta::assert_snapshot!(t.run("kpack extract x.whl --target gfx942 --output-dir out").all(), @"
    exit 0
    out/x/.kpack/x.kpack/lib/libx.so.0.gfx942-xnack+.hsaco
    out/x/.kpack/x.kpack/lib/libx.so.1.gfx942-xnack+.hsaco
       Extracted 2 code objects, 13.08 KiB
    ");
}
