//! `install --emit`: pins in the forms of other tools, which install the same packages.

use std::{path::Path, process::Command};

use super::{expected, packages, ran};
use crate::{
    judges::tool,
    publish,
    support::{
        place::{copy_files, text},
        program::succeed,
        published::{VERSION, sample, sets},
        web::{Server, Site},
    },
};

fn run(program: &str, arguments: &[&str], at: &Path) {
    let mut command = Command::new(tool(program));
    command.args(arguments).current_dir(at);
    command
        .env("UV_CACHE_DIR", at.join("cache"))
        .env_remove("VIRTUAL_ENV");
    succeed(&mut command);
}

fn emitted(source: &str, form: &str, more: &[&str]) -> String {
    ran(&[&[source, "--emit", form][..], more].concat()).ok()
}

#[test]
fn requirements_and_pylocks_install_the_same_with_pip_and_uv() {
    for set in sets() {
        let local = set.root().join("packages");
        let server = Server::start(Site::Directory(set.place()));
        let index = format!("{}simple/", server.url);
        let target = ["--target", set.targets[0]];
        for source in [text(&local), server.url.as_str(), index.as_str()] {
            let place = tempfile::tempdir().unwrap();
            let at = place.path();
            let write = |name: &str, text: String| fs_err::write(at.join(name), text).unwrap();
            let requirements = emitted(source, "requirements", &target);
            assert_eq!(
                requirements.matches("--hash=sha256:").count(),
                4,
                "{requirements}"
            );
            write("requirements.txt", requirements);
            write("pylock.toml", emitted(source, "pylock", &target));
            let by = |name: &str, install: &dyn Fn(&str)| {
                let python = at.join(name).join("bin/python");
                run("uv", &["venv", "--quiet", "--seed", name], at);
                install(text(&python));
                assert_eq!(
                    packages(&at.join(name)),
                    expected(&[set.targets[0]]),
                    "{name} {source}"
                );
            };
            let common = ["pip", "install", "--quiet", "--no-config", "--python"];
            by("by uv", &|python| {
                run(
                    "uv",
                    &[&common[..], &[python, "-r", "requirements.txt"]].concat(),
                    at,
                );
            });
            by("by a lock", &|python| {
                run(
                    "uv",
                    &[&common[..], &[python, "-r", "pylock.toml"]].concat(),
                    at,
                );
            });
            by("by pip", &|python| {
                let mut pip = Command::new(python);
                pip.args(["-m", "pip", "install", "--quiet", "-r", "requirements.txt"]);
                succeed(pip.current_dir(at));
            });
        }
    }
}

#[test]
fn a_project_of_uv_locks_the_packages_of_the_set() {
    let server = Server::start(Site::Directory(sample().place()));
    for source in [
        format!("{}simple/", server.url),
        server.url.clone(),
        text(&sample().place()).to_owned(),
    ] {
        let place = tempfile::tempdir().unwrap();
        let lines = emitted(&source, "uv", &["--target", "gfx942"]);
        let named = "[project]\nname = \"demo\"\nversion = \"1\"\nrequires-python = \">=3.10\"\n";
        let file = lines.replace("[project]\n", named);
        fs_err::write(place.path().join("pyproject.toml"), file).unwrap();
        run("uv", &["sync", "--quiet"], place.path());
        assert_eq!(
            packages(&place.path().join(".venv")),
            expected(&["gfx942"]),
            "{lines}"
        );
    }
}

#[test]
fn packages_of_others_are_pinned_too() {
    let place = tempfile::tempdir().unwrap();
    let set = place.path().join("packages");
    for (name, needs) in [("torch", "Requires-Dist: filelock\n"), ("filelock", "")] {
        publish::packages::wheel(&set, name, "2.0", needs);
    }
    let more = ["--package", "torch", "--target", "none"];
    let requirements = emitted(text(&set), "requirements", &more);
    assert!(
        requirements.contains("torch==2.0 \\\n    --hash=sha256:"),
        "{requirements}"
    );
    assert!(
        requirements.contains("filelock==2.0 \\\n    --hash=sha256:"),
        "{requirements}"
    );
    let lock = emitted(text(&set), "pylock", &more);
    assert!(lock.contains("name = \"filelock\""), "{lock}");
}

#[test]
fn a_framework_for_another_rocm_is_not_taken() {
    let (place, environment) = super::place();
    let set = place.path().join("packages");
    fs_err::create_dir_all(set.join("dist")).unwrap();
    copy_files(&sample().dist(), &set.join("dist"));
    for version in ["2.12.0+rocm7.15.0", "2.12.0+rocm10.1.0"] {
        publish::packages::wheel(&set.join("dist"), "torch", version, "");
    }
    let from = [
        text(&set),
        "--target",
        "none",
        "--dry-run",
        "--venv",
        text(&environment),
    ];
    let refused = ran(&[&from[..], &["--package", "torch"]].concat());
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let error = format!("has no `torch` for ROCm {VERSION}");
    assert!(refused.stderr.contains(&error), "{}", refused.stderr);
    let versions = "it has 2.12.0+rocm10.1.0, 2.12.0+rocm7.15.0: ";
    assert!(refused.stderr.contains(versions), "{}", refused.stderr);
    ran(&[&from[..], &["--package", "torch==2.12.0+rocm10.1.0"]].concat()).ok();
}
