//! `install --into`: the files of packages in a directory, as they lie beside each other in a `site-packages`, for
//! programs without Python. No installer and no Python runs.
//!
//! The directory is made under another name, and gets its own once it is whole. A record beside the files says what was
//! made, so that a later run replaces that, and nothing else.

mod devel;
mod record;
mod unpack;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use itertools::Itertools as _;
use serde::Serialize;

use self::{
    devel::expand_development_files,
    record::{IntoRecord, ReplacedTree},
    unpack::{UnpackedTree, unpack_wheels},
};
use super::{
    Request,
    select::{self, RocmSelection, no},
};
use crate::{
    console::World,
    index::package_file::is_wheel,
    place::{OfferedFile, OfferedSet, ServedDigests, SetPlace},
};
use rocwheel_base::{
    atomic::{
        StagedDir,
        lock::{Lock, LockPurpose},
    },
    error::{Error, Hint as _, No, Result, anyhow, hinted},
    io::resolved_path,
    quantity::{few, many, size},
    target::Target,
    version::Version,
};
use rocwheel_wheel::{Metadata, PackageFilename};

/// What will be unpacked, decided before anything is touched. It is what `--dry-run` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct IntoPlan {
    schema: &'static str,
    pub source: String,
    pub version: Version,
    pub targets: Vec<Target>,
    /// The family whose packages are unpacked, of a set with packages for each.
    pub family: Option<String>,
    pub directory: PathBuf,
    pub files: Vec<OfferedFile>,
}

/// What was unpacked. Its text is the directory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct IntoReport<'a> {
    schema: &'static str,
    directory: &'a Path,
    version: &'a Version,
    targets: &'a [Target],
    files: &'a [OfferedFile],
}

impl fmt::Display for IntoReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.directory.display().fmt(f)
    }
}

