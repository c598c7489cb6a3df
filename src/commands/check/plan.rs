//! What a set is compared with that was planned, and made from artifacts.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use fs_err as fs;

use crate::{
    artifact::{FileAt, in_parallel},
    audit::{Digests, Finding, Planned, SetFacts, differences},
    commands::{World, args::Jobs},
    digest::Sha256,
    elf::{self, PatchedReader, Rpath},
    error::{Context as _, Hint as _, Result},
};

/// A plan, and the artifacts that it is for.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct PlanArgs {
    /// What `build --plan --format json` wrote: compare the packages with it
    #[arg(
        long,
        visible_alias = "plan",
        value_name = "FILE",
        env = "ROCWHEEL_PLANNED"
    )]
    planned: Option<PathBuf>,
    /// With `--planned`, where its artifacts are, as directories: compare bytes too
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_ARTIFACT_DIR")]
    artifact_dir: Option<PathBuf>,
}

impl PlanArgs {
    /// How a set differs from the plan, if there is one.
    pub(super) fn differences(
        &self,
        set: &SetFacts,
        jobs: &Jobs,
        world: &World,
    ) -> Result<Vec<Finding>> {
        let Some(file) = &self.planned else {
            return Ok(Vec::new());
        };
        let plan = Planned::parse(&fs::read_to_string(file)?)
            .with_context(|| format!("compare with `{}`", file.display()))?;
        let digests = match &self.artifact_dir {
            Some(directory) => digests(&plan, directory, jobs, world)?,
            None => Digests::new(),
        };
        Ok(differences(set, &plan, &digests))
    }
}

/// The bytes that the files of a plan become.
fn digests(plan: &Planned, artifacts: &Path, jobs: &Jobs, world: &World) -> Result<Digests> {
    let originals = plan.originals();
    let title = artifacts.display();
    let progress = world.console.progress("Comparing", title, None);
    let found = in_parallel(
        jobs.count(),
        &originals,
        &world.stop,
        |(artifact, file, rpath)| {
            let path = place(artifacts, artifact, file);
            let digest = digest(&path, rpath.as_deref())
                .with_context(|| format!("compare with `{}`", path.display()))
                .hint("pass the directory with the artifacts of the plan to `--artifact-dir`")?;
            progress.inc(digest.1);
            Ok(digest.0)
        },
    )?;
    Ok(originals.into_iter().zip(found).collect())
}

/// A plan says where files were when it was made; artifacts may be elsewhere now.
fn place(artifacts: &Path, artifact: &str, file: &str) -> PathBuf {
    let mark = format!("/{artifact}/");
    match file.rsplit_once(&mark) {
        Some((_, inside)) => artifacts.join(artifact).join(inside),
        None => PathBuf::from(file),
    }
}

fn digest(path: &Path, rpath: Option<&str>) -> Result<(Sha256, u64)> {
    let of = |reader: &mut dyn Read| Sha256::of_reader(reader).context("read it");
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
