//! Device code of the odd set: three families that were split one by one, and share a generic part.

use std::path::Path;

use rocwheel_test_files::{
    bundles,
    linker::{DeviceRelocations, SharedObject},
};

use crate::sample::{self, sketch::Sketch};

const STAGE: &str = "comm-libs/rccl/stage";
const LIBRARY: &str = "librccl.so.1";

/// The targets that each of two translation units has code for.
type Units = [&'static [&'static str]; 2];

/// The last family has several targets, of which
/// the second unit lacks one, and a target with code for each setting of xnack.
const FAMILIES: [(&str, Units); 3] = [
    ("gfx94X-dcgpu", [&["gfx942"], &["gfx942"]]),
    ("gfx110X-all", [&["gfx1100"], &["gfx1100"]]),
    (
        "gfx101X-dgpu",
        [&["gfx1010:xnack+", "gfx1010:xnack-", "gfx1012"], &["gfx1010:xnack+", "gfx1010:xnack-"]],
    ),
];

/// The generic part that the first family left, and the device parts of every family.
pub(crate) fn sketches(split_artifacts: &dyn Fn(&Path, &Path)) -> Vec<Sketch> {
    let place = tempfile::tempdir().unwrap();
    let mut sketches = Vec::new();
    for (family, units) in FAMILIES {
        let [fat, split] = ["fat", "split"].map(|it| place.path().join(family).join(it));
        let artifact = fat.join(format!("rccl_lib_{family}"));
        let directory = artifact.join(STAGE).join("lib");
        fs_err::create_dir_all(&directory).unwrap();
        fs_err::write(artifact.join("artifact_manifest.txt"), STAGE).unwrap();
        fs_err::write(directory.join(format!("{LIBRARY}.0")), library(units)).unwrap();
        split_artifacts(&fat, &split);
        for entry in fs_err::read_dir(&split).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let is_generic = name.ends_with("_generic");
            if name.starts_with("rccl") && !(is_generic && family != FAMILIES[0].0) {
                sketches.push(sketch(&name, &entry.path(), is_generic));
            }
        }
    }
    sketches.sort_by(|one, other| one.name().cmp(other.name()));
    sketches
}

fn library(units: Units) -> Vec<u8> {
    let (mut code, mut wrappers) = (Vec::new(), Vec::new());
    for (unit, targets) in units.iter().enumerate() {
        code.resize(code.len().next_multiple_of(4096), 0);
        wrappers.push(code.len() as u64);
        let object = |target: &&'static str| {
            let object = sample::object(&format!("rccl#{unit}"), target, 24 << 10);
            (*target, object)
        };
        let objects: Vec<_> = targets.iter().map(object).collect();
        code.extend(bundles::raw(&objects));
    }
    SharedObject::new(LIBRARY)
        .needs("libamdhip64.so.7")
        .calls("rccl_answer", "hip_answer")
        .runpath("$ORIGIN")
        .device_code(&code, &wrappers, DeviceRelocations::Relr)
        .build()
}

/// An artifact as `split` left it, and the links that lead to the library.
fn sketch(name: &str, artifact: &Path, is_generic: bool) -> Sketch {
    let mut sketch = Sketch::zst(name).stage(STAGE);
    let root = artifact.join(STAGE);
    for directory in ["lib", ".kpack"] {
        let Ok(entries) = fs_err::read_dir(root.join(directory)) else {
            continue;
        };
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap().to_str().unwrap();
            let bytes = fs_err::read(&path).unwrap();
            sketch = sketch.bytes(&format!("{directory}/{name}"), bytes);
        }
    }
    if is_generic {
        sketch = sketch
            .link(&format!("lib/{LIBRARY}"), &format!("{LIBRARY}.0"))
            .link("lib/librccl.so", LIBRARY);
    }
    sketch
}
