//! A run that is fetched first: the same packages, and of some targets only those that are wanted.

use super::{pipeline, place, text};
use crate::fetch::Fixture;
use crate::support::prelude::*;

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = contents_without_caches(directory).into_keys().collect();
    names.retain(|name| !name.contains(".metadata") && name != "index.html");
    names
}

#[test]
fn a_run_gives_the_packages_that_its_artifacts_give() {
    for set in sets() {
        let (fixture, out) = (Fixture::of(set), place("run/out"));
        let bucket = fixture.bucket();
        let arguments = ["--run-id", "7", "--input-dir", text(&bucket)];
        let output = pipeline(&[&arguments[..], &["--output-dir", text(&out)]].concat());
        // The page names the run.
        let packages = |root: &Path| -> BTreeMap<String, Vec<u8>> {
            let mut packages = contents_without_caches(&root.join("dist"));
            packages.remove("index.html");
            packages
        };
        let place = out.join("7-linux/python");
        assert!(packages(&place) == packages(&set.place()));
        let page = fs_err::read_to_string(place.join("dist/index.html")).unwrap();
        assert_has!(page, "/actions/runs/7\">7</a> of");
        let said = String::from_utf8(output.stdout).unwrap();
        assert_has!(said, "pip install --index-url");
    }
}

#[test]
#[ignore = "slow"]
fn some_targets_of_a_run_give_packages_for_those() {
    for (set, target) in sets().into_iter().zip(["gfx942", "gfx1010"]) {
        let (fixture, out) = (Fixture::of(set), place("some/out"));
        let bucket = fixture.bucket();
        let run = ["--run-id", "7", "--amdgpu-targets", target];
        let places = ["--input-dir", text(&bucket), "--output-dir", text(&out)];
        pipeline(&[run, places].concat());
        let mut expected = names(&set.place().join("dist"));
        expected.retain(|name| !name.contains("_device_") || name.contains(target));
        let found = names(&out.join("7-linux/python/dist"));
        assert_eq!(found, expected);
        assert_eq!(found.len(), 6);
    }
}

#[test]
fn a_dry_run_says_what_would_happen_and_does_nothing() {
    let (fixture, out) = (Fixture::new(), place("dry/out"));
    let bucket = fixture.bucket();
    let dry = |arguments: &[&str]| {
        let arguments = [arguments, &["--dry-run", "--output-dir", text(&out)]].concat();
        let said = String::from_utf8(pipeline(&arguments).stdout).unwrap();
        assert!(contents_without_caches(&out).is_empty());
        let said = said.replace(text(&out), "OUT").replace(text(&bucket), "BUCKET");
        let lines: Vec<&str> = said.lines().collect();
        let sizes = Regex::new(r"[0-9.]+ [KM]?i?B").unwrap();
        let middle = lines.iter().position(|it| it.starts_with("build")).unwrap();
        let shown = [&lines[..1], &lines[middle - 1..middle + 3], &lines[lines.len() - 2..]];
        sizes.replace_all(&shown.concat().join("\n"), "SIZE").into_owned()
    };
    insta::assert_snapshot!(dry(&["--run-id", "7", "--input-dir", text(&bucket)]), @"
    fetch    SIZE amd-llvm_lib_generic.tar.xz
    37 archives of SIZE from BUCKET/7-linux to OUT/artifacts
    build packages of 37 artifacts in OUT/packages
    check them, and publish only without errors
    write OUT/7-linux/python/dist/rocm-0.99.1.dev0.tar.gz
    write OUT/7-linux/python/set.json
    25 objects in OUT, for s3://therock-ci-artifacts/7-linux/python/
    ");
    insta::assert_snapshot!(dry(&["--sample"]), @"
    take  amd-llvm_lib_generic.tar.xz
    from the built-in sample
    build packages of 37 artifacts in OUT/packages
    check them, and publish only without errors
    write OUT/local-linux/python/dist/rocm-0.99.1.dev0.tar.gz
    write OUT/local-linux/python/set.json
    25 objects in OUT
    ");
    let archives = bucket.join("7-linux");
    insta::assert_snapshot!(dry(&["--artifact-dir", text(&archives)]), @"
    take  amd-llvm_lib_generic.tar.xz
    from BUCKET/7-linux
    build packages of 37 artifacts in OUT/packages
    check them, and publish only without errors
    write OUT/local-linux/python/dist/rocm-0.99.1.dev0.tar.gz
    write OUT/local-linux/python/set.json
    25 objects in OUT
    ");
}
