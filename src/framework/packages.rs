//! [`SetPackages`]: which packages of a place are the set for one platform, and how they get onto this
//! disk. Sets are unpacked for builds, and embedded into wheels.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use fs_err::{self as fs, File};
use itertools::Itertools as _;

use crate::{
    console::World,
    digest::{Hasher, Sha256},
    error::{Context as _, Hint as _, Result, anyhow},
    set::{PackageFile, PublishedSet, SetPlace},
    target::Target,
    version::Version,
    wheel::{PackageFilename, Tag},
};

/// What the packages of a set are wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetUse {
    /// To build against: with the development files.
    Build,
    /// To put into a wheel.
    Embed,
}

impl SetUse {
    fn projects(self) -> &'static [&'static str] {
        match self {
            Self::Build => &["rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-devel"],
            Self::Embed => &["rocm-sdk-core", "rocm-sdk-libraries"],
        }
    }
}

/// The packages of a set that are wanted for something, for one platform.
#[derive(Debug)]
pub struct SetPackages<'a> {
    pub version: Version,
    /// Those for every GPU.
    common: Vec<&'a PackageFile>,
    devices: BTreeMap<Target, &'a PackageFile>,
}

impl<'a> SetPackages<'a> {
    /// The packages of a set. `is_windows` says for which platform they are.
    pub fn of(set: &'a PublishedSet, wanted_for: SetUse, is_windows: bool) -> Result<Self> {
        let names = set.packages.iter().filter_map(|file| {
            let name: PackageFilename = file.name.rsplit('/').next()?.parse().ok()?;
            let platform = name.tag.as_ref().map(Tag::platform);
            let fits =
                platform.is_some_and(|it| it == "any" || it.starts_with("win") == is_windows);
            fits.then_some((name, file))
        });
        let names: Vec<(PackageFilename, &PackageFile)> = names.collect();
        let of = |project: &'static str| {
            let all = names.iter();
            let own = all.filter(move |(it, _)| it.name.normalized() == project);
            own.map(|(name, file)| (name.version.clone(), *file))
        };
        let core = of("rocm-sdk-core").collect_vec();
        let [(version, _)] = &core[..] else {
            let found = core.iter().map(|(version, _)| version).join(", ");
            let message = match found.as_str() {
                "" => "no `rocm-sdk-core` for this platform in the set".to_owned(),
                found => format!("several versions of `rocm-sdk-core`: {found}"),
            };
            return Err(anyhow!(message)).hint(
                "pass the directory that `rocwheel build` wrote to, or an index of one version",
            );
        };
        let mut common = Vec::new();
        for project in wanted_for.projects().iter().copied() {
            let (_, file) = of(project)
                .find(|it| it.0 == *version)
                .with_context(|| format!("the set has no `{project}` {version}"))
                .hint(if project == "rocm-sdk-devel" {
                    "development files are what builds need: build the set with them"
                } else {
                    "pass a set whose device code is in packages of its own"
                })?;
            common.push(file);
        }
        let devices = names.iter().filter_map(|(name, file)| {
            let target = name.name.normalized().strip_prefix("rocm-sdk-device-")?;
            (name.version == *version).then_some((target.parse().ok()?, *file))
        });
        Ok(Self {
            version: version.clone(),
            common,
            devices: devices.collect(),
        })
    }

    /// The targets that have a device wheel.
    pub fn targets(&self) -> Vec<Target> {
        self.devices.keys().cloned().collect()
    }

    /// The common packages, then the device wheels of some targets.
    pub(super) fn wanted(&self, targets: &[Target]) -> Result<Vec<&'a PackageFile>> {
        let devices = targets.iter().map(|target| {
            let device = self.devices.get(target).copied();
            device.with_context(|| format!("no device wheel for {target}"))
        });
        let common = self.common.iter().map(|file| Ok(*file));
        common.chain(devices).collect()
    }
}

/// The path of a package that is on this disk.
pub(super) fn on_disk(place: &SetPlace, file: &PackageFile) -> Option<PathBuf> {
    let path = place.local()?.join(file.path());
    let len = fs::metadata(&path).ok()?.len();
    (len == file.size).then_some(path)
}

/// How many of these packages are downloaded, and their size.
pub(super) fn downloads(place: &SetPlace, files: &[&PackageFile]) -> (usize, u64) {
    let elsewhere = files.iter().filter(|it| on_disk(place, it).is_none());
    elsewhere.fold((0, 0), |(count, size), it| (count + 1, size + it.size))
}

/// A package on this disk, downloaded if it is elsewhere.
#[derive(Debug)]
pub(super) struct LocalPackage {
    pub path: PathBuf,
    /// The digest of a package that was downloaded.
    pub digest: Option<Sha256>,
}

impl LocalPackage {
    pub(super) fn of(
        place: &SetPlace,
        file: &PackageFile,
        scratch: &Path,
        world: &World,
    ) -> Result<Self> {
        if let Some(path) = on_disk(place, file) {
            return Ok(Self { path, digest: None });
        }
        let path = scratch.join(file.name.rsplit('/').next().unwrap_or_default());
        let progress = world.console.progress("Downloading", &file.name, file.size);
        let mut to = Tee {
            file: File::create(&path)?,
            hasher: Hasher::default(),
            progress: &|bytes| progress.inc(bytes),
        };
        let copied = io::copy(&mut file.stream(0..file.size)?, &mut to);
        file.outcome()?;
        copied?;
        world.stop.check()?;
        let (digest, _) = to.hasher.finish();
        Ok(Self {
            path,
            digest: Some(digest),
        })
    }

    /// Removes what was downloaded.
    pub(super) fn remove(self) -> Result<()> {
        if self.digest.is_some() {
            fs::remove_file(self.path)?;
        }
        Ok(())
    }
}

/// Writes to a file, and hashes what is written.
pub(super) struct Tee<'a> {
    pub file: File,
    pub hasher: Hasher,
    pub progress: &'a dyn Fn(u64),
}

impl io::Write for Tee<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher
            .write_all(bytes.get(..written).unwrap_or_default())?;
        (self.progress)(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
