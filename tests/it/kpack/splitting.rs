//! `split`: fat artifacts in, one for every host and one for each target out.

use super::{
    binaries::{code_object, concatenated, library},
    runtime::compare,
};
use crate::support::killed::killed_at_every_step;
pub(super) use crate::support::place::contents as files;
use crate::support::prelude::*;

pub(super) const STAGE: &str = "math-libs/stage";

pub(super) fn put(root: &Path, name: &str, bytes: &[u8]) {
    let path = root.join(name);
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, bytes).unwrap();
}

/// A second library, for fewer targets: the archives of the first one lack its code.
fn smaller() -> Vec<u8> {
    let code = bundles::raw(&[("gfx90a", code_object(&["only"], 3000))]);
    let (code, starts) = concatenated(&[code]);
    SharedObject::new("libsmall.so.1").device_code(&code, &starts, DeviceRelocations::Relr).build()
}

pub(super) fn artifacts(root: &Path) -> PathBuf {
    let fat = root.join("fat");
    let artifact = fat.join("blas_lib_gfx90X-dcgpu");
    put(&artifact, "artifact_manifest.txt", STAGE.as_bytes());
    let stage = artifact.join(STAGE);
    put(&stage, "lib/libfat.so.1", &library());
    put(&stage, "lib/deep/libsmall.so.1", &smaller());
    put_databases(&stage, "gfx90a-xnack-");
    put(&stage, "share/doc/readme.txt", b"text");
    std::os::unix::fs::symlink("libfat.so.1", stage.join("lib/libfat.so")).unwrap();
    fat
}

/// Files of rocBLAS: for a target, for another, and for all.
pub(super) fn put_databases(stage: &Path, target: &str) {
    let library = stage.join("lib/rocblas/library");
    put(&library, &format!("Kernels_{target}.hsaco"), b"a database");
    put(&library, "gfx1100/Manifest.txt", b"another");
    put(&library, "fallback.dat", b"for all");
}

pub(super) fn split(input: &Path, output: &Path, jobs: &str) -> String {
    let mut split = command();
    split.args(["split", "--jobs", jobs, "--artifact-dir"]).arg(input);
    split.arg("--output-dir").arg(output);
    Outcome::of(split.output().unwrap()).all()
}

/// All artifacts on one root, as they are installed.
pub(super) fn flattened(split: &Path, root: &Path) {
    for (name, bytes) in files(split) {
        let marker = format!("/{STAGE}/");
        if let Some((_, path)) = name.split_once(&marker) {
            put(root, path, &bytes);
        }
    }
}

