//! Fat binaries: libraries with the device code of several targets.

use crate::{
    bundles,
    linker::{DeviceRelocations, SharedObject},
};

/// A code object with kernels of these names, and some bytes of its own.
pub fn code_object(kernels: &[&str], payload: usize) -> Vec<u8> {
    let object = SharedObject::new("code").payload(payload);
    let object =
        kernels.iter().fold(object, |object, kernel| object.function(&format!("{kernel}.kd"), 0));
    object.build()
}

/// Bundles one behind the other, each at a page, and where they begin.
pub fn concatenated(bundles: &[Vec<u8>]) -> (Vec<u8>, Vec<u64>) {
    let mut bytes = Vec::new();
    let mut starts = Vec::new();
    for bundle in bundles {
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        starts.push(bytes.len() as u64);
        bytes.extend_from_slice(bundle);
    }
    (bytes, starts)
}

/// A library with a translation unit for each of these lists of targets.
pub fn of_units(soname: &str, units: &[&[&str]]) -> Vec<u8> {
    let bundles = units.iter().enumerate().map(|(unit, targets)| {
        let code = targets.iter().enumerate();
        let code = code.map(|(at, target)| {
            let kernel = format!("unit{unit}");
            (*target, code_object(&[&kernel], 4000 + at * 100))
        });
        bundles::raw(&code.collect::<Vec<_>>())
    });
    let (code, starts) = concatenated(&bundles.collect::<Vec<_>>());
    let object = SharedObject::new(soname).needs("libc.so.6");
    object.device_code(&code, &starts, DeviceRelocations::Rela).build()
}

/// A library of two translation units, the second one compressed and with fewer targets.
pub fn library() -> Vec<u8> {
    let first = bundles::raw(&[
        ("gfx1100", code_object(&["add", "scale"], 10_000)),
        ("gfx90a:xnack+", code_object(&["add", "scale"], 9_000)),
        ("gfx90a:xnack-", code_object(&["add", "scale"], 8_000)),
    ]);
    let second = bundles::raw(&[("gfx90a", code_object(&["a", "b", "c", "d", "e"], 7_000))]);
    let second = bundles::compress(&second, 3, "zstd").unwrap();
    let (code, starts) = concatenated(&[first, second]);
    SharedObject::new("libfat.so.1")
        .function("answer", 42)
        .device_code(&code, &starts, DeviceRelocations::Rela)
        .build()
}
