//! Finds code objects as the HIP runtime does: from the marker of a split binary, through the
//! archives that it names, to the code for a device.
//!
//! Two generations of the runtime are in use. They differ in what happens if the first archive for
//! the target lacks the code. HRX, another runtime, has a reader of its own, with lower limits.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use crate::{
    CodeTarget, PLACEHOLDER,
    archive::{KpackArchive, StoredCode},
    host::WrapperReference,
};
use rocwheel_base::{quantity::size as size_of, relpath::RelPath, target::generic};
use rocwheel_elf::ReadAt;

/// A generation of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Uses only the first archive that lists a target, and fails if this archive lacks the wanted code.
    FirstArchive,
    /// Tries every archive that lists a target. So does HRX, which looks for the code itself and not at the list:
    /// an archive with code for a target that it does not list cannot be opened here.
    EveryArchive,
}

/// What a reader of archives refuses, although the format allows it.
pub struct ReaderLimits {
    /// The paths in one marker.
    search_paths: usize,
    /// The archives that exist for one bundle and device.
    archives: usize,
    /// The bytes of a key, such as `lib/libfoo.so#0`.
    key: usize,
    /// The bytes of one code object, which must have at least one.
    code: u64,
}

/// The limits of HRX. The reader of HIP has none of these. HRX also has limits that no archive which can be opened
/// here, and no target of AMD, reaches: `docs/kpack.md` has them all.
pub const HRX: ReaderLimits =
    ReaderLimits { search_paths: 32, archives: 64, key: 1023, code: 256 << 20 };

impl ReaderLimits {
    /// Says which code of an archive the reader would refuse.
    pub fn refused_code<R: ReadAt>(&self, archive: &KpackArchive<R>) -> Option<String> {
        archive.codes().iter().find_map(|StoredCode { key, target, size, .. }| {
            if let Some(refused) = self.refused_key(key) {
                return Some(refused);
            }
            let limit = size_of(self.code);
            let is_read = (1..=self.code).contains(size);
            (!is_read).then(|| {
                format!("`{key}` for `{target}` has {}, not 1 B to {limit}", size_of(*size))
            })
        })
    }

    /// Says what of a marker the reader would refuse. `most_archives` is the number of archives that exist at
    /// its paths, for the device with the most.
    pub fn refused_reference(
        &self,
        reference: &WrapperReference,
        most_archives: usize,
    ) -> Option<String> {
        let paths = reference.marker.kpack_search_paths.len();
        let at_most = |count, limit, what| {
            (count > limit).then(|| format!("{count} {what}, at most {limit}"))
        };
        at_most(paths, self.search_paths, "search paths")
            .or_else(|| at_most(most_archives, self.archives, "archives for one device"))
            .or_else(|| self.refused_key(&reference.key()))
    }

    fn refused_key(&self, key: &str) -> Option<String> {
        let limit = self.key;
        // The key may be too long for a screen.
        let start: String = key.chars().take(40).collect();
        (key.len() > limit)
            .then(|| format!("a key of {} bytes, at most {limit}: `{start}…`", key.len()))
    }
}

/// What the runtime finds for one wrapper and one device.
pub enum CodePlace<'a, R> {
    /// The code is in this archive, in this entry.
    In(&'a KpackArchive<R>, &'a StoredCode),
    /// There is no archive for the device. The runtime skips the device.
    PassedOver,
    /// There is an archive for the device, but it lacks the code. The runtime refuses the whole
    /// binary, for all devices.
    Lacking,
}

/// The archives of a tree, by their path.
pub type ArchivesByPath<'a, R> = BTreeMap<RelPath, &'a KpackArchive<R>>;

/// Finds the code for a device and a wrapper of the binary at `path` of the tree.
pub fn find<'a, R: ReadAt>(
    generation: Generation,
    archives: &ArchivesByPath<'a, R>,
    path: &RelPath,
    reference: &WrapperReference,
    device: &CodeTarget,
) -> CodePlace<'a, R> {
    let targets = wanted(device);
    let existing: Vec<_> = candidates(path, reference, &targets)
        .into_iter()
        .filter_map(|path| archives.get(&path))
        .collect();
    let key = reference.key();
    let mut place = CodePlace::PassedOver;
    // The target comes before the archive: the runtime asks for the most specific target first.
    for (target, archive) in targets.iter().cartesian_product(existing) {
        // The runtime decides by this list only whether an archive is for a target.
        if !archive.targets().iter().any(|listed| listed == target.as_str()) {
            continue;
        }
        if let Some(code) = archive.find(&key, target) {
            return CodePlace::In(archive, code);
        }
        place = CodePlace::Lacking;
        if generation == Generation::FirstArchive {
            break;
        }
    }
    place
}

