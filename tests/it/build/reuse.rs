//! `build --reuse`: the same bytes as without it, with any earlier set.

use std::{
    os::unix::fs::{MetadataExt as _, PermissionsExt},
    thread::sleep,
};

use super::{build, files, place, refusal, succeed, trouble::unpack};
use crate::support::prelude::*;

const CORE: &str = "rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl";
const LIBRARIES: &str = "in/blas_lib_generic/math-libs/BLAS/rocBLAS/stage/lib/rocblas/library";

/// The sample with files of several blocks: one that shrinks, one that does not, and one that does
/// only at its end. And a set of it in `out`.
pub(crate) fn built(name: &str) -> PathBuf {
    let place = place(&format!("reuse/{name}"));
    unpack(&place);
    let words = |len: u32, seed: u32| {
        let words = (seed..seed + len).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes());
        words.collect::<Vec<_>>().concat()
    };
    let prose: Vec<u8> = words(6_000_000 / 4, 1).iter().map(|byte| byte & 7).collect();
    let late = [words(5_000_000 / 4, 2), vec![1; 5_000_000]].concat();
    let noise = words(5_000_000 / 4, 3);
    for (name, bytes) in [("prose", prose), ("late", late), ("noise", noise)] {
        fs_err::write(place.join(LIBRARIES).join(name), bytes).unwrap();
    }
    succeed(&mut build(&place, "out"));
    place
}

/// Builds with and without an earlier set, and compares. Returns what was reused.
fn same(place: &Path, reuse: &str, arguments: &[&str]) -> Value {
    let _ = fs_err::remove_dir_all(place.join("fresh"));
    succeed(build(place, "fresh").args(arguments));
    let (json, said) = reusing(place, "again", reuse, arguments);
    let [fresh, again] = ["fresh", "again"].map(|it| files(&place.join(it).join("dist")));
    assert!(fresh.keys().eq(again.keys()));
    for (name, bytes) in fresh {
        assert!(bytes == again[&name], "{name} {arguments:?} {said}");
    }
    json["reused"].clone()
}

fn reusing(place: &Path, dest: &str, reuse: &str, arguments: &[&str]) -> (Value, String) {
    let mut command = build(place, dest);
    command.arg("--reuse").arg(place.join(reuse)).args(arguments);
    let output = succeed(command.args(["--format", "json", "--clean"]));
    let said = String::from_utf8(output.stderr).unwrap();
    (serde_json::from_slice(&output.stdout).unwrap(), said)
}

fn is_all(reused: &Value) {
    assert_eq!(reused["wheels"], reused["of-wheels"], "{reused}");
    assert_eq!(reused["bytes"], reused["of-bytes"], "{reused}");
    assert!(reused["wheels"].as_u64().unwrap() > 3, "{reused}");
}

fn is_nothing(reused: &Value) {
    assert_eq!((&reused["wheels"], &reused["bytes"]), (&0.into(), &0.into()));
}

/// All but this many wheels.
fn is_all_but(reused: &Value, few: u64) {
    let [wheels, all] = ["wheels", "of-wheels"].map(|key| reused[key].as_u64().unwrap());
    assert_eq!(wheels + few, all, "{reused}");
}

/// A copy of a set, as a download or a cache would bring it: other inodes and times.
fn copied(place: &Path, to: &str) {
    let _ = fs_err::remove_dir_all(place.join(to));
    let mut copy = Command::new("cp");
    succeed(copy.arg("-r").arg(place.join("out")).arg(place.join(to)));
}

fn inodes(dist: &Path) -> Vec<u64> {
    let names = files(dist).into_keys();
    let names = names.filter(|name| name.ends_with(".whl"));
    names.map(|name| fs_err::metadata(dist.join(name)).unwrap().ino()).collect()
}

#[test]
fn without_a_change_every_wheel_is_taken_over_as_a_whole() {
    let place = built("nothing");
    let dist = place.join("out/dist");
    let (before, first) = (files(&dist), inodes(&dist));
    for _ in 0..2 {
        is_all(&reusing(&place, "out", "out", &[]).0["reused"]);
        assert!(files(&dist) == before);
        // The same files: nothing was copied.
        assert_eq!(inodes(&dist), first);
    }
    // Elsewhere, too, and the earlier set is not changed by it.
    for reuse in ["out", "out/dist"] {
        is_all(&same(&place, reuse, &[]));
        assert_eq!(inodes(&place.join("again/dist")), first);
        assert!(files(&dist) == before);
    }
    let mut check = Command::new(super::ROCWHEEL);
    succeed(check.args(["-q", "check"]).arg(place.join("out")));
}

