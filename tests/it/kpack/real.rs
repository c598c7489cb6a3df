//! Fat binaries that are on PyPI: split, found by every device, and put together again.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use rocwheel::kpack::host::{self, FatFileKind};
use sha2::{Digest as _, Sha256};

use super::{
    round::code,
    runtime::compare,
    splitting::{STAGE, flattened, put, split},
};
use crate::judges::tool;
use crate::support::program::ROCWHEEL;

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

/// The binaries of a wheel whose code can be taken out.
fn fat_binaries(wheel: &Path) -> Vec<(String, Vec<u8>)> {
    let mut wheel = zip::ZipArchive::new(fs_err::File::open(wheel).unwrap()).unwrap();
    let mut binaries = Vec::new();
    for index in 0..wheel.len() {
        let mut member = wheel.by_index(index).unwrap();
        let name = member.name().unwrap().into_owned();
        if !name.ends_with(".so") {
            continue;
        }
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut member, &mut bytes).unwrap();
        if matches!(host::look(&bytes), Ok(FatFileKind::Fat(_))) {
            binaries.push((name, bytes));
        }
    }
    binaries
}

/// Splits the binaries of a wheel and puts them together again. Returns how many there are, and how
/// many answers of the loader were compared.
fn apart_and_together(wheel: &Path) -> (usize, usize) {
    let place = tempfile::tempdir().unwrap();
    let name = "real_lib_gfx9-all";
    let artifact = place.path().join("fat").join(name);
    put(&artifact, "artifact_manifest.txt", STAGE.as_bytes());
    let binaries = fat_binaries(wheel);
    for (path, bytes) in &binaries {
        put(&artifact, &format!("{STAGE}/{path}"), bytes);
    }
    let out = place.path().join("split");
    let said = split(&place.path().join("fat"), &out, "2");
    assert!(said.starts_with("exit 0"), "{said}");
    let root = place.path().join("root");
    flattened(&out, &root);
    let compared = binaries
        .iter()
        .map(|(path, bytes)| compare(bytes, &root, path))
        .sum();
    fs_err::remove_dir_all(root).unwrap();
    let recombined = Command::new(ROCWHEEL)
        .env_clear()
        .current_dir(place.path())
        .args(["kpack", "recombine", "--family", "gfx9-all"])
        .args(["--artifact-dir", "split", "--output-dir", "again"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&recombined.stderr);
    assert!(recombined.status.success(), "{stderr}");
    for (path, bytes) in &binaries {
        let again = place.path().join("again").join(name).join(STAGE).join(path);
        assert!(code(&fs_err::read(again).unwrap()) == code(bytes), "{path}");
    }
    (binaries.len(), compared)
}

#[test]
fn fat_binaries_from_pypi_come_apart_and_together() {
    let (binaries, compared) = apart_and_together(&wheel());
    assert_eq!(binaries, 3);
    assert!(compared > 1000, "{compared}");
    // Larger ones by hand: `ROCWHEEL_FAT_WHEELS=a.whl,b.whl cargo test --test it kpack::real`.
    let more = std::env::var("ROCWHEEL_FAT_WHEELS").unwrap_or_default();
    for wheel in more.split(',').filter(|wheel| !wheel.is_empty()) {
        let (binaries, compared) = apart_and_together(Path::new(wheel));
        assert!(binaries > 0 && compared > 0, "{wheel}: {compared} answers");
    }
}
