//! [`TiePlan`]: what a tie does to one wheel. `--dry-run` prints it. [`TieRecord`] is the part of the plan that
//! the tied wheel keeps.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use super::RocmBundle;
use crate::{
    framework::{
        device_selector::SelectorPlan,
        metadata::{self, MetadataEdit},
        read::FrameworkWheel,
        rocm::RocmLibraries,
    },
    index::{TIE_RECORD, TIE_SCHEMA},
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Result, ensure},
    quantity::many,
    version::Version,
};
use rocwheel_elf::Rpath;
use rocwheel_wheel::{PackageFilename, Tag};

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TiePlan {
    pub file: String,
    #[serde(serialize_with = "crate::framework::as_text")]
    pub result: PackageFilename,
    /// The host wheel, if this is a device wheel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
    /// The requirements that are added, each with its reason.
    pub requires: Vec<PlannedRequirement>,
    pub removed: Vec<String>,
    pub removed_extras: BTreeSet<String>,
    /// The binaries that change.
    pub run_paths: Vec<RunPathChange>,
    /// The number of all binaries.
    pub binaries: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<PlannedInit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<PlannedTag>,
    /// The sdist that selects one of the device wheels of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<SelectorPlan>,
    /// The ROCm packages whose files join the wheel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<RocmBundle>,
    pub warnings: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    pub record: TieRecord,
    /// The members that are replaced or added, by their paths. The metadata are among them.
    #[serde(skip)]
    pub texts: BTreeMap<String, Vec<u8>>,
}

/// What a tie has done to a wheel, in `rocm_tie.json` of its metadata. It names no path of a build
/// machine, and nothing that depends on when the wheel was tied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TieRecord {
    schema: String,
    /// The version of the set.
    pub rocm: String,
    /// What the wheel requires of the set: `rocm[libraries]==7.14.*`.
    pub requirement: Option<String>,
    /// The requirements and extras that the tie has added, as they are in METADATA.
    pub requires: Vec<String>,
    pub extras: Vec<String>,
    /// The init module, and the libraries that it loads.
    pub init: Option<String>,
    pub preload: Vec<String>,
    /// The files that use ROCm, with their run paths.
    pub run_paths: Vec<(String, String)>,
    /// The part of the version that names ROCm: `rocm7.14.0`.
    pub version_suffix: Option<String>,
    /// The platform tag that the symbols prove.
    pub proved_tag: Option<String>,
    /// The files that use another ROCm or another vendor's libraries, and why they stay as they are.
    pub untied: Vec<(String, String)>,
    /// The file names of the ROCm packages whose files the wheel has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bundles: Vec<String>,
    /// The digest of these files (see [`crate::index::BundledRocm`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundled_files: Option<Sha256>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
    #[serde(serialize_with = "crate::framework::as_text")]
    pub to: Rpath,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlannedInit {
    /// Whether the hook is added to `__init__.py`.
    pub adds_hook: bool,
    pub check_version: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PlannedTag {
    pub from: String,
    pub to: String,
    pub because: Option<String>,
}

impl TieRecord {
    /// The name of the file in `.dist-info`.
    pub const FILE: &str = TIE_RECORD;
    const SCHEMA: &str = TIE_SCHEMA;

    pub fn new(rocm: &Version) -> Self {
        Self { schema: Self::SCHEMA.to_owned(), rocm: rocm.to_string(), ..Self::default() }
    }

    /// What an earlier tie has left in a wheel.
    pub fn read(wheel: &FrameworkWheel) -> Result<Option<Self>> {
        let Some(text) = wheel.text(&format!("{}/{}", wheel.archive.dist_info, Self::FILE))? else {
            return Ok(None);
        };
        let record: Self = serde_json::from_str(&text)
            .with_context(|| format!("failed to read `{}` of `{}`", Self::FILE, wheel.name))?;
        ensure!(
            record.schema == Self::SCHEMA,
            "the schema of `{}` of `{}` is {:?}",
            Self::FILE,
            wheel.name,
            record.schema
        );
        Ok(Some(record))
    }

    pub fn render(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self).context("failed to write JSON")? + "\n")
    }
}

impl TiePlan {
    /// A plan that changes nothing yet.
    pub(super) fn new(wheel: &FrameworkWheel, rocm: &RocmLibraries) -> Self {
        Self {
            file: wheel.name.to_string(),
            result: wheel.name.clone(),
            follows: None,
            requires: Vec::new(),
            removed: Vec::new(),
            removed_extras: BTreeSet::new(),
            run_paths: Vec::new(),
            binaries: 0,
            init: None,
            tag: None,
            selector: None,
            bundle: None,
            warnings: Vec::new(),
            notes: Vec::new(),
            record: TieRecord::new(&rocm.version),
            texts: BTreeMap::new(),
        }
    }

