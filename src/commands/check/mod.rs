//! `check`: what is wrong with a package set, before anybody installs it.

mod answer;
mod baseline;
mod families;
mod package;
mod pages;
mod parts;
mod plan;
mod promised;
mod published;
mod read;
mod sarif;
mod shelf;

use std::path::{Path, PathBuf};

use clap::{Args as _, FromArgMatches as _};

use super::World;
use crate::{
    check::{self, Demands, Dotted, Finding, Inventory, Pattern, Selection, Severity},
    commands::args::{AccessArgs, Jobs},
    console::{Format, many},
    error::{Hint as _, No, Result},
    target::{Target, TargetTable, split_list},
    wheel::DistName,
};

pub use self::baseline::inventory;
use self::{answer::Answer, families::Observed, plan::PlanArgs};

/// Find what is wrong with a package set
///
/// Reads the packages in a directory, or in its `dist`, or those that an index in a bucket or on a
/// web server leads to, and looks for what lets users down: packages that are invalid, missing, or
/// of other targets than promised; libraries that do not load; pages that promise other files than
/// there are. Nothing is changed. docs/checks.md explains every finding.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel check packages
  rocwheel check packages --require-targets gfx942,gfx1100 --ignore RW303
  rocwheel check s3://bucket/directory --baseline earlier/set.json")]
pub struct Args {
    /// A directory, `s3://bucket/directory`, or the address of an index or of a page with links
    #[arg(value_name = "SET", env = "ROCWHEEL_PACKAGES_DIR")]
    place: PathBuf,
    #[command(flatten)]
    policy: Policy,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    since: Since,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    access: AccessArgs,
}

/// What a set is compared with.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Comparison options")]
pub struct Since {
    /// Another set, to find what is gone and what grew: a directory, its `set.json`, or an address
    #[arg(long, value_name = "SET", env = "ROCWHEEL_BASELINE")]
    baseline: Option<PathBuf>,
    /// By how many percent a package may be larger than that of the baseline
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 10,
        env = "ROCWHEEL_GROWTH_MAX"
    )]
    growth_max: u64,
    /// How many files of the baseline a package may lack
    #[arg(long, value_name = "N", default_value_t = 0, env = "ROCWHEEL_GONE_MAX")]
    gone_max: usize,
    /// The set for another platform, whose sdist must be the same
    #[arg(long, value_name = "SET", env = "ROCWHEEL_COMPARE")]
    compare: Option<PathBuf>,
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
    /// Projects that packages may require besides ours, with commas between
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        env = "ROCWHEEL_ALLOW_REQUIREMENTS"
    )]
    allow_requirements: Vec<DistName>,
    /// Where wheels for Windows are installed, which counts towards the longest path
    #[arg(
        long,
        value_name = "PATH",
        default_value = r"C:\hostedtoolcache\windows\Python\3.12.10\x64\Lib\site-packages",
        env = "ROCWHEEL_WINDOWS_PREFIX"
    )]
    windows_prefix: String,
    /// For commands that have a flag for it.
    #[arg(skip)]
    jobs: Jobs,
    /// Whether only a part of a set is here, which cannot be judged as a whole.
    #[arg(skip)]
    is_part: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    Warning,
    Error,
}

pub fn run(args: &Args, world: &World) -> Result<()> {
    let mut observed = Observed::of(&args.place, Look::Pages, &args.access, &args.jobs, world)?;
    if let Some(other) = &args.since.compare {
        observed.compare(&baseline::sdists(other, &args.access, world)?);
    }
    let inventory = args.since.baseline.as_deref();
    let inventory = inventory
        .map(|place| inventory_of(place, args, world))
        .transpose()?;
    let differences = args.plan.differences(observed.set(), &args.jobs, world)?;
    let answer = args.policy.judge(
        &observed,
        inventory.as_ref(),
        &args.since,
        differences,
        world,
    )?;
    if args.place.is_dir() && answer.findings().iter().any(|it| it.rule.is_about_pages()) {
        let place = args.place.display();
        world.console.note(format!(
            "the pages in `{place}` are of other packages: `rocwheel index {place}` writes them again, and with `--ignore RW7` they do not count"
        ));
    }
    match world.console.format() {
        Format::Sarif => world.console.json(&sarif::document(&answer))?,
        _ => world.console.answer(&answer)?,
    }
    args.policy.verdict(&answer)
}

