//! `kpack recombine`: split artifacts become fat ones again.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use rocwheel::kpack::{
    bundle,
    host::{self, FatFileKind},
};

use super::{
    binaries::library,
    splitting::{STAGE, artifacts, files, flattened, split},
};
use crate::support::{long, program::ROCWHEEL};

fn command(place: &Path, input: &str, output: &str) -> Command {
    let mut command = Command::new(ROCWHEEL);
    command
        .env_clear()
        .current_dir(place)
        .args(["kpack", "recombine", "--family", "gfx90X-dcgpu"])
        .args(["--artifact-dir", input, "--output-dir", output]);
    command
}

fn recombine(place: &Path, input: &str, output: &str) -> String {
    let run = command(place, input, output).output().unwrap();
    format!(
        "exit {}\n{}{}",
        run.status.code().unwrap(),
        String::from_utf8(run.stdout).unwrap(),
        String::from_utf8(run.stderr).unwrap()
    )
}

/// What each bundle of a fat binary has for each entry.
pub(super) fn code(binary: &[u8]) -> Vec<BTreeMap<String, Vec<u8>>> {
    let binary = binary.to_vec();
    let FatFileKind::Fat(fat) = host::look(&binary).unwrap() else {
        panic!("not fat");
    };
    let section = fat.section(&binary).unwrap();
    let bundles = fat.bundles.iter().map(|one| {
        let opened = bundle::open(&section, one).unwrap();
        let code = opened.code();
        code.map(|(_, entry)| (entry.id.clone(), opened.read(entry).unwrap()))
            .collect()
    });
    bundles.collect()
}

