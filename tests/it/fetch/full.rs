//! A file system that is too small, in a name space of its own.

use std::process::Output;

use fs_err as fs;

use super::Fixture;
use crate::support::{namespace, program::ROCWHEEL};

/// Runs `script` with a file system of so many bytes at `$OUT`, and `$FETCH` to fetch there; where one may mount.
fn in_a_small_place(fixture: &Fixture, size: &str, script: &str) -> Option<Output> {
    let mut command = namespace::with_mounts()?;
    fs::create_dir(fixture.out()).unwrap();
    let script = format!("mount -t tmpfs -o size={size} tmpfs \"$OUT\" && {script}");
    let fetch = format!(
        "{} fetch --platform linux --input-dir {} --output-dir {} --run-id 7",
        ROCWHEEL,
        fixture.bucket().display(),
        fixture.out().display()
    );
    command
        .args(["env", &format!("OUT={}", fixture.out().display())])
        .arg(format!("FETCH={fetch}"))
        .args(["sh", "-c", &script]);
    Some(command.output().unwrap())
}

#[test]
fn a_disk_that_is_too_small_is_an_error_before_anything_is_fetched() {
    let fixture = Fixture::new();
    let Some(output) = in_a_small_place(&fixture, "16k", "$FETCH; code=$?; ls -A $OUT; exit $code")
    else {
        return;
    };
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let sizes = regex::Regex::new("[0-9.]+ [KM]iB").unwrap();
    let said = said.replace(fixture.out().to_str().unwrap(), "OUT");
    let said = said.split_once("error: ").unwrap().1;
    insta::assert_snapshot!(sizes.replace_all(said, "SIZE"), @"
    not enough space for `OUT`: needs SIZE for the archives alone, has SIZE

    hint: choose another directory, or fetch less
    ");
}

#[test]
fn a_disk_that_is_full_leaves_nothing_half_done_and_the_next_fetch_does_the_rest() {
    let fixture = Fixture::new();
    // Little as an archive, and much as files.
    fs::write(
        fixture.run().join("zeros_lib_generic.tar.zst"),
        super::flat::archive(&[&format!("lib/zeros={}", "0".repeat(8 << 20))]),
    )
    .unwrap();
    let script = "$FETCH; echo $?; find $OUT -name '*.part*'; \
        mount -o remount,size=64m $OUT; $FETCH -q; cat $OUT/zeros_lib_generic/stage/lib/zeros | wc -c";
    let Some(output) = in_a_small_place(&fixture, "4m", script) else {
        return;
    };
    let said = String::from_utf8(output.stderr).unwrap();
    let answer = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!(lines[0], "1", "{answer}{said}");
    assert_eq!(lines[lines.len() - 1], "8388608", "{answer}{said}");
    assert!(!answer.contains(".part"), "{answer}");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(said.contains("hint: free disk space"), "{said}");
}

#[test]
fn a_read_only_directory_is_one_error_and_whole_artifacts_are_kept() {
    let fixture = Fixture::new();
    let script = "$FETCH -q blas_dev && mount -o remount,ro $OUT && $FETCH -q blas_dev; echo $?; \
        $FETCH -qq blas_; echo $?; $FETCH -qq --no-extract blas_dev; echo $?";
    let Some(output) = in_a_small_place(&fixture, "4m", script) else {
        return;
    };
    let said = String::from_utf8(output.stderr).unwrap();
    let answer = String::from_utf8(output.stdout).unwrap();
    let codes: Vec<&str> = answer.lines().filter(|line| line.len() == 1).collect();
    assert_eq!(codes, ["0", "2", "2"], "{answer}{said}");
    let said = said.replace(fixture.out().to_str().unwrap(), "OUT");
    insta::assert_snapshot!(said, @"
    error: nothing can be written: failed to open file `OUT/.rocwheel-fetch.lock`: Read-only file system (os error 30)

    hint: choose another `--output-dir`
    error: nothing can be written: failed to open file `OUT/.rocwheel-fetch.lock`: Read-only file system (os error 30)

    hint: choose another `--output-dir`
    ");
}
