//! What is installed, by other programs that know about packages.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use super::{install, place, ran};
use crate::{
    judges::tool,
    support::{
        place::text,
        program::{Outcome, succeed},
        published::{VERSION, sample, sets},
    },
};

/// The files below a directory, without those that each installer writes in its own way.
fn files(root: &Path) -> BTreeSet<String> {
    let entries = walkdir::WalkDir::new(root).into_iter().map(Result::unwrap);
    let files = entries.filter(|it| !it.file_type().is_dir());
    let names = files.map(|it| text(it.path().strip_prefix(root).unwrap()).to_owned());
    let own = [
        "INSTALLER",
        "REQUESTED",
        "RECORD",
        "direct_url.json",
        "uv_cache.json",
        "uv_build.json",
    ];
    names
        .filter(|it| !it.ends_with(".pyc") && it.trim_start_matches('_').starts_with("rocm"))
        .filter(|it| !own.contains(&it.rsplit('/').next().unwrap()))
        .collect()
}

fn site(environment: &Path) -> PathBuf {
    let mut pythons = fs_err::read_dir(environment.join("lib")).unwrap();
    pythons
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("site-packages")
}

#[test]
fn other_installers_agree_about_the_files() {
    for set in sets() {
        let (place, environment) = place();
        let packages = set.root().join("packages");
        let arguments = ["--set", text(&packages), "--target", set.targets[0]];
        ran(&[&arguments[..], &["--venv", text(&environment)]].concat()).ok();
        let mut check = Command::new(tool("uv"));
        check
            .args(["pip", "check", "--python"])
            .arg(environment.join("bin/python"));
        succeed(&mut check);
        let to = place.path().join("by installer");
        for entry in fs_err::read_dir(set.dist()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_wanted = name.starts_with("rocm_sdk_core-")
                || name.starts_with("rocm_sdk_libraries-")
                || name.starts_with(&format!("rocm_sdk_device_{}-", set.targets[0]));
            if is_wanted && name.ends_with(".whl") {
                let mut installer = Command::new(tool("python"));
                installer.args(["-m", "installer", "--no-compile-bytecode", "--prefix", "/p"]);
                succeed(installer.arg("--destdir").arg(&to).arg(&path));
            }
        }
        let by_installer = files(&site(&to.join("p")));
        assert!(by_installer.len() > 20, "{by_installer:?}");
        let ours = files(&site(&environment));
        let missing: Vec<_> = by_installer.difference(&ours).collect();
        assert_eq!(missing, [""; 0], "{}", set.name);
        // Only the sdist brings more.
        let more = ours.difference(&by_installer);
        let more: Vec<_> = more.filter(|it| it.starts_with("rocm_sdk_")).collect();
        assert_eq!(more, [""; 0], "{}", set.name);
    }
}

#[test]
fn the_answer_for_programs_names_files_with_their_digests() {
    let (_place, environment) = place();
    let set = sample().place();
    let arguments = [
        "--set",
        text(&set),
        "--target",
        "gfx942",
        "--format",
        "json",
    ];
    let answer = ran(&[&arguments[..], &["--venv", text(&environment)]].concat()).ok();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["venv"], text(&environment));
    assert_eq!(answer["python"], text(&environment.join("bin/python")));
    assert_eq!(answer["version"], VERSION);
    assert_eq!(answer["targets"], serde_json::json!(["gfx942"]));
    let files = answer["files"].as_array().unwrap();
    assert_eq!(files.len(), 4, "{answer}");
    assert!(
        files
            .iter()
            .all(|it| it["sha256"].as_str().unwrap().len() == 64)
    );
    assert_eq!(answer["packages"].as_array().unwrap().len(), 4, "{answer}");
}

#[test]
fn without_uv_pip_installs() {
    let (_place, environment) = place();
    let set = sample().place();
    let mut command = install(&["--set", text(&set), "--target", "none", "--dry-run"]);
    // A directory of programs in which there is only Python.
    let programs = tempfile::tempdir().unwrap();
    let python = programs.path().join("python3");
    std::os::unix::fs::symlink(tool("python"), &python).unwrap();
    command
        .env("PATH", programs.path())
        .arg("--venv")
        .arg(&environment);
    let plan = Outcome::of(command.output().unwrap()).ok();
    assert!(plan.contains(" -m venv "), "{plan}");
    assert!(plan.contains(" -m pip install "), "{plan}");
    let with_uv = ran(&["--set", text(&set), "--target", "none", "--dry-run"]).ok();
    assert!(with_uv.contains("uv pip install"), "{with_uv}");
}

#[test]
fn a_uv_that_does_not_run_is_named_or_not_used() {
    let set = sample().place();
    let programs = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(tool("python"), programs.path().join("python3")).unwrap();
    let uv = programs.path().join("uv");
    let installed = |bytes: &[u8], installer: &str| {
        let (_place, environment) = place();
        fs_err::write(&uv, bytes).unwrap();
        fs_err::set_permissions(&uv, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let set = ["--set", text(&set), "--target", "none"];
        let mut command = install(&[&set[..], &["--installer", installer, "--dry-run"]].concat());
        let dry = command
            .env("PATH", programs.path())
            .arg("--venv")
            .arg(&environment)
            .output();
        let mut command = install(&[&set[..], &["--installer", installer]].concat());
        let done = command
            .env("PATH", programs.path())
            .arg("--venv")
            .arg(&environment)
            .output();
        let is_there = environment.exists();
        (
            Outcome::of(dry.unwrap()),
            Outcome::of(done.unwrap()),
            is_there,
        )
    };
    // Of another machine.
    let (dry, done, is_there) = installed(b"\x7fELF\x02\x01\x01", "uv");
    assert_eq!((dry.code, done.code, is_there), (2, 2, false));
    let hint = "install uv, or pass `--installer pip`";
    assert!(done.stderr.contains("failed to run `uv`") && done.stderr.contains(hint));
    // As a version manager leaves it that has no uv.
    let (dry, done, is_there) = installed(b"#!/bin/sh\nexit 127\n", "auto");
    assert!(dry.ok().contains(" -m pip install "));
    assert!(is_there, "{}", done.stderr);
    done.ok();
}

/// In CI, the packages are tested; elsewhere only if that is asked for.
#[test]
fn packages_are_tested_in_ci() {
    let set = sample().place();
    for (ci, more, is_tested) in [
        (None, &[][..], false),
        (Some("true"), &[], true),
        (Some("true"), &["--test", "none"], false),
        (None, &["--test", "libs"], true),
    ] {
        let (_place, environment) = place();
        let mut command = install(&["--set", text(&set), "--target", "gfx942"]);
        command
            .args(more)
            .arg("--venv")
            .arg(&environment)
            .envs(ci.map(|it| ("CI", it)));
        let outcome = Outcome::of(command.output().unwrap());
        assert_eq!(
            outcome.stderr.contains("Tested"),
            is_tested,
            "{}",
            outcome.stderr
        );
        outcome.ok();
    }
}
