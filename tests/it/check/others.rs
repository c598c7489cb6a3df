//! Sets that TheRock's own builder made, and packages of other projects in a set.

use flate2::{Compression, write::GzEncoder};

use super::{
    Members, Set, add,
    broken::{
        Damage,
        edits::{all_sources, unpacked},
        found,
    },
    fat, member, record, replace, run, zipped,
};
use crate::support::place::text;

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
    let (from, to) = ("Generator: rocwheel", "Generator: setuptools");
    replace(members, &path, from, to);
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

/// An sdist of another project with this PKG-INFO.
fn foreign_sdist(set: &Set, name: &str, metadata: &str) {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_size(metadata.len() as u64);
    header.set_mode(0o644);
    let path = "Jax-0.9/PKG-INFO";
    tar.append_data(&mut header, path, metadata.as_bytes())
        .unwrap();
    let bytes = tar.into_inner().unwrap().finish().unwrap();
    fs_err::write(set.0.path().join(name), bytes).unwrap();
}

fn torch(set: &Set) -> &Set {
    add_foreign(set, "torch");
    set
}

#[rustfmt::skip]
const DAMAGED: &[Damage] = &[
    ("cut off", |set| torch(set).bytes("torch", |it| it.truncate(it.len() / 2))),
    ("no archive", |set| torch(set).bytes("torch", |it| *it = b"garbage".to_vec())),
    ("another project", |set| torch(set).rename("torch", "torch-", "torchaudio-")),
    ("another version", |set| torch(set).rename("torch", "2.9.0", "2.9.1")),
    ("an empty RECORD", |set| torch(set).tamper("torch", |it| member(it, "/RECORD").2.clear())),
    ("no METADATA", |set| torch(set).tamper("torch", |it| it.retain(|it| !it.0.ends_with("/METADATA")))),
    ("a longer file", |set| torch(set).tamper("torch", |it| it[0].2.push(0))),
    ("a path that leads out", |set| torch(set).tamper("torch", |it| add(it, "../../evil.py", "print('evil')"))),
    ("two directories of metadata", |set| {
        let metadata = "Metadata-Version: 2.1\n";
        torch(set).tamper("torch", |it| add(it, "zz-1.dist-info/METADATA", metadata));
    }),
    ("an sdist that is none", |set| {
        fs_err::write(set.0.path().join("jax-0.9.tar.gz"), "not an sdist").unwrap();
    }),
    ("a PKG-INFO of another project", |set| {
        let metadata = "Metadata-Version: 2.1\nName: jaxlib\nVersion: 0.9\n";
        foreign_sdist(set, "jax-0.9.tar.gz", metadata);
    }),
];

