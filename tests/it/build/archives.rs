//! `build` from archives: they are unpacked once.

use std::{path::Path, thread::sleep, time::Duration};

use super::{build, files, place_of, refusal, succeed};
use crate::support::{long, published::sets};

/// What a build of all archives says about unpacking.
fn said(place: &Path, flags: &[&str]) -> String {
    let mut command = build(place, "out");
    let output = command.arg("-vv").args(flags).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let lines = stderr.lines();
    let told = lines.filter(|line| line.contains("unpacked"));
    let told = told.map(|line| line.split(", unpacked before").next().unwrap().trim());
    told.collect::<Vec<_>>().join("\n")
}

#[test]
#[ignore = "slow"]
fn archives_are_unpacked_once() {
    for set in sets().into_iter().take(long::rounds(1, 2)) {
        let place = place_of(set, "once");
        // What was changed right before is not remembered.
        sleep(Duration::from_millis(100));
        let names = files(&place.join("in")).into_keys();
        let mut names: Vec<_> = names.map(|it| place.join("in").join(it)).collect();
        let all = names.len();
        let unpacked = |said: &str| said.lines().filter(|it| it.contains("unpacked ")).count();
        let reused = |count| format!("Reused {count} of {all} archives");
        // The plan needs the files, too.
        assert_eq!(unpacked(&said(&place, &["--plan"])), all);
        assert_eq!(said(&place, &[]), reused(all));
        let first = files(&place.join("out/dist"));
        // A library that was changed on disk is not what the archive has.
        let edited = place.join("out/artifacts/base_lib_generic/artifact_manifest.txt");
        let text = fs_err::read_to_string(&edited).unwrap();
        fs_err::write(&edited, "elsewhere\n").unwrap();
        let now = said(&place, &[]);
        assert_has!(now, &reused(all - 1), "unpacked base_lib_generic");
        assert_eq!(fs_err::read_to_string(&edited).unwrap(), text);
        assert_eq!(said(&place, &[]), reused(all));
        assert!(first == files(&place.join("out/dist")));
        // A damaged archive is not passed over because an older one was whole.
        let bytes = fs_err::read(&names[0]).unwrap();
        fs_err::write(&names[0], &bytes[..bytes.len() / 2]).unwrap();
        let text = refusal(build(&place, "out").arg("--plan"), 2);
        assert_has!(text, "failed to unpack");
        fs_err::write(&names[0], bytes).unwrap();
        succeed(&mut build(&place, "out"));
        assert!(first == files(&place.join("out/dist")));
        // What was unpacked before a failure is not unpacked again: with one thread, all the larger
        // archives.
        fs_err::remove_dir_all(place.join("out/artifacts")).unwrap();
        names.sort_by_key(|path| fs_err::metadata(path).unwrap().len());
        let bytes = fs_err::read(&names[0]).unwrap();
        fs_err::write(&names[0], &bytes[..bytes.len() / 2]).unwrap();
        sleep(Duration::from_millis(100));
        refusal(build(&place, "out").args(["--plan", "--jobs", "1"]), 2);
        fs_err::write(&names[0], bytes).unwrap();
        sleep(Duration::from_millis(100));
        let now = said(&place, &[]);
        assert_has!(now, &reused(all - 1));
    }
}

/// So that the files can be kept in memory, or on another disk.
#[test]
#[ignore = "slow"]
fn the_files_go_where_a_symlink_leads() {
    for set in sets() {
        let place = place_of(set, "elsewhere");
        succeed(&mut build(&place, "usual"));
        let elsewhere = place.join("elsewhere");
        for directory in ["out", "elsewhere"] {
            fs_err::create_dir(place.join(directory)).unwrap();
        }
        fs_err::os::unix::fs::symlink(&elsewhere, place.join("out/artifacts")).unwrap();
        // A file that has just been written is not remembered.
        sleep(Duration::from_millis(100));
        for count in ["", "Reused "] {
            let said = said(&place, &[]);
            assert!(said.starts_with(count), "{said}");
            assert!(elsewhere.join("base_lib_generic").is_dir());
            assert!(files(&place.join("usual/dist")) == files(&place.join("out/dist")));
        }
    }
}
