//! A file system that is too small, in a name space of its own.

use super::{Fixture, flat::archive, refusal};
use crate::support::{namespace, prelude::*};

/// Runs `script` with a file system of so many bytes at `out`, and `$FETCH` to fetch there; where one may mount.
fn in_a_small_place(fixture: &Fixture, size: &str, script: &str) -> Option<Outcome> {
    let mut command = namespace::with_mounts()?;
    fs_err::create_dir(fixture.out()).unwrap();
    let fetch = "fetch --platform linux --input-dir bucket --output-dir out --run-id 7";
    let script = format!(
        "mount -t tmpfs -o size={size} tmpfs out || exit 9; FETCH='{ROCWHEEL} {fetch}'; {script}"
    );
    command.current_dir(fixture.t.path(""));
    Some(fixture.t.outcome(command.args(["sh", "-c", &script])))
}

#[test]
fn a_disk_that_is_too_small_is_an_error_before_anything_is_fetched() {
    let fixture = Fixture::new();
    let script = "$FETCH; code=$?; ls -A out; exit $code";
    let Some(said) = in_a_small_place(&fixture, "16k", script) else {
        return;
    };
    assert_eq!(said.stdout, "");
    let sizes = Regex::new("[0-9.]+ [KM]iB").unwrap();
    insta::assert_snapshot!(sizes.replace_all(&refusal(&said), "SIZE"), @"2: not enough space for `out`: needs SIZE for the archives alone, has SIZE | hint: choose another directory, or fetch less");
}

#[test]
fn a_disk_that_is_full_leaves_nothing_half_done_and_the_next_fetch_does_the_rest() {
    let fixture = Fixture::new();
    // Little as an archive, and much as files.
    let zeros = archive(&[&format!("lib/zeros={}", "0".repeat(8 << 20))]);
    let path = "bucket/7-linux/zeros_lib_generic.tar.zst";
    fixture.t.write(path, zeros);
    let script = "$FETCH; echo $?; find out -name '*.part*'; \
        mount -o remount,size=64m out; $FETCH -q; cat out/zeros_lib_generic/stage/lib/zeros | wc -c";
    let Some(said) = in_a_small_place(&fixture, "4m", script) else {
        return;
    };
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!((lines[0], lines[lines.len() - 1]), ("1", "8388608"));
    assert_lacks!(said.stdout, ".part");
    assert_has!(said.stderr, "No space left on device", "hint: free disk space");
}

#[test]
fn a_read_only_directory_is_one_error_and_whole_artifacts_are_kept() {
    let fixture = Fixture::new();
    let script = "$FETCH -q blas_dev && mount -o remount,ro out && $FETCH -q blas_dev; echo $?; \
        $FETCH -qq blas_; echo $?; $FETCH -qq --no-extract blas_dev; echo $?";
    let Some(said) = in_a_small_place(&fixture, "4m", script) else {
        return;
    };
    let codes = said.stdout.lines().filter(|line| line.len() == 1);
    assert_eq!(codes.collect::<String>(), "022", "{}", said.all());
    let error = "error: nothing can be written: failed to open file `out/.rocwheel-fetch.lock`: \
                 Read-only file system (os error 30)\n\nhint: choose another `--output-dir`\n";
    assert_eq!(said.stderr, error.repeat(2));
}