/// Decides which packages are unpacked: those of ROCm that the selection names, and what the user asks for besides.
pub fn plan_into(
    request: &Request,
    offered: &OfferedSet,
    rocm: &Metadata,
    selection: &RocmSelection,
    directory: &Path,
) -> Result<IntoPlan> {
    let family = selection.family.as_ref();
    let pins = select::pins(offered, family, Some(rocm), &request.packages);
    let mut projects = selection.projects.clone();
    for wish in &request.packages {
        let pin = pins.iter().find(|pin| pin.project == wish.name).ok_or_else(|| {
            no(
                format!("`{}` does not have `{wish}`", offered.place),
                "name a package of this set, which needs no Python",
            )
        })?;
        if wish.allows(&pin.version) == Some(false) {
            return Err(no(
                format!(
                    "`{}` has `{}` {}, and not `{wish}`",
                    offered.place, pin.project, pin.version
                ),
                "name the version of ROCm that you want with `--version`",
            ));
        }
        select::ensure_for(wish, pin, &rocm.version, offered)?;
        projects.insert(wish.name.clone());
    }
    let mut files = Vec::new();
    for project in &projects {
        let Some(pin) = pins.iter().find(|pin| pin.project == *project) else {
            continue;
        };
        let wheels: Vec<&OfferedFile> = select::files_of(offered, family, project, &pin.version)
            .filter(|file| is_wheel(&file.name))
            .collect();
        let wheel = wheels.iter().find(|file| needs_no_python(&file.name));
        match (wheel, wheels.first()) {
            (Some(wheel), _) => files.push((*wheel).clone()),
            (None, Some(file)) => {
                return Err(no(
                    format!("`{}` is for a Python, and here is none", file.name),
                    "install it into an environment, without `--into`",
                ));
            }
            // What a package of ROCm needs of others, such as setuptools, is for a Python.
            (None, None) if !request.packages.iter().any(|wish| wish.name == *project) => {}
            (None, None) => {
                return Err(no(
                    format!("`{}` has no wheel of `{project}`", offered.place),
                    "install it into an environment, without `--into`",
                ));
            }
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(IntoPlan {
        schema: "rocwheel-into-plan-v1",
        source: offered.place.clone(),
        version: rocm.version.clone(),
        targets: selection.targets.clone(),
        family: family.map(ToString::to_string),
        directory: place_of(directory)?,
        files,
    })
}

/// The directory, behind a link to it. Fails if it cannot be replaced as a whole.
fn place_of(directory: &Path) -> Result<PathBuf> {
    if !directory.exists() {
        return Ok(std::path::absolute(directory)?);
    }
    let place = resolved_path(directory)?;
    let shown = place.display();
    if resolved_path(".".as_ref()).is_ok_and(|current| current.starts_with(&place)) {
        return Err(anyhow!("`{shown}` is replaced as a whole, and is the current directory"))
            .hint("name a directory in it");
    }
    if is_mount_point(&place) {
        return Err(anyhow!("`{shown}` is a mount point, which cannot be replaced as a whole"))
            .hint(format!("name a directory in it: `{}`", place.join("rocm").display()));
    }
    Ok(place)
}

#[cfg(unix)]
fn is_mount_point(directory: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let device = |path: &Path| fs_err::metadata(path).map(|metadata| metadata.dev()).ok();
    directory.parent().is_none_or(|parent| device(directory) != device(parent))
}

#[cfg(not(unix))]
fn is_mount_point(_: &Path) -> bool {
    false
}

/// Whether a wheel is for every Python, so that nothing in it depends on one.
fn needs_no_python(name: &str) -> bool {
    let tag = name.parse::<PackageFilename>().ok().and_then(|name| name.tag);
    tag.is_some_and(|tag| {
        tag.to_string().split('-').nth(1) == Some("none") && tag.python().contains("py3")
    })
}

impl IntoPlan {
    fn summary(&self) -> String {
        let version = &self.version;
        match &self.family {
            Some(family) => format!("ROCm {version} for {family}"),
            None if self.targets.is_empty() => format!("ROCm {version} without device code"),
            None => format!("ROCm {version} for {}", self.targets.iter().format(", ")),
        }
    }

    /// Unpacks everything, or changes nothing.
    pub fn carry_out(
        &mut self,
        place: &SetPlace,
        memory: &mut ServedDigests,
        world: &World,
    ) -> Result<IntoReport<'_>> {
        let directory = self.directory.clone();
        let lock = Lock::to_write(&directory, LockPurpose::Install)?;
        let replaced = ReplacedTree::find(&directory, world)?;
        let archives = StagedDir::beside(&directory)?;
        let wheels = place.obtain(&mut self.files, memory, archives.path(), world)?;
        let staged = StagedDir::beside(&directory)?;
        let mut tree = unpack_wheels(&wheels, staged.path(), world)?;
        expand_development_files(&mut tree, staged.path(), world)?;
        self.record(&tree).write(staged.path())?;
        let bytes = tree.bytes();
        replaced.ensure_free(&directory, &tree)?;
        let kept = staged.replace(|root, name| replaced.may_remove(root, name))?;
        drop(lock);
        let foreign: Vec<&String> =
            kept.iter().filter(|name| **name != LockPurpose::Install.file_name()).collect();
        if !foreign.is_empty() {
            let files = many(foreign.len(), "file");
            let names = few(foreign.iter().map(|name| format!("`{name}`")));
            world
                .console
                .note(format!("kept {files} of others in `{}`: {names}", directory.display()));
        }
        let facts = format!("{} into `{}` ({})", self.summary(), directory.display(), size(bytes));
        world.console.status("Unpacked", facts);
        Ok(IntoReport {
            schema: "rocwheel-into-v1",
            directory: &self.directory,
            version: &self.version,
            targets: &self.targets,
            files: &self.files,
        })
    }

    fn record(&self, tree: &UnpackedTree) -> IntoRecord {
        IntoRecord::new(
            self.source.clone(),
            self.version.clone(),
            self.files.iter().map(|file| file.name.clone()).collect(),
            tree,
        )
    }
}

impl fmt::Display for IntoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, from {}", self.summary(), self.source)?;
        writeln!(f, "unpack into `{}`", self.directory.display())?;
        for file in &self.files {
            writeln!(f, "  {}", file.name)?;
        }
        Ok(())
    }
}

/// The refusal of a directory that has files of others.
fn not_ours(directory: &Path) -> Error {
    let shown = directory.display();
    hinted(
        anyhow!("`{shown}` has files, and no record of an earlier `--into`"),
        "name a directory that is empty or does not exist",
    )
}

/// The refusal of a file that is another one than was unpacked.
fn changed(path: &Path) -> Error {
    let refusal = No(format!("`{}` was changed since it was unpacked", path.display()));
    hinted(anyhow!(refusal), "move it away, or name another directory")
}
