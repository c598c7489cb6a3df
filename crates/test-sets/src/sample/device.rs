//! Device code of the sample: code objects that say what they are for, bundled, archived, and
//! taken out of libraries, as the kpack split leaves them.

use std::io::{Cursor, Read as _};

use rocwheel_base::error::{Context as _, Result, bail};
use rocwheel_elf::PatchedReader;
use rocwheel_kpack::{
    Marker,
    archive::{ArchiveWriter, Packed, key},
    host::{self, FatFileKind},
};

use rocwheel_test_files::bundles;
use rocwheel_test_files::linker::{DeviceRelocations, SharedObject};

/// The device code of a library.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    /// `blas_lib` for `.kpack/blas_lib_gfx942.kpack`.
    pub(crate) archive: &'static str,
    /// What its keys begin with: the path of the library in the build tree.
    pub(crate) name: &'static str,
    /// The size of a code object, for each translation unit.
    pub(crate) units: &'static [usize],
    pub(crate) targets: &'static [&'static str],
}

const POSSIBLE: &str = "the sample's own device code is well formed, which a test sees";

/// A library without its code.
pub(crate) fn split(library: SharedObject, kernels: &Kernels) -> Vec<u8> {
    try_split(library, kernels).expect(POSSIBLE)
}

fn try_split(library: SharedObject, kernels: &Kernels) -> Result<Vec<u8>> {
    let mut code = Vec::new();
    let mut wrappers = Vec::new();
    for unit in 0..kernels.units.len() {
        code.resize(code.len().next_multiple_of(4096), 0);
        wrappers.push(code.len() as u64);
        let targets = kernels.targets.iter();
        let objects: Vec<(&str, Vec<u8>)> =
            targets.map(|target| (*target, kernels.object(unit, target))).collect();
        code.extend(bundles::raw(&objects));
    }
    let fat = library.device_code(&code, &wrappers, DeviceRelocations::Rela).build();
    let FatFileKind::Fat(seen) = host::look(&fat)? else {
        bail!("no device code in the library");
    };
    let marker = Marker::new(1, &[kernels.archive], kernels.name);
    let plan = host::plan(&fat, &seen, &vec![marker; kernels.units.len()])?;
    let mut bytes = Vec::new();
    PatchedReader::new(&fat, plan).read_to_end(&mut bytes).context("split the library")?;
    Ok(bytes)
}

/// What the archives of some libraries are called, apart from the target.
pub(crate) fn group(libraries: &[Kernels]) -> &'static str {
    libraries.first().map_or("", |kernels| kernels.archive)
}

/// The archive of some libraries for a target.
pub(crate) fn archive(libraries: &[Kernels], target: &str) -> Vec<u8> {
    try_archive(libraries, target).expect(POSSIBLE)
}

fn try_archive(libraries: &[Kernels], target: &str) -> Result<Vec<u8>> {
    let out = Cursor::new(Vec::new());
    let mut writer = ArchiveWriter::new(out, group(libraries), target)?;
    for kernels in libraries {
        for unit in 0..kernels.units.len() {
            let code = Packed::new(&kernels.object(unit, target))?;
            writer.add(&key(kernels.name, unit), &target.parse()?, &code, None)?;
        }
    }
    Ok(writer.finish()?.0.into_inner())
}

/// A bundle with code for a target alone, compressed.
pub(crate) fn bundled(name: &str, target: &str, len: usize) -> Vec<u8> {
    let raw = bundles::raw(&[(target, object(name, target, len))]);
    bundles::compress(&raw, 3, "zstd").expect(POSSIBLE)
}

/// A code object: the header of an AMD GPU ELF file, and then bytes that do not compress, as code
/// mostly is by then.
pub fn object(name: &str, target: &str, len: usize) -> Vec<u8> {
    const SHARED_OBJECT: u16 = 3;
    const AMDGPU: u16 = 224;
    const HSA: u8 = 64;
    const CODE_OBJECT_V5: u8 = 3;
    let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, HSA, CODE_OBJECT_V5];
    bytes.resize(16, 0);
    bytes.extend(SHARED_OBJECT.to_le_bytes());
    bytes.extend(AMDGPU.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.resize(48, 0);
    bytes.extend(flags(target).to_le_bytes());
    bytes.extend(64_u16.to_le_bytes());
    bytes.resize(64, 0);
    bytes.extend(noise(len.saturating_sub(64), &format!("{name} {target}")));
    bytes
}

/// `e_flags`: the processor, and what the code demands of xnack.
fn flags(target: &str) -> u32 {
    const ANY_XNACK: u32 = 0x100;
    const XNACK_OFF: u32 = 0x200;
    const XNACK_ON: u32 = 0x300;
    match target {
        "gfx1100" => 0x41,
        "gfx1010" => 0x33 | ANY_XNACK,
        "gfx1010:xnack-" => 0x33 | XNACK_OFF,
        "gfx1010:xnack+" => 0x33 | XNACK_ON,
        "gfx1012" => 0x35 | ANY_XNACK,
        "gfx942" => 0x4c | ANY_XNACK,
        "gfx942:xnack+" => 0x4c | XNACK_ON,
        _ => 0,
    }
}

fn noise(len: usize, seed: &str) -> Vec<u8> {
    let mut state = seed.bytes().fold(0x9e37_79b9_7f4a_7c15_u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }) | 1;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

impl Kernels {
    fn object(&self, unit: usize, target: &str) -> Vec<u8> {
        let len = self.units.get(unit).copied().unwrap_or_default();
        object(&format!("{}#{unit}", self.name), target, len)
    }
}

#[cfg(test)]
mod tests {
    use rocwheel_base::relpath::RelPath;
    use rocwheel_kpack::{
        archive::KpackArchive,
        loader::{self, CodePlace, Generation},
    };

    use super::*;

    const KERNELS: Kernels = Kernels {
        archive: "demo_lib",
        name: "stage/lib/libdemo.so.1",
        units: &[9000, 70_000],
        targets: &["gfx1100", "gfx942", "gfx942:xnack+"],
    };

    #[test]
    fn a_split_library_finds_its_code_as_the_runtime_looks_for_it() {
        let library = SharedObject::new("libdemo.so.1").function("answer", 42);
        let library = split(library, &KERNELS);
        assert!(library.len() < 60_000, "{}", library.len());
        let open = |target: &&str| {
            let path: RelPath = format!(".kpack/demo_lib_{target}.kpack").parse().unwrap();
            (path, KpackArchive::open(archive(&[KERNELS], target)).unwrap())
        };
        let archives: Vec<_> = KERNELS.targets.iter().map(open).collect();
        let archives = archives.iter().map(|(path, it)| (path.clone(), it)).collect();
        let path = "lib/libdemo.so.1".parse().unwrap();
        let references = host::references(&library).unwrap();
        assert_eq!(references.len(), 2);
        for (unit, reference) in references.iter().enumerate() {
            for target in KERNELS.targets {
                let device = target.parse().unwrap();
                let first = Generation::FirstArchive;
                let found = loader::find(first, &archives, &path, reference, &device);
                let CodePlace::In(archive, code) = found else {
                    panic!("no code of unit {unit} for {target}");
                };
                assert_eq!(archive.read(code).unwrap(), KERNELS.object(unit, target));
            }
        }
    }
}