#[test]
#[ignore = "slow"]
fn a_package_of_another_project_that_is_not_what_its_name_says_is_an_error() {
    insta::assert_snapshot!(found(DAMAGED), @r#"
    cut off
      error   RW124 damaged-foreign-package: no end record: not a zip archive, or one that is cut off
    no archive
      error   RW124 damaged-foreign-package: no end record: not a zip archive, or one that is cut off
    another project
      error   RW124 damaged-foreign-package: `torch-2.9.0.dist-info/METADATA`: it is of `torch`, and the file name of `torchaudio`
    another version
      error   RW124 damaged-foreign-package: `torch-2.9.0.dist-info/METADATA`: it is of version 2.9.0, and the file name of 2.9.1
    an empty RECORD
      error   RW124 damaged-foreign-package: `torch-2.9.0.dist-info/METADATA`: in the wheel, and not listed in RECORD
      error   RW124 damaged-foreign-package: `torch-2.9.0.dist-info/WHEEL`: in the wheel, and not listed in RECORD
      error   RW124 damaged-foreign-package: `torch/lib/libother.so.1`: in the wheel, and not listed in RECORD
    no METADATA
      error   RW124 damaged-foreign-package: no `*.dist-info/METADATA`
      error   RW124 damaged-foreign-package: `torch-2.9.0.dist-info/METADATA`: listed in RECORD, and not in the wheel
    a longer file
      error   RW124 damaged-foreign-package: `torch/lib/libother.so.1`: has 1129 bytes, but 1128 in RECORD
    a path that leads out
      error   RW124 damaged-foreign-package: `../../evil.py`: a path with `..`: "../../evil.py"
      error   RW124 damaged-foreign-package: `../../evil.py`: in the wheel, and not listed in RECORD
    two directories of metadata
      error   RW124 damaged-foreign-package: several directories of metadata: `zz-1.dist-info`, `torch-2.9.0.dist-info`
      error   RW124 damaged-foreign-package: `zz-1.dist-info/METADATA`: in the wheel, and not listed in RECORD
      error   RW124 damaged-foreign-package: `zz-1.dist-info/METADATA`: metadata without `Name`
    an sdist that is none
      error   RW124 damaged-foreign-package: invalid gzip header
    a PKG-INFO of another project
      error   RW124 damaged-foreign-package: `PKG-INFO`: it is of `jaxlib`, and the file name of `jax`
    "#);
    // A package in which nothing is wrong, whose directory is spelled in another way than its file.
    let set = Set::new();
    let metadata = "Metadata-Version: 2.1\nName: jax\nVersion: 0.9\n";
    foreign_sdist(&set, "jax-0.9.tar.gz", metadata);
    assert_eq!(set.found(&["--ignore", "RW210"]), "exit 0\n");
}

/// `check` is the gate of each command that publishes.
#[test]
fn no_command_publishes_a_damaged_package_of_another_project() {
    let set = Set::new();
    add_foreign(&set, "torch");
    set.bytes("torch", |bytes| *bytes = b"garbage".to_vec());
    let place = tempfile::tempdir().unwrap();
    let (directory, to) = (set.place(), text(place.path()));
    for line in [
        format!("index {directory}"),
        format!(
            "upload --multi-target --run-id=1 --bucket=mine --packages-dir {directory} --output-dir {to}"
        ),
        format!("upload --product pytorch --packages-dir {directory} --output-dir {to}"),
    ] {
        let said = run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(said.code, 1, "{line}: {}", said.stderr);
        assert_has!(said.stderr, "RW124");
        assert_eq!(fs_err::read_dir(place.path()).unwrap().count(), 0, "{line}");
        assert!(!set.0.path().join("simple").exists(), "{line}");
    }
}

/// With pages beside it, a package of another project is read as it is without them, and so is one
/// that no page names.
#[test]
fn check_of_a_directory_finds_what_index_finds() {
    let set = Set::new();
    add_foreign(&set, "torch");
    set.index();
    let profiler = set.package("rocm_profiler");
    let other = text(&profiler).replace("0.99.1.dev0", "0.99.2");
    fs_err::copy(&profiler, other).unwrap();
    set.bytes("torch", |bytes| *bytes = b"garbage".to_vec());
    let found = set.found(&["--select", "RW124,RW204,RW705"]);
    insta::assert_snapshot!(found, @"
    exit 1
    rocm_profiler-0.99.2-py3-none-linux_x86_64.whl
      error   RW204 versions-disagree: version 0.99.2, but most of the set has 0.99.1.dev0
      warning RW705 unlisted-package: no page of the set leads to it
    torch-2.9.0-cp312-cp312-linux_x86_64.whl
      error   RW124 damaged-foreign-package: no end record: not a zip archive, or one that is cut off
    ");
    assert_has!(run(&["index", set.place()]).stderr, "RW124", "RW204");
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
      error   RW118 broken-import: `rocm_sdk_core-0.99.1.dev0.dist-info/entry_points.txt`: `rocm_sdk_core._cli` has no `hipcc`, which `hipcc` calls
    ");
    set.edit("rocm_sdk_core", made_by_setuptools);
    insta::assert_snapshot!(set.found(&["--select", "RW118,RW123"]), @"
    exit 0
    rocm_sdk_core.whl
      warning RW123 dead-script: `rocm_sdk_core-0.99.1.dev0.dist-info/entry_points.txt`: `rocm_sdk_core._cli` has no `hipcc`, which `hipcc` calls
    ");
}

#[test]
fn development_files_of_another_builder_need_no_manifest() {
    let ours = Set::new();
    ours.edit("rocm_sdk_devel", |members| {
        members.retain(|it| !it.0.ends_with("/_devel_manifest.json"));
    });
    insta::assert_snapshot!(ours.found(&[]), @"
    exit 1
    rocm_sdk_devel.whl
      error   RW501 broken-devel: no `rocm_sdk_devel/_devel_manifest.json`
    ");
    let set = Set::new();
    without_manifest(&set);
    assert_eq!(set.found(&["--fail-on", "warning"]), "exit 0\n");
}

/// TheRock's sdist is one of setuptools: with `setup.py`, and without `pyproject.toml`, which says
/// more in ours.
#[test]
fn an_sdist_with_setup_py_alone_is_sound() {
    let set = Set::new();
    unpacked(&set, |files| {
        files.retain(|it| {
            let path = it.0.as_str();
            let theirs = ["egg-info/", "/pyproject.toml", "/rocm_build.py"];
            !theirs.iter().any(|part| path.contains(part))
        });
        let setup = files.iter_mut().find(|it| it.0.ends_with("/setup.py"));
        setup.unwrap().1 = b"from setuptools import setup\nsetup(name='rocm')\n".to_vec();
        // Theirs has no table of files.
        let info = files.iter_mut().find(|it| it.0.ends_with("_dist_info.py"));
        let info = &mut info.unwrap().1;
        let text = String::from_utf8(info.clone()).unwrap();
        *info = text.replace("FileEntry", "OtherEntry").into_bytes();
    });
    assert_eq!(set.found(&["--fail-on", "warning"]), "exit 0\n");
    unpacked(&set, |files| {
        files.retain(|it| !it.0.ends_with("/setup.py"));
    });
    insta::assert_snapshot!(set.found(&[]), @"
    exit 1
    rocm-0.99.1.dev0.tar.gz
      error   RW119 broken-sdist: `pyproject.toml`: neither it nor `setup.py` is there
    ");
}

#[test]
fn the_libraries_of_a_legacy_set_keep_the_promises_of_its_sdist() {
    let set = fat::of_one_family();
    for (from, to) in [
        ("rocm-sdk-device-gfx942", "rocm-sdk-device-gfx110X-all"),
        ("rocm-sdk-device-gfx1100", "rocm-sdk-libraries-gfx1100"),
        ("rocm-sdk-libraries=", "rocm-sdk-libraries-gfx110X-all="),
    ] {
        all_sources(&set, "PKG-INFO", from, to);
    }
    assert_eq!(set.found(&["--select", "RW202"]), "exit 0\n");
}

#[test]
fn a_set_that_the_rock_made_is_uploaded() {
    let set = Set::new();
    add_foreign(&set, "rocshmem4py");
    without_manifest(&set);
    let place = tempfile::tempdir().unwrap();
    let upload = ["upload", "--multi-target", "--run-id=1", "--bucket=mine"];
    let places = [set.place(), "--output-dir", text(place.path())];
    run(&[&upload[..], &places].concat()).ok();
    let dist = place.path().join("1-linux/python/dist");
    assert_eq!(fs_err::read_dir(dist).unwrap().count(), 16);
}

/// Triton's `Requires-Python: <3.15` made pip refuse its own wheel for 3.15.
#[test]
fn a_wheel_that_no_python_of_its_tag_may_install_is_found() {
    let set = Set::new();
    add_foreign(&set, "triton");
    let wanted = |python: &str| {
        set.tamper("triton", |members| {
            let text = &mut member(members, "/METADATA").2;
            let lines = String::from_utf8(text.clone()).unwrap();
            let mut lines: Vec<&str> = lines
                .lines()
                .filter(|it| !it.starts_with("Requires-Python"))
                .collect();
            let required = format!("Requires-Python: {python}\n");
            lines.push(&required);
            *text = lines.join("\n").into_bytes();
            record(members);
        });
        set.found(&["--select", "RW124,RW125"])
    };
    assert_eq!(wanted(">=3.10,<3.13"), "exit 0\n");
    insta::assert_snapshot!(wanted(">=3.10,<3.12"), @"
    exit 1
    triton-2.9.0-cp312-cp312-linux_x86_64.whl
      error   RW125 tag-and-python-disagree: its tag is `cp312-cp312-linux_x86_64`, and its Requires-Python `>=3.10,<3.12`
    ");
}
