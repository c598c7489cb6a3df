//! What is installed, by other programs that know about packages.

use super::{built, install, only_program, sandbox, site};
use crate::support::prelude::*;

/// The files below a directory, without those that each installer writes in its own way.
fn files(root: &Path) -> BTreeSet<String> {
    let own = "INSTALLER REQUESTED RECORD direct_url.json uv_cache.json uv_build.json";
    let is_own = |name: &str| own.split(' ').any(|it| it == name);
    let is_of_rocm = |it: &String| it.trim_start_matches('_').starts_with("rocm");
    let files = tree(root).into_iter().filter(is_of_rocm);
    files.filter(|it| !it.ends_with(".pyc") && !is_own(it.rsplit('/').next().unwrap())).collect()
}

#[test]
#[ignore = "slow"]
fn other_installers_agree_about_the_files() {
    for set in sets() {
        let (t, target) = (sandbox(), set.targets[0]);
        install(&t, &built(set), &format!("--target {target}")).ok();
        let mut check = Command::new(tool("uv"));
        check.args(["pip", "check", "--python"]);
        succeed(check.arg(t.path(".venv/bin/python")));
        let device = format!("rocm_sdk_device_{target}-");
        for name in tree(&set.dist()) {
            let mut begins =
                ["rocm_sdk_core-", "rocm_sdk_devel-", "rocm_sdk_libraries-", &device].into_iter();
            if begins.any(|it| name.starts_with(it)) && name.ends_with(".whl") {
                let mut installer = Command::new(tool("python"));
                installer.args(["-m", "installer", "--no-compile-bytecode", "--prefix", "/p"]);
                succeed(installer.arg("--destdir").arg(t.path("to")).arg(set.dist().join(name)));
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
#[ignore = "slow"]
fn a_uv_that_does_not_run_is_named_or_not_used() {
    let set = sample().place();
    // Of another machine.
    let t = only_program(sandbox(), "uv", b"\x7fELF\x02\x01\x01");
    for more in ["--dry-run", ""] {
        let said = install(&t, &set, &format!("--target none --installer uv {more}")).refused(2);
        assert_has!(said, "failed to run `uv`", "install uv, or pass `--installer pip`");
        assert!(!t.path(".venv").exists());
    }
    // As a version manager leaves it that has no uv; and no uv at all.
    for (name, script) in [("uv", "#!/bin/sh\nexit 127\n"), ("other", "")] {
        let t = only_program(sandbox(), name, script.as_bytes());
        let plan = install(&t, &set, "--target none --dry-run").ok();
        assert_has!(plan, "` with pip\n");
        install(&t, &set, "--target none").ok();
    }
    let with_uv = install(&sandbox(), &set, "--target none --dry-run").ok();
    assert_has!(with_uv, "` with uv\n");
}
