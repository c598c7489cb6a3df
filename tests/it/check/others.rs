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
    let library = super::library("libother.so.1").needs("libnowhere.so.7").build();
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
    insta::assert_snapshot!(set.found(&["--fail-on", "warning"]), @"exit 0");
}

/// An sdist of another project with this PKG-INFO.
fn foreign_sdist(set: &Set, name: &str, metadata: &str) {
    sdist_of(set, name, &[("Jax-0.9/PKG-INFO", metadata)], &[]);
}

/// An sdist with these files and links.
fn sdist_of(set: &Set, name: &str, files: &[(&str, &str)], links: &[(&str, &str)]) {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    for (path, target) in links {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        tar.append_link(&mut header, path, target).unwrap();
    }
    let bytes = tar.into_inner().unwrap().finish().unwrap();
    fs_err::write(set.0.path().join(name), bytes).unwrap();
}

const JAX: &str = "Metadata-Version: 2.1\nName: jax\nVersion: 0.9\n";

/// The offsets of the local and the central header of the library in the wheel of `torch`.
fn headers(bytes: &[u8]) -> [usize; 2] {
    const NAME: &[u8] = b"torch/lib/libother.so.1";
    [(b"PK\x03\x04", 30), (b"PK\x01\x02", 46)].map(|(magic, len)| {
        let mut places = 0..bytes.len() - len;
        let is_it =
            |at: &usize| bytes[*at..].starts_with(magic) && bytes[at + len..].starts_with(NAME);
        places.find(is_it).unwrap()
    })
}

/// Changes the bytes of the wheel of `torch`, at its local and its central header.
fn edit_zip(set: &Set, edit: fn(&mut Vec<u8>, [usize; 2])) {
    torch(set).bytes("torch", |bytes| {
        let places = headers(bytes);
        edit(bytes, places);
    });
}

#[rustfmt::skip]
const BROKEN_ZIPS: &[Damage] = &[
    ("another name in the local header", |set| edit_zip(set, |it, [local, _]| it[local + 30] = b'T')),
    ("encrypted", |set| edit_zip(set, |it, [local, central]| { it[local + 6] |= 1; it[central + 8] |= 1; })),
    ("a descriptor in one header only", |set| edit_zip(set, |it, [local, _]| it[local + 6] |= 8)),
    ("another size in the local header", |set| edit_zip(set, |it, [local, _]| it[local + 22] ^= 1)),
    ("an offset into nothing", |set| edit_zip(set, |it, [_, central]| it[central + 42] ^= 1)),
    ("one member begins within another", |set| edit_zip(set, |it, [_, central]| it[central + 22] |= 0x40)),
    ("stored instead of deflated", |set| edit_zip(set, |it, [local, central]| { it[local + 8] = 0; it[central + 10] = 0; })),
    ("another checksum in both headers", |set| edit_zip(set, |it, [local, central]| { it[local + 14] ^= 1; it[central + 16] ^= 1; })),
    ("other bytes", |set| edit_zip(set, |it, [local, _]| it[local + 80] ^= 0x10)),
];

