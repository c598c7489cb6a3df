//! Writes the archives, the host wheel and the device wheels of a plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err::{self as fs, File};
use itertools::Itertools as _;
use serde::Serialize;

use super::{
    ToSplit,
    plan::{DeviceWheelPlan, SplitWheelPlan},
    same::ensure_same,
};
use crate::{
    console::World,
    framework::{ShownFile, read::FrameworkWheel, tie},
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Result},
    io::FileAt,
    parallel,
    quantity::size,
    relpath::RelPath,
};
use rocwheel_elf::Patch;
use rocwheel_kpack::{
    CodeTarget,
    archive::{self, ArchiveWriter, CodeSource, KpackArchive},
    host,
};
use rocwheel_wheel::{ChangedFile, PackSettings, Source, WheelEdit};

/// A wheel stays whole if a split would save a user of one target less than this, in percent: a
/// package for each target costs more than such a download.
const LEAST_SAVING: i64 = 10;

/// What became of one wheel.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SplitWheels {
    /// The host wheel, or the wheel as it was.
    pub host: ChangedFile,
    pub devices: Vec<ChangedFile>,
    /// The sdist that selects a device wheel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<ChangedFile>,
    /// How much less a user of the largest target downloads, in percent, if there is something to split.
    /// It may be negative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saving: Option<i64>,
    /// Why the wheel stays whole, if that was known only when its parts were written.
    #[serde(skip)]
    pub too_large: Option<String>,
}

/// The number of parts that the work of all plans has, and about how many bytes: the device code, which is packed
/// into archives, and the members of the wheels.
pub fn work(wheels: &[ToSplit<'_>], plans: &[SplitWheelPlan]) -> (usize, u64) {
    // The archives, the host wheel, and each device wheel.
    let parts = plans.iter().map(|plan| 2 + plan.devices.len()).sum();
    let bytes = wheels.iter().map(|code| code.wheel.unpacked_size() + code.size()).sum();
    (parts, bytes)
}

/// Where and how the wheels of a split are written.
pub struct SplitWriter<'a> {
    /// The directory of finished wheels, and another one for what is needed while they are made.
    pub directory: &'a Path,
    pub scratch: &'a Path,
    pub settings: &'a PackSettings,
    pub world: &'a World,
}

impl SplitWriter<'_> {
    /// Writes the wheels of a plan.
    pub fn write(&self, code: &ToSplit<'_>, plan: &SplitWheelPlan) -> Result<SplitWheels> {
        let settings = self.settings;
        let world = self.world;
        let wheel = code.wheel;
        if plan.passed_on.is_some() {
            return self.pass_on(wheel);
        }
        let patches = parallel::map(&code.fat, settings.jobs, &world.stop, |placed| {
            let member = &placed.member;
            host::plan(&member.bytes, &member.fat, &placed.markers)
                .with_context(|| format!("failed to take the code out of `{}`", member.installed))
        })?;
        let archives = self.write_archives(code, plan)?;
        let mut opened = BTreeMap::new();
        for (path, (file, _)) in &archives {
            opened.insert(path.clone(), KpackArchive::open(FileAt::open(file)?)?);
        }
        ensure_same(code, plan, &patches, &opened)?;
        let write = |edit: WheelEdit| {
            let progress = world.console.progress("Splitting", edit.name(), edit.unpacked_size());
            edit.write(self.scratch, settings, &world.stop, &|bytes| progress.inc(bytes))
        };
        let host = write(host_wheel(code, plan, &patches, &archives)?)?;
        let mut devices = Vec::new();
        for device in &plan.devices {
            devices.push(write(device_wheel(wheel, device, &archives)?)?);
        }
        let largest = devices.iter().map(|device| device.size).max().unwrap_or(0);
        let whole = wheel.facts.package.size;
        let parts = host.size.saturating_add(largest);
        let percent = saving(whole, parts);
        if percent < LEAST_SAVING {
            let parts = size(parts);
            let whole = size(whole);
            let code = code_sizes(plan, &archives);
            let why = format!(
                "a user of one target would download {parts} instead of {whole} ({code}), \
                 and a split that saves less than {LEAST_SAVING} % is not worth a package for each target"
            );
            let passed_on = self.pass_on(wheel)?;
            return Ok(SplitWheels { saving: Some(percent), too_large: Some(why), ..passed_on });
        }
        let selector = match &plan.selector {
            Some(selector) => Some(selector.write(self.scratch, settings.time)?),
            None => None,
        };
        let wheels =
            SplitWheels { host, devices, selector, saving: Some(percent), too_large: None };
        // Only now all of them are finished: a failure before leaves none of them in the directory.
        for made in wheels.made() {
            fs::rename(self.scratch.join(&made.file), self.directory.join(&made.file))?;
        }
        Ok(wheels)
    }

    /// Copies a wheel that is not split.
    fn pass_on(&self, wheel: &FrameworkWheel) -> Result<SplitWheels> {
        let host = copy_wheel(wheel, self.directory)?;
        Ok(SplitWheels { host, devices: Vec::new(), selector: None, saving: None, too_large: None })
    }

    /// Writes the archives of a plan. Returns their files and lengths by their installed paths.
    fn write_archives(&self, code: &ToSplit<'_>, plan: &SplitWheelPlan) -> Result<WrittenArchives> {
        let name = &code.wheel.name;
        let bar = self.world.console.progress("Packing", name, code.size());
        let group = name.name.filename_form();
        let mut files = BTreeMap::new();
        let mut writers = BTreeMap::new();
        for (number, (path, archive)) in plan.archives.iter().enumerate() {
            let file = self.scratch.join(format!("{number}.kpack"));
            let out = io::BufWriter::new(File::create(&file)?);
            let writer = ArchiveWriter::new(out, &group, archive.base.as_str())?;
            files.insert(path.clone(), file);
            writers.insert(path.clone(), writer);
        }
        let sources = code.fat.iter().map(|placed| CodeSource {
            name: placed.member.installed.to_string(),
            bundles: &placed.member.fat,
            binary: &placed.binary,
            open: Box::new(|| Ok(Box::new(Arc::clone(&placed.member.bytes)))),
            // The rows of RECORD were verified when the wheel was read.
            is_verified: true,
        });
        let sources: Vec<CodeSource<'_>> = sources.collect();
        let archive_of = |index: usize, ordinal: usize, target: &CodeTarget| -> Result<_> {
            let placed = code.fat.get(index).context("no such binary")?;
            let path = placed.archive(ordinal, target)?;
            // The code of a target that is left out goes nowhere.
            Ok(Some(path).filter(|path| plan.archives.contains_key(path)))
        };
        let jobs = self.settings.jobs;
        let stop = &self.world.stop;
        let progress = &|bytes| bar.inc(bytes);
        archive::write_archives(&mut writers, &sources, &archive_of, jobs, stop, progress)?;
        let written = writers.into_iter().map(|(path, writer)| {
            let (mut out, len) = writer.finish()?;
            let file = files.remove(&path).context("no file of an archive")?;
            out.flush()?;
            Ok((path, (file, len)))
        });
        written.collect()
    }
}

