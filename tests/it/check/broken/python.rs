//! Python that does not run, and what comes along with it.

use std::io::Read as _;

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

use super::*;

/// Path and bytes of each file of an sdist.
pub(in crate::check) type Files = Vec<(String, Vec<u8>)>;

/// Rewrites the files of the selector.
pub(in crate::check) fn unpacked(set: &Set, edit: impl FnOnce(&mut Files)) {
    set.bytes("rocm-0", |bytes| {
        let mut source = tar::Archive::new(GzDecoder::new(bytes.as_slice()));
        let mut files = Files::new();
        for entry in source.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if entry.header().entry_type().is_file() {
                files.push((path, content));
            }
        }
        edit(&mut files);
        let mut out = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, content) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            out.append_data(&mut header, path, content.as_slice())
                .unwrap();
        }
        *bytes = out.into_inner().unwrap().finish().unwrap();
    });
}

/// Replaces the text of a file, or removes it.
fn with_file(end: &str, text: Option<&str>) -> String {
    after(|set| {
        unpacked(set, |files| match text {
            Some(text) => {
                let file = files.iter_mut().find(|it| it.0.ends_with(end)).unwrap();
                file.1 = text.into();
            }
            None => files.retain(|it| !it.0.contains(end)),
        });
    })
}

#[test]
fn python_that_does_not_parse_is_found() {
    insta::assert_snapshot!(edited(CORE, |members| {
        member(members, "rocm_sdk_core/_dist_info.py").2.extend(b"def (");
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW214 other-build: its `_dist_info.py` has `def (`, which others lack
      error   RW117 broken-python: `rocm_sdk_core/_dist_info.py`: line 635: Expected an identifier
    ");
    insta::assert_snapshot!(with_file("rocm_build.py", Some("def (")), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW117 broken-python: `rocm_build.py`: line 1: Expected an identifier
    ");
}

#[test]
fn names_that_lead_nowhere_are_found() {
    insta::assert_snapshot!(edited(CORE, |members| {
        members.retain(|it| !it.0.ends_with("rocm_sdk_core/_cli.py"));
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW118 broken-import: `rocm_sdk_core-0.0.1.dev0.dist-info/entry_points.txt`: there is no module `rocm_sdk_core._cli`, which `amd-smi` and 24 more call
    ");
    insta::assert_snapshot!(edited(CORE, |members| {
        replace(members, "rocm_sdk_core/_cli.py", "def hipcc()", "def hipc()");
        members.retain(|it| !it.0.ends_with("rocm_sdk_core/_dist_info.py"));
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW118 broken-import: `rocm_sdk_core-0.0.1.dev0.dist-info/entry_points.txt`: `rocm_sdk_core._cli` has no `hipcc`, which `hipcc` calls
      error   RW118 broken-import: `rocm_sdk_core/__init__.py`: it imports from `rocm_sdk_core/_dist_info.py`, which is not there
      error   RW118 broken-import: `rocm_sdk_core/_cli.py`: it imports `_dist_info` from `rocm_sdk_core`, which has no such name
    ");
    insta::assert_snapshot!(edited(CORE, |members| {
        member(members, "rocm_sdk_core/_dist_info.py").2.extend(b"__version__ = '7'\n");
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW214 other-build: its `_dist_info.py` has `__version__ = '7'`, which others lack
      error   RW111 metadata-disagrees: `rocm_sdk_core/_dist_info.py`: its version is 7, but the metadata says 0.0.1.dev0
    ");
}

#[test]
fn an_sdist_that_nothing_can_install_is_found() {
    insta::assert_snapshot!(with_file("pyproject.toml", Some("")), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW119 broken-sdist: `pyproject.toml`: no `[build-system]`: installers look for setuptools in the index
    ");
    let other = "[build-system]\nrequires = []\nbuild-backend = 'setuptools.build_meta'\n";
    insta::assert_snapshot!(with_file("pyproject.toml", Some(other)), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW119 broken-sdist: `pyproject.toml`: its build backend is `setuptools.build_meta`, which is not in the sdist
    ");
    let lost = "[build-system]\nbuild-backend = 'rocm_maker'\nbackend-path = ['.']\n";
    insta::assert_snapshot!(with_file("pyproject.toml", Some(lost)), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW119 broken-sdist: `pyproject.toml`: there is no module `rocm_maker`
    ");
    insta::assert_snapshot!(with_file("rocm_sdk/_links.py", None), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW119 broken-sdist: `src/rocm_sdk/_links.py`: listed in `src/rocm.egg-info/SOURCES.txt`, and not in the sdist
    ");
    let without = with_file("dev0/PKG-INFO", None);
    assert_eq!(
        only("RW101", &without),
        "error   RW101 unreadable-package: no `rocm-0.0.1.dev0/PKG-INFO`"
    );
    let gone = with_file("src/rocm_sdk/", None);
    let line = "RW119 broken-sdist: `src/rocm_sdk/__init__.py`: listed in";
    assert!(gone.contains(line), "{gone}");
    insta::assert_snapshot!(with_file("rocm_build.py", Some("x = 1\n")), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW119 broken-sdist: `pyproject.toml`: `rocm_build` has no `build_wheel`
    ");
}

#[test]
fn files_that_no_package_of_ours_installs_are_found() {
    insta::assert_snapshot!(edited(CORE, |members| {
        for path in ["torch/__init__.py", "rocm.pth", "sitecustomize.py", "rocm_sdk_core-0.0.1.dev0.data/purelib/a.py"] {
            add(members, path, "import os\n");
        }
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW120 foreign-file: `rocm.pth`: Python runs it whenever it starts
      error   RW120 foreign-file: `rocm_sdk_core-0.0.1.dev0.data/purelib/a.py`: it is installed as `rocm_sdk_core-0.0.1.dev0.data`, which is not a directory of ours
      error   RW120 foreign-file: `sitecustomize.py`: Python runs it whenever it starts
      error   RW120 foreign-file: `torch/__init__.py`: it is installed as `torch`, which is not a directory of ours
    ");
}

#[test]
fn a_program_that_cannot_be_run_is_found() {
    insta::assert_snapshot!(edited(CORE, |members| {
        member(members, "llvm/bin/clang-22").1 = 0o100_644;
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW121 not-executable: `_rocm_sdk_core/lib/llvm/bin/clang-22`: a program, and its mode is 644
    ");
}

#[test]
fn a_package_for_no_python_is_found() {
    insta::assert_snapshot!(edited(CORE, |members| {
        replace(members, "/METADATA", "Requires-Python: >=3.10", "Requires-Python: >=3.10,<3.9");
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW122 requires-python: `rocm_sdk_core-0.0.1.dev0.dist-info/METADATA`: `>=3.10,<3.9` is not for Python 3
    ");
    insta::assert_snapshot!(edited(CORE, |members| {
        replace(members, "/METADATA", "Requires-Python: >=3.10", "Requires-Python: three");
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW122 requires-python: `rocm_sdk_core-0.0.1.dev0.dist-info/METADATA`: `three` is not understood
    ");
}
