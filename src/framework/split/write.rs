//! Writes the host wheel and the device wheels of a plan.

use std::{collections::BTreeMap, fmt, path::Path};

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
    framework::{
        read::FrameworkWheel,
        tie::{self, TiePlan},
    },
    kpack::{archive::KpackArchive, host},
    package::assemble::{AssembleSettings, ChangedContent, ChangedFile, ChangedWheel},
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
    /// How much less a user of the largest target downloads, in percent. It may be negative.
    pub saving: i64,
    /// Whether the wheel was passed on as it was, since a split would save too little.
    pub whole: bool,
}

/// How many parts the work of all plans has, and about how many bytes: the code, which is packed, and
/// what the wheels have.
pub fn work(wheels: &[ToSplit<'_>], plans: &[SplitWheelPlan]) -> (usize, u64) {
    let parts = plans.iter().map(|plan| 2 + plan.devices.len());
    let sizes = wheels
        .iter()
        .map(|(wheel, input, _)| wheel.unpacked_size() + code_size(input));
    (parts.sum(), sizes.sum())
}

fn code_size(input: &SplitInput) -> u64 {
    let bundles = input.fat.iter().flat_map(|it| &it.fat.bundles);
    bundles.map(|it| it.len).sum()
}

/// Writes the wheels of a plan into a directory of finished wheels. `scratch` is another one, for what
/// is needed while it is done.
pub fn write(
    (wheel, input, tied): ToSplit<'_>,
    plan: &SplitWheelPlan,
    (directory, scratch): (&Path, &Path),
    min_saving: u8,
    settings: &AssembleSettings,
    world: &World,
) -> Result<SplitWheels> {
    let patches = patches(input, plan, settings, world)?;
    let archives = archives((wheel, input, plan), scratch, settings, world)?;
    verify(input, plan, &patches, &archives)?;
    let parts = WheelParts {
        wheel,
        tied,
        plan,
        archives: &archives,
    };
    let host = parts
        .host(input, &patches)?
        .write(scratch, settings, "Splitting", world)?;
    let devices = plan.devices.iter().map(|device| {
        let changed = parts.device(device)?;
        changed.write(scratch, settings, "Splitting", world)
    });
    let devices: Vec<ChangedFile> = devices.collect::<Result<_>>()?;
    let largest = devices.iter().map(|it| it.size).max().unwrap_or(0);
    let fat = wheel.facts.size;
    let saving = saving(fat, host.size.saturating_add(largest));
    if saving < i64::from(min_saving) {
        return Ok(SplitWheels {
            host: match tied {
                Some(tied) => tie::write(wheel, tied, directory, settings, world)?,
                None => passed_on(wheel, directory)?,
            },
            devices: Vec::new(),
            selector: None,
            saving,
            whole: true,
        });
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
        saving,
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

/// The change of each binary.
fn patches(
    input: &SplitInput,
    plan: &SplitWheelPlan,
    settings: &AssembleSettings,
    world: &World,
) -> Result<Vec<Patch>> {
    let binaries: Vec<_> = input.fat.iter().zip(&plan.placed).collect();
    parallel::map(&binaries, settings.jobs, &world.stop, |(member, placed)| {
        let patch = host::plan(&member.bytes, &member.fat, &placed.markers);
        patch.with_context(|| format!("failed to take the code out of `{}`", member.installed))
    })
}

fn archives(
    (wheel, input, plan): (&FrameworkWheel, &SplitInput, &SplitWheelPlan),
    scratch: &Path,
    settings: &AssembleSettings,
    world: &World,
) -> Result<BTreeMap<RelPath, WrittenArchive>> {
    let progress = (world.console).progress("Packing", &wheel.name, code_size(input));
    code::write(
        (input, plan),
        &wheel.name.name.filename_form(),
        scratch,
        (settings.jobs, &world.stop),
        &|bytes| progress.inc(bytes),
    )
}

fn verify(
    input: &SplitInput,
    plan: &SplitWheelPlan,
    patches: &[Patch],
    archives: &BTreeMap<RelPath, WrittenArchive>,
) -> Result<()> {
    let opened = archives.iter().map(|(path, written)| {
        let archive = KpackArchive::open(FileAt::open(&written.file)?)?;
        Ok((path.clone(), archive))
    });
    let opened: BTreeMap<RelPath, KpackArchive<FileAt>> = opened.collect::<Result<_>>()?;
    ensure_same((input, plan), patches, &opened)
}

struct WheelParts<'a> {
    wheel: &'a FrameworkWheel,
    tied: Option<&'a TiePlan>,
    plan: &'a SplitWheelPlan,
    archives: &'a BTreeMap<RelPath, WrittenArchive>,
}

impl WheelParts<'_> {
    fn host(&self, input: &SplitInput, patches: &[Patch]) -> Result<ChangedWheel> {
        let Self { wheel, plan, .. } = *self;
        let binaries = input.fat.iter().map(|it| it.member.as_str());
        let binaries: BTreeMap<&str, &Patch> = binaries.zip(patches).collect();
        let dist_info = wheel.dist_info_of(&plan.host);
        let mut host = ChangedWheel::new(plan.host.clone(), dist_info.parse()?);
        for member in wheel.files() {
            let path = wheel.renamed(&member.path, &dist_info);
            if plan.moved.contains(&member.path) || plan.texts.contains_key(&path) {
                continue;
            }
            // First the code leaves the file, then the run path changes: the other order would cost a
            // larger file.
            let without_code = binaries.get(member.path.as_str()).copied();
            let run_paths = self.tied.map_or(&[][..], |it| &it.run_paths);
            let content = tie::patched(wheel, run_paths, &member.path, without_code)?;
            let content = content.map_or_else(|| wheel.unchanged(member), Ok)?;
            host.add(path.parse()?, member.mode & 0o111 != 0, content);
        }
        for (path, text) in &plan.texts {
            host.add(path.parse()?, false, ChangedContent::text(text));
        }
        for (path, _) in plan.generic() {
            host.add(path.clone(), false, self.archive(path)?);
        }
        Ok(host)
    }

    fn device(&self, plan: &DeviceWheelPlan) -> Result<ChangedWheel> {
        let mut device = ChangedWheel::new(plan.name.clone(), plan.name.dist_info().parse()?);
        for path in &plan.archives {
            let path: RelPath = path.parse()?;
            let content = self.archive(&path)?;
            device.add(path, false, content);
        }
        for member in self.wheel.files() {
            if plan.databases.contains(&member.path) {
                let content = self.wheel.unchanged(member)?;
                device.add(member.path.parse()?, false, content);
            }
        }
        for (path, text) in &plan.texts {
            device.add(path.parse()?, false, ChangedContent::text(text));
        }
        Ok(device)
    }

    fn archive(&self, path: &RelPath) -> Result<ChangedContent> {
        let written = self.archives.get(path).context("no such archive")?;
        Ok(ChangedContent::File(written.file.clone(), written.len))
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
        let saving = self.saving;
        if self.whole {
            return writeln!(f, "not split: it would save {saving} % for one target");
        }
        writeln!(f, "saves {saving} % for the largest target")
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
