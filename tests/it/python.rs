//! The Python that ships: linted and typed. `all_pythons` has its tests.

pub(crate) mod legacy;

use rocwheel::{
    policy::{Catalog, DistributionMode, dist_info::DistInfo, selector, templates},
    target::{PlatformView, Scope},
};

use crate::support::prelude::*;
use crate::support::{place, program};

const SOURCES: &str = "src/policy/python";
pub(crate) const TESTS: &str = "tests/python";
const CONFIG: &str = "tests/python/pyproject.toml";
/// The newest minor version of Python 3 that the packages are said to work on.
pub(crate) const NEWEST: u32 = 14;

#[test]
fn the_python_is_linted_and_formatted() {
    for arguments in [["check", "--no-cache"], ["format", "--check"]] {
        let mut ruff = Command::new(tool("ruff"));
        ruff.args(arguments).args(["--config", CONFIG]);
        succeed(ruff.args([SOURCES, TESTS, "tests/framework", "tests/it/support/upstream_set"]));
    }
}

#[test]
#[ignore = "slow"]
fn the_python_is_typed_on_both_platforms_and_every_version() {
    let packages = place("typed");
    for logical in ["meta", "core", "libraries", "devel", "profiler"] {
        write_package(&packages, logical);
    }
    let builder = Path::new(SOURCES).join("rocm");
    for name in ["rocm_build.py", "setup.py"] {
        fs_err::copy(builder.join(name), packages.join(name)).unwrap();
    }
    let device = Path::new(SOURCES).join("device/device_build.py");
    fs_err::copy(device, packages.join("device_build.py")).unwrap();
    let mypy = || {
        let mut mypy = Command::new(tool("mypy"));
        mypy.args(["--config-file", CONFIG, "--no-incremental"]);
        mypy
    };
    for version in ["3.10", &format!("3.{NEWEST}")] {
        for platform in ["linux", "win32"] {
            let of = ["--python-version", version, "--platform", platform];
            succeed(mypy().args(of).arg(&packages));
        }
    }
    succeed(mypy().env("MYPYPATH", &packages).arg(TESTS));
}

fn write_package(packages: &Path, logical: &str) {
    let name = match logical {
        "meta" => "rocm_sdk".to_owned(),
        "profiler" => "rocm_profiler".to_owned(),
        _ => format!("rocm_sdk_{logical}"),
    };
    let info = info(&[], &[], &[], &[]);
    for (file, text) in templates::files(&info, info.catalog.get(logical).unwrap(), None).unwrap() {
        write(&packages.join(&name).join(file), text.as_bytes());
    }
}

/// One sdist of each kind, unpacked.
pub(crate) fn write_sdists(place: &Path) {
    let all = ["gfx1100", "gfx1201", "gfx942"];
    let (linux, windows) = (["gfx1100", "gfx942"], ["gfx1100", "gfx1201"]);
    let (single, families) = (["gfx942", "gfx942:xnack+"], ["gfx110X-all", "gfx94X-dcgpu"]);
    let absent = ["devel", "profiler"];
    let legacy = DistInfo {
        mode: DistributionMode::Legacy,
        only: Some("gfx94X-dcgpu".parse().unwrap()),
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
        for (path, text) in selector::files(&info).unwrap() {
            write(&place.join(name).join(path.as_str()), text.as_bytes());
        }
    }
}

fn info(
    available: &[&str],
    linux: &[&str],
    windows: &[&str],
    absent: &[&str],
) -> DistInfo<'static> {
    static POLICY: LazyLock<Catalog> = LazyLock::new(|| Catalog::built_in().unwrap());
    let scopes =
        |names: &[&str]| -> Vec<Scope> { names.iter().map(|name| name.parse().unwrap()).collect() };
    DistInfo {
        catalog: &POLICY,
        mode: DistributionMode::Split,
        version: "10.1.0".to_owned(),
        suffix: String::new(),
        view: PlatformView {
            default: scopes(available).first().cloned(),
            available: scopes(available),
            linux: scopes(linux),
            windows: scopes(windows),
        },
        absent: absent.iter().map(|name| (*name).to_owned()).collect(),
        only: None,
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
