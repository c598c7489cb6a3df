//! Promotions one after the other, in every order, and sets of every form.

use std::io::Read as _;

use super::{assert_same, built, built_of, copied, digests, edit, packages, promote, promoted};
use crate::{
    build::windows_artifacts,
    python::legacy,
    support::{noise, place::empty, prelude::*, published::odd},
};

/// Artifacts that are built as a candidate, and promoted, are what they are as a release.
fn assert_promotes(name: &str, artifacts: &Path, flags: &[&str], line: &str) {
    let [candidate, release] = ["7.14.0rc1", "7.14.0"]
        .map(|version| built_of(&format!("{name}-{version}"), artifacts, version, flags));
    let promoted = promoted(&candidate, &format!("{name}-set"), line);
    assert_same(&promoted, &release);
}

#[test]
#[ignore = "slow"]
fn every_way_to_a_version_ends_with_the_same_bytes() {
    let mut at = built(sample(), "7.14.0a20260811");
    for goal in ["rc12", "rc1", "release"] {
        at = promoted(&at, &format!("way-{goal}"), &format!("--to {goal}"));
    }
    assert_same(&at, &built(sample(), "7.14.0"));
    if !long::is_on() {
        return;
    }
    let post = promoted(&at, "way-post", "--to post1");
    assert_same(&post, &built(sample(), "7.14.0.post1"));
}

/// The targets first or the version first; and both are the set without the other artifacts.
#[test]
#[ignore = "slow"]
fn targets_are_kept_in_either_order() {
    let candidate = built(odd(), "7.14.0rc1");
    let kept = "--targets gfx942,gfx1010";
    let both = promoted(&candidate, "both", &format!("--to release {kept}"));
    let first = promoted(&candidate, "targets-first", &format!("--to same {kept}"));
    let second = promoted(&first, "version-second", "--to release");
    assert_eq!(digests(&both.join("dist")), digests(&second.join("dist")));
    // A build of artifacts without those of the other targets.
    let artifacts = empty("promote/fewer");
    for entry in fs_err::read_dir(odd().artifacts()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if !["gfx1100", "gfx1012"].iter().any(|it| name.contains(it)) {
            std::os::unix::fs::symlink(entry.path(), artifacts.join(name)).unwrap();
        }
    }
    let fewer = built_of("fewer", &artifacts, "7.14.0", &[]);
    assert_same(&both, &fewer);
    rocwheel(&["check", text(&both)]).ok();
}

#[test]
#[ignore = "long"]
fn long_a_legacy_set_is_promoted_with_its_families() {
    let artifacts = empty("promote/legacy");
    let families = [("gfx942", "gfx94X-dcgpu"), ("gfx1100", "gfx110X-all")];
    legacy::write_run(&artifacts, &families);
    assert_promotes("legacy", &artifacts, &[], "--to release");
}

#[test]
fn a_set_for_windows_is_promoted() {
    let (artifacts, flags) = windows_artifacts("promote-windows");
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    assert_promotes("windows", &artifacts, &flags, "--to release --no-check");
}

/// Other compression, another time, development files as xz, another import name.
#[test]
fn what_the_build_was_told_is_kept() {
    let flags = "--compression store --source-date-epoch 1700000001 --version-suffix _x";
    let flags: Vec<&str> = flags.split(' ').collect();
    assert_promotes("told", &sample().artifacts(), &flags, "--to release --no-check");
}

#[test]
fn a_second_promotion_changes_nothing() {
    let candidate = built(sample(), "7.14.0rc1");
    let to = promoted(&candidate, "again", "--to release");
    let before = digests(&to);
    let line = format!("--to release --into {} --format json", text(&to));
    let said = promote(&candidate, &line).ok();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["uploaded"], 0, "{said}");
    assert_eq!(digests(&to), before);
}

/// The line of a module that says which package it is of.
const OWN: &str = "THIS_PACKAGE_ENTRY = ";

/// What the modules of TheRock begin with. Its build appends what it decides.
const TEMPLATE: &str = "__version__ = \"DEFAULT\"\nPY_PACKAGE_SUFFIX_NONCE = \"_DEFAULT\"\n\
                        DEFAULT_TARGET_FAMILY = \"DEFAULT\"\n";

/// A set as TheRock's scripts make it: `_dist_info.py` assigns the version twice, and Python's `zipfile`
/// deflates everything, also what gets longer by it. The modules of its wheels do not say which package
/// they are of: `check` does, and `promote` needs no such line.
#[test]
#[ignore = "slow"]
fn a_set_of_upstreams_scripts_is_promoted() {
    let set = copied(&built(sample(), "7.14.0rc1"), "upstream");
    let noise = noise(1, 17 << 20);
    for (name, bytes) in packages(&set) {
        let path = set.join(&name);
        if name.ends_with(".tar.gz") {
            fs_err::write(path, with_template(&bytes)).unwrap();
            continue;
        }
        edit(&path, |members| {
            for (path, _, bytes) in &mut *members {
                if path.ends_with("_dist_info.py") {
                    let text = String::from_utf8(bytes.clone()).unwrap();
                    let lines = text.split_inclusive('\n').filter(|it| !it.starts_with(OWN));
                    *bytes = (TEMPLATE.to_owned() + &lines.collect::<String>()).into_bytes();
                }
            }
            if name.starts_with("rocm_sdk_core-") {
                let path = "_rocm_sdk_core/share/noise.kpack".to_owned();
                members.insert(0, (path, 0o100_644, noise.clone()));
            }
            record(members);
        });
    }
    let said = promote(&set, "--to release --dry-run").refused(1);
    assert_has!(said, "its `_dist_info.py` does not say which package it is of");
    let to = promoted(&set, "upstream-released", "--to release --no-check");
    let mut wheels = packages(&to.join("dist"));
    wheels.retain(|name, _| name.ends_with(".whl"));
    let mut found = 0;
    for (path, _, bytes) in wheels.values().flat_map(|wheel| unzip(wheel)) {
        if path.ends_with("_dist_info.py") {
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.starts_with(TEMPLATE), "{text}");
            assert_has!(text, "\n__version__ = '7.14.0'\n");
            assert_lacks!(text, "7.14.0rc1");
            found += 1;
        } else if path.ends_with("noise.kpack") {
            assert!(bytes == noise);
            found += 1;
        }
    }
    assert_eq!(found, 5);
}

/// The sdist with the template before its `_dist_info.py`.
fn with_template(bytes: &[u8]) -> Vec<u8> {
    let mut old = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut new = tar::Builder::new(gzip);
    for entry in old.entries().unwrap() {
        let mut entry = entry.unwrap();
        let (path, mut header) = (entry.path().unwrap().into_owned(), entry.header().clone());
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        if path.ends_with("_dist_info.py") {
            bytes = [TEMPLATE.as_bytes(), &bytes].concat();
        }
        header.set_size(bytes.len() as u64);
        new.append_data(&mut header, path, &bytes[..]).unwrap();
    }
    new.into_inner().unwrap().finish().unwrap()
}
