//! [`TiePlan`]: what a tie does to one wheel. It is what `--plan` prints.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use super::record::TieRecord;
use crate::{
    console::many,
    elf::Rpath,
    framework::{device_selector::SelectorPlan, tags::ProvenTag},
    wheel::PackageFilename,
};

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TiePlan {
    pub file: String,
    #[serde(serialize_with = "as_display")]
    pub result: PackageFilename,
    /// The version of the set.
    pub set: String,
    /// The host wheel, if this is a device wheel of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
    /// The requirements that are added, each with its reason.
    pub requires: Vec<PlannedRequirement>,
    pub removed: Vec<String>,
    pub extras: Vec<String>,
    pub removed_extras: Vec<String>,
    /// The binaries that change.
    pub run_paths: Vec<RunPathChange>,
    /// The binaries that need libraries of the set, whether they change or not.
    pub tied: usize,
    pub binaries: usize,
    pub untied: Vec<UntiedFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<PlannedInit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<PlannedTag>,
    /// The sdist that selects one of the device wheels of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<SelectorPlan>,
    pub warnings: Vec<String>,
    /// The members that are replaced or added, by their paths. The metadata are among them.
    #[serde(skip)]
    pub texts: BTreeMap<String, String>,
    #[serde(skip)]
    pub record: TieRecord,
}

#[derive(Clone, Debug, Serialize)]
pub struct PlannedRequirement {
    pub line: String,
    pub why: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct RunPathChange {
    /// The path of the member.
    pub path: String,
    /// The run path now, if there is one.
    pub from: Option<String>,
    #[serde(serialize_with = "as_display")]
    pub to: Rpath,
}

/// A binary that stays as it is although it needs libraries that neither the host nor the set has.
#[derive(Clone, Debug, Serialize)]
pub struct UntiedFile {
    pub path: String,
    pub why: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlannedInit {
    /// The path of the module.
    pub module: String,
    /// Whether the hook is added to `__init__.py`.
    pub adds_hook: bool,
    pub preload: Vec<String>,
    pub check_version: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PlannedTag {
    pub from: String,
    pub to: String,
    pub because: Option<String>,
}

fn as_display<T: fmt::Display, S: serde::Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

impl PlannedTag {
    pub fn new(from: &str, to: &str, proved: &ProvenTag) -> Self {
        let because = proved.because.as_ref();
        Self {
            from: from.to_owned(),
            to: to.to_owned(),
            because: because.map(|(file, needs)| format!("`{file}` needs {needs}")),
        }
    }
}

impl fmt::Display for TiePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.file)?;
        let result = self.result.to_string();
        if result != self.file {
            writeln!(f, "  becomes   {result}")?;
        }
        if let Some(host) = &self.follows {
            writeln!(
                f,
                "  follows   {host}, with device code for ROCm {}",
                self.set
            )?;
        } else {
            let binaries = many(self.binaries, "binary");
            writeln!(
                f,
                "  ties      {} of {binaries} to ROCm {}",
                self.tied, self.set
            )?;
        }
        for one in &self.requires {
            writeln!(f, "  + requires {} ({})", one.line, one.why)?;
        }
        for line in &self.removed {
            writeln!(f, "  - requires {line}")?;
        }
        if !self.extras.is_empty() {
            writeln!(f, "  + extras  {}", self.extras.join(", "))?;
        }
        if !self.removed_extras.is_empty() {
            writeln!(f, "  - extras  {}", self.removed_extras.join(", "))?;
        }
        match &self.init {
            None => writeln!(f, "  init      no hook: run paths only")?,
            Some(init) => {
                let hook = if init.adds_hook { ", with a hook" } else { "" };
                let version = init.check_version.as_deref().unwrap_or("any version");
                writeln!(f, "  init      {} for {version}{hook}", init.module)?;
                writeln!(f, "  preload   {}", init.preload.join(" "))?;
            }
        }
        if let Some(tag) = &self.tag {
            let because = tag.because.as_ref().map(|it| format!(", since {it}"));
            writeln!(
                f,
                "  tag       {} to {}{}",
                tag.from,
                tag.to,
                because.unwrap_or_default()
            )?;
        }
        if let Some(selector) = &self.selector {
            writeln!(f, "  selector  {}", selector.file)?;
        }
        for change in &self.run_paths {
            let from = change.from.as_ref().map_or(0, |it| it.split(':').count());
            let to = change.to.to_string();
            let shown = if to.is_empty() { "none" } else { &to };
            writeln!(
                f,
                "  run path  {}: {} to {shown}",
                change.path,
                many(from, "entry")
            )?;
        }
        for file in &self.untied {
            writeln!(f, "  untied    {}: {}", file.path, file.why)?;
        }
        for warning in &self.warnings {
            writeln!(f, "  warning   {warning}")?;
        }
        Ok(())
    }
}
