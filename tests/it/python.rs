//! The Python that ships: linted and typed. `all_pythons` has its tests.

pub(crate) mod legacy;

use crate::support::prelude::*;
use crate::support::{parts, place, program};

const SOURCES: &str = "src/policy/python";
pub(crate) const TESTS: &str = "tests/python";
const SDIST: &str = "rocm-10.1.0.tar.gz";
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
    write_packages(&packages);
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

/// The Python of the sample's packages, as users import it, without any target.
fn write_packages(to: &Path) {
    let built = tempfile::tempdir().unwrap();
    parts::build_for(&[], built.path(), "--version 10.1.0");
    let sdist = tempfile::tempdir().unwrap();
    for entry in fs_err::read_dir(built.path().join("dist")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension() == Some("whl".as_ref()) {
            parts::unpack_python(&path, to);
        } else {
            parts::unpack_sdist(&path, sdist.path());
        }
    }
    copy_tree(&sdist.path().join("src/rocm_sdk"), to);
}

/// One sdist of each kind, unpacked, and the Python of the packages with files.
pub(crate) fn write_sdists(place: &Path) {
    write_packages(&place.join("packages"));
    let all = ["gfx1100", "gfx942"];
    let single = ["gfx942", "gfx942:xnack+"];
    let linux = "--linux-amdgpu-families gfx1100,gfx942";
    let both = format!("{linux} --windows-amdgpu-families gfx1100,gfx1201");
    let partial = format!("{linux} --without devel,profiler");
    let kinds: [(&str, &[&str], &str); 4] = [
        ("both", &all, &both),
        ("single", &single, ""),
        ("none", &[], ""),
        ("partial", &all, &partial),
    ];
    for (name, targets, more) in kinds {
        let built = tempfile::tempdir().unwrap();
        parts::build_for(targets, built.path(), &format!("--version 10.1.0 --only rocm {more}"));
        parts::unpack_sdist(&built.path().join("dist").join(SDIST), &place.join(name));
    }
    // A legacy set with several families has an sdist for each of them.
    let [run, built] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    legacy::write_run(run.path(), &[("gfx942", "gfx94X-dcgpu"), ("gfx1100", "gfx110X-all")]);
    parts::build(run.path(), built.path(), "--version 10.1.0");
    let family = built.path().join("dist/gfx94X-dcgpu");
    parts::unpack_sdist(&family.join(SDIST), &place.join("legacy"));
}

/// An empty directory of that name.
fn place(name: &str) -> PathBuf {
    place::empty(&format!("python/{name}"))
}

pub(crate) fn succeed(command: &mut Command) {
    program::succeed(command.current_dir(env!("CARGO_MANIFEST_DIR")));
}
