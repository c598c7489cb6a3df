//! `promote`: what was tested is what is released, and what a build under the other version makes.

mod frameworks;
mod killed;
mod orders;
pub(crate) mod places;
mod products;
mod refused;

use std::path::{Path, PathBuf};

use rocwheel::digest::Sha256;

use crate::support::{
    members::unzip,
    place::{TEMPORARY, text},
    program::{Outcome, command, rocwheel},
    published::{self, TestSet, once, sets},
};

/// A set under a version, built once for all tests.
pub(crate) fn built(set: &TestSet, version: &str) -> PathBuf {
    let artifacts = set.artifacts();
    built_of(&format!("{}-{version}", set.name), &artifacts, version, &[])
}

/// The packages of artifacts under a version: the directory above `dist`.
fn built_of(name: &str, artifacts: &Path, version: &str, flags: &[&str]) -> PathBuf {
    once(&format!("promote-{name}"), |root| {
        let mut build = command();
        build.args(["build", "--version", version]).args(flags);
        build.arg("--artifact-dir").arg(artifacts);
        Outcome::of(build.arg("--dest-dir").arg(root).output().unwrap()).ok();
    })
}

/// Promotes a set with the words of a line.
fn promote(from: &Path, line: &str) -> Outcome {
    let line: Vec<&str> = line.split_whitespace().collect();
    rocwheel(&[&["promote", text(from)], &line[..]].concat())
}

/// Promotes a set into an empty directory of this test's own.
fn promoted(from: &Path, name: &str, line: &str) -> PathBuf {
    let to = fresh(name);
    promote(from, &format!("--into {} {line}", text(&to))).ok();
    to
}

/// A directory that does not exist.
fn fresh(name: &str) -> PathBuf {
    let to = Path::new(TEMPORARY).join("promote").join(name);
    if to.exists() {
        fs_err::remove_dir_all(&to).unwrap();
    }
    to
}

/// The packages of a set by path, with their digests. Sidecars are no packages.
fn digests(dist: &Path) -> Vec<(String, Sha256)> {
    let mut found = Vec::new();
    for entry in walkdir(dist) {
        let name = entry
            .strip_prefix(dist)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        if name.ends_with(".whl") || name.ends_with(".tar.gz") {
            let bytes = fs_err::read(&entry).unwrap();
            found.push((name, Sha256::of(&bytes)));
        }
    }
    found.sort();
    assert!(!found.is_empty());
    found
}

fn walkdir(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walkdir(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Fails with the first member that differs.
fn assert_same(promoted: &Path, built: &Path) {
    let (ours, theirs) = (
        digests(&promoted.join("dist")),
        digests(&built.join("dist")),
    );
    let names = |of: &[(String, Sha256)]| of.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&theirs));
    for ((name, one), (_, other)) in ours.iter().zip(&theirs) {
        if one == other {
            continue;
        }
        let [one, other] = [promoted, built].map(|it| fs_err::read(it.join("dist").join(name)));
        if name.ends_with(".whl") {
            for (one, other) in unzip(&one.unwrap()).iter().zip(&unzip(&other.unwrap())) {
                assert_eq!(one.0, other.0, "{name}");
                let texts = [one, other].map(|it| String::from_utf8_lossy(&it.2).into_owned());
                assert_eq!(texts[0], texts[1], "{} of {name}", one.0);
            }
        }
        panic!("`{name}` differs");
    }
}

#[test]
fn a_promoted_set_is_what_a_build_under_the_other_version_makes() {
    for set in sets() {
        let (candidate, release) = (built(set, "7.14.0rc1"), built(set, "7.14.0"));
        let promoted = promoted(&candidate, set.name, "--to release");
        assert_same(&promoted, &release);
        let record = fs_err::read_to_string(promoted.join("promotion.json")).unwrap();
        for (name, sha256) in digests(&release.join("dist")) {
            assert!(
                record.contains(&name) && record.contains(&sha256.to_string()),
                "{name}"
            );
        }
        for (_, sha256) in digests(&candidate.join("dist")) {
            assert!(record.contains(&sha256.to_string()));
        }
        let document = fs_err::read_to_string(promoted.join("set.json")).unwrap();
        assert!(
            document.contains("\"promoted-from\": \"7.14.0rc1\""),
            "{document}"
        );
        assert!(document.contains("\"version\": \"7.14.0\""), "{document}");
        rocwheel(&["check", text(&promoted)]).ok();
    }
}

/// What `--dry-run` prints is the decision, and nothing is written.
#[test]
fn the_plan_says_what_changes_in_each_package() {
    let candidate = built(published::sample(), "7.14.0rc1");
    let plan = promote(&candidate, "--to release --dry-run --targets gfx942").ok();
    insta::assert_snapshot!(plan, @r#"
    7.14.0rc1 becomes 7.14.0

    dist/rocm-7.14.0rc1.tar.gz
      becomes   dist/rocm-7.14.0.tar.gz
      edits     PKG-INFO
      edits     README.md
      edits     src/rocm.egg-info/PKG-INFO
      edits     src/rocm.egg-info/requires.txt
      edits     src/rocm_sdk/_dist_info.py

    dist/rocm_profiler-7.14.0rc1-py3-none-linux_x86_64.whl
      becomes   dist/rocm_profiler-7.14.0-py3-none-linux_x86_64.whl
      edits     rocm_profiler-7.14.0.dist-info/METADATA
      edits     rocm_profiler/_dist_info.py

    dist/rocm_sdk_core-7.14.0rc1-py3-none-linux_x86_64.whl
      becomes   dist/rocm_sdk_core-7.14.0-py3-none-linux_x86_64.whl
      edits     rocm_sdk_core-7.14.0.dist-info/METADATA
      edits     rocm_sdk_core/_dist_info.py

    dist/rocm_sdk_devel-7.14.0rc1-py3-none-linux_x86_64.whl
      becomes   dist/rocm_sdk_devel-7.14.0-py3-none-linux_x86_64.whl
      edits     rocm_sdk_devel-7.14.0.dist-info/METADATA
      edits     rocm_sdk_devel/_devel_manifest.json
      edits     rocm_sdk_devel/_dist_info.py

    dist/rocm_sdk_device_gfx942-7.14.0rc1-py3-none-linux_x86_64.whl
      becomes   dist/rocm_sdk_device_gfx942-7.14.0-py3-none-linux_x86_64.whl
      edits     _rocm_sdk_libraries/.devel_links/gfx942.json
      edits     rocm_sdk_device_gfx942-7.14.0.dist-info/METADATA

    dist/rocm_sdk_libraries-7.14.0rc1-py3-none-linux_x86_64.whl
      becomes   dist/rocm_sdk_libraries-7.14.0-py3-none-linux_x86_64.whl
      edits     rocm_sdk_libraries-7.14.0.dist-info/METADATA
      edits     rocm_sdk_libraries/_dist_info.py

    left out
      dist/rocm_sdk_device_gfx1100-7.14.0rc1-py3-none-linux_x86_64.whl

    6 packages (2.25 MiB): 16 files edited, all others copied as they are
    "#);
}