#[test]
fn artifacts_are_split_by_target() {
    let place = tempfile::tempdir().unwrap();
    let fat = artifacts(place.path());
    let out = place.path().join("split");
    insta::assert_snapshot!(split(&fat, &out, "2"), @"
    exit 0
    blas_lib_generic: 5 files, 25.60 KiB
    blas_lib_gfx1100: 2 files, 10.60 KiB
    blas_lib_gfx90a: 4 files, 29.54 KiB
           Split blas_lib_gfx90X-dcgpu: 3 artifacts, 65.74 KiB
    ");
    let names: Vec<String> = files(&out).into_keys().collect();
    insta::assert_snapshot!(names.join("\n"), @"
    blas_lib_generic/artifact_manifest.txt
    blas_lib_generic/math-libs/stage/lib/deep/libsmall.so.1
    blas_lib_generic/math-libs/stage/lib/libfat.so
    blas_lib_generic/math-libs/stage/lib/libfat.so.1
    blas_lib_generic/math-libs/stage/lib/rocblas/library/fallback.dat
    blas_lib_generic/math-libs/stage/share/doc/readme.txt
    blas_lib_gfx1100/artifact_manifest.txt
    blas_lib_gfx1100/math-libs/stage/.kpack/blas_lib_803b6eb0_0_gfx1100.kpack
    blas_lib_gfx1100/math-libs/stage/lib/rocblas/library/gfx1100/Manifest.txt
    blas_lib_gfx90a/artifact_manifest.txt
    blas_lib_gfx90a/math-libs/stage/.kpack/blas_lib_803b6eb0_0_gfx90a.kpack
    blas_lib_gfx90a/math-libs/stage/.kpack/blas_lib_803b6eb0_1_gfx90a.kpack
    blas_lib_gfx90a/math-libs/stage/.kpack/blas_lib_8c034c5f_gfx90a.kpack
    blas_lib_gfx90a/math-libs/stage/lib/rocblas/library/Kernels_gfx90a-xnack-.hsaco
    ");
    insta::assert_snapshot!(split(&fat, &out, "2").replace(out.to_str().unwrap(), "OUT"), @"
    exit 2
    error: exists already: `OUT/blas_lib_generic`

    hint: remove it, or pass another `--output-dir`
    ");
}

#[test]
fn every_device_gets_the_code_that_it_got_before() {
    let place = tempfile::tempdir().unwrap();
    let fat = artifacts(place.path());
    let out = place.path().join("split");
    split(&fat, &out, "2");
    let root = place.path().join("root");
    flattened(&out, &root);
    assert_eq!(compare(&library(), &root, "lib/libfat.so.1"), 28);
    assert_eq!(compare(&smaller(), &root, "lib/deep/libsmall.so.1"), 10);
}

#[test]
fn a_split_is_the_same_on_any_number_of_threads() {
    let place = tempfile::tempdir().unwrap();
    let fat = artifacts(place.path());
    for jobs in ["1", "7"] {
        split(&fat, &place.path().join(jobs), jobs);
    }
    assert!(files(&place.path().join("1")) == files(&place.path().join("7")));
}

#[test]
fn what_is_split_stays_as_it_is_when_it_is_split_again() {
    let place = tempfile::tempdir().unwrap();
    let fat = artifacts(place.path());
    let out = place.path().join("split");
    split(&fat, &out, "2");
    let generic = place.path().join("again/blas_lib_gfx90X-dcgpu");
    fs_err::create_dir_all(generic.parent().unwrap()).unwrap();
    fs_err::rename(out.join("blas_lib_generic"), &generic).unwrap();
    let twice = place.path().join("twice");
    split(generic.parent().unwrap(), &twice, "1");
    assert!(files(&generic) == files(&twice.join("blas_lib_generic")));
}

#[test]
fn a_split_that_is_killed_is_made_again_whole() {
    // A killed run also leaves its lock and its staged files, which a later run removes.
    let made = |out: &Path| {
        let mut made = files(out);
        made.retain(|name, _| !name.starts_with(".rocwheel-"));
        made
    };
    let place = tempfile::tempdir().unwrap();
    let fat = artifacts(place.path());
    let whole = place.path().join("whole");
    split(&fat, &whole, "2");
    let out = place.path().join("out");
    let killed = |_| {
        let _ = fs_err::remove_dir_all(&out);
        let mut command = command();
        command.args(["split", "--jobs", "2", "--artifact-dir"]);
        command.arg(&fat).arg("--output-dir").arg(&out);
        command
    };
    killed_at_every_step(killed, |killed| {
        // It may have made everything before it was killed. Then it is not made again.
        fs_err::create_dir_all(&out).unwrap();
        if made(&out) != files(&whole) {
            let again = split(&fat, &out, "2");
            assert!(again.starts_with("exit 0"), "{killed}: {again}");
        }
        assert!(made(&out) == files(&whole), "{killed}");
    });
}

#[test]
fn a_damaged_binary_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let fat = artifacts(place.path());
    let mut damaged = library();
    let mut windows = damaged.windows(8);
    let at = windows.position(|bytes| bytes == b"__CLANG_").unwrap();
    damaged[at] = b'x';
    let path = format!("blas_lib_gfx90X-dcgpu/{STAGE}/lib/libfat.so.1");
    put(&fat, &path, &damaged);
    let out = place.path().join("split");
    let said = split(&fat, &out, "2");
    insta::assert_snapshot!(said.replace(place.path().to_str().unwrap(), "HERE"), @"
    exit 2
    error: failed to read `blas_lib_gfx90X-dcgpu`
      caused by: failed to read `HERE/fat/blas_lib_gfx90X-dcgpu/math-libs/stage/lib/libfat.so.1`
      caused by: failed to read bundle 0 at 0x0
      caused by: neither a bundle nor zeros
    ");
    assert!(!out.exists());
}

#[test]
fn a_directory_is_one_split_s_at_a_time() {
    let place = tempfile::tempdir().unwrap();
    let (fat, out) = (artifacts(place.path()), place.path().join("split"));
    fs_err::create_dir_all(&out).unwrap();
    let other = fs_err::File::create(out.join(".rocwheel-split.lock")).unwrap();
    other.lock().unwrap();
    let said = split(&fat, &out, "2");
    insta::assert_snapshot!(said.replace(out.to_str().unwrap(), "OUT"), @"
    exit 2
    error: another split is running in `OUT`

    hint: wait until it has ended, or choose another `--output-dir`
    ");
    drop(other);
    assert!(split(&fat, &out, "2").starts_with("exit 0"));
    assert!(files(&out).keys().all(|name| name.starts_with("blas_lib_")));
}

#[test]
fn two_artifacts_that_would_be_one_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let mut said = Vec::new();
    for pair in [
        ["blas_lib_gfx110X-all", "blas_lib_gfx90X-dcgpu"],
        ["blas_lib_generic", "blas_lib_gfx90X-dcgpu"],
        ["blas_lib_generic", "blas_lib_gfx942"],
    ] {
        let fat = place.path().join(pair.concat());
        for name in pair {
            put(&fat, &format!("{name}/artifact_manifest.txt"), b"");
        }
        said.push(split(&fat, &place.path().join("split"), "2"));
    }
    insta::assert_snapshot!(said.join(""), @"
    exit 2
    error: `blas_lib_gfx110X-all` and `blas_lib_gfx90X-dcgpu` would both become `blas_lib_generic`

    hint: split one family at a time: keep only its artifacts in `--artifact-dir`
    exit 2
    error: only one of `blas_lib_generic` and `blas_lib_gfx90X-dcgpu` is split

    hint: keep the artifacts of one run in `--artifact-dir`
    exit 2
    error: `blas_lib_gfx942` is split already, beside `blas_lib_generic`

    hint: pass split artifacts to `rocwheel build` as they are
    ");
}

/// AMD's `therock-tools` finds the split artifacts by their names, and installs all of their files.
#[test]
#[ignore = "long"]
fn long_split_artifacts_are_flattened_by_therock_tools() {
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("split");
    split(&artifacts(place.path()), &output, "2");
    let mut judge = Command::new(tool("therock-fileset-tool"));
    judge.args(["artifact-flatten-split", "blas_lib", "-o", "theirs", "--artifacts-dir", "split"]);
    succeed(judge.current_dir(place.path()));
    let ours = place.path().join("ours");
    flattened(&output, &ours);
    let [ours, theirs] = [&ours, &place.path().join("theirs")].map(|root| files(root));
    assert!(ours.len() > 5, "{:?}", ours.keys());
    assert!(ours == theirs, "{:?} and {:?}", ours.keys(), theirs.keys());
}
