//! The guide of docs/framework.md: its commands run in order, for a framework in C.

use super::members;
use crate::support::prelude::*;
use crate::{
    docs::commands_of,
    support::{noise, published::once},
};

/// Compiled in, so that a change of the guide is a change of this program, and it is followed again.
const PAGE: &str = include_str!("../../../docs/framework.md");

/// What the libraries of the sample return together, if all of them are found.
pub(super) const ANSWER: &str = "15";

/// A framework in C, as its maintainer has it.
pub(crate) fn project(to: &Path) {
    for directory in ["", "fw", "src"] {
        fs_err::create_dir_all(to.join(directory)).unwrap();
        copy_files(&Path::new("tests/framework").join(directory), &to.join(directory));
    }
    // What clang would have made of kernels.
    let code = [("gfx942", noise(1, 60_000)), ("gfx1100", noise(2, 50_000))];
    fs_err::write(to.join("src/kernels.bundle"), bundles::raw(&code)).unwrap();
}

/// The guide, followed once: `dist` has the wheel as it was built, `tied` the tied one, and so on. The
/// environment that it was built in is gone, as it is on the machine of a user.
pub(crate) fn followed() -> PathBuf {
    once("framework-guide", |root| {
        project(root);
        std::os::unix::fs::symlink(sample().dist(), root.join("packages")).unwrap();
        let mut build = command();
        build.args(["build", "--version", "0.99.1", "--artifact-dir"]);
        build.arg(sample().artifacts()).arg("--dest-dir");
        succeed(build.arg(root.join("final")));
        succeed(command().arg("index").arg(root.join("final")));
        let environment = root.join("environment");
        succeed(
            Command::new(tool("uv"))
                .args(["venv", "--quiet", "--seed", "--python", "python3"])
                .arg(&environment),
        );
        let script = commands_of(PAGE).join("\n");
        let programs = [environment.join("bin/pip"), ROCWHEEL.into(), tool("uv")];
        let programs = programs.map(|it| it.parent().unwrap().to_owned());
        let path = std::env::var_os("PATH").unwrap();
        let path = programs.into_iter().chain(std::env::split_paths(&path));
        let index = format!("file://{}/simple/", sample().place().display());
        let mut shell = Command::new("sh");
        shell
            .args(["-eux", "-c", &script])
            .current_dir(root)
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("VIRTUAL_ENV", &environment)
            .envs(["ROCM_INDEX", "PIP_INDEX_URL", "UV_DEFAULT_INDEX"].map(|it| (it, &index)))
            .envs(["PIP_NO_CACHE_DIR", "UV_NO_CACHE"].map(|it| (it, "1")))
            .env_remove("UV_INDEX_URL")
            // Cargo says to tests what this program was built from.
            .env_remove("ROCWHEEL_COMMIT");
        let said = succeed(&mut shell).stdout;
        fs_err::write(root.join("said.txt"), said).unwrap();
        fs_err::remove_dir_all(environment).unwrap();
    })
}

/// The only file of a directory of the guide.
pub(super) fn only(directory: &str) -> PathBuf {
    let place = followed().join(directory);
    let mut entries = fs_err::read_dir(place).unwrap();
    let only = entries.next().unwrap().unwrap().path();
    assert!(entries.next().is_none());
    only
}

#[test]
#[ignore = "slow"]
fn the_guide_leads_to_a_published_tied_and_split_wheel() {
    let guide = followed();
    let said = fs_err::read_to_string(guide.join("said.txt")).unwrap();
    assert!(said.lines().any(|it| it == ANSWER), "{said}");
    let listed = |directory: &str| {
        let entries = fs_err::read_dir(guide.join(directory)).unwrap();
        let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|it| it.ends_with(".whl")).collect();
        names.sort();
        format!("{directory}: {}", names.join(" "))
    };
    let shown = ["dist", "tied", "published", "release"].map(listed);
    insta::assert_snapshot!(shown.join("\n"), @"
    dist: fw-1.0+devrocm0.99.1.dev0-py3-none-linux_x86_64.whl
    tied: fw-1.0+devrocm0.99.1.dev0-py3-none-linux_x86_64.whl
    published: amd_fw_device_gfx1100-1.0+devrocm0.99.1.dev0-py3-none-linux_x86_64.whl amd_fw_device_gfx942-1.0+devrocm0.99.1.dev0-py3-none-linux_x86_64.whl fw-1.0+devrocm0.99.1.dev0-py3-none-linux_x86_64.whl
    release: fw-1.0+rocm0.99.1-py3-none-linux_x86_64.whl
    ");
    // What was tested is what is released: no binary differs.
    let [tied, released] = ["tied", "release"].map(|it| members(&only(it)));
    for (path, _, bytes) in tied.iter().filter(|it| it.0.ends_with(".so")) {
        let there = released.iter().find(|it| it.0 == *path).unwrap();
        assert!(there.2 == *bytes, "{path}");
    }
}
