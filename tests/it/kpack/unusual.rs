//! Code that is for no single target, and binaries whose code stays where it is.

use super::{
    binaries::{code_object, of_units},
    runtime::compare,
    splitting::{STAGE, files, flattened, put, split},
};
use crate::check::windows::dll;
use crate::support::prelude::*;

fn library(units: &[&[&str]]) -> Vec<u8> {
    of_units("libx.so.1", units)
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
    rand_lib_generic: 4 files, 31.87 KiB
    rand_lib_gfx942: 1 file, 4.68 KiB
           Split rand_lib_gfx94X-dcgpu: 2 artifacts, 36.55 KiB
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
    let split = place.path().join("split");
    fs_err::rename(split.join(generic), alone.join(generic)).unwrap();
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
    let unknown = tempfile::tempdir().unwrap();
    let said = outcome(unknown.path(), &library(&[&["gfx99-9-generic"]]));
    assert_has!(
        said,
        "keeps its device code: no runtime looks into an archive for `gfx99-9-generic`"
    );
    let place = tempfile::tempdir().unwrap();
    let spirv = "hipv4-spirv64-amd-amdhsa--amdgcnspirv";
    let library = library(&[&["gfx942"], &["gfx942", spirv]]);
    insta::assert_snapshot!(outcome(place.path(), &library), @"
    exit 0
    rand_lib_generic: 1 file, 34.12 KiB
    warning: `HERE/fat/rand_lib_gfx94X-dcgpu/math-libs/stage/lib/libx.so.1` keeps its device code: no runtime looks into an archive for `amdgcnspirv`
           Split rand_lib_gfx94X-dcgpu: 1 artifact, 34.12 KiB
    rand_lib_generic/math-libs/stage/lib/libx.so.1
    ");
    let kept = format!("split/rand_lib_generic/{STAGE}/lib/libx.so.1");
    assert!(fs_err::read(place.path().join(kept)).unwrap() == library);
}

/// A library for Windows with a section of code.
fn windows() -> Vec<u8> {
    let code = bundles::raw(&[("gfx1100", code_object(&["k"], 3000))]);
    dll(&[(b".hip_fat", 0x1000, &code)], &[])
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
    rand_lib_generic: 1 file, 10.00 KiB
    warning: `HERE/fat/rand_lib_gfx110X-all/math-libs/stage/bin/x.dll` keeps its device code: Windows binaries are not split
           Split rand_lib_gfx110X-all: 1 artifact, 10.00 KiB
    ");
    let kept = format!("split/rand_lib_generic/{STAGE}/bin/x.dll");
    assert!(fs_err::read(t.path(kept)).unwrap() == windows());
}
