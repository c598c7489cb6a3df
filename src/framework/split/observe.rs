//! [`ToSplit`]: a wheel, and the device code of all its binaries. Only headers are read.

use std::{collections::BTreeMap, num::NonZeroUsize, sync::Arc};

use itertools::Itertools as _;

use super::{
    placement::{self, PlacedBinary},
    plan::KeptCode,
};
use crate::{
    error::{Context as _, Result, Stop},
    framework::{
        facts,
        read::{Binary, FrameworkWheel},
    },
    kpack::{
        CodeTarget, SplittableBinary,
        split::{DeviceCode, device_code},
    },
    parallel,
    relpath::RelPath,
    spool::Spool,
};

/// A wheel, and what a split has to know of it besides its members.
pub struct ToSplit<'a> {
    pub(super) wheel: &'a FrameworkWheel,
    pub(super) fat: Vec<PlacedBinary>,
    /// The binaries whose device code must stay, and why.
    pub(super) unsplittable: Vec<KeptCode>,
    /// The binaries whose device code was taken out before.
    pub(super) split: Vec<String>,
}

/// A binary with device code that can be taken out.
#[derive(Debug)]
pub(super) struct FatMember {
    /// The path of the member, and the one that it gets in `site-packages`.
    pub member: String,
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
        match self.unsplittable.first() {
            _ if !self.fat.is_empty() => None,
            Some(KeptCode { path, why }) => {
                Some(format!("the device code of `{path}` cannot be taken out: {why}"))
            }
            None => Some("no binary has device code".to_owned()),
        }
    }

    /// The size of all bundles.
    pub(super) fn size(&self) -> u64 {
        let bundles = self.fat.iter().flat_map(|it| &it.member.fat.bundles);
        bundles.map(|it| it.len).sum()
    }

    pub fn read(wheel: &'a FrameworkWheel, jobs: NonZeroUsize, stop: &Stop) -> Result<Self> {
        let files = wheel.installed().filter_map(|(path, member)| {
            let binary = wheel.binaries.get(&member.path)?;
            Some((path, member.path.as_str(), binary))
        });
        let files = files.sorted_by_key(|it| it.0).collect_vec();
        let read = |(path, _, binary): &(&str, &str, &Binary)| {
            device_code(&binary.bytes).with_context(|| format!("failed to read `{path}`"))
        };
        let (mut fat, mut unsplittable, mut split) = (Vec::new(), Vec::new(), Vec::new());
        let found = parallel::map(&files, jobs, stop, read)?;
        for ((path, member, binary), code) in files.into_iter().zip(found) {
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
