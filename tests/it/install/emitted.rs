//! `install --emit`: pins in the forms of other tools, which install the same packages.

use std::{path::Path, process::Command};

use super::{expected, packages, sandbox, streams::publish_index};
use crate::{
    judges::tool,
    publish,
    support::{
        long,
        place::{copy_files, text},
        program::succeed,
        published::{VERSION, sample, sets_in_turn},
        sandbox::Sandbox,
        web::{Server, Site},
    },
};

fn uv(t: &Sandbox, arguments: &str) {
    let mut command = Command::new(tool("uv"));
    command.args(arguments.split(' ')).current_dir(t.path(""));
    command
        .env("UV_CACHE_DIR", t.path("cache"))
        .env_remove("VIRTUAL_ENV");
    succeed(&mut command);
}

fn emitted(t: &Sandbox, source: &str, form: &str, more: &str) -> String {
    t.run(&format!("install {source} --emit {form} {more}"))
        .ok()
}

/// From a directory, from a set on a server, and from its index.
#[test]
#[ignore = "slow"]
fn requirements_and_pylocks_install_the_same_with_pip_and_uv() {
    for number in 0..3 {
        let t = sandbox();
        let set = sets_in_turn(number)[0];
        let server = Server::start(Site::Directory(set.place()));
        let (local, index) = (
            set.root().join("packages"),
            format!("{}simple/", server.url),
        );
        let source = [text(&local), &server.url, &index][number];
        let target = format!("--target {}", set.targets[0]);
        let requirements = emitted(&t, source, "requirements", &target);
        assert_eq!(
            requirements.matches("--hash=sha256:").count(),
            4,
            "{requirements}"
        );
        t.write("requirements.txt", requirements);
        t.write("pylock.toml", emitted(&t, source, "pylock", &target));
        for (name, file) in [("uv", "requirements.txt"), ("lock", "pylock.toml")] {
            uv(&t, &format!("venv --quiet {name}"));
            uv(
                &t,
                &format!("pip install --quiet --no-config --python {name} -r {file}"),
            );
            assert_eq!(
                packages(&t.path(name)),
                expected(&[set.targets[0]]),
                "{name} {source}"
            );
        }
        if number == 2 || long::is_on() {
            uv(&t, "venv --quiet --seed pip");
            let mut pip = Command::new(t.path("pip/bin/python"));
            pip.args(["-m", "pip", "install", "--quiet", "-r", "requirements.txt"]);
            succeed(pip.current_dir(t.path("")));
            assert_eq!(
                packages(&t.path("pip")),
                expected(&[set.targets[0]]),
                "{source}"
            );
        }
    }
}

#[test]
#[ignore = "slow"]
fn packages_of_others_are_pinned_too() {
    let t = sandbox();
    for (name, needs) in [("torch", "Requires-Dist: filelock\n"), ("filelock", "")] {
        publish::packages::wheel(&t.path("packages"), name, "2.0", needs);
    }
    let more = "--package torch --target none";
    for installer in ["uv", "pip"] {
        let more = format!("{more} --installer {installer}");
        let requirements = emitted(&t, "packages", "requirements", &more);
        for line in [
            "torch==2.0 \\\n    --hash=sha256:",
            "filelock==2.0 \\\n    --hash=sha256:",
        ] {
            assert!(requirements.contains(line), "{requirements}");
        }
    }
    let lock = emitted(&t, "packages", "pylock", more);
    assert!(lock.contains("name = \"filelock\""), "{lock}");
}

#[test]
fn a_framework_for_another_rocm_is_not_taken() {
    let t = sandbox();
    fs_err::create_dir_all(t.path("packages/dist")).unwrap();
    copy_files(&sample().dist(), &t.path("packages/dist"));
    for version in ["2.12.0+rocm7.15.0", "2.12.0+rocm10.1.0"] {
        publish::packages::wheel(&t.path("packages/dist"), "torch", version, "");
    }
    let line = "install packages --target none --dry-run --package torch";
    let refused = t.run(line);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let error = format!("has no `torch` for ROCm {VERSION}");
    assert!(refused.stderr.contains(&error), "{}", refused.stderr);
    let versions = "it has 2.12.0+rocm10.1.0, 2.12.0+rocm7.15.0: ";
    assert!(refused.stderr.contains(versions), "{}", refused.stderr);
    t.run(&format!("{line}==2.12.0+rocm10.1.0")).ok();
}

/// The torchvision of ROCm 10.1.0, which is stable: pip and uv take such a version only if they must.
#[test]
#[ignore = "slow"]
fn a_prerelease_of_a_framework_in_a_stable_stream_is_installed() {
    let t = sandbox();
    let set = "pipeline --sample --version 10.1.0 --output-dir made";
    t.run(set).ok();
    let dist = t.path("made/packages/dist");
    for version in [
        "0.29.0a0+rocm10.1.0",
        "0.28.0+rocm7.14.0",
        "0.29.0+rocm7.15.0",
    ] {
        publish::packages::wheel(&dist, "torchvision", version, "");
    }
    publish_index(
        &t.path("mirror/stable.repo.amd.com/rocm/whl-next"),
        &dist,
        |_| true,
    );
    let server = Server::start(Site::Directory(t.path("mirror")));
    let t = t.with("ROCWHEEL_STREAM_MIRROR", &server.url);
    for installer in ["uv", "pip"] {
        let line = "install --stream stable --package torchvision --target gfx942";
        let line = format!("{line} --installer {installer}");
        t.run(&format!("{line} --venv {installer}")).ok();
        let info = "torchvision-0.29.0a0+rocm10.1.0.dist-info";
        assert!(
            super::site(Path::new(&t.path(installer)))
                .join(info)
                .is_dir(),
            "{installer}"
        );
    }
}