#[test]
fn what_is_split_comes_together_again() {
    let place = tempfile::tempdir().unwrap();
    let fat = artifacts(place.path());
    split(&fat, &place.path().join("split"), "2");
    insta::assert_snapshot!(recombine(place.path(), "split", "again"), @"
    exit 0
    blas_lib_gfx90X-dcgpu: 2 binaries, 5 code objects, 93.57 KiB
      Recombined blas_lib_gfx90X-dcgpu: 5 code objects, 93.57 KiB
    ");
    let (before, after) = (files(&fat), files(&place.path().join("again")));
    assert!(before.keys().eq(after.keys()), "{:?}", after.keys());
    for (name, bytes) in &before {
        if name.contains(".so.1") {
            assert!(code(bytes) == code(&after[name]), "{name}");
        } else {
            assert_eq!(
                String::from_utf8_lossy(bytes).trim(),
                String::from_utf8_lossy(&after[name]).trim()
            );
        }
    }
    // A raw bundle comes back as it was written.
    let raw = library();
    let at = |bytes: &[u8]| {
        bytes
            .windows(8)
            .position(|word| word == b"__CLANG_")
            .unwrap()
    };
    let name = format!("blas_lib_gfx90X-dcgpu/{STAGE}/lib/libfat.so.1");
    let len = 30_000;
    let bundle = |bytes: &[u8]| bytes[at(bytes)..at(bytes) + len].to_vec();
    assert!(bundle(&raw) == bundle(&after[&name]));
    // And from there on nothing changes any more.
    let said = split(
        &place.path().join("again"),
        &place.path().join("twice"),
        "1",
    );
    assert!(said.starts_with("exit 0"), "{said}");
    let archives = |name: &str| -> BTreeMap<String, Vec<u8>> {
        let mut files = files(&place.path().join(name));
        files.retain(|name, _| name.ends_with(".kpack"));
        files
    };
    assert!(archives("split") == archives("twice"));
    let root = place.path().join("root");
    flattened(&place.path().join("twice"), &root);
    assert_eq!(
        super::runtime::compare(&library(), &root, "lib/libfat.so.1"),
        28
    );
}

#[test]
fn what_was_killed_while_it_came_together_comes_together_whole() {
    // A killed run also leaves its lock and its staged files, which a later run removes.
    let made = |out: &Path| {
        let mut made = files(out);
        made.retain(|name, _| !name.starts_with(".rocwheel-"));
        made
    };
    let place = tempfile::tempdir().unwrap();
    let fat = artifacts(place.path());
    let said = split(&fat, &place.path().join("split"), "2");
    assert!(said.starts_with("exit 0"), "{said}");
    let begun = Instant::now();
    let said = recombine(place.path(), "split", "whole");
    assert!(said.starts_with("exit 0"), "{said}");
    let time = begun.elapsed();
    let whole = files(&place.path().join("whole"));
    let out = place.path().join("out");
    let rounds = long::rounds(8, 40);
    for round in 0..rounds {
        let mut run = command(place.path(), "split", "out");
        let run = run.stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = run.spawn().unwrap();
        thread::sleep(time * round / rounds);
        run.kill().unwrap();
        run.wait().unwrap();
        // It may have made everything before it was killed. Then it is not made again.
        fs_err::create_dir_all(&out).unwrap();
        let left = made(&out);
        assert!(left.is_empty() || left == whole, "round {round}");
        if left.is_empty() {
            let again = recombine(place.path(), "split", "out");
            assert!(again.starts_with("exit 0"), "round {round}: {again}");
        }
        assert!(made(&out) == whole, "round {round}");
        fs_err::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn code_that_no_binary_takes_back_is_not_lost_without_a_word() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("split");
    split(&artifacts(place.path()), &out, "2");
    // What is no longer split, is for Windows, or is not there at all takes none.
    let small = out.join(format!("blas_lib_generic/{STAGE}/lib/deep/libsmall.so.1"));
    for bytes in [Some(&b"MZ"[..]), None] {
        match bytes {
            Some(bytes) => fs_err::write(&small, bytes).unwrap(),
            None => fs_err::remove_file(&small).unwrap(),
        }
        insta::allow_duplicates! {
            insta::assert_snapshot!(recombine(place.path(), "split", "again"), @"
            exit 2
            error: failed to recombine `blas_lib_gfx90X-dcgpu`
              caused by: no binary for the code of `math-libs/stage/lib/deep/libsmall.so.1`

            hint: put all artifacts of one `split` into `--artifact-dir`, the generic one too; Windows binaries cannot be recombined
            ");
        }
    }
    assert!(!place.path().join("again").exists());
}

#[test]
fn a_part_alone_gives_the_code_that_is_there() {
    let place = tempfile::tempdir().unwrap();
    let fat = artifacts(place.path());
    let out = place.path().join("split");
    split(&fat, &out, "2");
    fs_err::remove_dir_all(out.join("blas_lib_gfx90a")).unwrap();
    let said = recombine(place.path(), "split", "again");
    let made = "exit 0\nblas_lib_gfx90X-dcgpu: 2 binaries, 1 code object, ";
    assert!(said.starts_with(made), "{said}");
    let ids = |name: &str| -> Vec<Vec<String>> {
        let name = format!("again/blas_lib_gfx90X-dcgpu/{STAGE}/lib/{name}");
        let found = code(&fs_err::read(place.path().join(name)).unwrap());
        found
            .iter()
            .map(|one| one.keys().cloned().collect())
            .collect()
    };
    let one = vec!["hipv4-amdgcn-amd-amdhsa--gfx1100".to_owned()];
    assert_eq!(ids("libfat.so.1"), [one, vec![]]);
    let none: [Vec<String>; 1] = [Vec::new()];
    assert_eq!(ids("deep/libsmall.so.1"), none);
    insta::assert_snapshot!(recombine(place.path(), "split", "again"), @"
    exit 2
    error: exists already: `again/blas_lib_gfx90X-dcgpu`

    hint: remove it, or pass another `--output-dir`
    ");
    // Without any archive there is nothing to put back.
    fs_err::remove_dir_all(out.join("blas_lib_gfx1100")).unwrap();
    insta::assert_snapshot!(recombine(place.path(), "split", "none"), @"
    exit 2
    error: failed to recombine `blas_lib_generic`
      caused by: a binary has no code, and no archive has it: `lib/deep/libsmall.so.1`
    ");
    assert!(!place.path().join("none/blas_lib_gfx90X-dcgpu").exists());
}
