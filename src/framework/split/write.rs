//! Writes the host wheel and the device wheels of a plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};

use fs_err as fs;
use serde::Serialize;

use super::{
    SplitInput, ToSplit,
    code::{self, WrittenArchive},
    plan::{DeviceWheelPlan, SplitWheelPlan},
    same::ensure_same,
};
use crate::{
    artifact::FileAt,
    console::World,
    digest::Sha256,
    elf::Patch,
    error::{Context as _, Result},
    framework::{read::FrameworkWheel, tie},
    kpack::{archive::KpackArchive, host},
    package::assemble::{AssembleSettings, ChangedFile, EditedContent, WheelEdit},
    parallel,
    relpath::RelPath,
};

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
    /// Whether the wheel was passed on as it was, since a split would save nothing or too little.
    pub whole: bool,
}

/// How many parts the work of all plans has, and about how many bytes: the code, which is packed, and
/// what the wheels have.
pub fn work(wheels: &[ToSplit<'_>], plans: &[SplitWheelPlan]) -> (usize, u64) {
    let parts = plans.iter().map(|plan| 2 + plan.devices.len());
    let sizes = wheels.iter();
    let sizes = sizes.map(|it| it.wheel.unpacked_size() + it.code.size());
    (parts.sum(), sizes.sum())
}

/// Writes the wheels of a plan into a directory of finished wheels. `scratch` is another one, for what
/// is needed while it is done. They stay whole if a split would save less than `min_saving` percent.
pub fn write(
    split: ToSplit<'_>,
    plan: &SplitWheelPlan,
    directory: &Path,
    scratch: &Path,
    min_saving: u8,
    settings: &AssembleSettings,
    world: &World,
) -> Result<SplitWheels> {
    let ToSplit { wheel, code, tied } = split;
    let whole = |host, saving| SplitWheels {
        host,
        devices: Vec::new(),
        selector: None,
        saving,
        whole: true,
    };
    if plan.passed_on.is_some() {
        return Ok(whole(passed_on(wheel, directory)?, None));
    }
    let binaries: Vec<_> = code.fat.iter().zip(&plan.placed).collect();
    let patches = parallel::map(&binaries, settings.jobs, &world.stop, |(member, placed)| {
        let patch = host::plan(&member.bytes, &member.fat, &placed.markers);
        patch.with_context(|| format!("failed to take the code out of `{}`", member.installed))
    })?;
    let archives = code::write(split, plan, scratch, settings, world)?;
    verify(code, plan, &patches, &archives)?;
    let parts = WheelParts {
        split,
        plan,
        archives: &archives,
    };
    let write = |edit: WheelEdit| edit.write(scratch, settings, "Splitting", world);
    let host = write(parts.host(&patches)?)?;
    let devices = plan.devices.iter().map(|it| write(parts.device(it)?));
    let devices: Vec<ChangedFile> = devices.collect::<Result<_>>()?;
    let largest = devices.iter().map(|it| it.size).max().unwrap_or(0);
    let saving = saving(wheel.facts.size, host.size.saturating_add(largest));
    if saving < i64::from(min_saving) {
        let host = match tied {
            Some(tied) => tie::write(wheel, tied, directory, settings, world)?,
            None => passed_on(wheel, directory)?,
        };
        return Ok(whole(host, Some(saving)));
    }
    let selector = plan.selector.as_ref();
    let selector = selector.map(|it| it.write(scratch, settings.time));
    let selector = selector.transpose()?;
    for made in devices.iter().chain(&selector).chain([&host]) {
        fs::rename(scratch.join(&made.file), directory.join(&made.file))?;
    }
    Ok(SplitWheels {
        host,
        devices,
        selector,
        saving: Some(saving),
        whole: false,
    })
}

/// A copy of a wheel.
fn passed_on(wheel: &FrameworkWheel, directory: &Path) -> Result<ChangedFile> {
    let file = wheel.name.to_string();
    let to = directory.join(&file);
    fs::copy(&wheel.path, &to)?;
    let (sha256, size) = Sha256::of_reader(fs::File::open(&to)?)?;
    Ok(ChangedFile { file, size, sha256 })
}

/// How much smaller the parts are, in percent of the whole.
fn saving(whole: u64, parts: u64) -> i64 {
    let (whole, parts) = (i128::from(whole), i128::from(parts));
    let percent = (whole - parts) * 100 / whole.max(1);
    i64::try_from(percent).unwrap_or(i64::MIN)
}

/// Fails if a device would get other code than before, or none.
fn verify(
    code: &SplitInput,
    plan: &SplitWheelPlan,
    patches: &[Patch],
    archives: &BTreeMap<RelPath, WrittenArchive>,
) -> Result<()> {
    let opened = archives.iter().map(|(path, written)| {
        let archive = KpackArchive::open(FileAt::open(&written.file)?)?;
        Ok((path.clone(), archive))
    });
    let opened: BTreeMap<RelPath, KpackArchive<FileAt>> = opened.collect::<Result<_>>()?;
    ensure_same(code, plan, patches, &opened)
}

struct WheelParts<'a> {
    split: ToSplit<'a>,
    plan: &'a SplitWheelPlan,
    archives: &'a BTreeMap<RelPath, WrittenArchive>,
}

