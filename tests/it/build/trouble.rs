//! Builds that are interrupted, killed, or run out of disk.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{Child, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

use rocwheel_base::atomic::lock::{Lock, LockPurpose};

use super::{build, files, place, place_of, refusal, succeed};
use crate::support::namespace;
use crate::support::prelude::*;

/// A set, unpacked, with a file that takes a while at the highest level.
fn slow(set: &TestSet, name: &str) -> PathBuf {
    let place = place_of(set, name);
    unpack(&place);
    let words = (0..6_000_000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3] & 15);
    let library =
        place.join("in/blas_lib_generic/math-libs/BLAS/rocBLAS/stage/lib/rocblas/library");
    assert!(library.is_dir());
    for copy in 0..6 {
        let words: Vec<u8> = words.clone().collect();
        fs_err::write(library.join(format!("slow{copy}.dat")), words).unwrap();
    }
    place
}

/// Puts the unpacked artifacts where the archives were.
pub(super) fn unpack(place: &Path) {
    succeed(build(place, "unpacked").args(["--only", "meta"]));
    fs_err::remove_dir_all(place.join("in")).unwrap();
    fs_err::rename(place.join("unpacked/artifacts"), place.join("in")).unwrap();
}

/// A build under way: something of a wheel is on the disk, and much is still to do.
fn under_way(place: &Path, arguments: &[&str]) -> Child {
    let mut child = build(place, "out")
        .args(["--jobs", "1", "--clean"])
        .args(arguments)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let wheel = "rocm_sdk_libraries-0.99.1.dev0-py3-none-linux_x86_64.whl";
    let begun = Instant::now();
    while !unfinished(place).is_some_and(|set| set.join(wheel).exists()) {
        assert!(begun.elapsed() < Duration::from_mins(1), "no wheel comes");
        assert_eq!(child.try_wait().unwrap(), None, "it ended too soon");
        sleep(Duration::from_millis(2));
    }
    child
}

/// The set that a build writes, or that a killed one left.
fn unfinished(place: &Path) -> Option<PathBuf> {
    let entries = fs_err::read_dir(place.join("out")).ok()?;
    let mut paths = entries.map(|entry| entry.unwrap().path());
    paths.find(|path| path.extension() == Some("part".as_ref()))
}

fn signal(mut child: Child, signal: &str) -> ExitStatus {
    let kill = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    child.wait().unwrap()
}