/// The targets whose code runs on a device, in the order in which the runtime looks for them: first
/// the target of the device, then its generic target, each with all features first and with none last.
pub fn wanted(device: &CodeTarget) -> Vec<CodeTarget> {
    let mut wanted = device.accepted();
    let base = device.base();
    if let Some(generic) = generic(base.as_str()) {
        let features = device.as_str().strip_prefix(base.as_str()).unwrap_or("");
        let generic_target = format!("{generic}{features}").parse::<CodeTarget>();
        wanted.extend(generic_target.iter().flat_map(CodeTarget::accepted));
    }
    wanted
}

/// The paths of the archives that a marker names, in the order in which the runtime searches them.
pub fn candidates(
    path: &RelPath,
    reference: &WrapperReference,
    wanted: &[CodeTarget],
) -> Vec<RelPath> {
    reference
        .marker
        .kpack_search_paths
        .iter()
        .cartesian_product(wanted)
        .map(|(pattern, target)| pattern.replacen(PLACEHOLDER, target.as_str(), 1))
        .filter_map(|archive| path.resolve_link(&archive))
        .unique()
        .collect()
}

/// A split binary: its path in the installed tree, and the references of its wrappers.
pub type SplitBinary = (RelPath, Vec<WrapperReference>);

/// Says which code the runtime would not find or not use, if the archives are installed at these
/// paths beside the binaries: the first code object, in the order of binaries and targets. Code for
/// other binaries is ignored.
///
/// The parts of an artifact may come from different splits: the generic part of one family with the
/// device parts of another family. They fit if the binaries have the same bundles, and the archives have
/// the names in the markers. Otherwise the runtime does not find the code of a target, and the
/// first error would appear when a program runs on such a device.
pub fn lost_code<R: ReadAt>(
    binaries: &[&SplitBinary],
    archives: &ArchivesByPath<'_, R>,
) -> Option<String> {
    let mut names: BTreeMap<&str, &RelPath> = BTreeMap::new();
    for (path, references) in binaries {
        for reference in references {
            names.insert(&reference.marker.kernel_name, path);
        }
    }
    // The code of these binaries in the archives, with its binary. What a binary asks for is removed
    // below, so that the code that no binary reaches remains.
    let mut unreached: BTreeMap<(RelPath, String, CodeTarget), &RelPath> = BTreeMap::new();
    for (path, archive) in archives {
        for code in archive.codes() {
            let name = code.key.rsplit_once('#').map(|(name, _)| name);
            if let Some(binary) = name.and_then(|name| names.get(name)) {
                let place = (path.clone(), code.key.clone(), code.target.clone());
                unreached.insert(place, binary);
            }
        }
    }
    let targets: BTreeSet<CodeTarget> =
        unreached.keys().map(|(_, _, target)| target.clone()).collect();
    let mut lost = BTreeSet::new();
    for (path, references) in binaries {
        for target in &targets {
            let accepted = wanted(target);
            let mut has_code = false;
            let mut lacking_key = None;
            for reference in references {
                let key = reference.key();
                for archive in candidates(path, reference, &accepted) {
                    unreached.remove(&(archive, key.clone(), target.clone()));
                }
                match find(Generation::EveryArchive, archives, path, reference, target) {
                    CodePlace::In(..) => has_code = true,
                    CodePlace::Lacking => lacking_key = Some(key),
                    CodePlace::PassedOver => {}
                }
            }
            // A binary that has no code for a target at all has lost none.
            if let Some(key) = lacking_key.filter(|_| has_code) {
                lost.insert(LostCode { binary: path, target: target.clone(), archive: None, key });
            }
        }
    }
    lost.extend(unreached.into_iter().map(|((archive, key, target), binary)| LostCode {
        binary,
        target,
        archive: Some(archive),
        key,
    }));
    lost.pop_first().map(|LostCode { binary, target, archive, key }| match archive {
        Some(archive) => format!(
            "`{binary}` would not find its code for `{target}`: it does not ask `{archive}` for `{key}`"
        ),
        None => format!(
            "`{binary}` would be refused by the runtime for `{target}`: no archive has `{key}`"
        ),
    })
}

/// Code that a binary does not get. It is sorted by the fields in their order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct LostCode<'a> {
    binary: &'a RelPath,
    target: CodeTarget,
    /// The archive that has the code, but is not asked for it by the binary. `None` if the binary asks, and no archive
    /// for the target has the code: then the runtime refuses the binary.
    archive: Option<RelPath>,
    key: String,
}

