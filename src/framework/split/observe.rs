//! [`SplitInput`]: the device code of all binaries of a wheel. Only headers are read.

use std::{collections::BTreeMap, num::NonZeroUsize, sync::Arc};

use crate::{
    error::{Context as _, Result, Stop},
    framework::read::{Binary, FrameworkWheel},
    kpack::{
        CodeTarget, SplittableBinary, bundle,
        host::{self, FatFileKind},
        split::home,
    },
    parallel,
    relpath::RelPath,
    spool::Spool,
};

/// What a split has to know of a wheel besides its members.
#[derive(Debug, Default)]
pub struct SplitInput {
    pub(super) fat: Vec<FatMember>,
    /// The binaries whose device code must stay, and why.
    pub(super) unsplittable: Vec<(String, String)>,
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

enum Looked {
    Plain,
    Split,
    Unsplittable(String),
    Fat(Box<FatMember>),
}

impl SplitInput {
    /// Why a wheel is not split, if so: there is no code to take out, or some was taken out before.
    pub fn passed_on(&self) -> Option<String> {
        if let Some(path) = self.split.first() {
            return Some(format!("the device code of `{path}` was taken out before"));
        }
        match self.unsplittable.first() {
            _ if !self.fat.is_empty() => None,
            Some((path, why)) => Some(format!(
                "the device code of `{path}` cannot be taken out: {why}"
            )),
            None => Some("no binary has device code".to_owned()),
        }
    }

    /// The size of all bundles.
    pub(super) fn size(&self) -> u64 {
        let bundles = self.fat.iter().flat_map(|it| &it.fat.bundles);
        bundles.map(|it| it.len).sum()
    }

    pub fn read(wheel: &FrameworkWheel, jobs: NonZeroUsize, stop: &Stop) -> Result<Self> {
        let mut files: Vec<(&str, &str, &Binary)> = wheel
            .installed()
            .filter_map(|(path, member)| {
                let binary = wheel.binaries.get(&member.path)?;
                Some((path, member.path.as_str(), binary))
            })
            .collect();
        files.sort_by_key(|it| it.0);
        let looked = parallel::map(&files, jobs, stop, |(path, member, binary)| {
            look(path, member, binary).with_context(|| format!("failed to read `{path}`"))
        })?;
        let mut input = Self::default();
        for ((path, _, _), looked) in files.iter().zip(looked) {
            match looked {
                Looked::Plain => {}
                Looked::Split => input.split.push((*path).to_owned()),
                Looked::Unsplittable(why) => input.unsplittable.push(((*path).to_owned(), why)),
                Looked::Fat(fat) => input.fat.push(*fat),
            }
        }
        Ok(input)
    }
}

fn look(path: &str, member: &str, binary: &Binary) -> Result<Looked> {
    let fat = match host::look(&binary.bytes)? {
        FatFileKind::Plain => return Ok(Looked::Plain),
        FatFileKind::Split => return Ok(Looked::Split),
        FatFileKind::Unsplittable { why, .. } => return Ok(Looked::Unsplittable(why.to_owned())),
        FatFileKind::Fat(fat) => fat,
    };
    let section = fat.section(&binary.bytes)?;
    let mut bundles = Vec::new();
    for (ordinal, one) in fat.bundles.iter().enumerate() {
        let parts = bundle::parts(&section, one)
            .with_context(|| format!("failed to open bundle {ordinal}"))?;
        bundles.push(parts.into_iter().collect::<BTreeMap<_, _>>());
    }
    let mut targets = bundles.iter().flat_map(BTreeMap::keys);
    if let Some(target) = targets.find(|it| home(it).is_none()) {
        return Ok(Looked::Unsplittable(format!(
            "no runtime looks into an archive for `{target}`"
        )));
    }
    Ok(Looked::Fat(Box::new(FatMember {
        member: member.to_owned(),
        installed: path.parse()?,
        bytes: Arc::clone(&binary.bytes),
        fat,
        bundles,
    })))
}
