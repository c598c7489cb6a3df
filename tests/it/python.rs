//! The Python that ships: linted and typed. `all_pythons` has its tests.

pub(crate) mod legacy;

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use rocwheel::package::{
    Catalog,
    dist_info::{self, DeviceCodeForm, DistInfo},
    selector, templates,
};

use crate::{
    judges::tool,
    support::{place, program},
};

const SOURCES: &str = "src/package/python";
pub(crate) const TESTS: &str = "tests/python";
const CONFIG: &str = "tests/python/pyproject.toml";
/// The newest minor version of Python 3 that the packages are said to work on.
pub(crate) const NEWEST: u32 = 14;

#[test]
fn the_python_is_linted_and_formatted() {
    for arguments in [["check", "--no-cache"], ["format", "--check"]] {
        succeed(
            Command::new(tool("ruff"))
                .args(arguments)
                .args(["--config", CONFIG, SOURCES, TESTS]),
        );
    }
}

#[test]
fn the_python_is_typed_on_both_platforms_and_every_version() {
    let packages = place("typed");
    for logical in ["meta", "core", "libraries", "devel", "profiler"] {
        write_package(&packages, logical);
    }
    let builder = Path::new(SOURCES).join("rocm");
    for name in ["rocm_build.py", "setup.py"] {
        fs_err::copy(builder.join(name), packages.join(name)).unwrap();
    }
    for version in ["3.10", &format!("3.{NEWEST}")] {
        for platform in ["linux", "win32"] {
            succeed(
                Command::new(tool("mypy"))
                    .args(["--config-file", CONFIG, "--no-incremental"])
                    .args(["--python-version", version, "--platform", platform])
                    .arg(&packages),
            );
        }
    }
    succeed(
        Command::new(tool("mypy"))
            .args(["--config-file", CONFIG, "--no-incremental"])
            .env("MYPYPATH", &packages)
            .arg(TESTS),
    );
}

fn write_package(packages: &Path, logical: &str) {
    let name = match logical {
        "meta" => "rocm_sdk".to_owned(),
        "profiler" => "rocm_profiler".to_owned(),
        _ => format!("rocm_sdk_{logical}"),
    };
    let info = DistInfo {
        this_package: logical,
        ..info(&[], &[], &[], &[])
    };
    let mut files = vec![("_dist_info.py".to_owned(), dist_info::render(&info))];
    for (file, text) in templates::pure_package(info.catalog.get(logical).unwrap()) {
        files.push((file.to_owned(), text));
    }
    for (file, text) in files {
        write(&packages.join(&name).join(file), text.as_bytes());
    }
}

/// One sdist of each kind, unpacked.
pub(crate) fn write_sdists(place: &Path) {
    let texts =
        |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    let (all, linux, windows) = (
        texts(&["gfx1100", "gfx1201", "gfx942"]),
        texts(&["gfx1100", "gfx942"]),
        texts(&["gfx1100", "gfx1201"]),
    );
    let (single, families) = (
        texts(&["gfx942", "gfx942:xnack+"]),
        texts(&["gfx110X-all", "gfx94X-dcgpu"]),
    );
    let absent = texts(&["devel", "profiler"]);
    let legacy = DistInfo {
        form: DeviceCodeForm::Restricted,
        this_target: Some("gfx94X-dcgpu"),
        ..info(&families, &[], &[], &[])
    };
    for logical in ["core", "profiler"] {
        write_package(&place.join("packages"), logical);
    }
    for (name, info) in [
        ("both", info(&all, &linux, &windows, &[])),
        ("single", info(&single, &[], &[], &[])),
        ("none", info(&[], &[], &[], &[])),
        ("partial", info(&all, &linux, &[], &absent)),
        ("legacy", legacy),
    ] {
        for (path, bytes) in selector::files(&info).unwrap() {
            write(&place.join(name).join(path.as_str()), &bytes);
        }
    }
}

fn info<'a>(
    available: &'a [String],
    linux: &'a [String],
    windows: &'a [String],
    absent: &'a [String],
) -> DistInfo<'a> {
    static POLICY: LazyLock<Catalog> = LazyLock::new(|| Catalog::built_in().unwrap());
    DistInfo {
        catalog: &POLICY,
        version: "10.1.0",
        nonce: "",
        form: DeviceCodeForm::Split,
        default: available.first().map(String::as_str),
        available,
        linux,
        windows,
        absent,
        this_target: None,
        this_package: "meta",
        libraries_py_package: None,
    }
}

fn write(path: &Path, bytes: &[u8]) {
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, bytes).unwrap();
}

/// An empty directory of that name.
fn place(name: &str) -> PathBuf {
    place::empty(&format!("python/{name}"))
}

pub(crate) fn succeed(command: &mut Command) {
    program::succeed(command.current_dir(env!("CARGO_MANIFEST_DIR")));
}
