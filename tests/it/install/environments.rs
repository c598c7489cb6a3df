//! What an install does to an environment that exists, and with files that are not those of the set.

use std::path::{Path, PathBuf};

use super::{expected, install, packages, place, ran};
use crate::{
    judges::tool,
    support::{
        place::{copy_files, text},
        program::{Outcome, rocwheel, succeed},
        published::{VERSION, sample, sets},
    },
};

/// A copy of a set, as `build` makes it, which a test may damage.
fn copy(set: &Path, to: &Path) -> PathBuf {
    for below in ["", "dist"] {
        fs_err::create_dir_all(to.join(below)).unwrap();
        copy_files(&set.join(below), &to.join(below));
    }
    to.to_owned()
}

/// The wheel of a project in a set.
fn wheel(set: &Path, project: &str) -> PathBuf {
    let mut files = fs_err::read_dir(set.join("dist"))
        .unwrap()
        .map(|it| it.unwrap().path());
    let is_it =
        |it: &PathBuf| text(it).contains(&format!("/{project}-")) && text(it).ends_with(".whl");
    files.find(is_it).unwrap()
}

/// Writes a wheel again, with a member more: every program accepts it, and it is not the one that was
/// built.
fn replace(wheel: &Path) {
    let script = "import sys, zipfile\n\
        zipfile.ZipFile(sys.argv[1], 'a').writestr('rocm_sdk_libraries/evil.py', 'print(1)')";
    succeed(
        std::process::Command::new(tool("python"))
            .args(["-c", script])
            .arg(wheel),
    );
}

#[test]
fn a_replaced_wheel_is_never_installed() {
    let place = tempfile::tempdir().unwrap();
    for set in sets() {
        let local = copy(&set.root().join("packages"), &place.path().join(set.name));
        replace(&wheel(&local, "rocm_sdk_libraries"));
        let target = set.targets[0];
        for installer in ["uv", "pip"] {
            for more in [&[][..], &["--recreate"]] {
                let environment = place.path().join(format!("{installer} {}", set.name));
                let base = [
                    "--target",
                    target,
                    "--installer",
                    installer,
                    "--venv",
                    text(&environment),
                ];
                let refused = ran(&[&[text(&local)][..], &base, more].concat());
                assert_eq!(refused.code, 1, "{installer}: {}", refused.stderr);
                let hint = format!("`rocwheel check {}` says", text(&local));
                assert!(refused.stderr.contains(&hint), "{}", refused.stderr);
                assert!(!environment.exists(), "{installer}");
            }
        }
    }
}

#[test]
fn an_install_that_fails_leaves_no_new_environment_and_keeps_the_old_one() {
    let (place, environment) = place();
    let set = sample().root().join("packages");
    let base = ["--target", "gfx942", "--venv", text(&environment)];
    ran(&[&[text(&set)][..], &base].concat()).ok();
    let before = packages(&environment);
    let script = environment.join("bin/mine");
    fs_err::write(&script, "mine").unwrap();
    let broken = copy(&set, &place.path().join("broken"));
    fs_err::write(wheel(&broken, "rocm_sdk_device_gfx1100"), "no wheel").unwrap();
    let arguments = [text(&broken), "--target", "gfx1100"];
    for installer in ["uv", "pip"] {
        let new = place.path().join("new");
        let more = ["--installer", installer, "--venv", text(&new)];
        let refused = ran(&[&arguments[..], &more].concat());
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(!new.exists(), "{installer}");
    }
    let again = ["--recreate", "--venv", text(&environment)];
    assert_eq!(ran(&[&arguments[..], &again].concat()).code, 1);
    assert_eq!(packages(&environment), before);
    assert_eq!(fs_err::read_to_string(&script).unwrap(), "mine");
    assert_eq!(fs_err::read_dir(place.path()).unwrap().count(), 2);
    ran(&[&[text(&set)][..], &["--target", "gfx942"], &again].concat()).ok();
    assert!(!script.exists());
    assert_eq!(fs_err::read_dir(place.path()).unwrap().count(), 2);
}