fn inventory_of(place: &Path, args: &Args, world: &World) -> Result<Inventory> {
    inventory(place, &args.access, &args.jobs, world)
}

/// What is found in a directory by the rules as they are, in JSON.
pub fn report(directory: &Path, world: &World) -> Result<String> {
    let command = Policy::augment_args(clap::Command::new("check"));
    let policy = Policy::from_arg_matches(&command.try_get_matches_from(["check"])?)?;
    policy
        .look(directory, &AccessArgs::default(), world)?
        .json()
}

/// The same for a step of something larger, which has another answer: findings are talk.
pub fn gate(place: &Path, access: &AccessArgs, policy: &Policy, world: &World) -> Result<()> {
    policy.pass(&policy.look(place, access, world)?, world)
}

/// The same; what was found is told in JSON, with whether it is good enough.
pub fn gate_and_tell(
    directory: &Path,
    policy: &Policy,
    world: &World,
    tell: impl FnOnce(&str, bool) -> Result<()>,
) -> Result<()> {
    let answer = policy.look(directory, &AccessArgs::default(), world)?;
    tell(&answer.json()?, policy.verdict(&answer).is_ok())?;
    policy.pass(&answer, world)
}

/// What is looked at of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Its packages; the pages beside them are still to be written.
    Packages,
    /// What its pages lead to, if it has any.
    Pages,
}

impl Default for Since {
    fn default() -> Self {
        Self {
            baseline: None,
            growth_max: u64::MAX,
            gone_max: usize::MAX,
            compare: None,
        }
    }
}

impl Policy {
    /// The same with so many threads.
    #[must_use]
    pub fn on(&self, jobs: &Jobs) -> Self {
        Self {
            jobs: jobs.clone(),
            ..self.clone()
        }
    }

    /// The same for one of several parts of a set.
    #[must_use]
    pub fn of_part(&self, is_part: bool) -> Self {
        Self {
            is_part,
            ..self.clone()
        }
    }

    /// Looks at packages alone, with nothing to compare them with.
    fn look(&self, place: &Path, access: &AccessArgs, world: &World) -> Result<Answer> {
        let observed = Observed::of(place, Look::Packages, access, &self.jobs, world)?;
        self.judge(&observed, None, &Since::default(), Vec::new(), world)
    }

    /// Decides, and tells what was found apart from the answer.
    fn judge(
        &self,
        observed: &Observed,
        inventory: Option<&Inventory>,
        since: &Since,
        differences: Vec<Finding>,
        world: &World,
    ) -> Result<Answer> {
        let demands = Demands {
            targets: self.targets()?,
            glibc: self.glibc_max.clone(),
            growth: since.growth_max,
            gone: since.gone_max,
            base: self.allow_requirements.clone(),
            windows_prefix: self.windows_prefix.clone(),
        };
        let selection = Selection {
            select: self.select.clone(),
            ignore: self.ignore.clone(),
        };
        let (mut findings, coverage) = observed.findings(&demands, inventory);
        if !differences.is_empty() {
            findings.extend(differences);
            check::sort(&mut findings);
        }
        findings.retain(|finding| selection.has(finding.rule));
        if self.is_part {
            findings.retain(|finding| !finding.rule.needs_whole_set());
        }
        let answer = Answer::new(observed.len(), findings, coverage);
        world.console.status(
            "Checked",
            format!("{}: {}", many(observed.len(), "package"), answer.counts()),
        );
        if world.console.format() == Format::Github {
            for annotation in answer.annotations() {
                world.console.annotate(&annotation);
            }
        }
        Ok(answer)
    }

    /// The verdict, after the findings were told apart from the answer.
    fn pass(&self, answer: &Answer, world: &World) -> Result<()> {
        let found = answer.count_from(Severity::Warning) > 0;
        if found && world.console.format() != Format::Github {
            for line in answer.to_string().lines() {
                world.console.status("", line);
            }
        }
        self.verdict(answer)
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
            Severity::Error => "error",
            _ => "finding",
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
