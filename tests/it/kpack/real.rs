//! Fat binaries that are on PyPI: split, and every device finds the code that it found before.

use std::path::Path;

use rocwheel_kpack::host::{self, FatFileKind};

use super::{
    runtime::compare,
    splitting::{STAGE, flattened, put, split},
};
use crate::judges::wheel_of_pypi;

/// The smallest there is: three binaries, four bundles (`CCOB` 3), each for 27 targets.
const WHEEL: &str = "jax_rocm7_plugin";

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

/// Splits the binaries of a wheel. Returns how many there are, and how many answers of the loader
/// were compared.
fn split_and_compared(wheel: &Path) -> (usize, usize) {
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
    let compared = binaries.iter().map(|(path, bytes)| compare(bytes, &root, path)).sum();
    fs_err::remove_dir_all(root).unwrap();
    (binaries.len(), compared)
}

#[test]
#[ignore = "long"]
fn long_fat_binaries_from_pypi_are_split() {
    let (binaries, compared) = split_and_compared(&wheel_of_pypi(WHEEL));
    assert_eq!(binaries, 3);
    assert!(compared > 1000, "{compared}");
    // Larger ones by hand: `ROCWHEEL_FAT_WHEELS=a.whl,b.whl cargo test --test it kpack::real`.
    let more = std::env::var("ROCWHEEL_FAT_WHEELS").unwrap_or_default();
    for wheel in more.split(',').filter(|wheel| !wheel.is_empty()) {
        let (binaries, compared) = split_and_compared(Path::new(wheel));
        assert!(binaries > 0 && compared > 0, "{wheel}: {compared} answers");
    }
}
