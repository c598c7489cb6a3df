//! Promotions one after the other, in every order, and sets of every form.

use std::io::Read as _;

use super::{assert_same, built, built_of, digests, promote, promoted};
use crate::{
    build::windows_artifacts,
    python::legacy,
    support::{
        long,
        members::{record, unzip, zipped},
        place::{empty, text},
        program::rocwheel,
        published,
    },
};

#[test]
#[ignore = "slow"]
fn every_way_to_a_version_ends_with_the_same_bytes() {
    let set = published::sample();
    let nightly = built(set, "7.14.0a20260811");
    let mut at = nightly;
    for goal in ["rc12", "rc1", "release"] {
        at = promoted(&at, &format!("way-{goal}"), &format!("--to {goal}"));
    }
    assert_same(&at, &built(set, "7.14.0"));
    if long::is_left_out() {
        return;
    }
    let post = promoted(&at, "way-post", "--to post1");
    assert_same(&post, &built(set, "7.14.0.post1"));
}

/// The targets first or the version first; and both are the set without the other artifacts.
#[test]
#[ignore = "slow"]
fn targets_are_kept_in_either_order() {
    let set = published::odd();
    let candidate = built(set, "7.14.0rc1");
    let kept = "--targets gfx942,gfx1010";
    let both = promoted(&candidate, "both", &format!("--to release {kept}"));
    let first = promoted(&candidate, "targets-first", &format!("--to same {kept}"));
    let second = promoted(&first, "version-second", "--to release");
    assert_eq!(digests(&both.join("dist")), digests(&second.join("dist")));
    // A build of artifacts without those of the other targets.
    let artifacts = empty("promote/fewer");
    for entry in fs_err::read_dir(set.artifacts()).unwrap() {
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
fn a_legacy_set_is_promoted_with_its_families() {
    if long::is_left_out() {
        return;
    }
    let artifacts = empty("promote/legacy");
    let families = [("gfx942", "gfx94X-dcgpu"), ("gfx1100", "gfx110X-all")];
    legacy::write_run(&artifacts, &families);
    let [candidate, release] = ["7.14.0rc1", "7.14.0"]
        .map(|version| built_of(&format!("legacy-{version}"), &artifacts, version, &[]));
    let promoted = promoted(&candidate, "legacy-set", "--to release");
    assert_same(&promoted, &release);
}

#[test]
fn a_set_for_windows_is_promoted() {
    let (artifacts, flags) = windows_artifacts("promote-windows");
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let [candidate, release] = ["7.14.0rc1", "7.14.0"]
        .map(|version| built_of(&format!("windows-{version}"), &artifacts, version, &flags));
    let promoted = promoted(&candidate, "windows-set", "--to release --no-check");
    assert_same(&promoted, &release);
}

/// Other compression, another time, development files as xz, another import name.
#[test]
fn what_the_build_was_told_is_kept() {
    let set = published::sample();
    let flags = [
        "--compression",
        "store",
        "--source-date-epoch",
        "1700000001",
        "--version-suffix",
        "_x",
    ];
    let [candidate, release] = ["7.14.0rc1", "7.14.0"].map(|version| {
        built_of(
            &format!("told-{version}"),
            &set.artifacts(),
            version,
            &flags,
        )
    });
    let promoted = promoted(&candidate, "told", "--to release --no-check");
    assert_same(&promoted, &release);
}

#[test]
fn a_second_promotion_changes_nothing() {
    let candidate = built(published::sample(), "7.14.0rc1");
    let to = promoted(&candidate, "again", "--to release");
    let before = digests(&to);
    let line = format!("--to release --into {} --format json", text(&to));
    let said = promote(&candidate, &line).ok();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
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
    let candidate = built(published::sample(), "7.14.0rc1");
    let set = empty("promote/upstream");
    let noise: Vec<u8> = (0..17_u64 << 18)
        .flat_map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[..4].to_vec())
        .collect();
    assert!(noise.len() > 16 << 20);
    for (name, _) in digests(&candidate.join("dist")) {
        let bytes = fs_err::read(candidate.join("dist").join(&name)).unwrap();
        let bytes = if name.ends_with(".whl") {
            let mut members = unzip(&bytes);
            for (path, _, bytes) in &mut members {
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
            record(&mut members);
            zipped(&members)
        } else {
            with_template(&bytes)
        };
        fs_err::write(set.join(name), bytes).unwrap();
    }
    let refused = promote(&set, "--to release --dry-run");
    let said = "its `_dist_info.py` does not say which package it is of";
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    let to = promoted(&set, "upstream-released", "--to release --no-check");
    let mut modules = 0;
    for (name, _) in digests(&to.join("dist")) {
        if !name.ends_with(".whl") {
            continue;
        }
        for (path, _, bytes) in unzip(&fs_err::read(to.join("dist").join(&name)).unwrap()) {
            if path.ends_with("_dist_info.py") {
                let text = String::from_utf8(bytes).unwrap();
                assert!(text.starts_with(TEMPLATE), "{text}");
                assert!(text.contains("\n__version__ = '7.14.0'\n"), "{text}");
                assert!(!text.contains("7.14.0rc1"), "{text}");
                modules += 1;
            } else if path.ends_with("noise.kpack") {
                assert!(bytes == noise);
                modules += 1;
            }
        }
    }
    assert_eq!(modules, 5);
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
