//! [`ToSplit`]: a wheel, and the device code of all its binaries. Only headers are read.

use std::{collections::BTreeMap, num::NonZeroUsize, sync::Arc};

use itertools::Itertools as _;

use super::{
    placement::{self, PlacedBinary},
    plan::KeptCode,
};
use crate::framework::{
    facts,
    read::{Binary, FrameworkWheel},
};
use rocwheel_base::{
    error::{Context as _, Result, Stop},
    parallel,
    relpath::RelPath,
    spool::Spool,
};
use rocwheel_kpack::{
    CodeTarget, SplittableBinary,
    split::{DeviceCode, device_code},
};

/// A wheel, and the device code of its binaries.
pub struct ToSplit<'a> {
    pub(super) wheel: &'a FrameworkWheel,
    /// The binaries whose device code can be taken out.
    pub(super) fat: Vec<PlacedBinary>,
    /// The binaries whose device code must stay, and why.
    pub(super) unsplittable: Vec<KeptCode>,
    /// The binaries whose device code was taken out before.
    pub(super) split: Vec<String>,
}

/// A binary with device code that can be taken out.
#[derive(Debug)]
pub(super) struct FatMember {
    /// The path of the member.
    pub member: String,
    /// The path that it gets in `site-packages`.
    pub installed: RelPath,
    pub bytes: Arc<Spool>,
    pub fat: SplittableBinary,
    /// For each bundle the size of the code of each target.
    pub bundles: Vec<BTreeMap<CodeTarget, u64>>,
}

impl<'a> ToSplit<'a> {
    /// Why a wheel is not split, if so: there is no code to take out, or some was taken out before.
    pub fn passed_on(&self) -> Option<String> {
        if let Some(path) = self.split.first() {
            return Some(format!("the device code of `{path}` was taken out before"));
        }
        if !self.fat.is_empty() {
            return None;
        }
        Some(match self.unsplittable.first() {
            Some(KeptCode { path, why }) => {
                format!("the device code of `{path}` cannot be taken out: {why}")
            }
            None if !facts::device_files(self.wheel).is_empty() => {
                "its device code is in files of its own, which its Python opens by their paths"
                    .to_owned()
            }
            None => "no binary has device code".to_owned(),
        })
    }

    /// The size of all bundles.
    pub(super) fn size(&self) -> u64 {
        let bundles = self.fat.iter().flat_map(|it| &it.member.fat.bundles);
        bundles.map(|it| it.len).sum()
    }

    pub fn read(wheel: &'a FrameworkWheel, jobs: NonZeroUsize, stop: &Stop) -> Result<Self> {
        let binaries = wheel
            .installed()
            .filter_map(|(path, member)| {
                let binary = wheel.binaries.get(&member.path)?;
                Some((path, member.path.as_str(), binary))
            })
            .sorted_by_key(|(path, _, _)| *path)
            .collect_vec();
        let read = |(path, _, binary): &(&str, &str, &Binary)| {
            device_code(&binary.bytes).with_context(|| format!("failed to read `{path}`"))
        };
        let codes = parallel::map(&binaries, jobs, stop, read)?;
        let mut fat = Vec::new();
        let mut unsplittable = Vec::new();
        let mut split = Vec::new();
        for ((path, member, binary), code) in binaries.into_iter().zip(codes) {
            let path = path.to_owned();
            match code {
                DeviceCode::None => {}
                DeviceCode::Split => split.push(path),
                DeviceCode::Stays(why) => unsplittable.push(KeptCode { path, why }),
                DeviceCode::Leaves(code, bundles) => fat.push(FatMember {
                    member: member.to_owned(),
                    installed: path.parse()?,
                    bytes: Arc::clone(&binary.bytes),
                    fat: code,
                    bundles,
                }),
            }
        }
        let packages = facts::packages(wheel);
        Ok(Self {
            wheel,
            fat: placement::place(&wheel.name.name, &packages, fat)?,
            unsplittable,
            split,
        })
    }
}
