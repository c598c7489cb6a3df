//! Sets as TheRock's own builder makes them of the sample's artifacts, by the model in `upstream_set/build.py`.
//!
//! What a real run has and ours has not: wheels of setuptools, run paths of patchelf, `__init__.py` in each device
//! wheel, a tree of development files without a manifest, an sdist that setuptools builds, and nothing beside them:
//! no `set.json`, no pages, no metadata files.

use super::published;
use crate::judges;
use crate::support::prelude::*;

/// The targets that the set has on Linux, and on Windows, as CI passes them.
const LINUX_AND_WINDOWS: [&str; 2] = ["gfx942,gfx1100", "gfx1100,gfx1201"];

/// The packages of a run whose device code is split, under a version: a directory `dist`.
pub(crate) fn split(version: &str) -> PathBuf {
    published::once(&format!("upstream-{version}"), |root| {
        build(&sample().artifacts(), root, version, &LINUX_AND_WINDOWS);
    })
}

/// The packages of a run whose device code lies beside the libraries, with a directory below `dist` for each family.
pub(crate) fn of_families() -> PathBuf {
    published::once("upstream-families", |root| {
        let families = [("gfx942", "gfx94X-dcgpu"), ("gfx1100", "gfx110X-all")];
        crate::python::legacy::write_run(&root.join("artifacts"), &families);
        build(&root.join("artifacts"), root, published::VERSION, &[]);
    })
}

fn build(artifacts: &Path, root: &Path, version: &str, targets: &[&str]) {
    let model =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support/upstream_set/build.py");
    let mut python = Command::new(tool("python"));
    python.arg(model).arg(artifacts).arg(root).arg(version).args(targets);
    python.env("PYTHONPATH", setuptools()).env("PYTHONDONTWRITEBYTECODE", "1");
    succeed(python.env("PATCHELF", tool("patchelf")));
}

/// The setuptools that TheRock builds with, unpacked: the one beside the judges is of their Python.
fn setuptools() -> PathBuf {
    published::once("upstream-setuptools", |root| {
        let mut unzip = Command::new(tool("python"));
        unzip.args(["-m", "zipfile", "-e"]).arg(setuptools_wheel());
        succeed(unzip.arg(root));
    })
}

/// The same as a wheel, which the `rocm` of such a set is built with when it is installed.
pub(crate) fn setuptools_wheel() -> PathBuf {
    judges::wheel_of_pypi("setuptools-")
}
