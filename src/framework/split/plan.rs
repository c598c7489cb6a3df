//! [`SplitWheelPlan`]: what a split does to one wheel. It is what `--plan` prints.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use itertools::Itertools as _;
use serde::Serialize;

use super::placement::PlacedArchive;
use crate::framework::{device_selector::SelectorPlan, read::FrameworkWheel};
use rocwheel_base::{
    quantity::many,
    relpath::RelPath,
    target::{Scope, Target},
};
use rocwheel_wheel::PackageFilename;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SplitWheelPlan {
    pub file: String,
    /// Why the wheel is passed on as it is, if so. Nothing else is planned then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed_on: Option<String>,
    /// The host wheel.
    #[serde(serialize_with = "crate::framework::as_text")]
    pub(super) host: PackageFilename,
    /// The binaries that lose their device code.
    pub binaries: Vec<LightenedBinary>,
    /// The binaries that keep it, each with the reason.
    pub kept: Vec<KeptCode>,
    pub devices: Vec<DeviceWheelPlan>,
    /// The sdist that selects one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<SelectorPlan>,
    /// The targets whose code is left out.
    pub dropped: Vec<String>,
    pub requires: Vec<String>,
    /// The requirements that a tie has forwarded. The requirements of the device wheels replace them.
    pub removed: Vec<String>,
    pub extras: Vec<String>,
    pub warnings: Vec<String>,
    /// The archives that are written, by their installed paths.
    #[serde(skip)]
    pub(super) archives: BTreeMap<RelPath, PlacedArchive>,
    /// The members that the host wheel does not have any more.
    #[serde(skip)]
    pub(super) moved: BTreeSet<String>,
    /// The changed texts of the host wheel, by their paths.
    #[serde(skip)]
    pub(super) texts: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LightenedBinary {
    pub path: String,
    pub bundles: usize,
    pub code_objects: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct KeptCode {
    pub path: String,
    pub why: String,
}

/// A device wheel.
#[derive(Debug, Serialize)]
pub struct DeviceWheelPlan {
    #[serde(serialize_with = "crate::framework::as_text")]
    pub target: Target,
    pub file: String,
    /// The installed paths of its archives.
    pub archives: Vec<String>,
    /// The paths of the members that move to it.
    pub databases: Vec<String>,
    #[serde(skip)]
    pub(super) name: PackageFilename,
    /// The paths and texts of its metadata.
    #[serde(skip)]
    pub(super) texts: Vec<(String, String)>,
}

impl fmt::Display for SplitWheelPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.file)?;
        if let Some(why) = &self.passed_on {
            return writeln!(f, "  stays     as it is: {why}");
        }
        let host = self.host.to_string();
        if host != self.file {
            writeln!(f, "  becomes   {host}")?;
        }
        let binaries = many(self.binaries.len(), "binary");
        let objects = many(self.binaries.iter().map(|it| it.code_objects).sum(), "code object");
        writeln!(f, "  splits    {binaries} with {objects}")?;
        for device in &self.devices {
            let contents =
                [(device.archives.len(), "archive"), (device.databases.len(), "database file")]
                    .into_iter()
                    .filter(|(count, _)| *count > 0)
                    .map(|(count, what)| many(count, what))
                    .join(", ");
            writeln!(f, "  device    {}: {contents}", device.file)?;
        }
        if let Some(selector) = &self.selector {
            writeln!(f, "  selector  {}", selector.file)?;
        }
        for (path, _) in self.generic() {
            writeln!(f, "  host      {path}: for several targets")?;
        }
        for line in self.requires.iter().sorted() {
            writeln!(f, "  + requires {line}")?;
        }
        for line in &self.removed {
            writeln!(f, "  - requires {line}")?;
        }
        for target in &self.dropped {
            writeln!(f, "  - target  {target}")?;
        }
        for KeptCode { path, why } in &self.kept {
            writeln!(f, "  keeps     {path}: {why}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "  warning   {warning}")?;
        }
        Ok(())
    }
}

impl SplitWheelPlan {
    /// A plan with nothing in it yet. With `passed_on` it is complete: the wheel is passed on as it is.
    pub(super) fn new(wheel: &FrameworkWheel, passed_on: Option<String>) -> Self {
        Self {
            file: wheel.name.to_string(),
            passed_on,
            host: wheel.name.clone(),
            binaries: Vec::new(),
            kept: Vec::new(),
            devices: Vec::new(),
            selector: None,
            dropped: Vec::new(),
            requires: Vec::new(),
            removed: Vec::new(),
            extras: Vec::new(),
            warnings: Vec::new(),
            archives: BTreeMap::new(),
            moved: BTreeSet::new(),
            texts: BTreeMap::new(),
        }
    }

    /// The plan for a wheel that stays whole, because its parts turned out to be too large.
    #[must_use]
    pub fn passed_on(self, wheel: &FrameworkWheel, why: String) -> Self {
        Self { warnings: self.warnings, ..Self::new(wheel, Some(why)) }
    }

    /// The warnings, and what keeps its device code.
    pub fn notices(&self) -> impl Iterator<Item = String> {
        let notice =
            |kept: &KeptCode| format!("`{}` keeps its device code: {}", kept.path, kept.why);
        self.warnings.iter().cloned().chain(self.kept.iter().map(notice))
    }

    /// The archives that stay in the host wheel, because they are for generic targets.
    pub(super) fn generic(&self) -> impl Iterator<Item = (&RelPath, &PlacedArchive)> {
        self.archives.iter().filter(|(_, archive)| !matches!(archive.scope, Scope::Target(_)))
    }
}
