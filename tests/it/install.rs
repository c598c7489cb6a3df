//! `install`, seen by the installers that it runs.

mod emitted;
mod environments;
mod judged;
mod machines;
pub(crate) mod registries;
mod runs;
mod stopped;
mod streams;

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use rocwheel::digest::Sha256;

use crate::{
    judges::tool,
    publish,
    support::{
        place::text,
        program::{Outcome, command},
        published::{VERSION, sample, sets},
    },
};

/// The judges' programs, and no settings of this machine but where its packages come from.
fn install(arguments: &[&str]) -> Command {
    let mut command = command();
    let judges = tool("uv").parent().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", judges.display()));
    command.env(
        "UV_CACHE_DIR",
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("uv-cache"),
    );
    command.arg("install").args(arguments);
    command
}

fn ran(arguments: &[&str]) -> Outcome {
    Outcome::of(install(arguments).output().unwrap())
}

/// A shell script that is a program. Returns its path.
fn program(path: &Path, script: &str) -> String {
    fs_err::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs_err::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    text(path).to_owned()
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let environment = place.path().join("venv with spaces");
    (place, environment)
}

/// The packages of an environment, as their directories say.
fn packages(environment: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in walkdir(&environment.join("lib")) {
        let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
        found.extend(name.strip_suffix(".dist-info").map(str::to_owned));
    }
    found.retain(|it| it.starts_with("rocm") || it.starts_with("old"));
    found.sort();
    found
}

fn walkdir(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for python in fs_err::read_dir(root).unwrap() {
        let site = python.unwrap().path().join("site-packages");
        for entry in fs_err::read_dir(site).unwrap() {
            found.push(entry.unwrap().path());
        }
    }
    found
}

fn expected(targets: &[&str]) -> Vec<String> {
    let devices = targets.iter().map(|it| format!("rocm_sdk_device_{it}"));
    let others = ["rocm", "rocm_sdk_core", "rocm_sdk_libraries"];
    let all = others.iter().map(|it| (*it).to_owned()).chain(devices);
    let mut all: Vec<String> = all.map(|it| format!("{it}-{VERSION}")).collect();
    all.sort();
    all
}

#[test]
fn every_set_installs_for_one_target_with_uv() {
    for set in sets() {
        let (_place, environment) = place();
        let packages_dir = set.root().join("packages");
        let arguments = ["--set", text(&packages_dir), "--target", set.targets[0]];
        let python = ran(&[&arguments[..], &["--venv", text(&environment)]].concat()).ok();
        assert_eq!(Path::new(python.trim()), environment.join("bin/python"));
        assert_eq!(packages(&environment), expected(&set.targets[..1]));
        let names: Vec<_> = fs_err::read_dir(environment.parent().unwrap())
            .unwrap()
            .collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }
}

/// uv is not asked for the version of Python before it has made the environment.
#[test]
fn a_python_that_no_wheel_supports_is_refused_and_leaves_nothing() {
    let (place, environment) = place();
    let set = place.path().join("packages");
    let wheel = publish::packages::wheel(&set, "demo", "1.0", "");
    fs_err::rename(wheel, set.join("demo-1.0-cp39-cp39-linux_x86_64.whl")).unwrap();
    for installer in ["uv", "pip"] {
        let what = [
            "--target",
            "none",
            "--package",
            "demo",
            "--installer",
            installer,
        ];
        let refused = ran(&[
            &["--set", text(&set)],
            &what[..],
            &["--venv", text(&environment)],
        ]
        .concat());
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        let error = "error: `demo` 1.0 has no wheel for `/";
        assert!(refused.stderr.starts_with(error), "{}", refused.stderr);
        let hint = "it has wheels for cp39: name another Python with `--python`";
        assert!(refused.stderr.contains(hint), "{}", refused.stderr);
        let mut left = fs_err::read_dir(place.path()).unwrap();
        assert!(left.all(|it| it.unwrap().path() == set));
    }
}

#[test]
fn what_the_set_does_not_have_is_refused_before_anything_is_made() {
    let (place, environment) = place();
    let set = sample().place();
    let old = program(
        &place.path().join("python3.8"),
        "echo /old/python\necho 3.8.2\necho cpython",
    );
    let refused = |more: &[&str]| {
        let arguments = [
            &["--set", text(&set)],
            more,
            &["--venv", text(&environment)],
        ]
        .concat();
        let refused = ran(&arguments);
        assert!(!environment.exists(), "{more:?}");
        let said = format!("{more:?} {}\n{}", refused.code, refused.stderr);
        said.replace(text(&set), "SET")
            .replace(text(place.path()), "PLACE")
    };
    let refusals = [
        refused(&["--target", "gfx950"]),
        refused(&["--target", "gfx94x"]),
        refused(&["--target", "gfx120X-all"]),
        refused(&["--target", "none", "--extras", "libaries"]),
        refused(&["--no-detection"]),
        refused(&["--target", "none", "--version", "9.9"]),
        refused(&["--target", "none", "--package", "torch"]),
        refused(&[
            "--target",
            "none",
            "--package",
            "torch",
            "--deps",
            "https://pypi.org/simple",
        ]),
        refused(&["--run-id", "7"]),
        refused(&["--latest"]),
        refused(&["--stream", "nightly"]),
        refused(&["--target", "none", "--activate"]),
        refused(&["--target", "none", "--python", &old]),
        refused(&["--target", "none", "--python", "./no-such-python"]),
        refused(&[
            "--target",
            "none",
            "--package",
            "torch ==",
            "--deps",
            "none",
        ]),
    ];
    insta::assert_snapshot!(refusals.concat());
}

