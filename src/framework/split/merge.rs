//! `framework split --merge`: puts the device code of device wheels back into their host wheel. It is
//! the inverse of a split, and shows that nothing was lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use fs_err::{self as fs, File};

use super::texts;
use crate::{
    artifact::{FileAt, code_by_binary, restore_code},
    check::facts::MemberFacts,
    console::World,
    elf::{Patch, PatchedReader},
    error::{Context as _, Hint as _, Result, anyhow, bail, ensure},
    framework::{facts, read::FrameworkWheel},
    kpack::{
        archive::KpackArchive,
        host::{self, FatFileKind},
    },
    package::assemble::{AssembleSettings, ChangedContent, ChangedFile, ChangedWheel},
    relpath::RelPath,
};

/// Writes the fat wheel of a host wheel and its device wheels into a directory. `scratch` is another
/// one, for what is needed while it is done.
pub fn merge(
    host: &FrameworkWheel,
    devices: &[FrameworkWheel],
    (directory, scratch): (&Path, &Path),
    settings: &AssembleSettings,
    world: &World,
) -> Result<ChangedFile> {
    for wheel in [host].into_iter().chain(devices) {
        if let Some(damage) = wheel.damage.first() {
            bail!("`{}`: {damage}", wheel.name);
        }
    }
    ensure_fit(host, devices)?;
    let merging = Merging {
        host,
        devices,
        scratch,
    };
    let binaries = merging.binaries(world)?;
    merging
        .wheel(binaries)?
        .write(directory, settings, "Merging", world)
}

/// Refuses device wheels of another host wheel, or of another version.
fn ensure_fit(host: &FrameworkWheel, devices: &[FrameworkWheel]) -> Result<()> {
    let (name, wanted) = (&host.name.name, format!("=={}", host.name.version));
    for device in devices {
        let mut requirements = facts::requirements(device);
        if !requirements.any(|(_, it)| it.name == *name && it.specifier == wanted) {
            return Err(anyhow!(
                "`{}` is no device wheel of `{}`",
                device.name,
                host.name
            ))
            .hint(format!(
                "pass the wheels of one split: they require `{name}{wanted}`"
            ));
        }
    }
    Ok(())
}

struct Merging<'a> {
    host: &'a FrameworkWheel,
    devices: &'a [FrameworkWheel],
    scratch: &'a Path,
}

impl Merging<'_> {
    /// The binaries with their code, by the paths of the members.
    fn binaries(&self, world: &World) -> Result<BTreeMap<String, (PathBuf, u64)>> {
        let archives = self.archives()?;
        let archives: Vec<(&RelPath, KpackArchive<FileAt>)> = archives
            .iter()
            .map(|(path, file)| {
                let archive = KpackArchive::open(FileAt::open(file)?);
                Ok((
                    path,
                    archive.with_context(|| format!("failed to read `{path}`"))?,
                ))
            })
            .collect::<Result<_>>()?;
        let mut code = code_by_binary(&archives)?;
        let mut made = BTreeMap::new();
        for (number, (member, binary)) in self.host.binaries.iter().enumerate() {
            world.stop.check()?;
            if !matches!(host::look(&binary.bytes)?, FatFileKind::Split) {
                continue;
            }
            let references = host::references(&binary.bytes)?;
            let name = references.first().map(|it| it.marker.kernel_name.as_str());
            let bundles = name.and_then(|name| code.remove(name)).unwrap_or_default();
            let [from, to] = ["split", "fat"].map(|it| self.scratch.join(format!("{number}.{it}")));
            let whole = Patch::nothing(binary.bytes.size());
            let mut source = PatchedReader::new(&binary.bytes, whole);
            io::copy(&mut source, &mut File::create(&from)?)?;
            restore_code(&from, &references, &bundles, &to)
                .with_context(|| format!("failed to put the code back into `{member}`"))?;
            fs::remove_file(&from)?;
            let len = fs::metadata(&to)?.len();
            made.insert(member.clone(), (to, len));
        }
        ensure!(
            !made.is_empty(),
            "`{}` has no binary whose device code was taken out",
            self.host.name
        );
        match code.keys().next() {
            None => Ok(made),
            Some(name) => Err(anyhow!("no binary for the code of `{name}`"))
                .hint("pass the host wheel and the device wheels of one split"),
        }
    }

    /// The archives of all wheels, each in a file, with their installed paths.
    fn archives(&self) -> Result<Vec<(RelPath, PathBuf)>> {
        let mut archives = Vec::new();
        for wheel in [self.host].into_iter().chain(self.devices) {
            for (path, member) in wheel.installed().filter(|it| is_archive(it.0)) {
                let file = self.scratch.join(format!("{}.kpack", archives.len()));
                wheel.copy_to(&member.path, &mut File::create(&file)?)?;
                archives.push((path.parse()?, file));
            }
        }
        Ok(archives)
    }

    fn wheel(&self, mut binaries: BTreeMap<String, (PathBuf, u64)>) -> Result<ChangedWheel> {
        let host = self.host;
        let metadata = format!("{}/METADATA", host.dist_info);
        let mut merged = ChangedWheel::new(host.name.clone(), host.dist_info.clone());
        for member in host.files() {
            let content = match binaries.remove(&member.path) {
                Some((file, len)) => ChangedContent::File(file, len),
                None if member.path == metadata => {
                    ChangedContent::text(&texts::merged_metadata(host, self.devices))
                }
                None if is_archive(&member.path) => continue,
                None => host.unchanged(member)?,
            };
            merged.add(member.path.parse()?, member.mode & 0o111 != 0, content);
        }
        let mut known: BTreeSet<&str> = host.files().map(|it| it.path.as_str()).collect();
        for device in self.devices {
            for member in device.files().filter(|it| is_database(device, it)) {
                ensure!(
                    known.insert(&member.path),
                    "two of the wheels have `{}`",
                    member.path
                );
                merged.add(member.path.parse()?, false, device.unchanged(member)?);
            }
        }
        Ok(merged)
    }
}

/// Whether a path is that of an archive of device code.
fn is_archive(path: &str) -> bool {
    let in_directory = path.rsplit('/').nth(1) == Some(".kpack");
    in_directory && path.rsplit_once('.').map(|it| it.1) == Some("kpack")
}

/// Whether a member of a device wheel is neither an archive nor metadata.
fn is_database(device: &FrameworkWheel, member: &MemberFacts) -> bool {
    let top = member.path.split('/').next();
    !is_archive(&member.path) && top != Some(device.dist_info.as_str())
}
