//! Families that are split one by one, and then share one generic part.

use super::{
    binaries::of_units,
    runtime::compare_for,
    splitting::{STAGE, files, flattened, put, split},
};
use crate::support::prelude::*;

const LIBRARY: &str = "lib/libfam.so.1";
const FIRST: [&[&str]; 2] = [&["gfx942"], &["gfx942"]];
const SECOND: [&[&str]; 2] = [&["gfx1100", "gfx1101"], &["gfx1100"]];

fn library(units: &[&[&str]]) -> Vec<u8> {
    of_units("libfam.so.1", units)
}

/// Splits a family on its own, to `root/{family}`.
fn split_family(root: &Path, family: &str, units: &[&[&str]]) {
    let fat = root.join(format!("fat-{family}"));
    let artifact = fat.join(format!("fam_lib_{family}"));
    put(&artifact, "artifact_manifest.txt", STAGE.as_bytes());
    put(&artifact, &format!("{STAGE}/{LIBRARY}"), &library(units));
    let said = split(&fat, &root.join(family), "2");
    assert!(said.starts_with("exit 0"), "{said}");
}

/// The generic part of the first family, and the parts for targets of both.
fn mixed(root: &Path, first: &[&[&str]], second: &[&[&str]]) -> std::path::PathBuf {
    mixed_without(root, first, second, "gfx110X-all")
}

/// The parts of both families, without the generic part of one.
fn mixed_without(
    root: &Path,
    first: &[&[&str]],
    second: &[&[&str]],
    other: &str,
) -> std::path::PathBuf {
    let mix = root.join("mix");
    fs_err::create_dir_all(&mix).unwrap();
    split_family(root, "gfx94X-dcgpu", first);
    split_family(root, "gfx110X-all", second);
    fs_err::remove_dir_all(root.join(other).join("fam_lib_generic")).unwrap();
    for family in ["gfx94X-dcgpu", "gfx110X-all"] {
        for child in fs_err::read_dir(root.join(family)).unwrap() {
            let child = child.unwrap();
            if child.file_type().unwrap().is_dir() {
                fs_err::rename(child.path(), mix.join(child.file_name())).unwrap();
            }
        }
    }
    mix
}

/// What a command of the program says of artifacts.
fn said(arguments: &[&str], artifacts: &Path, place: &Path) -> String {
    let mut run = command();
    run.args(arguments).arg("--artifact-dir").arg(artifacts);
    let said = Outcome::of(run.current_dir(place).output().unwrap());
    let lines = said.stderr.lines().filter(|it| !it.starts_with("     "));
    let lines: Vec<&str> = lines.collect();
    format!("exit {}\n{}", said.code, lines.join("\n"))
}

#[test]
fn the_generic_part_of_one_family_finds_the_code_of_another() {
    for other in ["gfx110X-all", "gfx94X-dcgpu"] {
        finds_the_code_of_another(other);
    }
}

fn finds_the_code_of_another(other: &str) {
    let place = tempfile::tempdir().unwrap();
    let mix = mixed_without(place.path(), &FIRST, &SECOND, other);
    let archives: Vec<String> = files(&mix).into_keys().collect();
    let archives = archives.iter().filter(|name| name.ends_with(".kpack"));
    let expected = [
        "fam_lib_gfx1100/math-libs/stage/.kpack/fam_lib_gfx1100.kpack",
        "fam_lib_gfx1101/math-libs/stage/.kpack/fam_lib_45b9f427_0_gfx1101.kpack",
        "fam_lib_gfx942/math-libs/stage/.kpack/fam_lib_gfx942.kpack",
    ];
    assert_eq!(archives.collect::<Vec<_>>(), expected);
    let root = place.path().join("root");
    flattened(&mix, &root);
    assert!(compare_for(&["gfx942"], &library(&FIRST), &root, LIBRARY) > 0);
    let others = ["gfx1100", "gfx1101"];
    assert!(compare_for(&others, &library(&SECOND), &root, LIBRARY) > 0);
}

#[test]
fn parts_that_do_not_fit_together_are_refused() {
    let one: &[&str] = &["gfx1100"];
    let refused = |first: &[&[&str]], second: &[&[&str]], change: fn(&Path)| {
        let place = tempfile::tempdir().unwrap();
        let mix = mixed(place.path(), first, second);
        change(&mix);
        let said = build(&mix, place.path());
        let hint = "or split the fat artifacts of each family again with `rocwheel split`";
        assert_has!(
            said,
            "exit 2\nerror: the parts of artifact `fam_lib` do not fit together: ",
            hint
        );
        let why = said.lines().nth(1).unwrap().split(": ").skip(2);
        why.collect::<Vec<_>>().join(": ")
    };
    let renamed = |mix: &Path| {
        let archive = mix.join(format!("fam_lib_gfx1100/{STAGE}/.kpack/fam_lib_gfx1100.kpack"));
        let other = archive.with_file_name("fam_lib_1_gfx1100.kpack");
        fs_err::rename(archive, other).unwrap();
    };
    let said = [
        // One translation unit more in the family that the generic part is not of.
        refused(&FIRST, &[one; 3], |_| ()),
        // One less: a unit finds nothing in an archive that has the rest.
        refused(&[FIRST[0]; 3], &[one; 2], |_| ()),
        // Archives that are called as no marker says.
        refused(&FIRST, &[one; 2], renamed),
    ];
    insta::assert_snapshot!(said.join("\n"), @"
    `lib/libfam.so.1` would not find its code for `gfx1100`: it does not ask `.kpack/fam_lib_gfx1100.kpack` for `math-libs/stage/lib/libfam.so.1#2`
    `lib/libfam.so.1` would be refused by the runtime for `gfx1100`: no archive has `math-libs/stage/lib/libfam.so.1#2`
    `lib/libfam.so.1` would not find its code for `gfx1100`: it does not ask `.kpack/fam_lib_1_gfx1100.kpack` for `math-libs/stage/lib/libfam.so.1#0`
    ");
}

/// What `build` says of artifacts, of which it makes no package.
fn build(mix: &Path, place: &Path) -> String {
    put(mix, "base_lib_generic/artifact_manifest.txt", b"stage\n");
    let manifest = br#"{"flags": {"KPACK_SPLIT_ARTIFACTS": true}}"#;
    let path = "base_lib_generic/stage/share/therock/therock_manifest.json";
    put(mix, path, manifest);
    let build = ["build", "--dest-dir", "packages", "--version", "7.13"];
    let said = said(&build, mix, place);
    assert!(!place.join("packages/dist").exists());
    said
}