#[test]
fn a_target_is_named_in_every_form() {
    let set = sample().root().join("packages");
    for (name, installed) in [
        ("GFX942", "gfx942"),
        ("gfx942:xnack+", "gfx942"),
        ("gfx94x-DCGPU", "gfx942"),
        ("gfx11", "gfx1100"),
        ("gfx9-4-generic,gfx1100", "gfx942, gfx1100"),
        ("all", "gfx942, gfx1100"),
    ] {
        let arguments = ["--set", text(&set), "--target", name, "--dry-run"];
        let plan = ran(&arguments).ok();
        let first = format!("ROCm {VERSION} for {installed}, from ");
        assert!(plan.starts_with(&first), "{name}: {plan}");
    }
    // The directory around the packages.
    let around = ran(&["--set", text(sample().root()), "--target", "gfx942"]);
    let hint = format!("hint: pass `{}`, which has packages\n", set.display());
    assert!(around.stderr.ends_with(&hint), "{}", around.stderr);
}

#[test]
fn what_is_no_environment_is_not_touched() {
    let (place, environment) = place();
    let set = sample().place();
    let at = |name: &str| text(&place.path().join(name)).to_owned();
    fs_err::create_dir(at("thesis")).unwrap();
    fs_err::write(at("thesis/text"), "years").unwrap();
    let base = ["--set", text(&set), "--target", "gfx942"];
    ran(&[&base[..], &["--venv", text(&environment)]].concat()).ok();
    let refused = |directory: &str, more: &[&str]| {
        let refused = ran(&[&base[..], more, &["--venv", directory]].concat());
        let stderr = refused.stderr.replace(text(place.path()), "PLACE");
        format!("{}\n{stderr}", refused.code)
    };
    let versions = regex::Regex::new("Python 3[.0-9]+").unwrap();
    let refusals = [
        refused(&at("thesis"), &[]),
        refused(&at("thesis"), &["--recreate"]),
        refused(&at("thesis/text"), &[]),
        refused(&at("line\nbreak"), &[]),
        refused("/", &[]),
        refused(text(&environment), &["--python", "3.8"]),
    ];
    insta::assert_snapshot!(versions.replace_all(&refusals.concat(), "Python 3.X"));
    assert_eq!(fs_err::read_to_string(at("thesis/text")).unwrap(), "years");
    assert_eq!(packages(&environment), expected(&["gfx942"]));
    assert_eq!(fs_err::read_dir(place.path()).unwrap().count(), 2);
}

#[test]
fn a_dry_run_prints_everything_and_makes_nothing() {
    let (place, environment) = place();
    let set = sample().place();
    let arguments = [
        "--set",
        text(&set),
        "--target",
        "gfx942,gfx1100",
        "--dry-run",
    ];
    let plan = ran(&[&arguments[..], &["--venv", text(&environment)]].concat()).ok();
    assert_eq!(fs_err::read_dir(place.path()).unwrap().count(), 0);
    let python = plan
        .lines()
        .nth(1)
        .unwrap()
        .split('`')
        .nth(3)
        .unwrap()
        .to_owned();
    let version = plan
        .lines()
        .nth(1)
        .unwrap()
        .split("Python ")
        .nth(1)
        .unwrap();
    let version = version.split(' ').next().unwrap().to_owned();
    let plan = plan.replace(&python, "PYTHON").replace(&version, "3.X");
    let encoded = text(&environment).replace(' ', "%20");
    let plan = plan
        .replace(text(&environment), "VENV")
        .replace(&encoded, "VENV");
    let plan = plan.replace(text(&set), "SET");
    let digests = regex::Regex::new("sha256:[0-9a-f]{64}").unwrap();
    let plan = digests.replace_all(&plan, "sha256:DIGEST");
    insta::assert_snapshot!(plan);
}

