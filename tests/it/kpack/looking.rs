//! `kpack ls`.

use rocwheel_kpack::archive::{ArchiveWriter, Packed, key};

use super::binaries::{code_object, library};
use crate::support::{prelude::*, run_with_peak};

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
    BUNDLE  TARGET         SIZE  STORED  COMPRESSION  KERNELS
    stage/lib/libx.so
    #0      gfx942:xnack+  6200  5420    zstd         add
    #1      gfx942:xnack+  7192  6412    zstd         add
    ");
}

/// Wheels are what a user has.
#[test]
fn a_wheel_shows_the_code_of_its_files() {
    let dist = published::sample().dist();
    let look = |name: &str, more: &[&str]| {
        let wheel = dist.join(format!("{name}-0.99.1.dev0-py3-none-linux_x86_64.whl"));
        let said = rocwheel(&[&["kpack", "ls", text(&wheel)], more].concat()).ok();
        said.replace(text(&dist), "DIST")
    };
    let device = look("rocm_sdk_device_gfx942", &[]);
    insta::assert_snapshot!(device, @"
    DIST/rocm_sdk_device_gfx942-0.99.1.dev0-py3-none-linux_x86_64.whl: wheel, 5 files with device code

    _rocm_sdk_libraries/.kpack/blas_lib_gfx942.kpack: archive, 3 code objects, 96.00 KiB
    BUNDLE  TARGET  SIZE   STORED  COMPRESSION  KERNELS
    math-libs/BLAS/rocBLAS/stage/lib/libhipblaslt.so.1.0
    #0      gfx942  32768  32778   zstd
    math-libs/BLAS/rocBLAS/stage/lib/librocblas.so.5.1
    #0      gfx942  24576  24586   zstd
    #1      gfx942  40960  40970   zstd

    _rocm_sdk_libraries/.kpack/blas_lib_gfx942:xnack+.kpack: archive, 3 code objects, 96.00 KiB
    BUNDLE  TARGET         SIZE   STORED  COMPRESSION  KERNELS
    math-libs/BLAS/rocBLAS/stage/lib/libhipblaslt.so.1.0
    #0      gfx942:xnack+  32768  32778   zstd
    math-libs/BLAS/rocBLAS/stage/lib/librocblas.so.5.1
    #0      gfx942:xnack+  24576  24586   zstd
    #1      gfx942:xnack+  40960  40970   zstd

    _rocm_sdk_libraries/.kpack/rccl_lib_gfx942.kpack: archive, 1 code object, 32.00 KiB
    BUNDLE  TARGET  SIZE   STORED  COMPRESSION  KERNELS
    comm-libs/rccl/stage/lib/librccl.so.1.0
    #0      gfx942  32768  32778   zstd

    _rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx942-xnack+.co: bundles, 1 code object, 8.00 KiB
    BUNDLE  TARGET         SIZE  STORED  COMPRESSION   KERNELS
    #0      gfx942:xnack+  8192  -       CCOB v3 zstd

    _rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx942.co: bundles, 1 code object, 8.00 KiB
    BUNDLE  TARGET  SIZE  STORED  COMPRESSION   KERNELS
    #0      gfx942  8192  -       CCOB v3 zstd
    ");
    let below_heading = device.lines().skip(1);
    for line in below_heading.filter(|it| it.starts_with('#') || it.starts_with("BUNDLE")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert_eq!(
        look("rocm_sdk_core", &[]),
        "DIST/rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl: wheel, 0 files with device code\n"
    );
    let json = look("rocm_sdk_device_gfx942", &["--target", "gfx1100", "--format", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["kind"], "wheel");
    assert_eq!(json["files"], Value::Array(Vec::new()), "{json}");
}

#[test]
fn names_of_kernels_that_are_long_are_cut() {
    let t = Sandbox::new();
    let out = Cursor::new(Vec::new());
    let mut writer = ArchiveWriter::new(out, "demo_lib", "gfx942").unwrap();
    let name = "a_kernel_of_a_template_with_many_arguments".repeat(3);
    for (ordinal, names) in [&[&*name][..], &[&*name, "b"], &["a", "b", &*name]].iter().enumerate()
    {
        let code = Packed::new(&code_object(names, 5000)).unwrap();
        let key = key("stage/lib/libx.so", ordinal);
        writer.add(&key, &"gfx942".parse().unwrap(), &code, None).unwrap();
    }
    t.write("x.kpack", writer.finish().unwrap().0.into_inner());
    let said = t.run("kpack ls x.kpack").ok();
    assert!(said.lines().all(|it| it.chars().count() <= 80), "{said}");
    insta::assert_snapshot!(said, @"
    x.kpack: archive, 3 code objects, 18.66 KiB
    BUNDLE  TARGET  SIZE  STORED  COMPRESSION  KERNELS
    stage/lib/libx.so
    #0      gfx942  6312  5451    zstd         a_kernel_of_a_template_with_many_arg…
    #1      gfx942  6376  5533    zstd         a_kernel_of_a_template_with_many_… +1
    #2      gfx942  6424  5572    zstd         a, and 2 more
    ");
}

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
    let (said, peak) = run_with_peak(&t, &["kpack", "ls", "x.kpack"]);
    let listed = said.ok();
    insta::assert_snapshot!(listed, @"
    x.kpack: archive, 1 code object, 600.00 MiB
    BUNDLE  TARGET  SIZE       STORED  COMPRESSION  KERNELS
    lib/libx.so
    #0      gfx942  629145600  19219   zstd         not read: too large
    ");
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

    hint: pass a file: a wheel, a binary, a bundle or a `.kpack` archive
    error: failed to open file `nowhere`: No such file or directory (os error 2)
    error: unknown GPU target or family: `sm_90`

    hint: `rocwheel targets all --emit table` lists targets and families
    "#);
}
