//! Code that is for no single target, and binaries whose code stays where it is.

use std::path::Path;

use super::{
    binaries::{code_object, concatenated},
    runtime::compare,
    splitting::{STAGE, files, flattened, put, split},
};
use crate::support::bundles;
use crate::support::linker::{DeviceRelocations, SharedObject};
use crate::support::sandbox::Sandbox;

fn library(targets: &[&[&str]]) -> Vec<u8> {
    let bundles = targets.iter().map(|targets| {
        let code = targets.iter().enumerate();
        let code = code.map(|(at, target)| (*target, code_object(&["k"], 4000 + at * 100)));
        bundles::raw(&code.collect::<Vec<_>>())
    });
    let (code, starts) = concatenated(&bundles.collect::<Vec<_>>());
    SharedObject::new("libx.so.1")
        .device_code(&code, &starts, DeviceRelocations::Rela)
        .build()
}

/// What a split of a library says, and which files it leaves.
fn outcome(place: &Path, library: &[u8]) -> String {
    let fat = place.join("fat");
    let artifact = fat.join("rand_lib_gfx94X-dcgpu");
    put(&artifact, "artifact_manifest.txt", STAGE.as_bytes());
    put(&artifact, &format!("{STAGE}/lib/libx.so.1"), library);
    let said = split(&fat, &place.join("split"), "2");
    let said = said.replace(place.to_str().unwrap(), "HERE");
    let names: Vec<String> = files(&place.join("split")).into_keys().collect();
    let names = names.iter().filter(|name| !name.ends_with("manifest.txt"));
    format!("{said}{}", names.cloned().collect::<Vec<_>>().join("\n"))
}

#[test]
fn code_for_a_generic_target_goes_to_everybody() {
    let place = tempfile::tempdir().unwrap();
    let library = library(&[
        &["gfx942", "gfx9-4-generic", "gfx11-generic"],
        &["gfx9-4-generic:xnack+", "gfx9-4-generic:xnack-"],
    ]);
    insta::assert_snapshot!(outcome(place.path(), &library), @"
    exit 0
    rand_lib_generic: 4 files, 31.82 KiB
    rand_lib_gfx942: 1 file, 4.67 KiB
           Split rand_lib_gfx94X-dcgpu: 2 artifacts, 36.49 KiB
    rand_lib_generic/math-libs/stage/.kpack/rand_lib_4c707775_0_gfx11-generic.kpack
    rand_lib_generic/math-libs/stage/.kpack/rand_lib_4c707775_0_gfx9-4-generic.kpack
    rand_lib_generic/math-libs/stage/.kpack/rand_lib_4c707775_1_gfx9-4-generic.kpack
    rand_lib_generic/math-libs/stage/lib/libx.so.1
    rand_lib_gfx942/math-libs/stage/.kpack/rand_lib_4c707775_0_gfx942.kpack
    ");
    let root = place.path().join("root");
    flattened(&place.path().join("split"), &root);
    assert!(compare(&library, &root, "lib/libx.so.1") > 30);
    // With the generic part alone, it is found for any device.
    let alone = place.path().join("alone");
    fs_err::create_dir_all(&alone).unwrap();
    let generic = "rand_lib_generic";
    fs_err::rename(
        place.path().join("split").join(generic),
        alone.join(generic),
    )
    .unwrap();
    let root = place.path().join("everybody");
    flattened(&alone, &root);
    let archives: Vec<String> = files(&root.join(".kpack")).into_keys().collect();
    insta::assert_snapshot!(archives.join("\n"), @"
    rand_lib_4c707775_0_gfx11-generic.kpack
    rand_lib_4c707775_0_gfx9-4-generic.kpack
    rand_lib_4c707775_1_gfx9-4-generic.kpack
    ");
}

#[test]
fn code_that_no_runtime_looks_for_in_archives_keeps_its_binary_whole() {
    let place = tempfile::tempdir().unwrap();
    let spirv = "hipv4-spirv64-amd-amdhsa--amdgcnspirv";
    let library = library(&[&["gfx942"], &["gfx942", spirv]]);
    insta::assert_snapshot!(outcome(place.path(), &library), @"
    exit 0
    rand_lib_generic: 1 file, 34.09 KiB
    warning: `HERE/fat/rand_lib_gfx94X-dcgpu/math-libs/stage/lib/libx.so.1` keeps its device code: no runtime looks into an archive for `amdgcnspirv`
           Split rand_lib_gfx94X-dcgpu: 1 artifact, 34.09 KiB
    rand_lib_generic/math-libs/stage/lib/libx.so.1
    ");
    let kept = format!("split/rand_lib_generic/{STAGE}/lib/libx.so.1");
    assert!(fs_err::read(place.path().join(kept)).unwrap() == library);
}

#[test]
fn a_generic_target_that_no_runtime_knows_keeps_its_binary_whole() {
    let place = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(outcome(place.path(), &library(&[&["gfx99-9-generic"]])), @"
    exit 0
    rand_lib_generic: 1 file, 13.98 KiB
    warning: `HERE/fat/rand_lib_gfx94X-dcgpu/math-libs/stage/lib/libx.so.1` keeps its device code: no runtime looks into an archive for `gfx99-9-generic`
           Split rand_lib_gfx94X-dcgpu: 1 artifact, 13.98 KiB
    rand_lib_generic/math-libs/stage/lib/libx.so.1
    ");
}

/// A library for Windows, as far as anyone looks: one section with code.
fn windows() -> Vec<u8> {
    let code = bundles::raw(&[("gfx1100", code_object(&["k"], 3000))]);
    let mut file = b"MZ".to_vec();
    file.resize(0x3c, 0);
    file.extend(64_u32.to_le_bytes());
    file.extend(b"PE\0\0\x64\x86\x01\0");
    file.resize(64 + 24, 0);
    file.extend(b".hip_fat");
    for number in [code.len(), 0x1000, code.len(), 0x1000] {
        file.extend(u32::try_from(number).unwrap().to_le_bytes());
    }
    file.resize(0x1000, 0);
    file.extend(code);
    file
}

#[test]
fn a_windows_binary_is_shown_and_stays_whole() {
    let t = Sandbox::new();
    t.write("x.dll", windows());
    insta::assert_snapshot!(t.run("kpack ls x.dll").all(), @"
    exit 0
    x.dll: fat binary, 1 code object, 4.10 KiB
    BUNDLE  TARGET   SIZE  STORED  COMPRESSION  KERNELS
    #0      gfx1100  4200  4200    none         k
    ");
    let artifact = t.path("fat/rand_lib_gfx110X-all");
    put(&artifact, "artifact_manifest.txt", STAGE.as_bytes());
    put(&artifact, &format!("{STAGE}/bin/x.dll"), &windows());
    let said = t.run("split --artifact-dir fat --output-dir split").all();
    insta::assert_snapshot!(said.replace("`fat/", "`HERE/fat/"), @"
    exit 0
    rand_lib_generic: 1 file, 12.10 KiB
    warning: `HERE/fat/rand_lib_gfx110X-all/math-libs/stage/bin/x.dll` keeps its device code: Windows binaries are not split
           Split rand_lib_gfx110X-all: 1 artifact, 12.10 KiB
    ");
    let kept = format!("split/rand_lib_generic/{STAGE}/bin/x.dll");
    assert!(fs_err::read(t.path(kept)).unwrap() == windows());
}
