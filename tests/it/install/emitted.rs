//! `install --emit`: pins in the forms of other tools, which install the same packages.

use super::{assert_installed, built, sandbox, site, streams::publish_index};
use crate::publish::packages::wheel;
use crate::support::prelude::*;
use crate::support::{
    published::{VERSION, sets_in_turn},
    web::{Manner, UNDER_SLASH},
};

fn uv(t: &Sandbox, arguments: &str) {
    let mut command = Command::new(tool("uv"));
    command.args(arguments.split(' ')).current_dir(t.path(""));
    command.env("UV_CACHE_DIR", t.path("cache"));
    succeed(command.env_remove("VIRTUAL_ENV"));
}

fn emitted(t: &Sandbox, source: &str, form: &str, more: &str) -> String {
    let line = format!("install {source} --emit {form} {more}");
    t.run(&line).ok()
}

/// From a directory, from a set on a server, and from its index.
#[test]
#[ignore = "slow"]
fn requirements_and_pylocks_install_the_same_with_pip_and_uv() {
    for number in 0..3 {
        let t = sandbox();
        let set = sets_in_turn(number)[0];
        let server = Server::start(Site::Directory(set.place()));
        let (local, index) = (built(set), format!("{}simple/", server.url));
        let source = [text(&local), &server.url, &index][number];
        let (targets, target) = (&set.targets[..1], format!("--target {}", set.targets[0]));
        let requirements = emitted(&t, source, "requirements", &target);
        assert_eq!(requirements.matches("--hash=sha256:").count(), 5);
        t.write("requirements.txt", requirements);
        t.write("pylock.toml", emitted(&t, source, "pylock", &target));
        for (name, file) in [("uv", "requirements.txt"), ("lock", "pylock.toml")] {
            uv(&t, &format!("venv --quiet {name}"));
            let install = format!("pip install --quiet --no-config --python {name} -r {file}");
            uv(&t, &install);
            assert_installed(&t.path(name), targets);
        }
        if number == 2 || long::is_on() {
            uv(&t, "venv --quiet --seed pip");
            let mut pip = Command::new(t.path("pip/bin/python"));
            pip.args(["-m", "pip", "install", "--quiet", "-r", "requirements.txt"]);
            succeed(pip.current_dir(t.path("")));
            assert_installed(&t.path("pip"), targets);
        }
    }
}

/// On a server that answers directories with something else than a page, as some servers of buckets do.
#[test]
fn a_page_is_read_where_installers_cannot_read_the_index() {
    let t = sandbox();
    let place = t.path("place");
    copy_tree(&sample().place(), &place);
    let mut directories = vec![place.clone()];
    while let Some(directory) = directories.pop() {
        fs_err::write(directory.join(UNDER_SLASH), "{}").unwrap();
        let entries = fs_err::read_dir(directory).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        directories.extend(paths.filter(|path| path.is_dir()));
    }
    let server = Server::of_directory(&place, Manner::Ranges);
    let page = format!("{}dist/index.html", server.url);
    let emit = || emitted(&t, &page, "requirements", "--target none");
    let pins = emit();
    assert_has!(pins, &format!("--find-links {page}"));
    assert_lacks!(pins, "--index-url");
    fs_err::remove_file(place.join("set.json")).unwrap();
    assert_eq!(emit(), pins);
    assert_eq!(emitted(&t, &server.url, "requirements", "--target none"), pins);
}

#[test]
#[ignore = "slow"]
fn packages_of_others_are_pinned_too() {
    let t = sandbox();
    wheel(&t.path("packages"), "torch", "2.0", "Requires-Dist: filelock\n");
    wheel(&t.path("packages"), "filelock", "2.0", "");
    let more = "--package torch --target none";
    for installer in ["uv", "pip"] {
        let more = format!("{more} --installer {installer}");
        let requirements = emitted(&t, "packages", "requirements", &more);
        assert_has!(
            requirements,
            "torch==2.0 \\\n    --hash=sha256:",
            "filelock==2.0 \\\n    --hash=sha256:",
        );
    }
    let lock = emitted(&t, "packages", "pylock", more);
    assert_has!(lock, "name = \"filelock\"");
}