impl WheelParts<'_> {
    fn host(&self, patches: &[Patch]) -> Result<WheelEdit> {
        let Self { split, plan, .. } = *self;
        let ToSplit { wheel, code, tied } = split;
        let mut host = wheel.edit(plan.host.clone(), &wheel.dist_info_of(&plan.host))?;
        for path in &plan.moved {
            host.drop(&path.parse()?);
        }
        // First the code leaves a file, then its run path changes: the other order would cost a larger
        // file.
        let patches = code.fat.iter().map(|it| it.member.as_str()).zip(patches);
        let patches: BTreeMap<&str, &Patch> = patches.collect();
        let run_paths = tied.iter().flat_map(|it| &it.run_paths);
        let run_paths = run_paths.map(|it| (it.path.as_str(), it));
        let run_paths: BTreeMap<&str, _> = run_paths.collect();
        let paths: BTreeSet<&str> = patches.keys().chain(run_paths.keys()).copied().collect();
        for path in paths {
            let (patch, run_path) = (patches.get(path), run_paths.get(path));
            tie::change_binary(&mut host, wheel, path, patch.copied(), run_path.copied())?;
        }
        for (path, text) in &plan.texts {
            host.add(path.parse()?, false, EditedContent::text(text));
        }
        for (path, _) in plan.generic() {
            host.add(path.clone(), false, self.archive(path)?);
        }
        Ok(host)
    }

    fn device(&self, plan: &DeviceWheelPlan) -> Result<WheelEdit> {
        let wheel = self.split.wheel;
        let mut device = WheelEdit::new(plan.name.clone())?;
        for path in &plan.archives {
            let path: RelPath = path.parse()?;
            let archive = self.archive(&path)?;
            device.add(path, false, archive);
        }
        for path in &plan.databases {
            device.add(path.parse()?, false, wheel.edited_content(path)?);
        }
        for (path, text) in &plan.texts {
            device.add(path.parse()?, false, EditedContent::text(text));
        }
        Ok(device)
    }

    fn archive(&self, path: &RelPath) -> Result<EditedContent> {
        let written = self.archives.get(path).context("no such archive")?;
        Ok(EditedContent::File(written.file.clone(), written.len))
    }
}

impl SplitWheels {
    /// All files.
    pub fn made(&self) -> impl Iterator<Item = &ChangedFile> {
        [&self.host].into_iter().chain(self.parts())
    }

    /// All files but the host wheel.
    pub fn parts(&self) -> impl Iterator<Item = &ChangedFile> {
        self.devices.iter().chain(&self.selector)
    }
}

impl fmt::Display for SplitWheels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for made in self.made() {
            writeln!(f, "{made}")?;
        }
        match self.saving {
            None => Ok(()),
            Some(saving) if self.whole => {
                writeln!(f, "not split: it would save {saving} % for one target")
            }
            Some(saving) => writeln!(f, "saves {saving} % for the largest target"),
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