/// What an earlier version of this program left behind after a kill, and took as a reason to remove
/// the directory or to put an old one back.
#[test]
fn work_that_came_after_a_killed_install_stays() {
    let (place, environment) = place();
    let set = sample().root().join("packages");
    let from = [
        text(&set),
        "--target",
        "gfx942",
        "--venv",
        text(&environment),
    ];
    ran(&from).ok();
    fs_err::write(environment.join(".rocwheel-unfinished"), "").unwrap();
    let kept = place.path().join(".rocwheel-kept-venv with spaces");
    fs_err::create_dir(&kept).unwrap();
    fs_err::write(kept.join("old"), "").unwrap();
    fs_err::write(environment.join("bin/mine"), "mine").unwrap();
    ran(&from).ok();
    assert!(environment.join("bin/mine").exists());
    assert!(kept.join("old").exists());
    // A directory that never was an environment.
    let thesis = place.path().join("thesis");
    fs_err::create_dir(&thesis).unwrap();
    fs_err::write(thesis.join(".rocwheel-unfinished"), "").unwrap();
    fs_err::write(thesis.join("text"), "years").unwrap();
    let refused = ran(&[
        text(&set),
        "--target",
        "gfx942",
        "--recreate",
        "--venv",
        text(&thesis),
    ]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert_eq!(fs_err::read_dir(&thesis).unwrap().count(), 2);
    // One that has more than an environment.
    fs_err::create_dir(environment.join(".git")).unwrap();
    let refused = ran(&[&from[..], &["--recreate"]].concat());
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let error = "has `.rocwheel-unfinished`, which is not part of a virtual environment";
    let git = "has `.git`, which is not part of a virtual environment";
    let told = &refused.stderr;
    assert!(told.contains(error) || told.contains(git), "{told}");
    assert!(environment.join("bin/mine").exists());
}

#[test]
fn an_environment_never_has_packages_of_two_versions() {
    let (place, environment) = place();
    let set = sample().root().join("packages");
    let later = place.path().join("later");
    let arguments = ["pipeline", "--sample", "--version", "0.0.2", "--output-dir"];
    rocwheel(&[&arguments[..], &[text(&later)]].concat()).ok();
    let later = later.join("packages");
    let at = ["--venv", text(&environment)];
    let first = ["--target", "gfx942,gfx1100", "--extras", "libraries,devel"];
    ran(&[&[text(&set)][..], &first, &at].concat()).ok();
    let next = [&[text(&later)][..], &["--target", "gfx942"], &at].concat();
    // The new set is not complete.
    let hidden = wheel(&later, "rocm_sdk_devel");
    fs_err::rename(&hidden, place.path().join("hidden")).unwrap();
    fs_err::remove_file(later.join("set.json")).unwrap();
    let refused = ran(&next);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let error = format!("has `rocm-sdk-devel` {VERSION}, and `");
    assert!(refused.stderr.contains(&error), "{}", refused.stderr);
    assert!(
        packages(&environment)
            .iter()
            .all(|it| it.ends_with(VERSION))
    );

    fs_err::rename(place.path().join("hidden"), &hidden).unwrap();
    ran(&next).ok();
    let installed = packages(&environment);
    assert_eq!(installed.len(), 6, "{installed:?}");
    assert!(
        installed.iter().all(|it| it.ends_with("-0.0.2")),
        "{installed:?}"
    );
    // A framework that is tied to its version of ROCm, and stays.
    let site = environment.join("lib");
    let site = fs_err::read_dir(site)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let info = site.join("site-packages/torch-2.10+rocm0.0.2.dist-info");
    fs_err::create_dir(&info).unwrap();
    let metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 2.10+rocm0.0.2\n\
        Requires-Dist: rocm[libraries]==0.0.2\n";
    fs_err::write(info.join("METADATA"), metadata).unwrap();
    let back = ran(&[&[text(&set)][..], &["--target", "gfx942"], &at].concat());
    assert_eq!(back.code, 1, "{}", back.stderr);
    let error =
        format!("has `torch` 2.10+rocm0.0.2, which needs `rocm` ==0.0.2, and not {VERSION}");
    assert!(back.stderr.contains(&error), "{}", back.stderr);
    assert!(
        packages(&environment)
            .iter()
            .all(|it| !it.ends_with(VERSION))
    );
}

#[test]
fn a_damaged_file_is_not_the_one_of_the_cache() {
    let (place, environment) = place();
    let local = copy(&sample().root().join("packages"), &place.path().join("set"));
    let from = [
        text(&local),
        "--target",
        "gfx942",
        "--installer",
        "uv",
        "--venv",
        text(&environment),
    ];
    let run = || {
        let mut command = install(&from);
        command.env("UV_CACHE_DIR", place.path().join("cache"));
        Outcome::of(command.output().unwrap())
    };
    run().ok();
    assert_eq!(packages(&environment), expected(&["gfx942"]));
    // What uv has unpacked before has the promised digest, and may be installed again.
    fs_err::remove_dir_all(&environment).unwrap();
    replace(&wheel(&local, "rocm_sdk_libraries"));
    run();
    let mut files = walkdir::WalkDir::new(&environment).into_iter().flatten();
    assert!(files.all(|it| it.file_name() != "evil.py"));
}

#[test]
fn a_set_is_named_by_its_directory_and_by_the_addresses_that_commands_print() {
    let (_place, environment) = place();
    let set = sample().place();
    let address = format!("file://{}/", set.display());
    for place in [text(&set), &address, &format!("{address}simple/")] {
        let plan = ran(&[
            place,
            "--target",
            "none",
            "--dry-run",
            "--venv",
            text(&environment),
        ])
        .ok();
        assert!(plan.starts_with(&format!("ROCm {VERSION} ")), "{plan}");
    }
    let refused = ran(&["7", "--target", "none"]);
    assert_eq!(refused.code, 2);
    let hint = "if `7` is a run, pass `--run-id 7`";
    assert!(refused.stderr.contains(hint), "{}", refused.stderr);
}

/// The command of a plan, pasted into a shell.
fn pasted(plan: &str) -> Outcome {
    let (_, lines) = plan.split_once("The same by hand:\n").unwrap();
    let lines: Vec<&str> = lines
        .lines()
        .map(|it| it.strip_prefix("  ").unwrap_or(it))
        .collect();
    let judges = tool("uv").parent().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap();
    let mut shell = std::process::Command::new("sh");
    shell.env("PATH", format!("{}:{path}", judges.display()));
    let place = tempfile::tempdir().unwrap();
    shell
        .current_dir(place.path())
        .args(["-ec", &lines.join("\n")]);
    Outcome::of(shell.output().unwrap())
}

#[test]
fn a_dry_run_prints_lines_that_can_be_pasted() {
    let set = sample().root().join("packages");
    for installer in ["uv", "pip"] {
        let (_place, environment) = place();
        let more = ["--target", "gfx942", "--installer", installer, "--dry-run"];
        let plan = ran(&[&[text(&set)][..], &more, &["--venv", text(&environment)]].concat()).ok();
        pasted(&plan).ok();
        assert_eq!(packages(&environment), expected(&["gfx942"]), "{plan}");
    }
}
