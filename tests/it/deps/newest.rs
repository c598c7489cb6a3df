//! The list of rocwheel itself has what the newest PyTorch and JAX need. It asks PyPI.

use crate::{publish::packages::wheel, support::prelude::*};

/// What the base index does not have, although a wheel of PyPI requires it, and why.
const ABSENT: [(&str, &str); 2] = [
    ("cuda-", "PyPI has builds for CUDA, and wheels for ROCm do not require it"),
    ("nvidia-", "as cuda-"),
];

/// The newest wheels of PyPI, as pip reports them. It reads their METADATA only.
fn newest(projects: &[&str]) -> Vec<Value> {
    let place = tempfile::tempdir().unwrap();
    let mut pip = Command::new(tool("pip"));
    pip.args(
        "install --dry-run --quiet --no-deps --only-binary=:all: --python-version=3.13".split(' '),
    );
    pip.args(["--platform=manylinux_2_28_x86_64", "--platform=manylinux_2_27_x86_64"]);
    pip.args(["--report=-", "--target"]).arg(place.path()).args(projects);
    let report: Value = serde_json::from_slice(&succeed(&mut pip).stdout).unwrap();
    let installed = report["install"].as_array().unwrap().iter();
    installed.map(|it| it["metadata"].clone()).collect()
}

/// Writes a wheel that requires what a wheel of PyPI does, for the same Pythons. Returns what it leaves out.
fn rewrite(dist: &Path, metadata: &Value) -> Vec<String> {
    let [name, version, pythons] =
        ["name", "version", "requires_python"].map(|it| metadata[it].as_str().unwrap());
    let requires = metadata["requires_dist"].as_array().into_iter().flatten();
    let (absent, wanted): (Vec<&str>, Vec<&str>) = requires
        .map(|line| line.as_str().unwrap())
        .partition(|line| ABSENT.iter().any(|(start, _)| line.starts_with(start)));
    let lines: Vec<String> = wanted.iter().map(|line| format!("Requires-Dist: {line}\n")).collect();
    let path = wheel(dist, name, version, &lines.concat());
    let oldest = pythons.split(',').find_map(|it| it.trim().strip_prefix(">=3.")).unwrap();
    let named = path.replace("-py3-", &format!("-py3{oldest}-"));
    fs_err::rename(&path, named).unwrap();
    absent.into_iter().map(str::to_owned).collect()
}

#[test]
#[ignore = "long"]
fn long_the_list_has_what_the_newest_frameworks_need() {
    let place = tempfile::tempdir().unwrap();
    let [lock, set] = ["deps.lock", "set"].map(|it| place.path().join(it));
    let projects = ["torch", "torchvision", "triton", "jax", "jaxlib", "jax-rocm10-plugin"];
    let metadata = newest(&projects);
    assert_eq!(metadata.len(), projects.len());
    let absent = metadata.iter().flat_map(|it| rewrite(&set.join("dist"), it));
    let absent: Vec<String> = absent.collect();
    for (start, reason) in ABSENT {
        let is_required = absent.iter().any(|line| line.starts_with(start));
        assert!(is_required, "no wheel requires `{start}…` any more: {reason}");
    }
    rocwheel(&["index", "--no-check", text(&set)]).ok();

    let deps = |arguments: &[&str]| {
        let uv = tool("uv").parent().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap();
        let mut deps = command();
        deps.env("PATH", format!("{}:{path}", uv.display()));
        // A proxy may sign what PyPI sends.
        deps.envs(std::env::var_os("SSL_CERT_FILE").map(|it| ("SSL_CERT_FILE", it)));
        deps.arg("deps").args(arguments).args(["--lock", text(&lock)]);
        Outcome::of(deps.output().unwrap())
    };
    deps(&["update", "--min-age", "0s"]).ok();
    deps(&["check", text(&set)]).ok();
}
