//! What `pip install rocwheel` will install: the sdist and the wheel of a release, with the program of this
//! build in it.

use crate::support::place;
use crate::support::prelude::*;

const TARGET: &str = "x86_64-unknown-linux-musl";

/// The wheel of a release. The program is stripped, as a released one is; unlike it, it needs a libc.
fn wheel(place: &Path) -> PathBuf {
    let program = place.join("rocwheel");
    succeed(Command::new("strip").arg("-o").arg(&program).arg(ROCWHEEL));
    let root = env!("CARGO_MANIFEST_DIR");
    let mut maturin = Command::new(tool("maturin"));
    maturin.args(["sdist", "--out"]).arg(place).current_dir(root);
    succeed(maturin.env("SOURCE_DATE_EPOCH", "315532800"));
    let top = concat!("rocwheel-", env!("CARGO_PKG_VERSION"));
    let sdist = place.join(format!("{top}.tar.gz"));
    let mut release = Command::new("python3");
    release.arg(Path::new(root).join(".github/binary/release.py"));
    succeed(release.args(["wheel", TARGET]).args([&program, &sdist, place]));
    let tags = "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64";
    place.join(format!("{top}-py3-none-{tags}.whl"))
}

/// An empty environment with this pip.
fn environment(place: &Path, pip: &str) -> PathBuf {
    let place = place.join(format!("pip-{pip}"));
    succeed(Command::new("python3").args(["-m", "venv"]).arg(&place));
    let pip = format!("pip=={pip}");
    let mut install = Command::new(place.join("bin/python"));
    succeed(install.args(["-m", "pip", "install", "--quiet", &pip]));
    place
}

/// The program is on the PATH of the environment, and a module.
#[track_caller]
fn expect_program(environment: &Path) {
    let version = concat!("rocwheel ", env!("CARGO_PKG_VERSION"));
    let bin = environment.join("bin");
    for (program, arguments) in [("rocwheel", &[][..]), ("python", &["-m", "rocwheel"])] {
        let mut command = Command::new(bin.join(program));
        let output = succeed(command.args(arguments).arg("--version"));
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed.starts_with(version), "{printed}");
    }
}

/// Pips to install with: one of the time of each long-lived distribution, and the one of today. 20.3 is the
/// first that knows the tag. It needs `distutils`, which Python 3.12 does not have.
fn pips() -> Vec<&'static str> {
    let minor = "import sys; print(sys.version_info[1])";
    let minor = succeed(Command::new("python3").args(["-c", minor])).stdout;
    let minor: u32 = String::from_utf8(minor).unwrap().trim().parse().unwrap();
    let oldest = (minor < 12).then_some("20.3.4");
    oldest.into_iter().chain(["23.2.1", "26.3"]).collect()
}

#[test]
#[ignore = "long"]
fn long_the_wheel_of_a_release_is_a_program_for_every_installer() {
    let place = place::empty("pypi");
    let wheel = wheel(&place);
    for pip in pips() {
        let environment = environment(&place, pip);
        let mut pip = Command::new(environment.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-index"]);
        succeed(pip.arg(&wheel));
        expect_program(&environment);
    }
    let uv = |line: &str, rest: &[&Path]| {
        let mut uv = Command::new(tool("uv"));
        uv.args(["--offline", "--cache-dir"]).arg(place.join("cache"));
        succeed(uv.args(line.split(' ')).args(rest));
    };
    let environment = place.join("uv");
    uv("venv", &[&environment]);
    let python = environment.join("bin/python");
    uv("pip install --python", &[&python, &wheel]);
    expect_program(&environment);
    let run = ["rocwheel", "--version"].map(Path::new);
    uv("tool run --from", &[&wheel, run[0], run[1]]);

    // A directory of its own, as tools do that bring packages along.
    let target = place.join("target");
    let mut pip = Command::new(tool("pip"));
    pip.args(["install", "--quiet", "--no-index", "--target"]);
    succeed(pip.args([&target, &wheel]));
    let mut module = Command::new("python3");
    module.args(["-m", "rocwheel", "--version"]);
    succeed(module.env("PYTHONPATH", &target));

    let typed = "from rocwheel import find_program\n\nprogram: str = find_program()\n";
    let mut mypy = Command::new(tool("mypy"));
    mypy.args(["--strict", "--no-incremental", "--python-executable"]);
    succeed(mypy.arg(&python).args(["-c", typed]));
}
