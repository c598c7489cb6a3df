//! Sets that TheRock's own builder made, and packages of other projects in a set.

use std::io::Read as _;

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

use super::{Members, Set, broken::python::unpacked, fat, record, replace, rocwheel, zipped};

/// A compiled wheel of another project, as its own tools make it.
pub(super) fn add_foreign(set: &Set, project: &str) {
    let info = format!("{project}-2.9.0.dist-info");
    let metadata = format!(
        "Metadata-Version: 2.4\nName: {project}\nVersion: 2.9.0\n\
         Requires-Dist: numpy\nRequires-Dist: rocm[libraries]==7.12.0\n"
    );
    let wheel = "Wheel-Version: 1.0\nGenerator: other\nRoot-Is-Purelib: false\n\
                 Tag: cp312-cp312-linux_x86_64\n";
    let library = super::library("libother.so.1")
        .needs("libnowhere.so.7")
        .build();
    let mut members: Members = vec![
        (format!("{project}/lib/libother.so.1"), 0o100_644, library),
        (format!("{info}/METADATA"), 0o100_644, metadata.into()),
        (format!("{info}/WHEEL"), 0o100_644, wheel.into()),
        (format!("{info}/RECORD"), 0o100_644, Vec::new()),
    ];
    record(&mut members);
    let name = format!("{project}-2.9.0-cp312-cp312-linux_x86_64.whl");
    fs_err::write(set.0.path().join(name), zipped(&members)).unwrap();
}

fn without_manifest(set: &Set) {
    set.edit("rocm_sdk_devel", |members| {
        members.retain(|it| !it.0.ends_with("/_devel_manifest.json"));
        made_by_setuptools(members);
    });
}

/// Says in WHEEL that another program made it.
fn made_by_setuptools(members: &mut Members) {
    let wheel = members.iter().find(|it| it.0.ends_with(".dist-info/WHEEL"));
    let path = wheel.unwrap().0.clone();
    replace(
        members,
        &path,
        "Generator: rocwheel",
        "Generator: setuptools",
    );
}

/// Changes the PKG-INFO files of the sdist.
fn edit_sdist(set: &Set, from: &str, to: &str) {
    set.bytes("rocm-0", |bytes| {
        let mut tar = Vec::new();
        GzDecoder::new(bytes.as_slice())
            .read_to_end(&mut tar)
            .unwrap();
        let mut archive = tar::Archive::new(tar.as_slice());
        let mut edited = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut header = entry.header().clone();
            let path = entry.path().unwrap().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if path.ends_with("PKG-INFO") {
                let text = String::from_utf8(content).unwrap();
                assert!(text.contains(from), "{text}");
                content = text.replace(from, to).into_bytes();
            }
            header.set_size(content.len() as u64);
            edited
                .append_data(&mut header, path, content.as_slice())
                .unwrap();
        }
        *bytes = edited.into_inner().unwrap().finish().unwrap();
    });
}

