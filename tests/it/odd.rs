//! The odd set, which is legal and unlike the sample, through every verb that takes the sample.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use rocwheel::digest::Sha256;

use crate::{
    judges::tool,
    pipeline::{environment, succeed},
    support::{
        odd::{self, ABSOLUTE, NAMES, write_foreign_wheels},
        place::{copy_files, text},
        program::rocwheel,
        published,
    },
};

#[test]
fn the_odd_set_has_no_finding() {
    let odd = published::odd();
    for place in [odd.dist(), odd.place()] {
        let checked = rocwheel(&["check", text(&place), "--fail-on", "warning"]);
        assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    }
}

#[test]
fn the_odd_set_is_what_was_planned() {
    let odd = published::odd();
    let artifacts = odd.root().join("artifacts");
    let plan = rocwheel(&[
        "build",
        "--plan",
        "--format",
        "json",
        "--artifact-dir",
        text(&artifacts),
        "--dest-dir",
        text(odd.root()),
    ]);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs_err::write(file.path(), plan.ok()).unwrap();
    let checked = rocwheel(&[
        "check",
        text(&odd.dist()),
        "--plan",
        text(file.path()),
        "--artifact-dir",
        text(&artifacts),
    ]);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
}

#[test]
fn absolute_symlinks_in_archives_are_left_out_with_a_note() {
    let place = tempfile::tempdir().unwrap();
    let [bucket, fetched, output] = ["bucket", "fetched", "out"].map(|it| place.path().join(it));
    let input = bucket.join("7-linux");
    odd::write_archives(&input);
    let mut fetch = vec!["fetch", "--run-id", "7", "--platform", "linux"];
    fetch.extend([
        "--amdgpu-targets",
        "gfx942,gfx1100",
        "--input-dir",
        text(&bucket),
    ]);
    fetch.extend(["--output-dir", text(&fetched)]);
    rocwheel(&fetch).ok();
    let of = ["build", "--only", "meta", "--dest-dir", text(&output)];
    for artifacts in [&input, &fetched] {
        let built = rocwheel(&[&of[..], &["--artifact-dir", text(artifacts)]].concat());
        assert_eq!(built.code, 0, "{}", built.stderr);
        let note = format!("symlink `{ABSOLUTE}` of artifact `base_run_generic` is left out");
        assert_eq!(built.stderr.matches(&note).count(), 1, "{}", built.stderr);
    }
}

/// A local build leaves both, an archive and the directory that it was made of.
#[test]
fn a_directory_beside_its_archive_makes_the_same_packages_by_any_number_of_threads() {
    let odd = published::odd();
    let place = tempfile::tempdir().unwrap();
    let [input, output] = ["in", "out"].map(|it| place.path().join(it));
    odd::write_archives(&input);
    for artifact in ["base_run_generic", "blas_lib_gfx942"] {
        let from = odd.root().join("artifacts").join(artifact);
        succeed(Command::new("cp").arg("-a").arg(from).arg(&input));
    }
    let built = rocwheel(&[
        "build",
        "--jobs",
        "1",
        "--artifact-dir",
        text(&input),
        "--dest-dir",
        text(&output),
    ]);
    assert_eq!(built.code, 0, "{}", built.stderr);
    let digests = |dist: &Path| {
        let entries = fs_err::read_dir(dist).unwrap().map(Result::unwrap);
        let packages = entries.map(|entry| {
            let bytes = fs_err::read(entry.path()).unwrap();
            (entry.file_name(), Sha256::of(&bytes))
        });
        packages.collect::<BTreeMap<_, _>>()
    };
    assert_eq!(digests(&output.join("dist")), digests(&odd.dist()));
}

