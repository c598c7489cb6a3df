//! Turns a [`BuildPlan`] into files. Each source is read once and each package is written once,
//! into a staging directory beside `dist`. The finished set then replaces `dist` as a whole.

mod content;
pub mod pipeline;
mod place;
mod space;
mod unchanged;
mod xz;

use std::{
    io::{Seek as _, SeekFrom},
    num::NonZeroUsize,
    path::Path,
    time::Instant,
};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::{
    atomic::{self, StagedDir},
    console::{World, many, size, took},
    digest::Sha256,
    error::{Context as _, Result},
    package::plan::{BuildPlan, MemberSource, SdistPlan, SdkTreePacking, WheelPlan},
    relpath::RelPath,
    wheel::{self, Timestamp, WheelCompression, WheelMember},
};

use content::MemberContent;
use pipeline::{BLOCK, Contents};
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
    space::check(plan, settings.compression, dist, world)?;
    let names: Vec<String> = plan.file_names().collect();
    // An earlier build may have been killed between the two renames that replace `dist`.
    atomic::restore(dist)?;
    place::check(dist, &names, existing)?;
    let staged = StagedDir::beside(dist)?;
    let making = Making {
        plan,
        settings,
        world,
        staging: staged.path(),
    };
    let mut all = Vec::new();
    let wheels = plan.wheels.iter().map(PackageToMake::Wheel);
    let sdists = plan.sdists.iter().map(PackageToMake::Sdist);
    for (package, path) in wheels.chain(sdists).zip(names) {
        world.stop.check()?;
        let made = place::create(staged.path(), &path)
            .and_then(|out| making.package(&package, &path, out))
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

enum PackageToMake<'a> {
    Wheel(&'a WheelPlan),
    Sdist(&'a SdistPlan),
}

/// What all packages of one build share while they are written.
struct Making<'a> {
    plan: &'a BuildPlan,
    settings: &'a AssembleSettings,
    world: &'a World,
    /// The staging directory that replaces `dist` at the end.
    staging: &'a Path,
}

impl Making<'_> {
    fn package(
        &self,
        package: &PackageToMake<'_>,
        path: &str,
        out: fs_err::File,
    ) -> Result<MadePackage> {
        let (size, sha256, members) = match package {
            PackageToMake::Wheel(wheel) => self.wheel(wheel, path, out)?,
            PackageToMake::Sdist(sdist) => self.sdist(sdist, out)?,
        };
        Ok(MadePackage {
            path: path.to_owned(),
            size,
            sha256,
            members,
        })
    }

    fn sdist(&self, sdist: &SdistPlan, mut out: fs_err::File) -> Result<(u64, Sha256, usize)> {
        let top = sdist.filename.top().parse()?;
        wheel::write_sdist(&mut out, &top, &sdist.files, self.settings.time)?;
        out.seek(SeekFrom::Start(0))?;
        let (sha256, size) = Sha256::of_reader(out)?;
        Ok((size, sha256, sdist.files.len()))
    }

    /// The content of a member.
    ///
    /// A local zip header has the length of its member, and the length of an xz stream is known
    /// only at its end. So `_devel.tar.xz` is packed into a temporary file first.
    fn content(&self, source: &MemberSource, path: &RelPath) -> Result<MemberContent> {
        let content = MemberContent::of(source, &self.plan.version, self.settings.time)?;
        if !matches!(source, MemberSource::Sdk(_, SdkTreePacking::TarXz)) {
            return Ok(content);
        }
        let console = &self.world.console;
        let progress = console.progress("Packing", path, Some(content.len()));
        let stop = &self.world.stop;
        let advance = |bytes| progress.inc(bytes);
        let watched = CountedReader::new(content.open()?, stop, &advance);
        let mut file = NamedTempFile::new_in(self.staging)?;
        xz::pack(watched, &mut file, self.settings.jobs)
            .map_err(|error| stop.check().map_or_else(Into::into, |()| error))?;
        MemberContent::packed(file.into_temp_path())
    }

    fn wheel(
        &self,
        wheel: &WheelPlan,
        path: &str,
        mut out: fs_err::File,
    ) -> Result<(u64, Sha256, usize)> {
        let (mut members, mut contents) = (Vec::new(), Vec::new());
        for (path, planned) in wheel.members.iter() {
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
        let open = |index: usize| contents.get(index).context("a member of the plan")?.open();
        let written = pipeline::write_wheel(
            &mut out,
            &Contents {
                members: &members,
                texts: &wheel.dist_info,
                record: &wheel.record()?,
            },
            &open,
            &self.settings.pipeline(),
            &self.world.stop,
            &|bytes| progress.inc(bytes),
        )?;
        Ok((written.len, written.sha256, written.record.rows().len()))
    }
}

impl AssembleSettings {
    fn pipeline(&self) -> pipeline::PackSettings {
        pipeline::PackSettings {
            compression: self.compression,
            time: Timestamp::from_epoch(self.time),
            jobs: self.jobs,
            block: BLOCK,
        }
    }
}