/// Installers refuse each of them, and each was once published.
#[test]
fn a_broken_archive_of_another_project_is_an_error() {
    insta::assert_snapshot!(found(BROKEN_ZIPS), @r#"
    another name in the local header
      error   RW124 damaged-foreign-package: `torch/lib/libother.so.1`: its local header names it "Torch/lib/libother.so.1"
    encrypted
      error   RW124 damaged-foreign-package: `torch/lib/libother.so.1`: it is encrypted
    a descriptor in one header only
      error   RW124 damaged-foreign-package: `torch/lib/libother.so.1`: other flags in its local header
    another size in the local header
      error   RW124 damaged-foreign-package: `torch/lib/libother.so.1`: other sizes or another checksum in its local header
    an offset into nothing
      error   RW124 damaged-foreign-package: 1 bytes before `torch/lib/libother.so.1` that belong to no member
      error   RW124 damaged-foreign-package: `torch/lib/libother.so.1` overlaps what follows it
      error   RW124 damaged-foreign-package: `torch/lib/libother.so.1`: no local header where it should begin
    one member begins within another
      error   RW124 damaged-foreign-package: `torch/lib/libother.so.1` overlaps what follows it
      error   RW124 damaged-foreign-package: `torch/lib/libother.so.1`: other sizes or another checksum in its local header
      error   RW124 damaged-foreign-package: `torch/lib/libother.so.1`: it overlaps what follows it
    stored instead of deflated
      error   RW124 damaged-foreign-package: `torch/lib/libother.so.1`: it has 322 bytes, and 1128 in the directory of the archive
    another checksum in both headers
      error   RW124 damaged-foreign-package: `torch/lib/libother.so.1`: its checksum is b2a4233f, and b2a4233e in the directory of the archive
    other bytes
      error   RW124 damaged-foreign-package: `torch/lib/libother.so.1`: corrupt deflate stream
    "#);
}

fn add_to_torch(set: &Set, path: &str) {
    torch(set).tamper("torch", |members| {
        add(members, path, "print('evil')");
        record(members);
    });
}

fn edit_text(set: &Set, name: &str, from: &str, to: &str) {
    torch(set).tamper("torch", |members| {
        let path = format!("torch-2.9.0.dist-info/{name}");
        replace(members, &path, from, to);
        record(members);
    });
}

#[rustfmt::skip]
const BESIDE_OURS: &[Damage] = &[
    ("a library of ROCm", |set| add_to_torch(set, "_rocm_sdk_core/lib/libamdhip64.so.7")),
    ("a module of ROCm", |set| add_to_torch(set, "rocm_sdk/__init__.py")),
    ("a module of ROCm, in another directory", |set| add_to_torch(set, "torch-2.9.0.data/purelib/Rocm_SDK/__init__.py")),
    ("a command of ROCm", |set| add_to_torch(set, "torch-2.9.0.data/scripts/hipcc")),
    ("a command of ROCm as an entry point", |set| torch(set).tamper("torch", |members| {
        add(members, "torch-2.9.0.dist-info/entry_points.txt", "[console_scripts]\nrocm-sdk = torch:main\ntorchrun = torch:main\n");
        record(members);
    })),
    ("a path file", |set| add_to_torch(set, "evil.pth")),
    ("other tags in WHEEL", |set| edit_text(set, "WHEEL", "cp312-cp312", "cp313-cp313")),
    ("no requirement", |set| edit_text(set, "METADATA", "Requires-Dist: numpy", "Requires-Dist: ;;;!!")),
    ("a requirement that some understand", |set| edit_text(set, "METADATA", "numpy", "numpy>=1.0.*")),
    ("no Python 3", |set| edit_text(set, "METADATA", "Requires-Dist: numpy", "Requires-Python: >=4")),
    ("a link out of an sdist", |set| sdist_of(set, "jax-0.9.tar.gz", &[("jax-0.9/PKG-INFO", JAX)], &[("jax-0.9/x", "../../etc"), ("jax-0.9/y", "/etc"), ("jax-0.9/a/z", "../PKG-INFO")])),
    ("another directory in an sdist", |set| sdist_of(set, "jax-0.9.tar.gz", &[("jax-main/PKG-INFO", JAX)], &[])),
    ("two directories in an sdist", |set| sdist_of(set, "jax-0.9.tar.gz", &[("jax-0.9/PKG-INFO", JAX), ("evil/a.py", "")], &[])),
];

#[test]
fn a_package_of_another_project_leaves_the_files_of_rocm_alone() {
    insta::assert_snapshot!(found(BESIDE_OURS), @r#"
    a library of ROCm
      error   RW113 conflicting-path: `_rocm_sdk_core/lib/libamdhip64.so.7`: `_rocm_sdk_core` is a directory of ROCm's packages
    a module of ROCm
      error   RW113 conflicting-path: `rocm_sdk/__init__.py`: `rocm_sdk` is a directory of ROCm's packages
    a module of ROCm, in another directory
      error   RW113 conflicting-path: `torch-2.9.0.data/purelib/Rocm_SDK/__init__.py`: `Rocm_SDK` is a directory of ROCm's packages
    a command of ROCm
      error   RW113 conflicting-path: `torch-2.9.0.data/scripts/hipcc`: `hipcc` is a command of ROCm's packages
    a command of ROCm as an entry point
      error   RW113 conflicting-path: `torch-2.9.0.dist-info/entry_points.txt`: `rocm-sdk` is a command of ROCm's packages
    a path file
      warning RW127 odd-foreign-package: `evil.pth`: Python reads it each time it starts
    other tags in WHEEL
      warning RW127 odd-foreign-package: `torch-2.9.0.dist-info/WHEEL`: its tags are `cp313-cp313-linux_x86_64`, and those of the file name `cp312-cp312-linux_x86_64`
    no requirement
      error   RW124 damaged-foreign-package: `torch-2.9.0.dist-info/METADATA`: no requirement: ";;;!!"
    a requirement that some understand
      warning RW127 odd-foreign-package: `torch-2.9.0.dist-info/METADATA`: the requirement "numpy>=1.0.*": not every installer understands these versions
    no Python 3
      error   RW125 tag-and-python-disagree: its tag is `cp312-cp312-linux_x86_64`, and its Requires-Python `>=4`
      error   RW124 damaged-foreign-package: `torch-2.9.0.dist-info/METADATA`: `>=4` is not for Python 3
    a link out of an sdist
      error   RW124 damaged-foreign-package: `jax-0.9/x`: a symbolic link that leads out of the directory of the sdist
      error   RW124 damaged-foreign-package: `jax-0.9/y`: a symbolic link that leads out of the directory of the sdist
    another directory in an sdist
      warning RW127 odd-foreign-package: its directory is `jax-main`, and not `jax-0.9`
    two directories in an sdist
      error   RW124 damaged-foreign-package: it has `evil`, `jax-0.9` at its top, and not one directory
    "#);
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
    foreign_sdist(&set, "jax-0.9.tar.gz", JAX);
    add_to_torch(&set, "a1_torch.pth");
    assert_eq!(set.found(&[]), "exit 0\n");
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
    insta::assert_snapshot!(set.found(&["--select", "RW213,RW123"]), @"
    exit 1
    rocm_sdk_core.whl
      error   RW213 unkept-promise: `rocm_sdk_core-0.99.1.dev0.dist-info/entry_points.txt`: `rocm_sdk_core._cli` has no `hipcc`, which `hipcc` calls
    ");
    set.edit("rocm_sdk_core", made_by_setuptools);
    insta::assert_snapshot!(set.found(&["--select", "RW213,RW123"]), @"
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
            let mut lines: Vec<&str> =
                lines.lines().filter(|it| !it.starts_with("Requires-Python")).collect();
            let required = format!("Requires-Python: {python}\n");
            lines.push(&required);
            *text = lines.join("\n").into_bytes();
            record(members);
        });
        set.found(&["--select", "RW124,RW125"])
    };
    for python in [">=3.10,<3.13", "==3.12.3", ">3.12.4,<3.12.6", ">=3.12.7,!=3.12.99,<3.12.8"] {
        assert_eq!(wanted(python), "exit 0\n", "{python}");
    }
    insta::assert_snapshot!(wanted(">=3.10,<3.12"), @"
    exit 1
    triton-2.9.0-cp312-cp312-linux_x86_64.whl
      error   RW125 tag-and-python-disagree: its tag is `cp312-cp312-linux_x86_64`, and its Requires-Python `>=3.10,<3.12`
    ");
}
