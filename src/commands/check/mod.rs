//! `check`: what is wrong with a package set, before anybody installs it.

mod answer;
mod plan;

use std::path::{Path, PathBuf};

use clap::{Args as _, FromArgMatches as _};
use fs_err as fs;

use super::World;
use crate::{
    audit::{self, Coverage, Demands, Dotted, Pattern, Selection, SetFacts, Severity, Watch},
    console::{Format, many},
    error::{Hint as _, No, Result, ensure},
    target::{Target, TargetTable, split_list},
};

use self::{answer::Answer, plan::PlanArgs};

/// Find what is wrong with a package set
///
/// Reads the packages in DIR, or in DIR/dist, and looks for what lets users down: packages that are
/// invalid, missing, or of other targets than promised; libraries that do not load. Nothing is
/// changed. docs/checks.md explains every finding.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory; packages are in it, or in its `dist`
    #[arg(value_name = "DIR", env = "ROCWHEEL_PACKAGES_DIR")]
    directory: PathBuf,
    #[command(flatten)]
    policy: Policy,
    #[command(flatten)]
    plan: PlanArgs,
}

/// What counts as wrong; `pipeline` asks the same.
#[derive(Clone, Debug, clap::Args)]
pub struct Policy {
    /// Only these rules, by id, beginning of an id, or name: `RW4,missing-device-wheel`
    #[arg(
        long,
        value_name = "IDS",
        value_delimiter = ',',
        env = "ROCWHEEL_SELECT"
    )]
    select: Vec<Pattern>,
    /// All rules but these
    #[arg(
        long,
        value_name = "IDS",
        value_delimiter = ',',
        env = "ROCWHEEL_IGNORE"
    )]
    ignore: Vec<Pattern>,
    /// The least grave finding that makes the answer no
    #[arg(
        long,
        value_name = "SEVERITY",
        default_value = "error",
        env = "ROCWHEEL_FAIL_ON"
    )]
    fail_on: FailOn,
    /// The families or targets that must be there, with commas between
    #[arg(long, value_name = "LIST", env = "ROCWHEEL_REQUIRE_TARGETS")]
    require_targets: Option<String>,
    /// The newest glibc that hosts may have to have
    #[arg(
        long,
        value_name = "VERSION",
        default_value = "2.28",
        env = "ROCWHEEL_GLIBC_MAX"
    )]
    glibc_max: Dotted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    Warning,
    Error,
}

pub fn run(args: &Args, world: &World) -> Result<()> {
    let answer = args.policy.check(&args.directory, &args.plan, world)?;
    world.console.answer(&answer)?;
    args.policy.verdict(&answer)
}

/// What is found in a directory by the rules as they are, in JSON.
pub fn report(directory: &Path, world: &World) -> Result<String> {
    let command = Policy::augment_args(clap::Command::new("check"));
    let policy = Policy::from_arg_matches(&command.try_get_matches_from(["check"])?)?;
    policy.check(directory, &PlanArgs::default(), world)?.json()
}

/// The same for a step of something larger, which has another answer: findings are talk. What was
/// found is told to `look` in JSON, with whether it is good enough.
pub fn gate(
    directory: &Path,
    policy: &Policy,
    world: &World,
    look: impl FnOnce(&str, bool) -> Result<()>,
) -> Result<()> {
    let answer = policy.check(directory, &PlanArgs::default(), world)?;
    let verdict = policy.verdict(&answer);
    look(&answer.json()?, verdict.is_ok())?;
    let found = answer.count_from(Severity::Warning) > 0;
    if found && world.console.format() != Format::Github {
        for line in answer.to_string().lines() {
            world.console.status("", line);
        }
    }
    verdict
}

impl Policy {
    /// Reads, decides, and tells what was found apart from the answer.
    fn check(&self, directory: &Path, plan: &PlanArgs, world: &World) -> Result<Answer> {
        let demands = Demands {
            targets: self.targets()?,
            glibc: self.glibc_max.clone(),
        };
        let selection = Selection {
            select: self.select.clone(),
            ignore: self.ignore.clone(),
        };
        let set = observe(directory, world)?;
        let coverage = Coverage::of(&set);
        let mut findings = audit::findings(&set, &demands, &coverage);
        findings.extend(plan.differences(&set, world)?);
        findings.sort_by(|one, other| one.order().cmp(&other.order()));
        findings.retain(|finding| selection.has(finding.rule));
        let answer = Answer::new(set.len(), findings, coverage);
        world.console.status(
            "Checked",
            format!("{}: {}", many(set.len(), "package"), answer.counts()),
        );
        if world.console.format() == Format::Github {
            for annotation in answer.annotations() {
                world.console.annotate(&annotation);
            }
        }
        Ok(answer)
    }

    fn verdict(&self, answer: &Answer) -> Result<()> {
        let least = match self.fail_on {
            FailOn::Warning => Severity::Warning,
            FailOn::Error => Severity::Error,
        };
        let count = answer.count_from(least);
        if count == 0 {
            return Ok(());
        }
        let noun = match least {
            Severity::Warning => "finding",
            Severity::Error => "error",
        };
        let no = No(format!("check: {} in the package set", many(count, noun)));
        Err(no).hint("docs/checks.md explains each; `--ignore` passes over a rule")
    }

    fn targets(&self) -> Result<Vec<Target>> {
        let names: Vec<&str> = self
            .require_targets
            .iter()
            .flat_map(|it| split_list(it))
            .collect();
        let targets = TargetTable::builtin().expand(&names);
        targets.or_else(|unknown| {
            let hint = unknown.hint();
            Err(unknown).hint(hint)
        })
    }
}

/// Reads every package of a directory.
fn observe(directory: &Path, world: &World) -> Result<SetFacts> {
    let dist = directory.join("dist");
    let place = if dist.is_dir() { &dist } else { directory };
    let names = names(place)?;
    let progress = world.console.progress("Checking", place.display(), None);
    let watch = Watch {
        stop: &world.stop,
        progress: &|bytes| progress.inc(bytes),
    };
    let mut set = SetFacts::default();
    for name in &names {
        let file = fs::File::open(place.join(name))?;
        if name.ends_with(WHEEL) {
            set.wheels.push(audit::read_wheel(name, file, &watch)?);
        } else {
            set.sdists.push(audit::read_sdist(name, file, &watch)?);
        }
    }
    Ok(set)
}

const WHEEL: &str = ".whl";
const SDIST: &str = ".tar.gz";

/// The packages of a directory by name, in order.
fn names(directory: &Path) -> Result<Vec<String>> {
    let advice = "pass the directory that `rocwheel build` wrote to";
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).hint(advice)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_package = name.ends_with(WHEEL) || name.ends_with(SDIST);
        if is_package && !name.starts_with('.') && entry.path().is_file() {
            names.push(name);
        }
    }
    names.sort();
    let found = || -> Result<()> {
        ensure!(
            !names.is_empty(),
            "no wheel or sdist in `{}`",
            directory.display()
        );
        Ok(())
    };
    found().hint(advice)?;
    Ok(names)
}
