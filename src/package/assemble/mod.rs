//! Turns a [`BuildPlan`] into files. Each source is read once and each package is written once,
//! into a staging directory beside `dist`. The finished set then replaces `dist` as a whole.

mod content;
pub mod pipeline;
mod place;
mod xz;

use std::{io::Seek as _, num::NonZeroUsize, path::Path, time::Instant};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::{
    archive,
    atomic::{self, StagedDir},
    console::{World, many, size, took},
    digest::Sha256,
    error::{Context as _, Result},
    package::plan::{
        BuildPlan, MemberSource, Members, PackageContent, PackagePlan, SdkTreePacking,
    },
    relpath::RelPath,
    version::Version,
    wheel::{Timestamp, WheelCompression, WheelMember},
};

use content::MemberContent;
use pipeline::{BLOCK, Contents, PackSettings, WrittenWheel};
use xz::CountedReader;

/// How to write the packages: timestamp, compression, number of threads.
#[derive(Clone, Debug)]
pub struct AssembleSettings {
    /// The timestamp of every member, in seconds since 1970.
    pub time: u64,
    pub compression: WheelCompression,
    /// How many threads compress. The packages have the same bytes for any number.
    pub jobs: NonZeroUsize,
}

/// A finished package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MadePackage {
    /// Its path below `dist/`.
    pub path: String,
    pub size: u64,
    pub sha256: Sha256,
    #[serde(skip)]
    pub members: usize,
}

/// What to do with files that are already in the destination directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Replace a set of the same file names; stop if any other file is there.
    #[default]
    RefuseOthers,
    Replace,
}

/// Writes every package of `plan`, then replaces the directory `dist` with the finished set.
///
/// If this fails, `dist` keeps its previous contents.
pub fn assemble(
    plan: &BuildPlan,
    dist: &Path,
    existing: Existing,
    settings: &AssembleSettings,
    world: &World,
) -> Result<Vec<MadePackage>> {
    let began = Instant::now();
    place::check_space(plan, settings.compression, dist, world)?;
    let names: Vec<String> = plan.packages.iter().map(PackagePlan::path).collect();
    // An earlier build may have been killed between the two renames that replace `dist`.
    atomic::restore(dist)?;
    place::check(dist, &names, existing)?;
    let staged = StagedDir::beside(dist)?;
    let making = Making {
        version: &plan.version,
        settings,
        world,
        staging: staged.path(),
    };
    let mut all = Vec::new();
    for (package, path) in plan.packages.iter().zip(names) {
        world.stop.check()?;
        let made = making
            .package(package, &path)
            .with_context(|| format!("failed to make `{path}`"))
            .map_err(|error| place::advise(error, dist))?;
        let (members, bytes) = (many(made.members, "member"), size(made.size));
        let facts = format!("{path}: {members}, {bytes}");
        world.console.status("Packed", facts);
        all.push(made);
    }
    staged.replace()?;
    let bytes = size(all.iter().map(|made| made.size).sum());
    let (packages, time) = (many(all.len(), "package"), took(began.elapsed()));
    let facts = format!("{packages}, {bytes}, in {time}");
    world.console.status("Built", facts);
    Ok(all)
}

/// What all packages of one build share while they are written.
struct Making<'a> {
    version: &'a Version,
    settings: &'a AssembleSettings,
    world: &'a World,
    /// The staging directory that replaces `dist` at the end.
    staging: &'a Path,
}

impl Making<'_> {
    fn package(&self, package: &PackagePlan, path: &str) -> Result<MadePackage> {
        let file = self.staging.join(path);
        if let Some(directory) = file.parent() {
            fs_err::create_dir_all(directory)?;
        }
        // Readable, because the finished package is read back for its hash.
        let mut options = fs_err::OpenOptions::new();
        let options = options.read(true).write(true).create_new(true);
        let mut out = options.open(file)?;
        let (size, sha256, members) = match &package.content {
            PackageContent::Wheel {
                members,
                dist_info,
                record,
            } => {
                let written = self.wheel(members, dist_info, record, path, &mut out)?;
                (written.len, written.sha256, written.record.rows().len())
            }
            PackageContent::Sdist { top, files } => {
                archive::write_sdist(&mut out, top, files, self.settings.time)?;
                out.rewind()?;
                let (sha256, size) = Sha256::of_reader(out)?;
                (size, sha256, files.len())
            }
        };
        Ok(MadePackage {
            path: path.to_owned(),
            size,
            sha256,
            members,
        })
    }

    /// The content of a member.
    ///
    /// A local zip header has the length of its member, and the length of an xz stream is known
    /// only at its end. So `_devel.tar.xz` is packed into a temporary file first.
    fn content(&self, source: &MemberSource, path: &RelPath) -> Result<MemberContent> {
        let content = MemberContent::of(source, self.version, self.settings.time)?;
        if !matches!(source, MemberSource::Sdk(_, SdkTreePacking::TarXz)) {
            return Ok(content);
        }
        let (console, stop) = (&self.world.console, &self.world.stop);
        let progress = console.progress("Packing", path, Some(content.len()));
        let source = CountedReader {
            source: content.open()?,
            stop,
            progress: &|bytes| progress.inc(bytes),
        };
        let mut file = NamedTempFile::new_in(self.staging)?;
        xz::pack(source, &mut file, self.settings.jobs)
            .map_err(|error| stop.check().map_or_else(Into::into, |()| error))?;
        MemberContent::packed(file.into_temp_path())
    }

    fn wheel(
        &self,
        planned: &Members,
        texts: &[(RelPath, String)],
        record: &RelPath,
        path: &str,
        out: &mut fs_err::File,
    ) -> Result<WrittenWheel> {
        let (mut members, mut contents) = (Vec::new(), Vec::new());
        for (path, planned) in planned.iter() {
            let content = self
                .content(&planned.source, path)
                .with_context(|| format!("failed to prepare `{path}`"))?;
            members.push(WheelMember {
                path: path.clone(),
                mode: planned.mode,
                len: content.len(),
            });
            contents.push(content);
        }
        let bytes = members.iter().map(|member| member.len).sum();
        let progress = self.world.console.progress("Packing", path, Some(bytes));
        let settings = PackSettings {
            compression: self.settings.compression,
            time: Timestamp::from_epoch(self.settings.time),
            jobs: self.settings.jobs,
            block: BLOCK,
        };
        let contents_of_wheel = Contents {
            members: &members,
            texts,
            record,
        };
        pipeline::write_wheel(
            out,
            &contents_of_wheel,
            &|index: usize| contents[index].open(),
            &settings,
            &self.world.stop,
            &|bytes| progress.inc(bytes),
        )
    }
}
