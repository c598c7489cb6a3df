//! Asks the model of the runtime whether every device gets the code that it got before the split.

use std::collections::{BTreeMap, BTreeSet};

use super::{ToSplit, placement::PlacedBinary, plan::SplitWheelPlan};
use rocwheel_base::{
    error::{Context as _, Result, bail, ensure},
    io::FileAt,
    relpath::RelPath,
    target::{Target, TargetTable, generic},
};
use rocwheel_elf::{Patch, PatchedReader};
use rocwheel_kpack::{
    CodeTarget,
    archive::KpackArchive,
    host::{self, WrapperReference},
    loader::{ArchivesByPath, CodePlace, Generation, find, wanted},
};

/// Fails if a device would get other code than before, or none. A target without an archive in the plan is left
/// out on purpose: its devices get none.
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
        let comparison = BinaryComparison { placed, plan, archives: &archives };
        comparison.ensure_same(patch, &devices).with_context(|| {
            format!("the split of `{}` would lose code", placed.member.installed)
        })?;
    }
    Ok(())
}

/// All kinds of devices that can run the code: each target, and each target of a generic target, with every
/// combination of features.
fn devices(input: &ToSplit<'_>) -> BTreeSet<CodeTarget> {
    let bundles = input.fat.iter().flat_map(|placed| &placed.member.bundles);
    let bases: BTreeSet<CodeTarget> =
        bundles.flat_map(BTreeMap::keys).map(CodeTarget::base).collect();
    let targets = bases.iter().filter_map(CodeTarget::target);
    let has_generic_code = |target: &Target| {
        let generic: Option<CodeTarget> =
            generic(target.as_str()).and_then(|name| name.parse().ok());
        generic.is_some_and(|generic| bases.contains(&generic))
    };
    let targets_of_generic =
        TargetTable::builtin().known().map(Target::base).filter(has_generic_code);
    let processors: BTreeSet<String> =
        targets.chain(targets_of_generic).map(|target| target.to_string()).collect();
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

/// Compares the code that devices get from a binary before the split and after it.
struct BinaryComparison<'a> {
    placed: &'a PlacedBinary,
    plan: &'a SplitWheelPlan,
    archives: &'a ArchivesByPath<'a, FileAt>,
}

impl BinaryComparison<'_> {
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
        let before = self.code_before(reference.index, device)?;
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
                let had = before.map_or("none".to_owned(), |(target, _)| target.to_string());
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

    /// The code that the runtime takes from a bundle in the binary before the split: its target, and its size.
    fn code_before(&self, bundle: usize, device: &CodeTarget) -> Result<Option<(CodeTarget, u64)>> {
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
