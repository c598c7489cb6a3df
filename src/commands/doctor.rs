//! `doctor`: says what is wrong with an installed environment, or with this machine, on one screen.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    World,
    advice::advise,
    args::{AccessArgs, GitHubArgs, Variables, seams},
};
use crate::{
    console::one_line,
    github::GitHub,
    gpu::{self, Gpu},
    install::{self, ReadDepth, RuntimeFacts, SitePackages},
    run::Buckets,
};
use rocwheel_base::{
    atomic,
    error::{self, Context as _, Error, No, Result, hints, last_cause},
    io::resolved_path,
    quantity::{many, size},
    retry::Backoff,
    target::{Target, TargetPattern, TargetTable},
};
use rocwheel_store::{
    Depth, Store as _,
    location::Bucket,
    s3::{S3Limits, S3Store, Signing},
};

/// The longest wait for a server.
const PATIENCE: Duration = Duration::from_secs(15);
/// A run that no bucket has: the answer of a bucket that may be read is an empty list.
const NO_RUN: &str = "rocwheel-doctor-linux";
/// Below this, a disk is a problem: not even the packages of one target fit.
const FULL: u64 = 2 << 30;

/// Say what is wrong with an installed environment, or with this machine
///
/// With ENVIRONMENT: whether its ROCm packages and frameworks fit together, and have code for the GPUs.
/// Its Python is not run. Without: whether the token, the credentials, a bucket, the disk and the GPUs can
/// be used, without printing a secret. Writes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel doctor
  rocwheel doctor .venv
  rocwheel doctor .venv --target gfx942
  rocwheel doctor --offline
  rocwheel doctor --bucket therock-nightly-artifacts

Exit codes: 0 nothing is in the way, 1 there is a problem")]
pub struct DoctorArgs {
    /// Virtual environment, conda prefix or `site-packages` directory to examine, instead of this
    /// machine's access to GitHub and buckets
    #[arg(value_name = "ENVIRONMENT")]
    environment: Option<PathBuf>,
    /// Targets or families that the environment is for, comma-separated [default: of the GPUs here, or else what it was installed for]
    #[arg(long = "target", value_name = "LIST", requires = "environment")]
    targets: Vec<TargetPattern>,
    /// Bucket to read [default: the bucket of TheRock's CI runs]
    #[arg(long, value_name = "BUCKET")]
    bucket: Option<Bucket>,
    /// Directory whose disk is checked: for artifacts and packages
    #[arg(long, short = 'o', value_name = "DIR", default_value = ".")]
    output_dir: PathBuf,
    /// Use no network: check neither the token nor the bucket
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    github: GitHubArgs,
}

/// The answer of `doctor`.
#[derive(Debug, Serialize)]
struct DoctorReport {
    checks: Vec<Check>,
    /// How many problems people see. A document has all of them.
    #[serde(skip)]
    shown: usize,
}

/// One line of the report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Check {
    name: &'static str,
    status: Status,
    found: String,
    /// `found` with fewer names, for people.
    #[serde(skip)]
    brief: Option<String>,
    way_out: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
enum Status {
    Ok,
    /// Some command has less than it could have.
    Note,
    /// Some command will fail.
    Problem,
}

pub fn run(args: &DoctorArgs, world: &World) -> Result<()> {
    let gpus = gpu::detect(&seams::sysfs());
    let mut checks = Vec::new();
    if let Some(environment) = &args.environment {
        checks.extend(args.environment(environment, &gpus, world)?);
    } else {
        checks.push(args.token(world)?);
        checks.extend(args.bucket(world)?);
        checks.push(disk(&args.output_dir));
    }
    if args.targets.is_empty() {
        checks.extend(gpus.iter().map(Check::of_gpu));
    }
    world.stop.check()?;
    let problems = checks.iter().filter(|it| it.status == Status::Problem).count();
    let report = DoctorReport { checks, shown: world.console.shown_of(problems) };
    world.console.report("doctor", &report, &report)?;
    match problems {
        0 => Ok(()),
        problems => Err(No(many(problems, "problem")).into()),
    }
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, found: found.into(), brief: None, way_out: None }
    }

    fn note(name: &'static str, found: impl Into<String>, way_out: &str) -> Self {
        Self { status: Status::Note, ..Self::problem(name, found, way_out) }
    }

    fn problem(name: &'static str, found: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self {
            status: Status::Problem,
            way_out: Some(way_out.into()).filter(|text| !text.is_empty()),
            ..Self::ok(name, found)
        }
    }

    /// What the error says, with its hints.
    fn failed(name: &'static str, of: &str, error: Error) -> Self {
        let error = advise(error);
        let why = error::one_line(&error);
        Self::problem(name, format!("{of}{why}"), hints(&error).join("; "))
    }

    /// Whether a GPU can be used. That a machine has none is no problem.
    fn of_gpu(gpu: &Gpu) -> Self {
        let target = gpu.target.as_ref().map_or("unknown target", Target::as_str);
        match gpu.obstacle(&seams::dev()) {
            None => Self::ok("GPU", format!("{target} can be used")),
            Some(it) => Self::problem("GPU", format!("{target}: {}", it.reason), it.fix),
        }
    }
}