/// An index with the placeholder that the public registry has for the name, beside the set, in both
/// orders: as the index of other packages, and as a page that an installer's own settings name.
#[test]
fn the_placeholder_of_the_registry_is_never_installed() {
    let place = tempfile::tempdir().unwrap();
    let registry = registry(place.path());
    let set = sample().root().join("packages");
    for installer in ["uv", "pip"] {
        for settings in [
            &[][..],
            &[
                ("PIP_EXTRA_INDEX_URL", &registry),
                ("UV_INDEX", &registry),
                ("PIP_PRE", &"0".to_owned()),
            ],
        ] {
            let environment = place.path().join(installer);
            let mut command = install(&["--set", text(&set), "--target", "gfx942"]);
            command.args(["--deps", &registry, "--installer", installer, "--recreate"]);
            command.arg("--venv").arg(&environment);
            for (name, value) in settings {
                command.env(name, value);
            }
            Outcome::of(command.output().unwrap()).ok();
            assert_eq!(packages(&environment), expected(&["gfx942"]), "{installer}");
        }
    }
}

/// A `simple/` index with `rocm` 0.1.0 and `rocm-sdk-core` 0.1.0, as wheels.
fn registry(root: &Path) -> String {
    for name in ["rocm", "rocm_sdk_core", "rocm_sdk_libraries"] {
        let project = name.replace('_', "-");
        let directory = root.join("registry/simple").join(&project);
        fs_err::create_dir_all(&directory).unwrap();
        let wheel = format!("{name}-0.1.0-py3-none-any.whl");
        let info = format!("{name}-0.1.0.dist-info");
        let metadata = format!(
            "Metadata-Version: 2.1\nName: {project}\nVersion: 0.1.0\nProvides-Extra: libraries\nProvides-Extra: device-gfx942\n"
        );
        let tags = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
        let record = format!("{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n");
        let file = fs_err::File::create(directory.join(&wheel)).unwrap();
        let mut zip = zip::ZipWriter::new(file);
        for (member, body) in [
            ("METADATA", metadata.as_str()),
            ("WHEEL", tags),
            ("RECORD", &record),
        ] {
            let options = zip::write::SimpleFileOptions::default();
            zip.start_file(format!("{info}/{member}"), options).unwrap();
            std::io::Write::write_all(&mut zip, body.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
        let page = format!("<!DOCTYPE html><a href=\"{wheel}\">{wheel}</a>");
        fs_err::write(directory.join("index.html"), page).unwrap();
    }
    format!("file://{}/", root.join("registry/simple").display())
}

#[test]
fn the_next_steps_of_a_job_learn_of_the_environment() {
    let (place, environment) = place();
    let set = sample().place();
    let file = |name: &str| place.path().join(name);
    let mut command = install(&[
        "--set",
        text(&set),
        "--target",
        "gfx942",
        "--activate",
        "--test",
        "libs",
    ]);
    command
        .env("GITHUB_PATH", file("path"))
        .env("GITHUB_ENV", file("env"));
    command
        .env("GITHUB_OUTPUT", file("output"))
        .arg("--venv")
        .arg(&environment);
    Outcome::of(command.output().unwrap()).ok();
    let path = fs_err::read_to_string(file("path")).unwrap();
    assert_eq!(Path::new(path.trim_end()), environment.join("bin"));
    let variables = fs_err::read_to_string(file("env")).unwrap();
    assert!(variables.contains(text(&environment)), "{variables}");
    let outputs = fs_err::read_to_string(file("output")).unwrap();
    let output = |name: &str| {
        let (_, rest) = outputs.split_once(&format!("{name}<<")).unwrap();
        rest.lines().nth(1).unwrap().to_owned()
    };
    assert_eq!(output("venv"), text(&environment));
    assert_eq!(output("python"), text(&environment.join("bin/python")));
    assert_eq!(output("version"), VERSION);
    assert_eq!(output("targets"), "gfx942");
    // The key of a cache is that of the files: `sha256sum` prints such lines.
    let files = set.join("SHA256SUMS");
    let files = fs_err::read_to_string(files).unwrap();
    let begins = [
        "rocm-",
        "rocm_sdk_core-",
        "rocm_sdk_libraries-",
        "rocm_sdk_device_gfx942-",
    ];
    let is_installed = |name: &str| begins.iter().any(|it| name.starts_with(it));
    let lines = files.lines().filter_map(|it| it.split_once("  dist/"));
    let lines = lines.filter(|(_, name)| is_installed(name) && !name.ends_with(".metadata"));
    let mut lines: Vec<String> = lines
        .map(|(sha256, name)| format!("{sha256}  {name}\n"))
        .collect();
    lines.sort();
    assert_eq!(lines.len(), 4, "{files}");
    let digest = Sha256::of(lines.concat().as_bytes()).to_string();
    let key = output("cache-key");
    let (start, end) = key.rsplit_once('-').unwrap();
    assert!(start.starts_with("rocwheel-linux-cp3"), "{key}");
    assert_eq!(end, &digest[..16]);
}