/// Publishing to a directory makes hard links, which changes the `ctime` of the files in `dist`.
#[test]
#[ignore = "slow"]
fn a_set_that_was_published_by_links_is_taken_over_as_a_whole_and_never_written_to() {
    let place = built("published");
    let dist = place.join("out/dist");
    let published = place.join("public/42-linux/python/dist");
    let publish = || {
        let mut upload = Command::new(super::ROCWHEEL);
        upload.args(["-q", "upload", "--no-check", "--multi-target"]);
        upload.args(["--run-id=42", "--bucket=mine", "--platform=linux"]);
        upload.arg("--packages-dir").arg(place.join("out"));
        succeed(upload.arg("--output-dir").arg(place.join("public")));
    };
    let first = inodes(&dist);
    for _ in 0..2 {
        publish();
        assert_eq!(inodes(&published), first);
        is_all(&reusing(&place, "out", "out", &[]).0["reused"]);
        assert_eq!(inodes(&dist), first);
    }
    let before = files(&published);
    let path = place.join(LIBRARIES).join("prose");
    let mut bytes = fs_err::read(&path).unwrap();
    bytes[1_000_000] ^= 1;
    fs_err::write(&path, bytes).unwrap();
    is_all_but(&reusing(&place, "out", "out", &[]).0["reused"], 1);
    assert!(files(&published) == before);
    assert!(files(&dist) != before);
}

#[test]
#[ignore = "slow"]
fn a_set_that_was_copied_or_lies_flat_is_taken_over_with_what_its_build_remembers() {
    let place = built("copied");
    copied(&place, "copy");
    is_all(&same(&place, "copy", &[]));
    // Without the digests of the sources, which are read.
    fs_err::remove_file(place.join("copy/.rocwheel-sources.json")).unwrap();
    is_all(&same(&place, "copy", &[]));
    // As upstream lays sets out.
    let flat = place.join("flat");
    fs_err::create_dir(&flat).unwrap();
    for name in files(&place.join("out/dist")).keys() {
        fs_err::rename(place.join("copy/dist").join(name), flat.join(name)).unwrap();
    }
    let built = place.join("copy/.rocwheel-built.json");
    fs_err::copy(&built, flat.join(".rocwheel-built.json")).unwrap();
    is_all(&same(&place, "flat", &[]));
    // Nothing says any more that this program wrote the wheels.
    fs_err::remove_file(flat.join(".rocwheel-built.json")).unwrap();
    is_nothing(&same(&place, "flat", &[]));
}

#[test]
#[ignore = "slow"]
fn other_options_take_over_the_wheels_that_stay_the_same() {
    let place = built("options");
    for arguments in [
        &["--compression", "6"][..],
        &["--compression", "store"],
        &["--version", "7.1.0"],
        &["--source-date-epoch", "1700000000"],
        &["--wheel-platform-tag", "manylinux_2_28_x86_64"],
    ] {
        is_nothing(&same(&place, "out", arguments));
    }
    is_all_but(&same(&place, "out", &["--only", "core", "--jobs", "1"]), 0);
    // Only the wheel of the development tree differs. Packing it takes long, so it is not packed to be
    // compared.
    let xz = ["--devel-compression", "xz"];
    is_all_but(&same(&place, "out", &xz), 1);
    is_all(&same(&place, "again", &xz));
}