#[test]
fn packages_of_other_projects_are_listed_and_not_judged_as_ours() {
    let set = Set::new();
    add_foreign(&set, "torch");
    add_foreign(&set, "rocshmem4py");
    insta::assert_snapshot!(set.found(&["--fail-on", "warning"]), @"
    exit 0
    rocshmem4py-2.9.0-cp312-cp312-linux_x86_64.whl
      note    RW210 foreign-package: a package of another project
    torch-2.9.0-cp312-cp312-linux_x86_64.whl
      note    RW210 foreign-package: a package of another project
    ");
}

#[test]
fn a_package_of_another_project_that_no_installer_can_read_is_a_warning() {
    let set = Set::new();
    add_foreign(&set, "torch");
    // What others write into RECORD is theirs.
    set.tamper("torch", |members| members[0].2.push(0));
    assert_eq!(set.found(&["--ignore", "RW210"]), "exit 0\n");
    set.bytes("torch", |bytes| bytes.truncate(bytes.len() / 2));
    fs_err::write(set.0.path().join("jax-0.9.tar.gz"), "not an sdist").unwrap();
    insta::assert_snapshot!(set.found(&["--ignore", "RW210"]), @"
    exit 0
    jax-0.9.tar.gz
      warning RW124 damaged-foreign-package: invalid gzip header
    torch-2.9.0-cp312-cp312-linux_x86_64.whl
      warning RW124 damaged-foreign-package: no end record: not a zip archive, or one that is cut off
    ");
}

/// As `roc-obj` of TheRock's core package.
#[test]
fn a_script_without_a_function_is_a_warning_if_another_builder_made_the_wheel() {
    let set = Set::new();
    let without_hipcc = |members: &mut Members| {
        replace(members, "rocm_sdk_core/_cli.py", "def hipcc(", "def other(");
    };
    set.edit("rocm_sdk_core", without_hipcc);
    insta::assert_snapshot!(set.found(&["--select", "RW118,RW123"]), @"
    exit 1
    rocm_sdk_core.whl
      error   RW118 broken-import: `rocm_sdk_core-0.0.1.dev0.dist-info/entry_points.txt`: `rocm_sdk_core._cli` has no `hipcc`, which `hipcc` calls
    ");
    set.edit("rocm_sdk_core", made_by_setuptools);
    insta::assert_snapshot!(set.found(&["--select", "RW118,RW123"]), @"
    exit 0
    rocm_sdk_core.whl
      warning RW123 dead-script: `rocm_sdk_core-0.0.1.dev0.dist-info/entry_points.txt`: `rocm_sdk_core._cli` has no `hipcc`, which `hipcc` calls
    ");
}

#[test]
fn packages_of_other_projects_in_an_index_are_listed() {
    let set = Set::new();
    add_foreign(&set, "torch");
    set.index();
    insta::assert_snapshot!(set.found(&["--fail-on", "warning"]), @"
    exit 0
    torch-2.9.0-cp312-cp312-linux_x86_64.whl
      note    RW210 foreign-package: a package of another project
    ");
}

#[test]
fn development_files_without_our_manifest_are_a_note() {
    let ours = Set::new();
    ours.edit("rocm_sdk_devel", |members| {
        members.retain(|it| !it.0.ends_with("/_devel_manifest.json"));
    });
    insta::assert_snapshot!(ours.found(&[]), @"
    exit 1
    rocm_sdk_devel.whl
      error   RW502 devel-manifest-disagrees: no `rocm_sdk_devel/_devel_manifest.json`
    ");
    let set = Set::new();
    without_manifest(&set);
    insta::assert_snapshot!(set.found(&["--fail-on", "warning"]), @"
    exit 0
    rocm_sdk_devel.whl
      note    RW506 no-devel-manifest: no `rocm_sdk_devel/_devel_manifest.json`
    ");
}

/// TheRock's sdist is one of setuptools: with `setup.py`, and without `pyproject.toml`, which says
/// more in ours.
#[test]
fn an_sdist_with_setup_py_alone_is_sound() {
    let set = Set::new();
    unpacked(&set, |files| {
        files.retain(|it| {
            let path = it.0.as_str();
            !["egg-info/", "/pyproject.toml", "/rocm_build.py"]
                .iter()
                .any(|part| path.contains(part))
        });
        let setup = files
            .iter_mut()
            .find(|it| it.0.ends_with("/setup.py"))
            .unwrap();
        setup.1 = b"from setuptools import setup\nsetup(name='rocm')\n".to_vec();
    });
    assert_eq!(set.found(&["--fail-on", "warning"]), "exit 0\n");
    unpacked(&set, |files| {
        files.retain(|it| !it.0.ends_with("/setup.py"));
    });
    insta::assert_snapshot!(set.found(&[]), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW119 broken-sdist: `pyproject.toml`: neither it nor `setup.py` is there
    ");
}

#[test]
fn promises_that_the_libraries_of_a_legacy_set_keep_are_notes() {
    let set = fat::of_one_family();
    edit_sdist(
        &set,
        "rocm-sdk-device-gfx942",
        "rocm-sdk-device-gfx110X-all",
    );
    edit_sdist(
        &set,
        "rocm-sdk-device-gfx1100",
        "rocm-sdk-libraries-gfx1100",
    );
    edit_sdist(
        &set,
        "rocm-sdk-libraries=",
        "rocm-sdk-libraries-gfx110X-all=",
    );
    insta::assert_snapshot!(set.found(&["--select", "RW202,RW211"]), @"
    exit 0
    rocm-0.0.1.dev0.tar.gz
      note    RW211 legacy-promise: it has an extra for `rocm-sdk-device-gfx110x-all`, but the code is in the libraries of the family
      note    RW211 legacy-promise: it has an extra for `rocm-sdk-libraries-gfx1100`, but the code is in the libraries of the family
    ");
}

#[test]
fn a_set_that_the_rock_made_is_uploaded() {
    let set = Set::new();
    add_foreign(&set, "rocshmem4py");
    without_manifest(&set);
    let place = tempfile::tempdir().unwrap();
    let mut command = rocwheel();
    command.args(["upload", "--multi-target", "--run-id=1", "--bucket=mine"]);
    command.arg("--packages-dir").arg(set.0.path());
    let output = command
        .arg("--output-dir")
        .arg(place.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let dist = place.path().join("1-linux/python/dist");
    assert_eq!(fs_err::read_dir(dist).unwrap().count(), 16);
}
