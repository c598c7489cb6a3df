//! A plan to files: each source is read once, each package written once, and the set put in its
//! place as a whole.

mod content;
mod place;
mod wheel_file;

use std::path::Path;

use crate::{
    digest::Sha256,
    error::{Context as _, Result, Stop},
    package::plan::{BuildPlan, SdistPlan, WheelPlan},
};

use content::Content;
use place::Part;

pub use wheel_file::Settings;

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
    place::check(dist, &names, existing)?;
    let part = Part::create(dist)?;
    let mut all = Vec::new();
    let wheels = plan.wheels.iter().map(Package::Wheel);
    let sdists = plan.sdists.iter().map(Package::Sdist);
    for (package, path) in wheels.chain(sdists).zip(names) {
        stop.check()?;
        let made = package
            .make(&path, plan, &part, settings, stop, watch)
            .with_context(|| format!("make `{path}`"))?;
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

impl Package<'_> {
    fn make(
        &self,
        path: &str,
        plan: &BuildPlan,
        part: &Part,
        settings: &Settings,
        stop: &Stop,
        watch: &dyn Watch,
    ) -> Result<Made> {
        let out = part.create_file(path)?;
        match self {
            Self::Wheel(wheel) => {
                let mut contents = Vec::with_capacity(wheel.members.len());
                for (member, planned) in wheel.members.iter() {
                    let content = Content::of(&planned.source, &plan.version, settings.time)
                        .with_context(|| format!("prepare `{member}`"))?;
                    contents.push((member, planned.mode, content));
                }
                let bytes = contents.iter().map(|(_, _, content)| content.len()).sum();
                watch.begins(path, bytes);
                let (size, sha256) =
                    wheel_file::write(out, &contents, &wheel.dist_info, settings, stop, watch)?;
                let members = contents.len() + wheel.dist_info.len() + 1;
                Ok(Made {
                    path: path.to_owned(),
                    size,
                    sha256,
                    members,
                })
            }
            Self::Sdist(sdist) => {
                let (size, sha256) = wheel_file::write_sdist(out, sdist, settings)?;
                Ok(Made {
                    path: path.to_owned(),
                    size,
                    sha256,
                    members: sdist.files.len(),
                })
            }
        }
    }
}
pub mod pipeline;