/// Changes one file of the artifacts, in one of many ways.
fn change(place: &Path, random: &mut u32) {
    let mut next = |below: usize| {
        *random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        usize::try_from(*random >> 8).unwrap() % below
    };
    let is_changed = |path: &PathBuf| {
        let path = path.to_str().unwrap();
        path.contains("/rocblas/library/") || path.contains("/rocprim/")
    };
    let files = walkdir::WalkDir::new(place.join("in")).sort_by_file_name();
    let files = files.into_iter().map(Result::unwrap);
    let paths: Vec<PathBuf> = files
        .filter(|file| file.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .filter(is_changed)
        .collect();
    let path = &paths[next(paths.len())];
    match next(6) {
        0 => {
            let mut bytes = fs_err::read(path).unwrap();
            let at = next(bytes.len() + 1);
            bytes.insert(at, b'x');
            fs_err::write(path, bytes).unwrap();
        }
        1 => {
            // The same length, in place.
            let mut bytes = fs_err::read(path).unwrap();
            if !bytes.is_empty() {
                let at = next(bytes.len());
                bytes[at] ^= 1;
            }
            fs_err::write(path, bytes).unwrap();
        }
        // Without this one, a build says that the artifacts are incomplete.
        2 if path.ends_with("rocprim-config.cmake") => fs_err::write(path, b"").unwrap(),
        2 => fs_err::rename(path, path.with_added_extension("renamed")).unwrap(),
        3 => drop(fs_err::copy(path, path.with_added_extension("added")).unwrap()),
        4 => {
            let mode = fs_err::metadata(path).unwrap().permissions().mode();
            let mode = PermissionsExt::from_mode(mode ^ 0o111);
            fs_err::set_permissions(path, mode).unwrap();
        }
        _ => fs_err::write(path, b"short").unwrap(),
    }
}

#[test]
#[ignore = "slow"]
fn after_any_changes_the_bytes_are_those_of_a_build_without_it() {
    let place = built("changes");
    let mut random = 20_261_122;
    for round in 0..long::rounds(3, 8) {
        for _ in 0..=round % 3 {
            change(&place, &mut random);
        }
        let reuse = ["out", "again", "copy", "again"][round % 4];
        if reuse == "copy" {
            copied(&place, "copy");
        }
        let reused = same(&place, reuse, &["--on-collision", "last"]);
        let count = |key: &str| reused[key].as_u64().unwrap();
        assert!((1..count("of-wheels")).contains(&count("wheels")), "{round} {reused}");
    }
}

#[test]
#[ignore = "slow"]
fn a_damaged_wheel_is_built_again() {
    let place = built("damaged");
    for round in 0..long::rounds(4_usize, 6) {
        copied(&place, "hurt");
        for name in files(&place.join("hurt/dist")).keys() {
            let path = place.join("hurt/dist").join(name);
            let mut bytes = fs_err::read(&path).unwrap();
            match round {
                0 => bytes.truncate(bytes.len() / 2),
                1 => bytes.clear(),
                2 => bytes.insert(0, b'x'),
                _ => {
                    for at in (round * 97..bytes.len()).step_by(40_009) {
                        bytes[at] ^= 4;
                    }
                }
            }
            fs_err::write(path, bytes).unwrap();
        }
        is_nothing(&same(&place, "hurt", &[]));
    }
}

/// Damage that hides itself: the size and the time of the last write are as before.
#[test]
#[ignore = "slow"]
fn a_wheel_with_its_old_time_is_not_believed() {
    let place = built("hidden");
    for name in files(&place.join("out/dist")).keys() {
        let path = place.join("out/dist").join(name);
        let time = fs_err::metadata(&path).unwrap().modified().unwrap();
        let mut bytes = fs_err::read(&path).unwrap();
        for at in (100..bytes.len() / 2).step_by(5_003) {
            bytes[at] ^= 1;
        }
        fs_err::write(&path, bytes).unwrap();
        let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
        file.file().set_modified(time).unwrap();
    }
    is_nothing(&same(&place, "out", &[]));
}

/// The digests of sources are remembered only for files that did not change right before the build.
#[test]
#[ignore = "slow"]
fn a_source_with_its_old_time_is_read_again() {
    let place = built("source");
    let memory = || fs_err::read_to_string(place.join("out/.rocwheel-sources.json")).unwrap();
    let remembered = |text: &str| {
        let json: Value = serde_json::from_str(text).unwrap();
        json["files"].as_object().unwrap().len()
    };
    sleep(Duration::from_millis(100));
    is_all(&reusing(&place, "out", "out", &[]).0["reused"]);
    let text = memory();
    assert!(remembered(&text) > 20, "{text}");
    assert!(!text.contains(place.to_str().unwrap()), "paths stay here");
    is_all(&same(&place, "out", &[]));
    let path = place.join(LIBRARIES).join("prose");
    let time = fs_err::metadata(&path).unwrap().modified().unwrap();
    let mut bytes = fs_err::read(&path).unwrap();
    bytes[1_000_000] ^= 1;
    fs_err::write(&path, bytes).unwrap();
    let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
    file.file().set_modified(time).unwrap();
    is_all_but(&same(&place, "out", &[]), 1);
}

#[test]
#[ignore = "slow"]
fn it_says_what_it_took_and_what_it_could_not() {
    let place = built("told");
    copied(&place, "copy");
    fs_err::write(place.join("copy/dist").join(CORE), "no wheel").unwrap();
    let told = |reuse: &str, arguments: &[&str]| {
        let mut command = Command::new(super::ROCWHEEL);
        command.args(["build", "--verbose", "--clean", "--artifact-dir"]);
        command.arg(place.join("in")).arg("--dest-dir").arg(place.join("told"));
        command.arg("--reuse").arg(place.join(reuse)).args(arguments);
        let said = String::from_utf8(succeed(&mut command).stderr).unwrap();
        let said = said.replace(place.to_str().unwrap(), "PLACE");
        let lines = said.lines().filter(|line| line.contains("euse"));
        let lines: Vec<&str> = lines.map(str::trim_start).collect();
        let sizes = Regex::new("[0-9.]+ ([KM]i)?B").unwrap();
        sizes.replace_all(&lines.join("\n"), "SIZE").into_owned()
    };
    insta::assert_snapshot!(told("out", &["--only", "core,libraries"]), @"
    Reused rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl: SIZE
    Reused rocm_sdk_libraries-0.99.1.dev0-py3-none-linux_x86_64.whl: SIZE
    Reused 2 of 2 wheels (SIZE of SIZE)
    ");
    insta::assert_snapshot!(told("copy", &["--only", "core,libraries"]), @"
    note: `PLACE/copy/dist/rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl` is not reused: it is not as this program wrote it
    Reused rocm_sdk_libraries-0.99.1.dev0-py3-none-linux_x86_64.whl: SIZE
    Reused 1 of 2 wheels (SIZE of SIZE)
    ");
    insta::assert_snapshot!(told("none", &["--only", "core"]), @"
    warning: no wheels to reuse in `PLACE/none`: this program wrote none of them
    Reused 0 of 1 wheel (SIZE of SIZE)
    ");
    let reuse = ["--reuse", "out", "--version", "9"];
    assert_has!(refusal(build(&place, "out").args(reuse), 2), "--clean");
}
