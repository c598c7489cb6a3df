//! What is installed, by other programs that know about packages.

use std::{collections::BTreeSet, path::Path, process::Command};

use serde_json::{Value, json};

use super::{install, only_program, sandbox, site};
use crate::{
    judges::tool,
    support::{
        place::text,
        program::succeed,
        published::{VERSION, sample, sets},
    },
};

/// The files below a directory, without those that each installer writes in its own way.
fn files(root: &Path) -> BTreeSet<String> {
    let own = "INSTALLER REQUESTED RECORD direct_url.json uv_cache.json uv_build.json";
    let is_own = |name: &str| own.split(' ').any(|it| it == name);
    let entries = walkdir::WalkDir::new(root).into_iter().map(Result::unwrap);
    let files = entries.filter(|it| !it.file_type().is_dir());
    let names = files.map(|it| text(it.path().strip_prefix(root).unwrap()).to_owned());
    names
        .filter(|it| !it.ends_with(".pyc") && it.trim_start_matches('_').starts_with("rocm"))
        .filter(|it| !is_own(it.rsplit('/').next().unwrap()))
        .collect()
}

#[test]
#[ignore = "slow"]
fn other_installers_agree_about_the_files() {
    for set in sets() {
        let (t, target) = (sandbox(), set.targets[0]);
        install(
            &t,
            &set.root().join("packages"),
            &format!("--target {target}"),
        )
        .ok();
        let mut check = Command::new(tool("uv"));
        check
            .args(["pip", "check", "--python"])
            .arg(t.path(".venv/bin/python"));
        succeed(&mut check);
        let device = format!("rocm_sdk_device_{target}-");
        for entry in fs_err::read_dir(set.dist()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let mut begins = ["rocm_sdk_core-", "rocm_sdk_libraries-", &device].into_iter();
            if begins.any(|it| name.starts_with(it)) && name.ends_with(".whl") {
                let mut installer = Command::new(tool("python"));
                installer.args(["-m", "installer", "--no-compile-bytecode", "--prefix", "/p"]);
                succeed(installer.arg("--destdir").arg(t.path("to")).arg(&path));
            }
        }
        let by_installer = files(&site(&t.path("to/p")));
        assert!(by_installer.len() > 20, "{by_installer:?}");
        let ours = files(&site(&t.path(".venv")));
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
    let t = sandbox();
    let answer = install(&t, &sample().place(), "--target gfx942 --format json").ok();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["venv"], "HERE/.venv");
    assert_eq!(answer["python"], "HERE/.venv/bin/python");
    assert_eq!(answer["version"], VERSION);
    assert_eq!(answer["targets"], json!(["gfx942"]));
    let files = answer["files"].as_array().unwrap();
    assert_eq!(files.len(), 4, "{answer}");
    let has_digest = |it: &Value| it["sha256"].as_str().unwrap().len() == 64;
    assert!(files.iter().all(has_digest), "{answer}");
}

#[test]
#[ignore = "slow"]
fn a_uv_that_does_not_run_is_named_or_not_used() {
    let set = sample().place();
    // Of another machine.
    let t = only_program(sandbox(), "uv", b"\x7fELF\x02\x01\x01");
    for more in ["--dry-run", ""] {
        let refused = install(&t, &set, &format!("--target none --installer uv {more}"));
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        for said in [
            "failed to run `uv`",
            "install uv, or pass `--installer pip`",
        ] {
            assert!(refused.stderr.contains(said), "{}", refused.stderr);
        }
        assert!(!t.path(".venv").exists());
    }
    // As a version manager leaves it that has no uv; and no uv at all.
    for (name, script) in [("uv", "#!/bin/sh\nexit 127\n"), ("other", "")] {
        let t = only_program(sandbox(), name, script.as_bytes());
        let plan = install(&t, &set, "--target none --dry-run").ok();
        assert!(plan.contains("` with pip\n"), "{plan}");
        install(&t, &set, "--target none").ok();
    }
    let with_uv = install(&sandbox(), &set, "--target none --dry-run").ok();
    assert!(with_uv.contains("` with uv\n"), "{with_uv}");
}
