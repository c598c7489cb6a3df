//! Asks the model of the runtime whether every device gets the code that it got before the split.

use std::collections::{BTreeMap, BTreeSet};

use super::{ToSplit, placement::PlacedBinary, plan::SplitWheelPlan};
use crate::{
    elf::{Patch, PatchedReader},
    error::{Context as _, Result, bail, ensure},
    io::FileAt,
    kpack::{
        CodeTarget,
        archive::KpackArchive,
        host::{self, WrapperReference},
        loader::{ArchivesByPath, CodePlace, Generation, find, wanted},
    },
    relpath::RelPath,
    target::{Target, TargetTable, generic},
};

/// Fails if a device would get other code than before, or none. Targets without an archive in the
/// plan are left out on purpose.
pub(super) fn ensure_same(
    input: &ToSplit<'_>,
    plan: &SplitWheelPlan,
    patches: &[Patch],
    archives: &BTreeMap<RelPath, KpackArchive<FileAt>>,
) -> Result<()> {
    let devices = devices(input);
    let archives: ArchivesByPath<'_, FileAt> =
        archives.iter().map(|(path, archive)| (path.clone(), archive)).collect();
    for (placed, patch) in input.fat.iter().zip(patches) {
        let one = OneBinary { placed, plan, archives: &archives };
        one.ensure_same(patch, &devices).with_context(|| {
            format!("the split of `{}` would lose code", placed.member.installed)
        })?;
    }
    Ok(())
}

/// All kinds of devices that the code is for: each target, with all its features.
fn devices(input: &ToSplit<'_>) -> BTreeSet<CodeTarget> {
    let bundles = input.fat.iter().flat_map(|it| &it.member.bundles);
    let bases: BTreeSet<CodeTarget> =
        bundles.flat_map(BTreeMap::keys).map(CodeTarget::base).collect();
    let known = TargetTable::builtin().known().map(Target::base);
    let behind = known.filter(|target| {
        let generic = generic(target.as_str()).and_then(|it| it.parse::<CodeTarget>().ok());
        generic.is_some_and(|it| bases.contains(&it))
    });
    let own = bases.iter().filter_map(CodeTarget::target);
    let processors: BTreeSet<String> = own.chain(behind).map(|it| it.to_string()).collect();
    let mut devices = BTreeSet::new();
    for processor in processors {
        for sramecc in ["", ":sramecc+", ":sramecc-"] {
            for xnack in ["", ":xnack+", ":xnack-"] {
                devices.extend(format!("{processor}{sramecc}{xnack}").parse::<CodeTarget>());
            }
        }
    }
    devices
}

struct OneBinary<'a> {
    placed: &'a PlacedBinary,
    plan: &'a SplitWheelPlan,
    archives: &'a ArchivesByPath<'a, FileAt>,
}

impl OneBinary<'_> {
    fn ensure_same(&self, patch: &Patch, devices: &BTreeSet<CodeTarget>) -> Result<()> {
        let source = PatchedReader::new(&self.placed.member.bytes, patch.clone());
        let references = host::references(&source)?;
        let wrappers = &self.placed.member.fat.wrappers;
        ensure!(
            references.len() == wrappers.len(),
            "{} wrappers instead of {}",
            references.len(),
            wrappers.len()
        );
        for (reference, wrapper) in references.iter().zip(wrappers) {
            ensure!(
                reference.index == wrapper.bundle,
                "a wrapper leads to bundle {} instead of {}",
                reference.index,
                wrapper.bundle
            );
            for device in devices {
                self.ensure_same_code(reference, device)?;
            }
        }
        Ok(())
    }

    fn ensure_same_code(&self, reference: &WrapperReference, device: &CodeTarget) -> Result<()> {
        let before = self.before(reference.index, device)?;
        for generation in [Generation::FirstArchive, Generation::EveryArchive] {
            let path = &self.placed.member.installed;
            let after = find(generation, self.archives, path, reference, device);
            let is_same = match (&before, &after) {
                (None, CodePlace::PassedOver) => true,
                (Some((target, size)), CodePlace::In(_, code)) => {
                    code.target == *target && code.size == *size && code.key == reference.key()
                }
                _ => false,
            };
            if !is_same {
                let had = before.map_or("none".to_owned(), |it| it.0.to_string());
                let gets = match after {
                    CodePlace::In(_, code) => code.target.to_string(),
                    CodePlace::PassedOver => "none".to_owned(),
                    CodePlace::Lacking => "an archive without it".to_owned(),
                };
                bail!(
                    "bundle {} for {device}: it had code for {had}, and the runtime finds {gets}",
                    reference.index
                );
            }
        }
        Ok(())
    }

    /// The code that the runtime takes from a bundle in a binary.
    fn before(&self, bundle: usize, device: &CodeTarget) -> Result<Option<(CodeTarget, u64)>> {
        let code = self.placed.member.bundles.get(bundle).context("no such bundle")?;
        for target in wanted(device) {
            let Some(size) = code.get(&target) else {
                continue;
            };
            let archive = self.placed.archive(bundle, &target)?;
            if self.plan.archives.contains_key(&archive) {
                return Ok(Some((target, *size)));
            }
        }
        Ok(None)
    }
}
