//! What an install does to an environment that exists, and with files that are not those of the set.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{copy_of, count, expected, install, packages, sandbox, site};
use crate::{
    judges::tool,
    support::{
        place::text,
        program::succeed,
        published::{VERSION, sample, sets},
    },
};

/// The wheel of a project in a set.
fn wheel(set: &Path, project: &str) -> PathBuf {
    let files = fs_err::read_dir(set.join("dist")).unwrap();
    let mut files = files.map(|it| it.unwrap().path());
    let start = format!("/{project}-");
    let found = files.find(|it| text(it).contains(&start) && text(it).ends_with(".whl"));
    found.unwrap()
}

/// Writes a wheel again, with a member more: every program accepts it, and it is not the one that was
/// built.
fn replace(wheel: &Path) {
    let script = "import sys, zipfile\n\
        zipfile.ZipFile(sys.argv[1], 'a').writestr('rocm_sdk_libraries/evil.py', 'print(1)')";
    succeed(Command::new(tool("python")).args(["-c", script]).arg(wheel));
}

/// With the check and without it: then pip and uv refuse the file, because its digest is another one.
#[test]
#[ignore = "slow"]
fn a_replaced_wheel_is_never_installed() {
    for set in sets() {
        let t = sandbox();
        let local = copy_of(&set.root().join("packages"), &t.path("set"));
        replace(&wheel(&local, "rocm_sdk_libraries"));
        for installer in ["uv", "pip"] {
            for more in ["", "--no-check"] {
                let more = format!("{more} --target {} --installer {installer}", set.targets[0]);
                let refused = install(&t, &local, &more);
                assert_eq!(refused.code, 1, "{more}: {}", refused.stderr);
                let hint = "`rocwheel check HERE/set` says";
                assert!(refused.stderr.contains(hint), "{}", refused.stderr);
                assert_eq!(count(&t.path("")), 1, "{more}");
            }
        }
    }
}

/// `check` refuses the set, although what is installed of it is whole.
#[test]
#[ignore = "slow"]
fn a_set_that_check_refuses_is_not_installed_unless_that_is_accepted() {
    let t = sandbox();
    let local = copy_of(&sample().root().join("packages"), &t.path("set"));
    fs_err::remove_file(wheel(&local, "rocm_sdk_device_gfx1100")).unwrap();
    let refused = install(&t, &local, "--target gfx942 --dry-run");
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let hint = "a list in the variable `ROCWHEEL_ACCEPT` accepts findings that are known";
    assert!(refused.stderr.contains(hint), "{}", refused.stderr);
    assert_eq!(t.run("check set").code, 1);
    t.run("check set --write-accept known.toml");
    let list = t.read("known.toml");
    t.write(
        "known.toml",
        list.replace("reason = \"\"", "reason = \"a test\""),
    );
    install(&t, &local, "--target gfx942 --dry-run --no-check").ok();
    let list = t.path("known.toml");
    let t = t.with("ROCWHEEL_ACCEPT", list);
    install(&t, &local, "--target gfx942 --dry-run").ok();
}

#[test]
#[ignore = "slow"]
fn an_install_that_fails_leaves_no_new_environment_and_keeps_the_old_one() {
    let t = sandbox();
    install(&t, &sample().root().join("packages"), "--target gfx942").ok();
    let before = packages(&t.path(".venv"));
    t.write(".venv/bin/mine", "mine");
    let broken = copy_of(&sample().root().join("packages"), &t.path("broken"));
    fs_err::write(wheel(&broken, "rocm_sdk_device_gfx1100"), "no wheel").unwrap();
    for installer in ["uv", "pip"] {
        let more = format!("--no-check --target gfx1100 --installer {installer} --venv new");
        let refused = install(&t, &broken, &more);
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(!t.path("new").exists(), "{installer}");
    }
    assert_eq!(install(&t, &broken, "--no-check --target gfx1100").code, 1);
    assert_eq!(packages(&t.path(".venv")), before);
    assert_eq!(t.read(".venv/bin/mine"), "mine");
    assert_eq!(count(&t.path("")), 2);
}

