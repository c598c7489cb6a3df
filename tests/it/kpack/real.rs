//! Fat binaries that are on PyPI: split, found by every device, and put together again.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use sha2::{Digest as _, Sha256};

use super::{
    round::code,
    runtime::compare,
    splitting::{STAGE, flattened, put, split},
};
use crate::judges::tool;

/// The smallest there is: three binaries, four bundles (`CCOB` 3), each for 27 targets.
const WHEEL: &str = "jax_rocm7_plugin-0.12.0-cp312-cp312-manylinux_2_27_x86_64.whl";
const SHA256: &str = "56ea9cb8b20b2155307da1c7f81941d6811954d8ce3431ffe8d56aa251b725de";

/// The wheel, fetched once.
fn wheel() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("real-wheels");
    let file = place.join(WHEEL);
    let is_good = || {
        fs_err::read(&file).is_ok_and(|bytes| {
            let digest = Sha256::digest(bytes);
            let digest = digest
                .iter()
                .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
            digest == SHA256
        })
    };
    if !is_good() {
        let fetched = Command::new(tool("pip"))
            .args(["download", "--quiet", "--no-deps", "--only-binary", ":all:"])
            .args([
                "--platform",
                "manylinux_2_27_x86_64",
                "--python-version",
                "3.12",
            ])
            .arg("--dest")
            .arg(&place)
            .arg("jax-rocm7-plugin==0.12.0")
            .output()
            .unwrap();
        assert!(
            fetched.status.success(),
            "{}",
            String::from_utf8_lossy(&fetched.stderr)
        );
    }
    assert!(is_good(), "another wheel than the one that was looked at");
    file
}

#[test]
fn fat_binaries_from_pypi_come_apart_and_together() {
    let place = tempfile::tempdir().unwrap();
    let mut wheel = zip::ZipArchive::new(fs_err::File::open(wheel()).unwrap()).unwrap();
    let artifact = place.path().join("fat/jax_lib_gfx9-all");
    put(&artifact, "artifact_manifest.txt", STAGE.as_bytes());
    let mut binaries = Vec::new();
    for name in ["_linalg", "_prng", "_solver"] {
        let member = format!("jax_rocm7_plugin/{name}.so");
        let mut bytes = Vec::new();
        let mut member = wheel.by_name(&member).unwrap();
        std::io::Read::read_to_end(&mut member, &mut bytes).unwrap();
        let path = format!("lib/{name}.so");
        put(&artifact, &format!("{STAGE}/{path}"), &bytes);
        binaries.push((path, bytes));
    }
    let out = place.path().join("split");
    let said = split(&place.path().join("fat"), &out, "2");
    insta::assert_snapshot!(said.lines().last().unwrap(), @"");
    let root = place.path().join("root");
    flattened(&out, &root);
    for (path, bytes) in &binaries {
        let compared = compare(bytes, &root, path);
        assert!(compared > 200, "{path}: {compared}");
    }
    let recombined = Command::new(env!("CARGO_BIN_EXE_rocwheel"))
        .env_clear()
        .current_dir(place.path())
        .args(["kpack", "recombine", "--family", "gfx9-all"])
        .args(["--artifact-dir", "split", "--output-dir", "again"])
        .output()
        .unwrap();
    assert!(
        recombined.status.success(),
        "{}",
        String::from_utf8_lossy(&recombined.stderr)
    );
    for (path, bytes) in &binaries {
        let again = place
            .path()
            .join(format!("again/jax_lib_gfx9-all/{STAGE}/{path}"));
        assert!(code(&fs_err::read(again).unwrap()) == code(bytes), "{path}");
    }
}
