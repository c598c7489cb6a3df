//! Checks that split binaries and archives fit together, with the lookup of the runtime.
//!
//! The parts of an artifact may come from different splits: the generic part of one family with the
//! device parts of another. They fit if the binaries have the same bundles, and the archives have
//! the names in the markers. Otherwise the runtime does not find the code of a target, and the
//! first error would appear when a program runs on such a device.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    elf::ReadAt,
    error::{Context as _, Result},
    kpack::{
        CodeTarget,
        archive::{KpackArchive, key},
        host::WrapperReference,
        loader::{CodePlace, Generation, Loader, candidates, wanted},
    },
    relpath::RelPath,
};

/// A split binary: its path in the installed tree, and the references of its wrappers.
pub type SplitBinary = (RelPath, Vec<WrapperReference>);

/// Says which code the runtime would not find or not use, if the archives are installed at these
/// paths beside the binaries: the first code object, in the order of binaries and targets. Code for
/// other binaries is ignored.
pub fn lost_code(
    binaries: &[SplitBinary],
    archives: &BTreeMap<RelPath, Arc<dyn ReadAt>>,
) -> Result<Option<String>> {
    let names = binaries.iter().flat_map(|(path, references)| {
        let names = references.iter().map(|one| &*one.marker.kernel_name);
        names.map(move |name| (name, path))
    });
    let names: BTreeMap<&str, &RelPath> = names.collect();
    let mut held: BTreeMap<(RelPath, String, CodeTarget), &RelPath> = BTreeMap::new();
    for (path, bytes) in archives {
        let archive = KpackArchive::open(Arc::clone(bytes));
        let archive = archive.with_context(|| format!("failed to read `{path}`"))?;
        for code in archive.codes() {
            let name = code.key.rsplit_once('#').map(|(name, _)| name);
            if let Some(binary) = name.and_then(|name| names.get(name)) {
                let code = (path.clone(), code.key.clone(), code.target.clone());
                held.insert(code, binary);
            }
        }
    }
    let targets: BTreeSet<CodeTarget> = held.keys().map(|(_, _, it)| it.clone()).collect();
    // Each with the archive that the binary does not ask for it. `None` if an archive for the target
    // lacks the code of this bundle, so that the runtime refuses the binary.
    let mut lost = BTreeSet::new();
    let open = |path: &RelPath| Ok(archives.get(path).cloned());
    let mut loader = Loader::new(Generation::EveryArchive, &open);
    for (path, references) in binaries {
        for target in &targets {
            let accepted = wanted(target);
            let (mut has_any, mut lacking) = (false, None);
            for reference in references {
                let key = key(
                    &reference.marker.kernel_name,
                    usize::try_from(reference.index)?,
                );
                for archive in candidates(path, reference, &accepted) {
                    held.remove(&(archive, key.clone(), target.clone()));
                }
                match loader.find(path, reference, target)? {
                    CodePlace::In(..) => has_any = true,
                    CodePlace::Lacking => lacking = Some(key),
                    CodePlace::PassedOver => {}
                }
            }
            if let Some(key) = lacking.filter(|_| has_any) {
                lost.insert((path, target.clone(), None, key));
            }
        }
    }
    let unreached = held.into_iter();
    lost.extend(unreached.map(|((archive, key, target), it)| (it, target, Some(archive), key)));
    let first = lost.pop_first();
    Ok(first.map(|(binary, target, archive, key)| match archive {
        Some(archive) => format!(
            "`{binary}` would not find its code for `{target}`: it does not ask `{archive}` for `{key}`"
        ),
        None => format!(
            "`{binary}` would be refused by the runtime for `{target}`: no archive has `{key}`"
        ),
    }))
}
