//! `diff`: says what differs between two package sets.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use super::{
    World,
    args::{AccessArgs, GitHubArgs, Jobs, RunArgs},
};
use crate::{
    diff::{self, DifferenceText},
    error::{Error, No, Result},
    run::{ArtifactGroup, RunReference},
    set::SetPlace,
    version::Version,
};

/// Compare two package sets
///
/// Prints what differs: packages and their sizes, files that are gone, new, moved or changed, and
/// metadata. Judges nothing: `check --baseline` does. Reads only the ends of wheels.
#[derive(Debug, clap::Args)]
#[command(mut_arg("run_id", |it| it.hide(true)))]
#[command(after_help = "Examples:
  rocwheel diff earlier packages
  rocwheel diff 21440027240 21440027999 --artifact-group gfx94X-dcgpu
  rocwheel diff https://example.com/simple/@7.13.0 https://example.com/simple/@7.14.0
  rocwheel diff s3://bucket/earlier s3://bucket/later --exit-code")]
pub struct DiffArgs {
    /// A directory, `set.json`, `s3://bucket/directory`, the URL of an index, or a run: its id or
    /// the URL of its page. `@VERSION` at the end selects a version of an index
    #[arg(value_name = "BEFORE")]
    before: NamedSet,
    /// The set to compare with it
    #[arg(value_name = "AFTER")]
    after: NamedSet,
    /// Lines to show of each list; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Exit with 1 if the sets differ
    #[arg(long)]
    exit_code: bool,
    /// Family of the sets among the sets of the runs
    #[arg(long, value_name = "GROUP", env = "ARTIFACT_GROUP")]
    artifact_group: Option<ArtifactGroup>,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    github: GitHubArgs,
}

/// A set as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NamedSet {
    Run(RunReference),
    /// A directory or an address, and the version to read of those that are there.
    Place(PathBuf, Option<Version>),
}

impl FromStr for NamedSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if Path::new(text).exists() {
            return Ok(Self::Place(text.into(), None));
        }
        if let Ok(run) = text.parse::<RunReference>()
            && !run.id.is_local()
        {
            return Ok(Self::Run(run));
        }
        // A user name in a URL ends with `@`, too, but no version follows it.
        let (place, version) = text.rsplit_once('@').unwrap_or((text, ""));
        match version.parse() {
            Ok(version) => Ok(Self::Place(place.into(), Some(version))),
            Err(_) => Ok(Self::Place(text.into(), None)),
        }
    }
}

pub fn run(args: &DiffArgs, world: &World) -> Result<()> {
    let before = args.open(&args.before, world)?;
    let after = args.open(&args.after, world)?;
    let difference = diff::compare(&before, &after, args.jobs.count(), world)?;
    world.console.answer(&DifferenceText {
        difference: &difference,
        top: args.top,
    })?;
    if args.exit_code && !difference.is_empty() {
        return Err(No("the sets differ".to_owned()).into());
    }
    Ok(())
}

impl DiffArgs {
    fn open(&self, set: &NamedSet, world: &World) -> Result<SetPlace> {
        match set {
            NamedSet::Place(place, version) => {
                let mut place = self.access.place(place, &world.stop)?;
                place.version.clone_from(version);
                Ok(place)
            }
            NamedSet::Run(run) => {
                let run = self.run.resolve(run, &self.github, world)?;
                let root = run.python(&self.artifact_group.clone().unwrap_or_default());
                self.run.ensure_online(format!("reading `{root}`"))?;
                self.access.bucket(&root, &world.stop)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_a_place_a_run_or_a_version_on_an_index() {
        let named = |text: &str| text.parse::<NamedSet>().unwrap();
        let place = |text: &str, version: Option<&str>| {
            NamedSet::Place(text.into(), version.map(|it| it.parse().unwrap()))
        };
        assert_eq!(
            named("21440027240"),
            NamedSet::Run("21440027240".parse().unwrap())
        );
        let page = "https://github.com/ROCm/TheRock/actions/runs/21440027240";
        assert_eq!(named(page), NamedSet::Run(page.parse().unwrap()));
        assert_eq!(named("a/dist"), place("a/dist", None));
        assert_eq!(named("local"), place("local", None));
        assert_eq!(
            named("https://example.com/simple/@7.14.0rc1"),
            place("https://example.com/simple/", Some("7.14.0rc1"))
        );
        assert_eq!(named("s3://b/x@y"), place("s3://b/x@y", None));
    }
}
