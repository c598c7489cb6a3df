//! `kpack ls`.

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
    let json = t.run("kpack ls libfat.so --target gfx1100 --format json").all();
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

/// What the largest process of a command took, in kB.
const PEAK: &str = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); \
                    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";

#[cfg(target_os = "linux")]
#[test]
fn code_of_many_megabytes_is_listed_and_not_read() {
    let t = Sandbox::new();
    // Zeros, which shrink to almost nothing.
    let zeros = vec![0; 600 << 20];
    let code = Packed::new(&zeros).unwrap();
    let out = Cursor::new(Vec::new());
    let mut writer = ArchiveWriter::new(out, "demo_lib", "gfx942").unwrap();
    writer.add("lib/libx.so#0", &"gfx942".parse().unwrap(), &code, None).unwrap();
    let archive = writer.finish().unwrap().0.into_inner();
    assert!(archive.len() < 1 << 20);
    t.write("x.kpack", archive);
    let mut python = Command::new(tool("python"));
    python.args(["-c", PEAK, ROCWHEEL, "kpack", "ls", "x.kpack"]).current_dir(t.path(""));
    let said = Outcome::of(python.output().unwrap()).ok();
    let (listed, peak) = said.trim_end().rsplit_once('\n').unwrap();
    insta::assert_snapshot!(listed, @"
    x.kpack: archive, 1 code object, 600.00 MiB
    BUNDLE         TARGET  SIZE       STORED  COMPRESSION  KERNELS
    lib/libx.so#0  gfx942  629145600  19219   zstd         not read: more than 512.00 MiB
    ");
    let peak: u64 = peak.parse().unwrap();
    assert!(peak < 100_000, "{peak} kB");
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

    hint: pass a file: a binary, a bundle or a `.kpack` archive
    error: failed to open file `nowhere`: No such file or directory (os error 2)
    error: unknown GPU target or family: `sm_90`

    hint: `rocwheel targets all --emit table` lists targets and families
    "#);
}
