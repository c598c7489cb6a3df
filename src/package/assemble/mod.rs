//! A plan to files: each source is read once, each package written once, and the set put in its
//! place as a whole.

mod content;
pub mod pipeline;
mod place;
mod space;
mod unchanged;

use std::{
    io::{Seek as _, SeekFrom},
    num::NonZeroUsize,
    path::Path,
    time::Instant,
};

use serde::Serialize;

use crate::{
    atomic::{self, StagedDir},
    console::{World, many, size, took},
    digest::Sha256,
    error::{Context as _, Result},
    package::plan::{self, BuildPlan, Packing, SdistPlan, Source, WheelPlan},
    wheel::{self, Compression, Member, Timestamp},
};

use content::Content;
use pipeline::{BLOCK, Contents};

/// How packages are written.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What every member is dated with, in seconds since 1970.
    pub time: u64,
    pub compression: Compression,
    /// How many threads compress; it does not show in the bytes.
    pub jobs: NonZeroUsize,
}

/// A finished package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Made {
    /// Its path below `dist/`.
    pub path: String,
    pub size: u64,
    pub sha256: Sha256,
    #[serde(skip)]
    pub members: usize,
}

/// What to do with packages that lie where the new ones go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Replace a set of the same files, refuse any other.
    #[default]
    RefuseOthers,
    Replace,
}

/// Makes every package of a plan and puts the set at `dist`, where nothing else is left.
pub fn assemble(
    plan: &BuildPlan,
    dist: &Path,
    existing: Existing,
    settings: &Settings,
    world: &World,
) -> Result<Vec<Made>> {
    let began = Instant::now();
    space::check(plan, settings.compression, dist, world)?;
    let names: Vec<String> = plan.file_names().collect();
    atomic::restore(dist)?;
    place::check(dist, &names, existing)?;
    let staged = StagedDir::beside(dist)?;
    let making = Making {
        plan,
        settings,
        world,
    };
    let mut all = Vec::new();
    let wheels = plan.wheels.iter().map(Package::Wheel);
    let sdists = plan.sdists.iter().map(Package::Sdist);
    for (package, path) in wheels.chain(sdists).zip(names) {
        world.stop.check()?;
        let made = place::create(staged.path(), &path)
            .and_then(|out| making.package(&package, &path, out))
            .with_context(|| format!("make `{path}`"))
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

enum Package<'a> {
    Wheel(&'a WheelPlan),
    Sdist(&'a SdistPlan),
}

/// What it takes to make one package.
struct Making<'a> {
    plan: &'a BuildPlan,
    settings: &'a Settings,
    world: &'a World,
}

impl Making<'_> {
    fn package(&self, package: &Package<'_>, path: &str, out: fs_err::File) -> Result<Made> {
        let (size, sha256, members) = match package {
            Package::Wheel(wheel) => self.wheel(wheel, path, out)?,
            Package::Sdist(sdist) => self.sdist(sdist, out)?,
        };
        Ok(Made {
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

    fn wheel(
        &self,
        wheel: &WheelPlan,
        path: &str,
        mut out: fs_err::File,
    ) -> Result<(u64, Sha256, usize)> {
        let (mut members, mut contents) = (Vec::new(), Vec::new());
        for (path, planned) in wheel.members.iter() {
            let content = Content::of(&planned.source, &self.plan.version, self.settings.time)
                .with_context(|| format!("prepare `{path}`"))?;
            members.push(Member {
                path: path.clone(),
                mode: planned.mode,
                len: content.len(),
            });
            contents.push(content);
        }
        let bytes = members.iter().map(|member| member.len).sum();
        let progress = self.world.console.progress("Packing", path, Some(bytes));
        let xz = |member: &plan::Member| matches!(member.source, Source::Sdk(_, Packing::TarXz));
        let open = |index: usize| contents.get(index).context("a member of the plan")?.open();
        let written = pipeline::write_wheel(
            &mut out,
            &Contents {
                members: &members,
                xz: wheel.members.iter().position(|(_, member)| xz(member)),
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

impl Settings {
    fn pipeline(&self) -> pipeline::Settings {
        pipeline::Settings {
            compression: self.compression,
            time: Timestamp::from_epoch(self.time),
            jobs: self.jobs,
            block: BLOCK,
        }
    }
}