/// What an earlier version of this program left behind after a kill, and took as a reason to remove
/// the directory or to put an old one back.
#[test]
fn work_that_came_after_a_killed_install_stays() {
    let (t, set) = (sandbox(), sample().root().join("packages"));
    install(&t, &set, "--target gfx942").ok();
    for file in [
        ".venv/.rocwheel-unfinished",
        ".venv/bin/mine",
        ".rocwheel-kept-.venv/old",
    ] {
        t.write(file, "mine");
    }
    install(&t, &set, "--target gfx942").ok();
    assert!(t.path(".venv/bin/mine").exists() && t.path(".rocwheel-kept-.venv/old").exists());
}

#[test]
#[ignore = "slow"]
fn an_environment_never_has_packages_of_two_versions() {
    let (t, set) = (sandbox(), sample().root().join("packages"));
    t.run("pipeline --sample --version 0.0.2 --output-dir later")
        .ok();
    let (later, environment) = (t.path("later/packages"), t.path(".venv"));
    install(&t, &set, "--target gfx942,gfx1100 --extras libraries,devel").ok();
    let refused = install(&t, &later, "--target gfx942,gfx1100");
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let error = format!("has `rocm-sdk-devel` {VERSION}, and this is ROCm 0.0.2");
    assert!(refused.stderr.contains(&error), "{}", refused.stderr);
    let installed = packages(&environment);
    assert!(installed.iter().all(|it| it.ends_with(VERSION)));

    let all = "--target gfx942,gfx1100 --extras libraries,devel";
    install(&t, &later, all).ok();
    let installed = packages(&environment);
    assert_eq!(installed.len(), 6, "{installed:?}");
    assert!(
        installed.iter().all(|it| it.ends_with("-0.0.2")),
        "{installed:?}"
    );
    // A framework that is tied to its version of ROCm, and stays.
    let info = site(&environment).join("torch-2.10+rocm0.0.2.dist-info");
    fs_err::create_dir(&info).unwrap();
    let metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 2.10+rocm0.0.2\n\
        Requires-Dist: rocm[libraries]==0.0.2\n";
    fs_err::write(info.join("METADATA"), metadata).unwrap();
    let back = install(&t, &set, all);
    assert_eq!(back.code, 1, "{}", back.stderr);
    let error =
        format!("has `torch` 2.10+rocm0.0.2, which needs `rocm` ==0.0.2, and not {VERSION}");
    assert!(back.stderr.contains(&error), "{}", back.stderr);
    assert_eq!(packages(&environment), installed);
}

#[test]
#[ignore = "slow"]
fn a_damaged_file_is_not_the_one_of_the_cache() {
    let t = sandbox();
    let t = {
        let cache = t.path("cache");
        t.with("UV_CACHE_DIR", cache)
    };
    let local = copy_of(&sample().root().join("packages"), &t.path("set"));
    let more = "--target gfx942 --installer uv --no-check";
    install(&t, &local, more).ok();
    assert_eq!(packages(&t.path(".venv")), expected(&["gfx942"]));
    // What uv has unpacked before has the promised digest, and may be installed again.
    fs_err::remove_dir_all(t.path(".venv")).unwrap();
    replace(&wheel(&local, "rocm_sdk_libraries"));
    install(&t, &local, more);
    let mut files = walkdir::WalkDir::new(t.path(".venv")).into_iter().flatten();
    assert!(files.all(|it| it.file_name() != "evil.py"));
}

#[test]
#[ignore = "slow"]
fn a_set_is_named_by_its_directory_and_by_the_addresses_that_commands_print() {
    let set = sample().place();
    let address = format!("file://{}/", set.display());
    for place in [text(&set), &address, &format!("{address}simple/")] {
        let plan = install(&sandbox(), place.as_ref(), "--target none --dry-run").ok();
        assert!(plan.starts_with(&format!("ROCm {VERSION} ")), "{plan}");
    }
}

/// The extra `devel` does not ask for the libraries, and neither does `device-gfx942`: both packages need them.
#[test]
fn what_packages_need_is_installed_with_them() {
    let (t, set) = (sandbox(), sample().root().join("packages"));
    for (installer, wanted) in [("uv", "none"), ("pip", "gfx942")] {
        let more =
            format!("--extras devel --target {wanted} --installer {installer} --venv {installer}");
        install(&t, &set, &more).ok();
        let installed = packages(&t.path(installer));
        let libraries = format!("rocm_sdk_libraries-{VERSION}");
        assert!(installed.contains(&libraries), "{installed:?}");
    }
}