#[test]
fn the_odd_set_is_uploaded_to_a_directory_once_and_described() {
    let odd = published::odd();
    let output = tempfile::tempdir().unwrap();
    let packages = odd.root().join("packages");
    let mut upload = vec!["upload", "--multi-target", "--platform", "linux"];
    upload.extend(["--run-id", "local", "--packages-dir", text(&packages)]);
    upload.extend(["--output-dir", text(output.path())]);
    rocwheel(&upload).ok();
    let place = output.path().join("local-linux/python");
    let digests = |place: &Path| {
        let files = fs_err::read_dir(place.join("dist")).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        let files = files.chain([place.join("set.json"), place.join("SHA256SUMS")]);
        files
            .map(|path| {
                let name = path.file_name().unwrap().to_owned();
                (name, Sha256::of(&fs_err::read(path).unwrap()))
            })
            .collect::<BTreeMap<_, _>>()
    };
    let first = digests(&place);
    assert!(first.len() > 14, "{first:?}");
    rocwheel(&upload).ok();
    assert_eq!(digests(&place), first);
    let checked = rocwheel(&["check", text(&place), "--fail-on", "warning"]);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    for summary in [rocwheel(&["summary", text(&place)]).ok(), odd.summary()] {
        let line = "'rocm[libraries,devel,device-gfx1100]==0.0.1.dev0'";
        assert!(summary.contains(line), "{summary}");
    }
}

#[test]
fn what_others_put_beside_the_odd_set_is_listed_and_not_judged() {
    let place = tempfile::tempdir().unwrap();
    let dist = place.path().join("dist");
    fs_err::create_dir(&dist).unwrap();
    copy_files(&published::odd().dist(), &dist);
    write_foreign_wheels(&dist);
    rocwheel(&["index", text(place.path())]).ok();
    for name in ["torch", "rocshmem4py", "rocm"] {
        assert!(place.path().join("simple").join(name).exists(), "{name}");
    }
    let checked = rocwheel(&["check", text(place.path()), "--fail-on", "warning"]);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
}

#[test]
fn the_odd_set_is_installed_by_pip_and_uv_and_passes_its_own_tests() {
    let page = published::odd().place().join("index.html");
    let simple = format!("file://{}/simple/", published::odd().place().display());
    let ways: [(&str, &[&str]); 2] = [
        (
            "pip",
            &[
                "-m",
                "pip",
                "install",
                "--no-index",
                "--find-links",
                text(&page),
            ],
        ),
        ("uv", &["--default-index", &simple]),
    ];
    for (name, arguments) in ways {
        let python = environment(&format!("odd-{name}"));
        let mut command = if name == "pip" {
            Command::new(&python)
        } else {
            let mut uv = Command::new(tool("uv"));
            uv.args(["pip", "install", "--no-cache", "--python"])
                .arg(&python);
            uv
        };
        succeed(command.args(arguments).args(["--quiet", REQUIREMENT]));
        works(&python);
    }
}

const REQUIREMENT: &str = "rocm[libraries,devel,profiler,device-gfx942]==0.0.1.dev0";

fn works(python: &Path) {
    let sdk = python.with_file_name("rocm-sdk");
    let tested = succeed(Command::new(&sdk).arg("test"));
    let said = [tested.stdout, tested.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains(" passed, 0 failed, "), "{said}");
    let root = succeed(Command::new(&sdk).args(["path", "--root"]));
    let root = PathBuf::from(String::from_utf8(root.stdout).unwrap().trim_end());
    for artifact in ["base_run_generic", "blas_lib_generic", "prim_dev_generic"] {
        for folder in [
            format!("share/odd {artifact}"),
            format!("share/odd {artifact} (symlink)"),
        ] {
            for name in NAMES.iter().chain(&["hard link.txt", "symlink, 2.txt"]) {
                let file = root.join(&folder).join(name);
                assert!(file.is_file(), "{}", file.display());
            }
        }
    }
    let bindings = root.join("lib/python3/dist-packages");
    let import = format!(
        "import sys; sys.path[:0] = [{:?}]; import rsmiBindings as it; assert it.ANSWER == 42",
        text(&bindings)
    );
    succeed(Command::new(python).args(["-c", &import]));
    let load = "import ctypes, sys; [ctypes.CDLL(it) for it in sys.argv[1:]]";
    let libraries = [
        "lib/libamd_smi.so.26",
        "share/amd_smi/amdsmi/libamd_smi.so",
        "lib/hipblaslt/library/libtensile_gfx942.so",
    ];
    let libraries = libraries.map(|it| root.join(it));
    succeed(Command::new(python).args(["-c", load]).args(libraries));
}
