//! A plan to files: each source is read once, each package written once, and the set put in its
//! place as a whole.

mod content;
pub mod pipeline;
mod place;
mod unchanged;

use std::{
    io::{Seek as _, SeekFrom},
    num::NonZeroUsize,
    path::Path,
};

use crate::{
    digest::Sha256,
    error::{Context as _, Result, Stop},
    package::plan::{self, BuildPlan, Packing, SdistPlan, Source, WheelPlan},
    wheel::{self, Compression, Member, Timestamp},
};

use content::Content;
use pipeline::{BLOCK, Contents};
use place::Part;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its path below `dist/`.
    pub path: String,
    pub size: u64,
    pub sha256: Sha256,
    pub members: usize,
}

/// Told of the bytes that are read, and of each package when it is made.
pub trait Watch: Sync {
    fn begins(&self, path: &str, bytes: u64);
    fn reads(&self, bytes: u64);
    fn made(&self, made: &Made);
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
    stop: &Stop,
    watch: &dyn Watch,
) -> Result<Vec<Made>> {
    let names: Vec<String> = plan.file_names().collect();
    place::restore(dist)?;
    place::check(dist, &names, existing)?;
    let part = Part::create(dist)?;
    let making = Making {
        plan,
        settings,
        stop,
        watch,
    };
    let mut all = Vec::new();
    let wheels = plan.wheels.iter().map(Package::Wheel);
    let sdists = plan.sdists.iter().map(Package::Sdist);
    for (package, path) in wheels.chain(sdists).zip(names) {
        stop.check()?;
        let made = part
            .create_file(&path)
            .and_then(|out| making.package(&package, &path, out))
            .with_context(|| format!("make `{path}`"))
            .map_err(|error| place::advise(error, dist))?;
        watch.made(&made);
        all.push(made);
    }
    part.put()?;
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
    stop: &'a Stop,
    watch: &'a dyn Watch,
}

impl Making<'_> {
    fn package(&self, package: &Package<'_>, path: &str, out: fs_err::File) -> Result<Made> {
        match package {
            Package::Wheel(wheel) => self.wheel(wheel, path, out),
            Package::Sdist(sdist) => {
                let (size, sha256) = self.sdist(sdist, out)?;
                Ok(Made {
                    path: path.to_owned(),
                    size,
                    sha256,
                    members: sdist.files.len(),
                })
            }
        }
    }

    fn sdist(&self, sdist: &SdistPlan, mut out: fs_err::File) -> Result<(u64, Sha256)> {
        let top = sdist.filename.top().parse()?;
        wheel::write_sdist(&mut out, &top, &sdist.files, self.settings.time)?;
        out.seek(SeekFrom::Start(0))?;
        let (sha256, size) = Sha256::of_reader(out)?;
        Ok((size, sha256))
    }

    fn wheel(&self, wheel: &WheelPlan, path: &str, mut out: fs_err::File) -> Result<Made> {
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
        self.watch
            .begins(path, members.iter().map(|member| member.len).sum());
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
            self.stop,
            &|bytes| self.watch.reads(bytes),
        )?;
        let members = written.record.rows().len();
        Ok(Made {
            path: path.to_owned(),
            size: written.len,
            sha256: written.sha256,
            members,
        })
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