#[test]
fn a_directory_that_is_older_than_the_archive_beside_it_is_used_with_a_note() {
    let place = place("older");
    unpack(&place);
    let archives = super::place("older/archives").join("in");
    let archive = "blas_lib_generic.tar.zst";
    fs_err::copy(archives.join(archive), place.join("in").join(archive)).unwrap();
    let manifest = place.join("in/blas_lib_generic/artifact_manifest.txt");
    let notes = |age: Duration| {
        let time = SystemTime::now().checked_sub(age).unwrap();
        let manifest = fs_err::File::options().write(true).open(&manifest).unwrap();
        manifest.file().set_modified(time).unwrap();
        let mut plan = build(&place, "out");
        let output = plan.args(["--verbose", "--plan"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let notes = said.lines().filter(|it| it.contains("blas_lib_generic"));
        notes.map(str::to_owned).collect::<Vec<_>>()
    };
    let note = "note: directory `blas_lib_generic` is used, and it is older than `blas_lib_generic.tar.zst` beside it";
    assert_eq!(notes(Duration::from_hours(1)), [note]);
    assert_eq!(notes(Duration::ZERO), [""; 0]);
}

#[test]
#[ignore = "slow"]
fn ctrl_c_leaves_the_old_set_and_nothing_of_the_new_one() {
    let place = slow(published::sample(), "stopped");
    succeed(build(&place, "out").args(["--only", "meta"]));
    let before = files(&place.join("out/dist"));
    for arguments in [["--compression", "12"], ["--devel-compression", "xz"]] {
        let status = signal(under_way(&place, &arguments), "-INT");
        assert_eq!(status.code(), Some(130), "{arguments:?}");
        assert_eq!(unfinished(&place), None, "{arguments:?}");
        assert!(files(&place.join("out/dist")) == before, "{arguments:?}");
    }
}

/// A job that copies its wheels beside ours, while a build packs.
#[test]
#[ignore = "slow"]
fn what_comes_into_the_directory_during_a_build_stays() {
    let place = slow(published::sample(), "meanwhile");
    for turn in 0..2 {
        let mut child = under_way(&place, &["--compression", "12"]);
        let theirs = [format!("notes{turn}.txt"), format!("torch-{turn}-py3-none-any.whl")];
        for name in &theirs {
            let dist = place.join("out/dist");
            fs_err::create_dir_all(&dist).unwrap();
            fs_err::write(dist.join(name), "theirs").unwrap();
        }
        assert!(child.wait().unwrap().success());
        for name in &theirs {
            assert_eq!(fs_err::read(place.join("out/dist").join(name)).unwrap(), b"theirs");
        }
        let set = fs_err::read_to_string(place.join("out/set.json")).unwrap();
        assert!(set.contains("rocm_sdk_core") && !set.contains("torch"), "{set}");
    }
}

#[test]
#[ignore = "slow"]
fn the_next_build_starts_over_after_a_kill() {
    let place = slow(published::odd(), "killed");
    let status = signal(under_way(&place, &["--compression", "12"]), "-KILL");
    assert_eq!(status.signal(), Some(9));
    assert!(!place.join("out/dist").exists());
    let arguments = ["--only", "core,libraries", "--compression", "1"];
    succeed(build(&place, "out").args(arguments));
    assert_eq!(unfinished(&place), None);
    succeed(build(&place, "again").args(arguments));
    assert!(files(&place.join("out/dist")) == files(&place.join("again/dist")));
}

#[test]
fn two_builds_never_share_a_directory() {
    let place = place("shared");
    unpack(&place);
    let out = place.join("out");
    let other = Lock::to_write(&out, LockPurpose::Build).unwrap();
    let said = refusal(&mut build(&place, "out"), 2);
    insta::assert_snapshot!(said.replace(out.to_str().unwrap(), "OUT"), @"
    error: another build, or an index, is running in `OUT`

    hint: wait until it has ended, or choose another `--output-dir`
    ");
    // It writes nothing.
    succeed(build(&place, "out").arg("--plan"));
    drop(other);
    succeed(&mut build(&place, "out"));
    // What is remembered of files depends on how long ago they were written.
    let left = fs_err::read_dir(&out).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let memory = ["built", "digests", "sources"].map(|of| format!(".rocwheel-{of}.json"));
    let mut others: Vec<_> = names.filter(|name| !memory.contains(name)).collect();
    others.sort();
    assert_eq!(others, ["dist", "set.json"]);
}

#[test]
fn a_file_that_cannot_grow_is_named_and_nothing_is_left() {
    let place = place("limited");
    unpack(&place);
    let inner = build(&place, "out");
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 30; exec \"$0\" \"$@\""]);
    limited.arg(inner.get_program()).args(inner.get_args());
    let said = refusal(&mut limited, 2);
    for part in ["File too large", ".part/rocm_sdk_core-", "another directory"] {
        assert!(said.contains(part), "no `{part}` in:\n{said}");
    }
    assert!(!place.join("out").exists());
}

#[test]
fn a_disk_that_is_too_small_is_an_error_before_anything_is_made() {
    let place = place("small");
    unpack(&place);
    fs_err::create_dir(place.join("out")).unwrap();
    let script =
        "mount -t tmpfs -o size=1m tmpfs \"$0\" && { \"$@\"; code=$?; ls \"$0\"; exit $code; }";
    if namespace::with_mounts().is_none() {
        return;
    }
    let small = |how: &str| {
        let inner = build(&place, "out");
        let mut command = namespace::with_mounts().unwrap();
        command.args(["sh", "-c", script]);
        command.arg(place.join("out")).arg(inner.get_program());
        command.args(inner.get_args()).args(["--compression", how]);
        let output = command.output().unwrap();
        // All that was begun is gone, and no package was named.
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        let said = String::from_utf8(output.stderr).unwrap();
        let said = said.replace(place.to_str().unwrap(), "PLACE");
        let sizes = Regex::new("[0-9.]+ [KM]iB").unwrap();
        sizes.replace_all(&said, "SIZE").into_owned()
    };
    insta::assert_snapshot!(small("store"), @"
    error: not enough space for `PLACE/out/dist`: needs SIZE, has SIZE

    hint: free disk space, choose another `--output-dir`, or leave out `--compression store`
    ");
    assert_has!(small("1"), "hint: free disk space");
}

/// The name of an artifact that cannot be read would leave its code out of the packages without a word.
#[test]
fn what_looks_like_an_artifact_and_is_none_is_an_error_and_anything_else_is_named() {
    let place = place("unreadable");
    let archive = place.join("in/blas_lib_gfx942.tar.zst");
    let other = place.join("in/blas_lib_gfx942.old+.tar.zst");
    fs_err::rename(&archive, &other).unwrap();
    let refused = refusal(build(&place, "out").arg("--plan"), 2);
    insta::assert_snapshot!(refused, @r#"
    error: failed to read the name of the artifact `blas_lib_gfx942.old+.tar.zst`
      caused by: a family with other characters than letters, digits and `-`: "gfx942.old+"

    hint: rename it: `blas_lib_generic`, `blas_lib_gfx942` or `blas_lib_gfx942:xnack+`; or move it elsewhere
    "#);
    fs_err::rename(&other, &archive).unwrap();
    unpack(&place);
    let directory = place.join("in/blas_lib_gfx942");
    let other = place.join("in/blas_lib_gfx942_xnack");
    fs_err::rename(&directory, &other).unwrap();
    let refused = refusal(build(&place, "out").arg("--plan"), 2);
    assert_has!(refused, "the name of the artifact `blas_lib_gfx942_xnack`");
    fs_err::rename(&other, &directory).unwrap();
    fs_err::create_dir(place.join("in/notes")).unwrap();
    let mut plan = build(&place, "out");
    let output = plan.args(["--verbose", "--plan"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_has!(said, "note: `notes` is not used: ");
}

#[test]
fn packages_are_written_beside_the_artifacts() {
    let place = place("apart");
    for dest in ["in", "in/out", "."] {
        let said = refusal(&mut build(&place, dest), 2);
        assert_has!(said, "is in or above `--artifact-dir");
        assert!(!place.join(dest).join("dist").exists());
    }
    succeed(build(&place, "in-between").arg("--plan"));
}