impl DoctorArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.access.read_variables(variables)?;
        self.github.read_variables(variables)
    }

    /// What is wrong with an installed environment.
    fn environment(&self, root: &Path, gpus: &[Gpu], world: &World) -> Result<Vec<Check>> {
        const NAME: &str = "environment";
        let variables = Variables::of_this_process().runtime();
        let site =
            SitePackages::read(root, ReadDepth::Headers, &variables, World::jobs(), &world.stop)?;
        let runtime = RuntimeFacts::read(variables);
        let detected = gpus.iter().filter_map(|gpu| gpu.target.clone());
        let targets: Vec<Target> = match self.targets.as_slice() {
            // A machine without GPUs prepares the environment for others.
            [] if gpus.is_empty() => site.installed_targets(),
            [] => detected.unique().collect(),
            patterns => TargetTable::builtin().select_with_newer(patterns)?,
        };
        let problems = install::diagnose(&site, &runtime, &targets, gpus.len());
        if problems.is_empty() {
            let count = many(site.packages.len(), "package");
            let root = site.root.display();
            return Ok(vec![Check::ok(NAME, format!("nothing is wrong with {count} in {root}"))]);
        }
        let checks = problems.into_iter().map(|problem| {
            let shown = world.console.shown_of(problem.facts.len());
            let more = problem.facts.len() - shown;
            let brief =
                problem.facts[..shown].join("; ") + &format!("; and {more} more: `-v` shows them");
            Check {
                brief: (more > 0).then_some(brief),
                ..Check::problem(NAME, problem.facts.join("; "), problem.fix)
            }
        });
        Ok(checks.collect())
    }

    fn token(&self, world: &World) -> Result<Check> {
        const NAME: &str = "token";
        let mut settings = self.github.settings(None)?;
        settings.waits.backoff.attempts = 1;
        let origin = settings.token.as_ref().map(|it| self.github.origin(it));
        let token = origin.map_or_else(|| "none".to_owned(), |it| format!("`{it}`"));
        let account = format!("{token} for {}", settings.api);
        let ask = || {
            let github = GitHub::connect(settings, world.stop.clone(), |_| {})?;
            world.stop.within(PATIENCE, || github.remaining_requests())
        };
        let left = if self.offline {
            ", not tried (`--offline`)".to_owned()
        } else {
            match ask() {
                Err(error) => return Ok(Check::failed(NAME, &format!("{account}: "), error)),
                Ok(Some(left)) => format!(", {left} requests left in this hour"),
                Ok(None) => String::new(),
            }
        };
        let found = account + &left;
        Ok(match origin {
            Some(_) => Check::ok(NAME, found),
            None => Check::note(
                NAME,
                format!("{found}; public repositories need none"),
                "set `GITHUB_TOKEN` or `GH_TOKEN`, or run `gh auth login`, to ask more often, and for private repositories",
            ),
        })
    }

    /// The credentials, and the bucket that is read with them.
    fn bucket(&self, world: &World) -> Result<Vec<Check>> {
        const NAME: &str = "bucket";
        let buckets = Buckets::builtin();
        let named = self.bucket.as_ref().or(buckets.of_ci());
        let bucket = named.context("no bucket was named")?.clone();
        let shown = format!("s3://{bucket}");
        if self.offline {
            let untried = format!("{shown}: not tried (`--offline`)");
            return Ok(vec![Check::note(NAME, untried, "")]);
        }
        let region = buckets.find(&bucket).map(|it| it.region.as_str());
        let access = self.access.access(region)?;
        let once = Backoff { attempts: 1, pause: Duration::ZERO };
        // Opening sends nothing to the bucket: what can fail is the search for credentials.
        let open = || {
            let limits = S3Limits { backoff: once, ..S3Limits::default() };
            Ok(S3Store::with_limits(bucket, &access, world.stop.clone(), limits)?)
        };
        let store = match world.stop.within(PATIENCE, open) {
            Ok(store) => store,
            Err(error) => {
                let found = last_cause(error.as_ref());
                let refused = Check::failed("credentials", "", error);
                return Ok(vec![Check { found, ..refused }]);
            }
        };
        let list = || Ok(store.list(Some(&NO_RUN.parse()?), Depth::Children)?);
        let read = match world.stop.within(PATIENCE, list) {
            Err(error) => Check::failed(NAME, "", error),
            Ok(_) if store.reads_unsigned() => Check::note(
                NAME,
                format!("{shown} can be read, but denies it to these credentials"),
                "to write there, choose other credentials with `--profile`, or sign in again",
            ),
            Ok(_) => Check::ok(NAME, format!("{shown} can be read")),
        };
        let credentials = match store.key_id() {
            Some(key_id) => Check::ok("credentials", format!("key {}", masked(key_id))),
            None if access.signing == Signing::Never => {
                Check::ok("credentials", "not used, as `--no-sign-request` asks for")
            }
            None => Check::note(
                "credentials",
                "none found: public buckets can be read, and no bucket can be written",
                "set `AWS_PROFILE`, or `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`",
            ),
        };
        Ok(vec![credentials, read])
    }
}