#[cfg(test)]
mod tests {
    use std::{io::Cursor, sync::Arc};

    use super::*;
    use crate::{
        Marker,
        archive::{ArchiveWriter, Packed, key},
    };
    use rocwheel_test_files::stored::stored;

    fn archive(codes: &[(usize, &str)]) -> KpackArchive<Vec<u8>> {
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()), "p", "f").unwrap();
        for (bundle, target) in codes {
            let code = Packed::new(format!("{bundle} {target}").as_bytes()).unwrap();
            writer.add(&key("k", *bundle), &target.parse().unwrap(), &code, None).unwrap();
        }
        KpackArchive::open(writer.finish().unwrap().0.into_inner()).unwrap()
    }

    fn load(generation: Generation, bundle: usize, device: &str) -> String {
        let archives = [
            archive(&[(0, "gfx90a"), (1, "gfx90a")]),
            archive(&[(1, "gfx90a:xnack-")]),
            archive(&[(0, "gfx9-4-generic")]),
        ];
        let names = ["gfx90a", "gfx90a:xnack-", "gfx9-4-generic"];
        let paths = names.map(|name| format!("a/.kpack/p_{name}.kpack").parse().unwrap());
        let archives = paths.into_iter().zip(&archives).collect();
        let reference =
            WrapperReference { marker: Arc::new(Marker::new(1, &["p"], "k")), index: bundle };
        let (path, device) = ("a/lib/libx.so".parse().unwrap(), device.parse().unwrap());
        match find(generation, &archives, &path, &reference, &device) {
            CodePlace::In(archive, code) => String::from_utf8(archive.read(code).unwrap()).unwrap(),
            CodePlace::PassedOver => "PassedOver".to_owned(),
            CodePlace::Lacking => "Lacking".to_owned(),
        }
    }

    #[test]
    fn the_most_specific_code_is_found_first() {
        for generation in [Generation::FirstArchive, Generation::EveryArchive] {
            assert_eq!(load(generation, 1, "gfx90a:sramecc+:xnack-"), "1 gfx90a:xnack-");
            assert_eq!(load(generation, 0, "gfx90a:sramecc+:xnack+"), "0 gfx90a");
            assert_eq!(load(generation, 0, "gfx950:sramecc+:xnack-"), "0 gfx9-4-generic");
            assert_eq!(load(generation, 0, "gfx1100"), "PassedOver");
            assert_eq!(load(generation, 7, "gfx90a"), "Lacking");
        }
    }

    #[test]
    fn hrx_refuses_what_is_beyond_its_limits() {
        let open =
            |key: &str, code: &[u8]| KpackArchive::open(stored(&[(key, "gfx942", code)])).unwrap();
        let long = "k".repeat(1022);
        let small = ReaderLimits { code: 2, ..HRX };
        let archives =
            [open("k#0", b"code"), open("k#0", b""), open(&format!("{long}#0"), b"code")];
        let said = archives.each_ref().map(|it| HRX.refused_code(it).unwrap_or_default());
        insta::assert_snapshot!(said.join("\n"), @"
        `k#0` for `gfx942` has 0 B, not 1 B to 256.00 MiB
        a key of 1024 bytes, at most 1023: `kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk…`
        ");
        assert_eq!(HRX.refused_code(&open(&format!("{}#0", &long[1..]), b"code")), None);
        insta::assert_snapshot!(small.refused_code(&archives[0]).unwrap(), @"`k#0` for `gfx942` has 4 B, not 1 B to 2 B");

        let refused = |paths: usize, name: &str, archives: usize| {
            let marker = Arc::new(Marker::new(1, &vec!["p"; paths], name));
            HRX.refused_reference(&WrapperReference { marker, index: 0 }, archives)
        };
        assert_eq!(refused(32, &long[1..], 64), None);
        let said = [refused(33, "k", 1), refused(1, "k", 65), refused(1, &long, 1)];
        insta::assert_snapshot!(said.map(Option::unwrap).join("\n"), @"
        33 search paths, at most 32
        65 archives for one device, at most 64
        a key of 1024 bytes, at most 1023: `kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk…`
        ");
    }

    #[test]
    fn an_archive_without_the_code_hides_others_from_the_first_generation() {
        assert_eq!(load(Generation::FirstArchive, 0, "gfx90a:xnack-"), "Lacking");
        assert_eq!(load(Generation::EveryArchive, 0, "gfx90a:xnack-"), "0 gfx90a");
    }
}
