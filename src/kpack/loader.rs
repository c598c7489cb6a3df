//! Finds code objects as the HIP runtime does: from the marker of a split binary, through the
//! archives that it names, to the code for a device.
//!
//! Two generations of the runtime are in use. They differ in what happens if the first archive for
//! the target lacks the code.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    elf::ReadAt,
    error::{Context as _, Result},
    kpack::{
        CodeTarget, PLACEHOLDER,
        archive::{KpackArchive, StoredCode, key},
        code_target::generic,
        host::WrapperReference,
    },
    relpath::RelPath,
};

/// A generation of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Uses only the first archive that lists a target, and fails if it lacks the wanted code.
    FirstArchive,
    /// Tries every archive that lists a target.
    EveryArchive,
}

/// What the runtime finds for one wrapper and one device.
pub enum CodePlace<'a> {
    In(&'a KpackArchive<Arc<dyn ReadAt>>, &'a StoredCode),
    /// There is no archive for the device. The runtime skips the device.
    PassedOver,
    /// There is an archive for the device, but it lacks the code. The runtime refuses the whole
    /// binary, for all devices.
    Lacking,
}

/// Opens a file of the tree that contains the binary; `None` if it does not exist.
pub type OpenArchive<'a> = &'a dyn Fn(&RelPath) -> Result<Option<Arc<dyn ReadAt>>>;

/// The runtime's lookup in a tree of split binaries and archives. Opened archives are cached.
pub struct Loader<'a> {
    generation: Generation,
    open: OpenArchive<'a>,
    archives: BTreeMap<RelPath, Option<KpackArchive<Arc<dyn ReadAt>>>>,
}

impl<'a> Loader<'a> {
    pub fn new(generation: Generation, open: OpenArchive<'a>) -> Self {
        Self {
            generation,
            open,
            archives: BTreeMap::new(),
        }
    }

    /// Finds the code for a device and a wrapper of the binary at `path`. Reads only the table of
    /// contents of each archive.
    ///
    /// A damaged archive is an error here, although the runtime would skip it silently.
    pub fn find(
        &mut self,
        path: &RelPath,
        reference: &WrapperReference,
        device: &CodeTarget,
    ) -> Result<CodePlace<'_>> {
        let wanted = wanted(device);
        let candidates = candidates(path, reference, &wanted);
        for candidate in &candidates {
            self.know(candidate)
                .with_context(|| format!("failed to open `{candidate}`"))?;
        }
        let key = key(
            &reference.marker.kernel_name,
            usize::try_from(reference.index)?,
        );
        let mut is_lacking = false;
        for target in &wanted {
            for candidate in &candidates {
                let Some(Some(archive)) = self.archives.get(candidate) else {
                    continue;
                };
                if !archive
                    .targets()
                    .iter()
                    .any(|known| known == target.as_str())
                {
                    continue;
                }
                if let Some(code) = archive.find(&key, target) {
                    return Ok(CodePlace::In(archive, code));
                }
                if self.generation == Generation::FirstArchive {
                    return Ok(CodePlace::Lacking);
                }
                is_lacking = true;
            }
        }
        Ok(if is_lacking {
            CodePlace::Lacking
        } else {
            CodePlace::PassedOver
        })
    }

    /// Opens an archive, unless it is in the cache.
    fn know(&mut self, path: &RelPath) -> Result<()> {
        if !self.archives.contains_key(path) {
            let archive = (self.open)(path)?.map(KpackArchive::open).transpose()?;
            self.archives.insert(path.clone(), archive);
        }
        Ok(())
    }
}

/// The targets whose code runs on a device, in the order in which the runtime looks for them: first
/// the device's own target, then its generic one, each with all features first and with none last.
pub fn wanted(device: &CodeTarget) -> Vec<CodeTarget> {
    let mut wanted = device.accepted();
    let base = device.base();
    if let Some(generic) = generic(base.as_str()) {
        let features = device.as_str().strip_prefix(base.as_str()).unwrap_or("");
        let generic = format!("{generic}{features}").parse::<CodeTarget>();
        wanted.extend(
            generic
                .map(|generic| generic.accepted())
                .unwrap_or_default(),
        );
    }
    wanted
}

/// The paths of the archives that a marker names, in the order in which the runtime searches them.
pub fn candidates(
    path: &RelPath,
    reference: &WrapperReference,
    wanted: &[CodeTarget],
) -> Vec<RelPath> {
    let mut candidates = Vec::new();
    for pattern in &reference.marker.kpack_search_paths {
        for target in wanted {
            let text = pattern.replacen(PLACEHOLDER, target.as_str(), 1);
            if let Some(place) = path.resolve_link(&text)
                && !candidates.contains(&place)
            {
                candidates.push(place);
            }
        }
    }
    candidates
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::kpack::{
        Marker,
        archive::{ArchiveWriter, KpackScheme, Packed},
    };

    fn archive(codes: &[(usize, &str)]) -> Arc<dyn ReadAt> {
        let mut writer =
            ArchiveWriter::new(Cursor::new(Vec::new()), "p", "f", KpackScheme::Zstd).unwrap();
        for (bundle, target) in codes {
            let code =
                Packed::new(format!("{bundle} {target}").as_bytes(), KpackScheme::Zstd).unwrap();
            writer
                .add(&key("k", *bundle), &target.parse().unwrap(), &code, None)
                .unwrap();
        }
        Arc::new(writer.finish().unwrap().0.into_inner())
    }

    fn load(generation: Generation, bundle: u64, device: &str) -> String {
        let open = |path: &RelPath| {
            Ok(match path.as_str() {
                "a/.kpack/p_gfx90a.kpack" => Some(archive(&[(0, "gfx90a"), (1, "gfx90a")])),
                "a/.kpack/p_gfx90a:xnack-.kpack" => Some(archive(&[(1, "gfx90a:xnack-")])),
                "a/.kpack/p_gfx9-4-generic.kpack" => Some(archive(&[(0, "gfx9-4-generic")])),
                _ => None,
            })
        };
        let reference = WrapperReference {
            marker: Arc::new(Marker::new(1, &["p"], "k")),
            index: bundle,
        };
        let path = "a/lib/libx.so".parse().unwrap();
        let mut loader = Loader::new(generation, &open);
        let found = loader.find(&path, &reference, &device.parse().unwrap());
        match found.unwrap() {
            CodePlace::In(archive, code) => String::from_utf8(archive.read(code).unwrap()).unwrap(),
            CodePlace::PassedOver => "PassedOver".to_owned(),
            CodePlace::Lacking => "Lacking".to_owned(),
        }
    }

    #[test]
    fn the_most_specific_code_is_found_first() {
        for generation in [Generation::FirstArchive, Generation::EveryArchive] {
            assert_eq!(
                load(generation, 1, "gfx90a:sramecc+:xnack-"),
                "1 gfx90a:xnack-"
            );
            assert_eq!(load(generation, 0, "gfx90a:sramecc+:xnack+"), "0 gfx90a");
            assert_eq!(
                load(generation, 0, "gfx950:sramecc+:xnack-"),
                "0 gfx9-4-generic"
            );
            assert_eq!(load(generation, 0, "gfx1100"), "PassedOver");
            assert_eq!(load(generation, 7, "gfx90a"), "Lacking");
        }
    }

    #[test]
    fn an_archive_without_the_code_hides_others_from_the_first_generation() {
        assert_eq!(
            load(Generation::FirstArchive, 0, "gfx90a:xnack-"),
            "Lacking"
        );
        assert_eq!(
            load(Generation::EveryArchive, 0, "gfx90a:xnack-"),
            "0 gfx90a"
        );
    }
}