/// `AKIA…WXYZ`: enough to tell two keys apart.
fn masked(key_id: &str) -> String {
    let first = key_id.get(..4);
    let last = key_id.get(key_id.len().saturating_sub(4)..);
    match first.zip(last) {
        Some((first, last)) if key_id.len() >= 12 => format!("{first}…{last}"),
        // Most of a short one would be shown.
        _ => "…".to_owned(),
    }
}

/// A directory that does not exist yet is made by the commands, so its parent is tried.
fn disk(directory: &Path) -> Check {
    const NAME: &str = "disk";
    let way_out = "pass `--output-dir` with a directory on another disk";
    let existing = directory.ancestors().find(|path| path.is_dir());
    let real = resolved_path(directory).unwrap_or_else(|_| directory.to_owned());
    let path = real.display();
    if let Err(why) = tempfile::tempfile_in(existing.unwrap_or(Path::new("."))) {
        return Check::problem(NAME, format!("{path} cannot be written: {why}"), way_out);
    }
    match atomic::free_space(directory) {
        Some(free @ ..FULL) => {
            Check::problem(NAME, format!("{} free at {path}", size(free)), way_out)
        }
        Some(free) => Check::ok(NAME, format!("{} free at {path}", size(free))),
        None => Check::ok(NAME, path.to_string()),
    }
}

impl fmt::Display for DoctorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut problems = 0;
        for check in &self.checks {
            let status = check.status.to_string();
            if check.status == Status::Problem {
                problems += 1;
                if problems > self.shown {
                    continue;
                }
            }
            // Names of files may have line breaks, which would look like lines of this report.
            let found = one_line(check.brief.as_ref().unwrap_or(&check.found));
            writeln!(f, "{status:<8} {:<12} {found}", check.name)?;
            if let Some(way_out) = &check.way_out {
                writeln!(f, "{:<21} {}", "", one_line(way_out))?;
            }
        }
        match problems.saturating_sub(self.shown) {
            0 => Ok(()),
            more => writeln!(f, "{:<21} and {}: `-v` shows them", "", many(more, "more problem")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_masked() {
        assert_eq!(masked("AKIAIOSFODNN7EXAMPLE"), "AKIA…MPLE");
        assert_eq!(masked("AKIAIOSFODN"), "…");
    }
}