/// The files of archives and their lengths, by their installed paths.
type WrittenArchives = BTreeMap<RelPath, (PathBuf, u64)>;

/// How much device code the archives have, and how much of it stays in the host wheel, because it is for generic
/// targets.
fn code_sizes(plan: &SplitWheelPlan, archives: &WrittenArchives) -> String {
    let size_of = |path: &RelPath| archives.get(path).map_or(0, |(_, size)| *size);
    let all = size(archives.keys().map(size_of).sum());
    let generic = size(plan.generic().map(|(path, _)| size_of(path)).sum());
    let targets: BTreeSet<&str> =
        plan.generic().map(|(_, archive)| archive.base.as_str()).collect();
    if targets.is_empty() {
        return format!("{all} of device code");
    }
    let names = targets.into_iter().map(|target| format!("`{target}`")).join(", ");
    format!(
        "{all} of device code, and {generic} of it for {names}, which every user would download"
    )
}

fn archive_source(archives: &WrittenArchives, path: &RelPath) -> Result<Source> {
    let (file, _) = archives.get(path).context("no such archive")?;
    Source::file(file)
}

fn host_wheel(
    code: &ToSplit<'_>,
    plan: &SplitWheelPlan,
    patches: &[Patch],
    archives: &WrittenArchives,
) -> Result<WheelEdit> {
    let wheel = code.wheel;
    let mut host = wheel.edit(plan.host.clone(), &wheel.dist_info_of(&plan.host))?;
    for path in &plan.moved {
        host.drop(&path.parse()?);
    }
    for (placed, patch) in code.fat.iter().zip(patches) {
        tie::change_binary(&mut host, wheel, &placed.member.member, patch.clone())?;
    }
    for (path, text) in &plan.texts {
        host.add(path.parse()?, false, Source::text(text));
    }
    for (path, _) in plan.generic() {
        host.add(path.clone(), false, archive_source(archives, path)?);
    }
    Ok(host)
}

fn device_wheel(
    wheel: &FrameworkWheel,
    plan: &DeviceWheelPlan,
    archives: &WrittenArchives,
) -> Result<WheelEdit> {
    let mut device = WheelEdit::new(plan.name.clone())?;
    for path in &plan.archives {
        let path: RelPath = path.parse()?;
        let archive = archive_source(archives, &path)?;
        device.add(path, false, archive);
    }
    for path in &plan.databases {
        device.add(path.parse()?, false, wheel.member_source(path)?);
    }
    for (path, text) in &plan.texts {
        device.add(path.parse()?, false, Source::text(text));
    }
    Ok(device)
}

/// Copies a wheel that is not split.
fn copy_wheel(wheel: &FrameworkWheel, directory: &Path) -> Result<ChangedFile> {
    let file = wheel.name.to_string();
    let to = directory.join(&file);
    fs::copy(&wheel.path, &to)?;
    let (sha256, size) = Sha256::of_reader(fs::File::open(&to)?)?;
    Ok(ChangedFile { file, size, sha256 })
}

/// How much smaller the parts are, in percent of the whole.
fn saving(whole: u64, parts: u64) -> i64 {
    let whole = i128::from(whole);
    let percent = (whole - i128::from(parts)) * 100 / whole.max(1);
    i64::try_from(percent).unwrap_or(i64::MIN)
}

impl SplitWheels {
    /// All files that were made.
    pub fn made(&self) -> impl Iterator<Item = &ChangedFile> {
        [&self.host].into_iter().chain(&self.devices).chain(&self.selector)
    }
}

impl fmt::Display for SplitWheels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.made().map(ShownFile).join("\n"))?;
        match self.saving {
            Some(saving) if !self.devices.is_empty() => {
                write!(f, "\nsaves {saving} % for the largest target")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::saving;

    #[test]
    fn savings_are_in_percent_of_the_whole() {
        assert_eq!(saving(1000, 250), 75);
        assert_eq!(saving(1000, 1100), -10);
        assert_eq!(saving(0, 0), 0);
    }
}
