//! [`HostBase`]: the wheel that becomes a host wheel, as it was read or as a tie changes it.

use std::{borrow::Cow, collections::BTreeMap};

use super::WheelSplitOptions;
use crate::{
    error::{Context as _, Result},
    framework::{
        facts,
        policy::FrameworkSpec,
        read::FrameworkWheel,
        refusal::WheelRefusal,
        rocm::RocmLibraries,
        tie::{self, TiePlan, TieRecord},
    },
    wheel::PackageFilename,
};

/// What a host wheel has in common with the wheel before the split.
#[derive(Debug)]
pub(super) struct HostBase<'a> {
    pub(super) name: PackageFilename,
    /// The part of its version that names ROCm.
    pub(super) suffix: Option<String>,
    pub(super) metadata: Cow<'a, str>,
    pub(super) wheel_text: Cow<'a, str>,
    pub(super) record: Option<TieRecord>,
    /// The changed texts by their paths.
    pub(super) texts: BTreeMap<String, String>,
    /// What keeps the version from being changed.
    pub(super) refusals: Vec<WheelRefusal>,
}

impl<'a> HostBase<'a> {
    /// The wheel as it was read.
    pub(super) fn of_wheel(
        wheel: &'a FrameworkWheel,
        row: Option<&FrameworkSpec>,
        rocm: Option<&RocmLibraries>,
        options: &WheelSplitOptions,
    ) -> Result<Self> {
        let rocm = rocm.map(|it| &it.version);
        let (version, suffix) = tie::version_of(wheel, &options.suffix, rocm)?;
        let tag = wheel.name.tag.as_ref().context("a wheel without a tag")?;
        let files = facts::version_files(wheel, row)?;
        let mut refusals = Vec::new();
        let texts = tie::version_files(&files, &wheel.name.version, &version, &mut refusals);
        Ok(Self {
            name: tie::result(wheel, &version, tag),
            suffix,
            metadata: Cow::Borrowed(&wheel.metadata_text),
            wheel_text: Cow::Borrowed(&wheel.wheel_text),
            record: TieRecord::read(wheel)?,
            texts: texts.into_iter().collect(),
            refusals,
        })
    }

    /// The wheel as a tie changes it.
    pub(super) fn tied(wheel: &FrameworkWheel, plan: &TiePlan) -> Result<Self> {
        let top = plan.dist_info(wheel);
        let text = |name: &str| {
            let text = plan.texts.get(&format!("{top}/{name}")).cloned();
            let text = text.map(Cow::Owned);
            text.with_context(|| format!("no {name} in the plan of a tie"))
        };
        Ok(Self {
            name: plan.result.clone(),
            suffix: plan.record.version_suffix.clone(),
            metadata: text("METADATA")?,
            wheel_text: text("WHEEL")?,
            record: Some(plan.record.clone()),
            texts: plan.texts.clone(),
            refusals: Vec::new(),
        })
    }
}
