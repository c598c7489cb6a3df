//! Puts a set into a directory as an installer and `rocm-sdk init` would, without Python: what a build
//! of a framework needs of it.
//!
//! [`unpack`] writes the packages beside the directory, with the development files and their links in
//! place, and renames the whole when it is complete. The directory has a file that names what was unpacked, so that the same set is not
//! unpacked twice, and a directory of anything else is refused.

mod archive;
mod devel;
mod wheel;

use std::{collections::BTreeMap, io, num::NonZeroUsize, path::Path};

use fs_err::{self as fs, File};
use serde::Serialize;

use self::wheel::InstalledWheel;
use super::packages::{LocalPackage, SetPackages, downloads, on_disk};
use crate::{
    atomic::StagedDir,
    console::World,
    digest::Sha256,
    error::{Context as _, Hint as _, Result, anyhow, ensure},
    parallel,
    set::{PackageFile, PublishedSet, SetPlace},
    target::Target,
};

/// The file that says what was unpacked into a directory.
const MARK: &str = ".rocwheel-unpacked.json";
const SCHEMA: &str = "rocwheel-unpacked-v1";

/// What a directory has: the text of its mark.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
struct UnpackedSet {
    schema: &'static str,
    rocm: String,
    packages: BTreeMap<String, String>,
}

/// Unpacks the common packages and the device wheels of some targets into a directory. Returns
/// whether there was anything to do.
pub fn unpack(
    (place, set): (&SetPlace, &PublishedSet),
    packages: &SetPackages<'_>,
    targets: &[Target],
    directory: &Path,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<bool> {
    let found = ensure_ours(directory)?;
    let files = packages.wanted(targets)?;
    let known = known_digests(place, set, &files, (jobs, world))?;
    let version = packages.version.to_string();
    let described = |digests: &[Sha256]| {
        let packages = files.iter().zip(digests).map(|(file, digest)| {
            let name = file.name.rsplit('/').next().unwrap_or_default();
            (name.to_owned(), digest.to_string())
        });
        let unpacked = UnpackedSet {
            schema: SCHEMA,
            rocm: version.clone(),
            packages: packages.collect(),
        };
        serde_json::to_string_pretty(&unpacked).context("failed to write JSON")
    };
    if let Some(known) = known.iter().copied().collect::<Option<Vec<_>>>()
        && found.as_ref() == Some(&(described(&known)? + "\n"))
    {
        return Ok(false);
    }
    let staged = StagedDir::beside(directory)?;
    let root = staged.path();
    let (mut wheels, mut digests) = (Vec::new(), Vec::new());
    let (count, size) = downloads(place, &files);
    let (count, size) = files.iter().fold((count, size), |(count, size), it| {
        (count + 1, size + it.size)
    });
    let bar = (world.console).joined_progress("Unpacking", place, count, size);
    for (file, known) in files.iter().zip(known) {
        let failed = || format!("failed to unpack `{}`", file.name);
        let wheel = LocalPackage::of(place, file, root, world).with_context(failed)?;
        let digest = known.or(wheel.digest).context("a package without a digest");
        ensure!(
            wheel
                .digest
                .is_none_or(|it| Some(it) == known || known.is_none()),
            "`{}` is not the file that the pages of the set describe",
            file.name
        );
        digests.push(digest?);
        let installed = InstalledWheel::write(&wheel.path, root, (jobs, world));
        wheels.push(installed.with_context(failed)?);
        wheel.remove()?;
    }
    drop(bar);
    devel::link(root, &mut wheels).context("failed to put the development files in place")?;
    for wheel in &wheels {
        wheel.finish(root)?;
    }
    fs::write(root.join(MARK), described(&digests)? + "\n")?;
    world.stop.check()?;
    staged.replace()?;
    Ok(true)
}

/// Refuses a directory that has something else. Returns the mark of one that was unpacked.
fn ensure_ours(directory: &Path) -> Result<Option<String>> {
    let mark = directory.join(MARK);
    if mark.is_file() {
        return Ok(Some(fs::read_to_string(mark)?));
    }
    let is_free = match fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if is_free {
        return Ok(None);
    }
    Err(anyhow!(
        "`{}` holds something else than an unpacked set",
        directory.display()
    ))
    .hint("pass another directory, or remove it")
}

/// The digests of packages as far as they are known: of files on this disk by reading them, of others
/// by what the pages say.
fn known_digests(
    place: &SetPlace,
    set: &PublishedSet,
    files: &[&PackageFile],
    (jobs, world): (NonZeroUsize, &World),
) -> Result<Vec<Option<Sha256>>> {
    parallel::map(files, jobs, &world.stop, |file| {
        if let Some(path) = on_disk(place, file) {
            return Ok(Some(Sha256::of_reader(File::open(path)?)?.0));
        }
        let claims = set.published.iter().flat_map(|it| &it.promises);
        let mut claims = claims.filter(|claim| claim.file == file.name);
        Ok(claims.find_map(|claim| claim.link.sha256))
    })
}
