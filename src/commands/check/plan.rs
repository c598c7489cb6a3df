//! `--planned` and `--artifact-dir`: compares a set with its plan, and with the artifacts it was
//! built from.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use fs_err as fs;
use itertools::Itertools as _;

use crate::{
    artifact::FileAt,
    artifact::input,
    check::{Digests, Finding, SetFacts, differences, originals},
    commands::{World, args::Jobs, build},
    digest::Sha256,
    elf::{self, PatchedReader, Rpath},
    error::{Context as _, Hint as _, Result, bail},
    package::{
        BuildOptions,
        build::{Build, BuildSelection},
        dist_info,
        document::{self, PlannedPackage},
    },
    parallel,
    run::Platform,
};

/// The directory in which `build` stores archives of device code before it packs them.
const SPLIT: &str = "kpack.part";

/// A plan, and the artifacts that it is for.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Comparison options")]
pub(super) struct PlanArgs {
    /// Compare the packages with this output of `build --dry-run --format json`
    #[arg(long, visible_alias = "plan", value_name = "FILE")]
    planned: Option<PathBuf>,
    /// Compare the files with those of the artifacts in this directory; without `--planned`, also
    /// plan the build and compare the packages with it
    #[arg(long, value_name = "DIR")]
    artifact_dir: Option<PathBuf>,
    /// The file that the set was built with, where no `--planned` says what was to be made
    #[arg(long, value_name = "FILE")]
    packages_file: Option<PathBuf>,
}

impl PlanArgs {
    /// The differences between a set and its plan, if there is a plan.
    pub(super) fn differences(
        &self,
        set: &SetFacts,
        jobs: &Jobs,
        world: &World,
    ) -> Result<Vec<Finding>> {
        let plan = match (&self.planned, &self.artifact_dir) {
            (Some(file), _) => {
                let read = || document::parse(&fs::read_to_string(file)?);
                read().with_context(|| format!("failed to compare with `{}`", file.display()))?
            }
            (None, Some(artifacts)) => self.planned_from(artifacts, set, jobs, world)?,
            (None, None) => return Ok(Vec::new()),
        };
        let digests = match &self.artifact_dir {
            Some(directory) => digests(&plan, directory, jobs, world)?,
            None => Digests::new(),
        };
        Ok(differences(set, &plan, &digests))
    }

    /// Plans what `build` would make from the artifacts, with the version and the platform of the
    /// set.
    fn planned_from(
        &self,
        artifacts: &Path,
        set: &SetFacts,
        jobs: &Jobs,
        world: &World,
    ) -> Result<Vec<PlannedPackage>> {
        let plan = || -> Result<_> {
            let (platform, version) = one(set)
                .hint("pass what `rocwheel build --plan --format json` wrote to `--planned`")?;
            build::ensure_all(artifacts)?;
            let mut options = BuildOptions::new(platform, jobs.count())?;
            options.version = Some(version.parse()?);
            if let Some(file) = &self.packages_file {
                options.catalog = build::read_catalog(file)?;
            }
            let without = without(set, &options)?;
            options.catalog = options.catalog.without(&without)?;
            let tree = input::scan(artifacts, jobs.count(), world)?;
            let build = Build::plan(&tree, &options, &BuildSelection::All, Path::new(""), world)?;
            Ok(build.plan.planned())
        };
        plan().with_context(|| format!("failed to plan what `{}` makes", artifacts.display()))
    }
}

/// The names that were left out of the set, from its `set.json`, or else from its Python code.
fn without(set: &SetFacts, options: &BuildOptions) -> Result<Vec<String>> {
    let published = set.published.as_ref().map(|it| &it.without);
    match (published, set.dist_info()) {
        (Some(names), _) if !names.is_empty() => Ok(names.clone()),
        (_, Some(text)) => dist_info::left_out(&options.catalog, text, options.platform),
        _ => Ok(Vec::new()),
    }
}

/// The platform and the version of a set. Fails if it has several.
fn one(set: &SetFacts) -> Result<(Platform, String)> {
    let platform = match set.platforms()[..] {
        ["win32"] => Platform::Windows,
        ["linux"] => Platform::Linux,
        _ => bail!("the packages are not for one platform"),
    };
    let wheels = set.wheels.iter().filter_map(|it| it.identity());
    let versions = wheels.map(|it| it.version.to_string()).unique();
    let version = versions.exactly_one().ok();
    let version = version.context("the packages are not of one version")?;
    Ok((platform, version))
}

/// The digests of the files that a plan makes from the artifacts.
fn digests(
    plan: &[PlannedPackage],
    artifacts: &Path,
    jobs: &Jobs,
    world: &World,
) -> Result<Digests> {
    // Archives that were split off during the build are deleted at its end.
    let is_there = |file: &str| !Path::new(file).iter().any(|it| it == SPLIT);
    let originals = originals(plan).into_iter();
    let originals: Vec<_> = originals.filter(|(_, file, _)| is_there(file)).collect();
    let title = artifacts.display();
    let progress = world.console.progress("Comparing", title, None);
    let found = parallel::map(
        &originals,
        jobs.count(),
        &world.stop,
        |(artifact, file, rpath)| {
            let path = place(artifacts, artifact, file);
            let digest = digest(&path, rpath.as_deref())
                .with_context(|| format!("failed to compare with `{}`", path.display()))
                .hint("pass the directory with the artifacts of the plan to `--artifact-dir`")?;
            progress.inc(digest.1);
            Ok(digest.0)
        },
    )?;
    Ok(originals.into_iter().zip(found).collect())
}

/// The path of an artifact's file today. The plan has the path at the time of the build, and the
/// artifacts may have moved since.
fn place(artifacts: &Path, artifact: &str, file: &str) -> PathBuf {
    let mark = format!("/{artifact}/");
    match file.rsplit_once(&mark) {
        Some((_, inside)) => artifacts.join(artifact).join(inside),
        None => PathBuf::from(file),
    }
}

fn digest(path: &Path, rpath: Option<&str>) -> Result<(Sha256, u64)> {
    let of = |reader: &mut dyn Read| Sha256::of_reader(reader).context("failed to read it");
    let Some(rpath) = rpath else {
        return of(&mut fs::File::open(path)?);
    };
    let file = FileAt::open(path)?;
    let plan = elf::plan_rpath(&file, &rpath.parse::<Rpath>()?)?;
    of(&mut PatchedReader::new(file, plan))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_looked_for_where_the_artifacts_are_now() {
        let artifacts = Path::new("/now");
        let at = |file| place(artifacts, "blas_lib_generic", file);
        assert_eq!(
            at("/then/blas_lib_generic/a/stage/lib/b.so"),
            Path::new("/now/blas_lib_generic/a/stage/lib/b.so")
        );
        assert_eq!(at("/elsewhere/b.so"), Path::new("/elsewhere/b.so"));
    }
}