    /// The directory of the metadata of the tied wheel.
    pub fn dist_info(&self, wheel: &FrameworkWheel) -> String {
        wheel.dist_info_of(&self.result)
    }

    pub(super) fn require(&mut self, line: String, why: impl Into<String>) {
        self.requires.push(PlannedRequirement { line, why: why.into() });
    }

    /// Adds the new METADATA and WHEEL. A requirement that is removed only to be added again is then no longer
    /// shown as removed.
    pub(super) fn finish(&mut self, wheel: &FrameworkWheel, tag: &Tag) -> Result<()> {
        let extras = &self.record.extras;
        let edit = MetadataEdit {
            requires: self.requires.iter().map(|requirement| requirement.line.clone()).collect(),
            extras: extras.clone(),
            removed: self.removed.clone(),
            removed_extras: self.removed_extras.iter().chain(extras).cloned().collect(),
            version: self.result.version.clone(),
            license_files: self.bundle.iter().flat_map(RocmBundle::license_files).collect(),
            licenses: self.bundle.iter().flat_map(|it| it.licenses.iter().cloned()).collect(),
            requires_python: self
                .bundle
                .iter()
                .flat_map(|bundle| bundle.requires_python.iter().cloned())
                .collect(),
        };
        let top = self.dist_info(wheel);
        let metadata = edit.apply(&wheel.metadata_text)?;
        let wheel_text = metadata::change_wheel(&wheel.wheel_text, tag)?;
        self.texts.insert(format!("{top}/METADATA"), metadata.into());
        self.texts.insert(format!("{top}/WHEEL"), wheel_text.into());
        self.removed.retain(|line| !edit.requires.contains(line));
        Ok(())
    }
}

impl fmt::Display for TiePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.file)?;
        let record = &self.record;
        let rocm = &record.rocm;
        let result = self.result.to_string();
        if result != self.file {
            writeln!(f, "  becomes   {result}")?;
        }
        if let Some(host) = &self.follows {
            writeln!(f, "  follows   {host}, with device code for ROCm {rocm}")?;
        } else {
            let tied = record.run_paths.len();
            let binaries = many(self.binaries, "binary");
            writeln!(f, "  ties      {tied} of {binaries} to ROCm {rocm}")?;
        }
        for PlannedRequirement { line, why } in &self.requires {
            writeln!(f, "  + requires {line} ({why})")?;
        }
        for line in &self.removed {
            writeln!(f, "  - requires {line}")?;
        }
        if !record.extras.is_empty() {
            writeln!(f, "  + extras  {}", record.extras.join(", "))?;
        }
        if !self.removed_extras.is_empty() {
            writeln!(f, "  - extras  {}", self.removed_extras.iter().join(", "))?;
        }
        match (&self.init, &record.init) {
            (Some(init), Some(module)) => {
                let hook = if init.adds_hook { ", with a hook" } else { "" };
                let version = init.check_version.as_deref().unwrap_or("any version");
                writeln!(f, "  init      {module} for {version}{hook}")?;
                writeln!(f, "  preload   {}", record.preload.join(" "))?;
            }
            _ => writeln!(f, "  init      no hook: run paths only")?,
        }
        if let Some(PlannedTag { from, to, because }) = &self.tag {
            write!(f, "  tag       {from} to {to}")?;
            match because {
                Some(because) => writeln!(f, ", since {because}")?,
                None => writeln!(f)?,
            }
        }
        if let Some(selector) = &self.selector {
            writeln!(f, "  selector  {}", selector.file)?;
        }
        if let Some(bundle) = &self.bundle {
            write!(f, "{bundle}")?;
        }
        for RunPathChange { path, from, to } in &self.run_paths {
            let entries = from.as_ref().map_or(0, |run_path| run_path.split(':').count());
            let run_path = to.to_string();
            let shown = if run_path.is_empty() { "none" } else { &run_path };
            writeln!(f, "  run path  {path}: {} to {shown}", many(entries, "entry"))?;
        }
        for (path, why) in &record.untied {
            writeln!(f, "  untied    {path}: {why}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "  warning   {warning}")?;
        }
        for note in &self.notes {
            writeln!(f, "  note      {note}")?;
        }
        Ok(())
    }
}
