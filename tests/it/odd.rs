//! What only the odd set has, and every set through verbs that have no tests of their own place.

use std::ffi::OsString;

use rocwheel_test_sets::odd::ABSOLUTE;

use crate::support::prelude::*;
use crate::support::{odd::write_foreign_wheels, published::odd};

#[test]
#[ignore = "slow"]
fn absolute_symlinks_in_archives_are_left_out_with_a_note() {
    let place = tempfile::tempdir().unwrap();
    let [bucket, fetched, output] = ["bucket", "fetched", "out"].map(|it| place.path().join(it));
    let input = bucket.join("7-linux");
    odd().write_archives(&input);
    let fetch = "fetch --run-id 7 --platform linux --amdgpu-targets gfx942,gfx1010,gfx1012,gfx1100";
    let places = ["--input-dir", text(&bucket), "--output-dir", text(&fetched)];
    let fetch: Vec<&str> = fetch.split(' ').chain(places).collect();
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
#[ignore = "slow"]
fn a_directory_beside_its_archive_makes_the_same_packages_by_any_number_of_threads() {
    for set in sets() {
        let place = tempfile::tempdir().unwrap();
        let [input, output] = ["in", "out"].map(|it| place.path().join(it));
        set.write_archives(&input);
        for artifact in ["base_run_generic", "blas_lib_gfx942"] {
            let from = set.artifacts().join(artifact);
            copy_tree(&from, &input);
            // A build that is still writing it: as an archive it could not be read.
            for archive in [".tar.zst", ".tar.xz"].map(|end| format!("{artifact}{end}")) {
                if input.join(&archive).exists() {
                    fs_err::write(input.join(archive), "cut off").unwrap();
                }
            }
        }
        let mut build = command();
        build.args(["build", "--jobs", "1", "--artifact-dir"]);
        succeed(build.arg(&input).arg("--dest-dir").arg(&output));
        assert_eq!(digests(&output.join("dist")), digests(&set.dist()));
    }
}

fn digests(directory: &Path) -> BTreeMap<OsString, Sha256> {
    let entries = fs_err::read_dir(directory).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let files = files.map(|entry| {
        let bytes = fs_err::read(entry.path()).unwrap();
        (entry.file_name(), Sha256::of(&bytes))
    });
    files.collect()
}

#[test]
#[ignore = "slow"]
fn every_set_is_uploaded_to_a_directory_once_and_described() {
    for set in sets() {
        let output = tempfile::tempdir().unwrap();
        let packages = set.root().join("packages");
        let mut upload = vec!["upload", "--multi-target", "--platform", "linux"];
        upload.extend(["--run-id", "local", "--packages-dir", text(&packages)]);
        upload.extend(["--output-dir", text(output.path())]);
        rocwheel(&upload).ok();
        let place = output.path().join("local-linux/python");
        let all = || [digests(&place), digests(&place.join("dist"))];
        let first = all();
        // Every wheel has its metadata beside it, and the sdist has none; the find-links page is there
        // too.
        assert_eq!(first[1].len(), 2 * set.packages(), "{first:?}");
        rocwheel(&upload).ok();
        assert_eq!(all(), first);
        rocwheel(&["check", text(&place), "--fail-on", "warning"]).ok();
        let summary = rocwheel(&["summary", text(&place)]).ok();
        for target in set.targets {
            assert_has!(summary, &set.install_line(target));
        }
    }
}

#[test]
fn what_others_put_beside_a_set_is_listed_and_not_judged() {
    for set in sets() {
        let place = tempfile::tempdir().unwrap();
        let dist = place.path().join("dist");
        fs_err::create_dir(&dist).unwrap();
        copy_files(&set.dist(), &dist);
        write_foreign_wheels(&dist);
        rocwheel(&["index", text(place.path())]).ok();
        for name in ["torch", "rocshmem4py", "rocm"] {
            assert!(place.path().join("simple").join(name).exists(), "{name}");
        }
        rocwheel(&["check", text(place.path()), "--fail-on", "warning"]).ok();
    }
}

/// Each family was split on its own: the second unit has no code for gfx1012, so that the archive
/// for it is one of the first unit alone.
#[test]
fn the_families_of_the_odd_set_have_archives_for_one_generic_part() {
    let artifacts = odd().artifacts();
    let archives = ["gfx942", "gfx1100", "gfx1010", "gfx1012"].map(|target| {
        let artifact = artifacts.join(format!("rccl_lib_{target}"));
        let archives = digests(&artifact.join("comm-libs/rccl/stage/.kpack"));
        let names = archives.into_keys().map(|it| it.into_string().unwrap());
        names.collect::<Vec<_>>().join(" ")
    });
    insta::assert_snapshot!(archives.join("\n"), @"
    rccl_lib_gfx942.kpack
    rccl_lib_gfx1100.kpack
    rccl_lib_gfx1010.kpack
    rccl_lib_bf67455c_0_gfx1012.kpack
    ");
}

/// `actions/upload-artifact` leaves out hidden directories, with the device code of all libraries.
#[test]
fn libraries_whose_archives_are_nowhere_are_named_by_build() {
    let place = tempfile::tempdir().unwrap();
    let [input, output] = ["in", "out"].map(|it| place.path().join(it));
    copy_tree(&sets()[0].artifacts(), &input);
    let line = ["build", "--artifact-dir", text(&input), "--dest-dir", text(&output)];
    assert_lacks!(rocwheel(&line).stderr, "include-hidden-files");
    let mut find = Command::new("find");
    find.arg(&input).args(["-depth", "-name", ".kpack"]);
    succeed(find.args(["-exec", "rm", "-r", "{}", "+"]));
    assert_has!(rocwheel(&line).stderr, "include-hidden-files: true");
}

/// Without the artifact of one library for one target, nothing is published.
#[test]
#[ignore = "slow"]
fn a_library_without_code_for_a_target_of_the_set_stops_a_pipeline() {
    let place = tempfile::tempdir().unwrap();
    let [input, output] = ["in", "out"].map(|it| place.path().join(it));
    sets()[0].write_archives(&input);
    for entry in fs_err::read_dir(&input).unwrap().map(Result::unwrap) {
        // With it goes the part for XNACK, which packages cannot have alone.
        if text(&entry.path()).contains("blas_lib_gfx942") {
            fs_err::remove_file(entry.path()).unwrap();
        }
    }
    let of = ["pipeline", "--artifact-dir", text(&input)];
    let done = rocwheel(&[&of[..], &["--output-dir", text(&output)]].concat());
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert_has!(done.stderr, "RW303");
    assert!(!output.join("local-linux").exists());
}
