//! Installs an SDK tree into a directory: from the artifacts of a run, or from a release tarball.
//!
//! The tree is made beside the directory, and replaces it once it is whole. A file in the tree says
//! that it was installed here; a directory without that file is never replaced.

mod components;
mod remote;
mod tarballs;

use std::{
    fmt,
    io::{self, Read, Write as _},
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::Serialize;
use walkdir::WalkDir;

pub use self::{
    components::SdkWish,
    remote::{RemoteTarball, TarballPlan},
    tarballs::TarballWish,
};
use crate::{
    archive::ArchiveFormat,
    artifact::{UnpackLimits, Unpacker},
    atomic::{
        self, StagedDir,
        lock::{Lock, LockPurpose},
    },
    console::{Progress, World, many},
    digest::{Hasher, Sha256},
    error::{Context as _, Hint as _, Result, anyhow},
    fetch::{FetchRequest, OutputForm},
    version::Version,
};

/// The file that says that a tree was installed here, and from what.
const MARKER: &str = "share/therock/.rocwheel-install.json";
const SCHEMA: &str = "rocwheel-sdk-v1";

/// The directory of an SDK.
#[derive(Clone, Debug)]
pub struct SdkDirectory {
    root: PathBuf,
}

/// What was installed. Its text is the path of the directory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SdkReport {
    schema: &'static str,
    pub directory: PathBuf,
    pub source: String,
    pub version: Option<Version>,
    /// Of the tarball, as it was received: a server publishes no digest to compare it with.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<Sha256>,
    files: u64,
}

impl fmt::Display for SdkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.directory.display().fmt(f)
    }
}

impl SdkDirectory {
    /// Fails if the directory has files that were not installed here.
    pub fn at(path: &Path) -> Result<Self> {
        let root = fs::canonicalize(path).or_else(|_| std::path::absolute(path))?;
        let shown = root.display();
        root.file_name()
            .with_context(|| format!("not the name of a directory: `{shown}`"))?;
        let is_empty = match fs::read_dir(&root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(anyhow!("not a directory: `{shown}`")).hint("name another one");
            }
            entries => entries?.next().is_none(),
        };
        let found = Self { root };
        if is_empty || found.is_installed() {
            return Ok(found);
        }
        let shown = found.root.display();
        Err(anyhow!(
            "`{shown}` is not empty, and is no SDK that was installed with this program"
        ))
        .hint("name another directory, or remove it")
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn is_installed(&self) -> bool {
        self.root.join(MARKER).is_file()
    }

    fn lock(&self) -> Result<Lock> {
        let parent = self.root.parent().unwrap_or(Path::new("/"));
        Lock::to_write(parent, LockPurpose::Install)
    }

    /// Installs the artifacts that a request selects. The archives are unpacked while they arrive.
    pub fn install_artifacts<'a>(
        &self,
        request: FetchRequest<'a>,
        world: &'a World,
    ) -> Result<SdkReport> {
        let _lock = self.lock()?;
        let staging = StagedDir::beside(&self.root)?;
        let job = request.decide((staging.path(), OutputForm::Merged), false, world)?;
        let job = job.shown_as(&self.root);
        job.carry_out(world)?;
        let source = job.from.clone();
        job.forget()?;
        let entries = WalkDir::new(staging.path()).into_iter().flatten();
        let files = entries.filter(|it| !it.file_type().is_dir()).count();
        let report = self.report(source, None, None, files as u64);
        report.mark(staging.path())?;
        staging.replace()?;
        report.tell(world);
        Ok(report)
    }

    /// Installs a tarball, which is unpacked while it arrives.
    pub fn install_tarball(&self, from: &RemoteTarball, world: &World) -> Result<SdkReport> {
        let _lock = self.lock()?;
        let (plan, name) = (from.plan(self)?, &from.tarball.name);
        let mut archive = ArrivingTarball {
            source: from.open()?,
            hasher: Hasher::default(),
            progress: world.console.progress("Fetching", name, Some(plan.size)),
        };
        let unpacker = Unpacker {
            limits: &UnpackLimits::default(),
            stop: &world.stop,
            progress: &|_| (),
        };
        let packed = (&mut archive, ArchiveFormat::TarGz, name.clone());
        let staged = unpacker.stage_tree(packed, &self.root)?;
        let (sha256, _) = archive.hasher.finish();
        let report = self.report(
            plan.url,
            Some(plan.version),
            Some(sha256),
            staged.unpacked.files,
        );
        report.mark(staged.path())?;
        staged.commit()?;
        drop(archive.progress);
        report.tell(world);
        Ok(report)
    }

    fn report(
        &self,
        source: String,
        version: Option<Version>,
        sha256: Option<Sha256>,
        files: u64,
    ) -> SdkReport {
        SdkReport {
            schema: SCHEMA,
            directory: self.root.clone(),
            source,
            version,
            sha256,
            files,
        }
    }
}

impl SdkReport {
    /// Writes what says that the tree was installed here.
    fn mark(&self, tree: &Path) -> Result<()> {
        let marker = tree.join(MARKER);
        fs::create_dir_all(marker.parent().unwrap_or(tree))?;
        Ok(atomic::write(
            &marker,
            serde_json::to_string_pretty(self)? + "\n",
        )?)
    }

    fn tell(&self, world: &World) {
        if let Some(sha256) = &self.sha256 {
            let text = "the server has no digest for it, so only its own checksum was verified";
            world
                .console
                .note(format!("{}: {text}; its SHA-256 is {sha256}", self.source));
        }
        let files = many(usize::try_from(self.files).unwrap_or(usize::MAX), "file");
        let facts = format!("`{}`, with {files}", self.directory.display());
        world.console.status("Installed", facts);
    }
}

/// An archive that arrives: hashed, and with its progress shown.
struct ArrivingTarball {
    source: Box<dyn Read + Send>,
    hasher: Hasher,
    progress: Progress,
}

impl Read for ArrivingTarball {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buf)?;
        self.hasher.write_all(buf.get(..read).unwrap_or_default())?;
        self.progress.inc(read as u64);
        Ok(read)
    }
}
