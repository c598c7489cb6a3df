//! `promote`: what was tested is what is released, and what a build under the other version makes.

mod frameworks;
mod kept;
mod killed;
mod orders;
pub(crate) mod places;
mod products;
mod refused;

use crate::support::{
    place::TEMPORARY,
    prelude::*,
    published::{TestSet, once},
    sandbox::words,
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
    let mut promote = command();
    promote.arg("promote").arg(from).args(words(line));
    Outcome::of(promote.output().unwrap())
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

/// Copies the packages of a set, and nothing else, into a directory of this test's own.
fn copied(set: &Path, name: &str) -> PathBuf {
    let to = fresh(name);
    fs_err::create_dir_all(&to).unwrap();
    copy_files(&set.join("dist"), &to);
    to
}

/// Changes the members of a wheel.
fn edit(wheel: &Path, change: impl FnOnce(&mut Members)) {
    let mut members = unzip(&fs_err::read(wheel).unwrap());
    change(&mut members);
    fs_err::write(wheel, zipped(&members)).unwrap();
}

/// The packages of a set by path. Sidecars are no packages.
fn packages(dist: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = contents(dist);
    found.retain(|name, _| name.ends_with(".whl") || name.ends_with(".tar.gz"));
    assert!(!found.is_empty());
    found
}

fn digests(dist: &Path) -> Vec<(String, Sha256)> {
    let packages = packages(dist).into_iter();
    packages.map(|(name, bytes)| (name, Sha256::of(&bytes))).collect()
}

/// Fails with the first member that differs.
fn assert_same(promoted: &Path, built: &Path) {
    let [ours, theirs] = [promoted, built].map(|it| packages(&it.join("dist")));
    let names = [&ours, &theirs].map(|it| it.keys().collect::<Vec<_>>());
    assert_eq!(names[0], names[1]);
    for (name, one) in &ours {
        let other = &theirs[name];
        if one == other {
            continue;
        }
        if name.ends_with(".whl") {
            for (one, other) in unzip(one).iter().zip(&unzip(other)) {
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
            assert_has!(record, &name, &sha256.to_string());
        }
        for (_, sha256) in digests(&candidate.join("dist")) {
            assert_has!(record, &sha256.to_string());
        }
        let document = fs_err::read_to_string(promoted.join("set.json")).unwrap();
        assert_has!(document, "\"promoted-from\": \"7.14.0rc1\"", "\"version\": \"7.14.0\"",);
        rocwheel(&["check", text(&promoted)]).ok();
    }
}

/// What `--dry-run` prints is the decision, and nothing is written.
#[test]
fn the_plan_says_what_changes_in_each_package() {
    let candidate = built(sample(), "7.14.0rc1");
    let plan = promote(&candidate, "--to release --dry-run --targets gfx942").ok();
    // These are like the one of the development files.
    let alike = ["rocm_profiler", "rocm_sdk_core", "rocm_sdk_libraries"];
    let is_shown = |part: &&str| !alike.iter().any(|it| part.contains(&format!("dist/{it}-")));
    let shown: Vec<&str> = plan.split("\n\n").filter(is_shown).collect();
    insta::assert_snapshot!(shown.join("\n\n"), @"
    7.14.0rc1 becomes 7.14.0

    dist/rocm-7.14.0rc1.tar.gz
      becomes   dist/rocm-7.14.0.tar.gz
      edits     PKG-INFO
      edits     README.md
      edits     src/rocm.egg-info/PKG-INFO
      edits     src/rocm.egg-info/requires.txt
      edits     src/rocm_sdk/_dist_info.py

    dist/rocm_sdk_devel-7.14.0rc1-py3-none-linux_x86_64.whl
      becomes   dist/rocm_sdk_devel-7.14.0-py3-none-linux_x86_64.whl
      edits     rocm_sdk_devel-7.14.0.dist-info/METADATA
      edits     rocm_sdk_devel/_devel_manifest.json
      edits     rocm_sdk_devel/_dist_info.py

    dist/rocm_sdk_device_gfx942-7.14.0rc1-py3-none-linux_x86_64.whl
      becomes   dist/rocm_sdk_device_gfx942-7.14.0-py3-none-linux_x86_64.whl
      edits     _rocm_sdk_libraries/.devel_links/gfx942.json
      edits     rocm_sdk_device_gfx942-7.14.0.dist-info/METADATA

    left out
      dist/rocm_sdk_device_gfx1100-7.14.0rc1-py3-none-linux_x86_64.whl

    6 packages (2.26 MiB): 16 files edited, all others copied as they are
    ");
}