#[test]
fn a_framework_for_another_rocm_is_not_taken() {
    let t = sandbox();
    let dist = t.path("packages/dist");
    fs_err::create_dir_all(&dist).unwrap();
    copy_files(&sample().dist(), &dist);
    for version in ["2.12.0+rocm7.15.0", "2.12.0+rocm10.1.0"] {
        wheel(&dist, "torch", version, "");
    }
    let line = "install packages --target none --dry-run --package torch";
    assert_has!(
        t.run(line).refused(1),
        &format!("has no `torch` for ROCm {VERSION}"),
        "it has 2.12.0+rocm10.1.0, 2.12.0+rocm7.15.0: ",
    );
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
    for version in ["0.29.0a0+rocm10.1.0", "0.28.0+rocm7.14.0", "0.29.0+rocm7.15.0"] {
        wheel(&dist, "torchvision", version, "");
    }
    let index = t.path("mirror/stable.repo.amd.com/rocm/whl-next");
    publish_index(&index, &dist);
    let server = Server::start(Site::Directory(t.path("mirror")));
    let t = t.with("ROCWHEEL_STREAM_MIRROR", &server.url);
    for installer in ["uv", "pip"] {
        let line = "install --stream stable --package torchvision --target gfx942";
        let line = format!("{line} --installer {installer} --venv {installer}");
        t.run(&line).ok();
        let info = "torchvision-0.29.0a0+rocm10.1.0.dist-info";
        assert!(site(&t.path(installer)).join(info).is_dir(), "{installer}");
    }
}

/// A project with the block of `--emit uv`, which uv installs: from a directory, from a page and from an index.
#[test]
#[ignore = "slow"]
fn a_project_takes_rocm_from_its_index_and_the_rest_from_the_usual_one() {
    let t = sandbox();
    // Outside of the sandbox, whose path is replaced in what programs print.
    let outside = tempfile::tempdir().unwrap();
    let place = outside.path().join("place");
    copy_tree(&sample().place(), &place);
    let torch = format!("2.13.0+rocm{VERSION}");
    wheel(&place.join("dist"), "torch", &torch, &format!("Requires-Dist: rocm=={VERSION}\n"));
    t.run(&format!("index {}", place.display())).ok();
    // What a user of the public registry would get.
    let registry = t.path("registry");
    wheel(&registry, "torch", "2.99.0", "");
    wheel(&registry, "rocm", "9.9.9", "");
    let server = Server::start(Site::Directory(place.clone()));
    let page = format!("{}dist/index.html", server.url);
    for (number, source) in [text(&place), &server.url, &page].into_iter().enumerate() {
        let more = "--target gfx942 --package torch";
        let block = emitted(&t, source, "uv", more);
        assert_has!(
            block,
            "\"torch==2.13.0+rocm",
            "[tool.uv.sources]",
            "rocm-sdk-core = { index = \"rocm\" }"
        );
        let project = format!("project{number}");
        let head = "[project]\nname = \"p\"\nversion = \"1\"\nrequires-python = \">=3.10\"\n";
        let body = block.replace("[project]\n", head);
        t.write(&format!("{project}/pyproject.toml"), body);
        uv(&t, &format!("sync --quiet --project {project} --find-links {}", text(&registry)));
        let environment = t.path(&project).join(".venv");
        assert_installed(&environment, &["gfx942"]);
        let info = format!("torch-{torch}.dist-info");
        assert!(site(&environment).join(info).is_dir(), "{source}");
    }
}

/// pip, asked for what would bring the torch of another index.
#[test]
#[ignore = "slow"]
fn constraints_keep_the_torch_of_rocm() {
    let t = sandbox();
    let place = t.path("place");
    copy_tree(&sample().place(), &place);
    let torch = format!("2.13.0+rocm{VERSION}");
    wheel(&place.join("dist"), "torch", &torch, "");
    t.run("index place").ok();
    wheel(&t.path("registry"), "torch", "2.99.0", "");
    wheel(&t.path("registry"), "model", "1.0", "Requires-Dist: torch>=2\n");
    let constraints = emitted(&t, "place", "constraints", "--target gfx942 --package torch");
    assert_has!(constraints, &format!("torch=={torch}\n"), &format!("rocm-sdk-core=={VERSION}\n"));
    t.write("constraints.txt", constraints);
    t.write("requirements.txt", "model\n");
    uv(&t, "venv --quiet --seed plain");
    let links = "--no-index --find-links registry --find-links place/dist";
    for (program, line) in [
        ("uv", "pip install --quiet --no-config --python plain"),
        ("plain/bin/python", "-m pip install --quiet"),
    ] {
        let program = if program == "uv" { tool("uv") } else { t.path(program) };
        let mut command = Command::new(program);
        let words = format!("{line} {links} -r requirements.txt -c constraints.txt");
        command.args(words.split(' ')).current_dir(t.path("")).env_remove("VIRTUAL_ENV");
        succeed(command.env("UV_CACHE_DIR", t.path("cache")));
        assert!(site(&t.path("plain")).join(format!("torch-{torch}.dist-info")).is_dir());
    }
}
