//! `check`: finds what is wrong with a package set, before users install it.

mod with;

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use fs_err as fs;
use itertools::Itertools as _;
use time::{Duration, OffsetDateTime};

use self::with::WithArgs;
use super::World;
use crate::{
    check::{
        self, AcceptList, CheckOptions, Destination, Finding, Judgement, RULES, Report,
        RulePattern, RuleSelection, SetFacts, Severity, VerdictMemory,
    },
    commands::{
        args::{AccessArgs, Jobs, PublishedArgs, SetArg, Variables, unusual},
        summary,
    },
    console::OutputFormat,
    place::{
        KnownPackages, LocalSet, PackageDirectories, PlaceArg, PlaceDepth, PublishedUpload,
        SetPlace,
    },
    report::check_page,
};
use rocwheel_base::{
    atomic,
    error::{Context as _, Hint as _, No, Result, anyhow, ensure, one_line},
    io::read_text,
    quantity::many,
    target::{TargetPattern, TargetTable},
};

/// What few need to name a run, and `--help` has.
const OF_A_RUN: [&str; 7] =
    ["repository", "platform", "release_type", "bucket", "offline", "artifact_group", "input_dir"];

/// Check a package set or a published index
///
/// Reads the packages in a directory, or in its `dist`, or those that an index in a bucket or on a
/// web server lists, or those that a run has published. Finds packages that are invalid, missing or for the wrong targets, libraries
/// that do not load, and pages that do not match the files. Changes no file of a set, and writes only
/// `.rocwheel-*.json` beside it. `check explain RW405`
/// explains a finding.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(mut_arg("set", |it| it.required_unless_present_any(["packages_dir", "run_id"]).help(
    "Directory, `s3://bucket/directory`, or URL of an index or of a find-links page"
)))]
#[command(mut_args(|it| unusual(it, &OF_A_RUN)))]
#[command(after_help = "Examples:
  rocwheel check packages
  rocwheel check packages --require-targets gfx942,gfx1100 --ignore RW303
  rocwheel check packages --write-accept known.toml
  rocwheel check --run-id 21440027240 --accept known.toml
  rocwheel check s3://bucket/directory --baseline earlier/set.json
  rocwheel check packages --with torch-*.whl torchvision-*.whl
  rocwheel check explain RW405")]
pub struct CheckArgs {
    #[command(flatten)]
    set: SetArg,
    #[command(subcommand)]
    explain: Option<CheckVerb>,
    /// Write a list for `--accept` to this file: today's findings and those already accepted
    #[arg(long, value_name = "FILE")]
    write_accept: Option<PathBuf>,
    /// Write the findings as a page in Markdown to this file, for a job summary or a comment
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    #[command(flatten)]
    policy: Policy,
    /// Apply only these rules, by id, id prefix, or name: `RW4,missing-device-wheel`
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    select: Vec<RulePattern>,
    /// Show every finding instead of ten of each rule
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    jobs: Jobs,
    /// Read only what describes the packages, in ranges: not digests, libraries and device code
    ///
    /// The directory of each wheel, its metadata and our Python are read. Commands that publish or install a set judge
    /// its contents before they use it.
    #[arg(long, hide_short_help = true, conflicts_with_all = ["write_accept", "with"])]
    no_contents: bool,
    /// Find lost files and growth since this set: a directory, its `set.json`, or a URL
    #[arg(long, value_name = "SET")]
    baseline: Option<PlaceArg>,
    #[command(flatten)]
    with: WithArgs,
    #[command(flatten)]
    published: PublishedArgs,
    #[command(flatten)]
    access: AccessArgs,
}

#[derive(Debug, clap::Subcommand)]
enum CheckVerb {
    /// Explain a rule, with an example and a fix
    Explain {
        /// Rules by id, id prefix, or name: `RW405`, `RW4`, `runpath`
        #[arg(value_name = "RULE", required = true)]
        rules: Vec<RulePattern>,
    },
}

/// What counts as wrong; commands that publish ask the same.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Policy {
    /// Skip these rules
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    ignore: Vec<RulePattern>,
    /// Fail on findings of this severity or worse
    #[arg(long, value_name = "SEVERITY", default_value = "error")]
    fail_on: FailOn,
    /// Families or targets that the set must have, comma-separated
    #[arg(long, value_name = "LIST", value_parser = TargetPattern::known)]
    require_targets: Option<TargetPattern>,
    #[command(flatten)]
    accept: AcceptArgs,
    /// `check --select`
    #[arg(skip)]
    select: Vec<RulePattern>,
    /// `check --all`
    #[arg(skip)]
    shows_all: bool,
    /// Whether only a part of a set is here, which cannot be judged as a whole.
    #[arg(skip)]
    pub is_part: bool,
    /// Where the set goes, or is.
    #[arg(skip)]
    destination: Option<Destination>,
}

/// What only `--help` lists in a command that publishes; for `check` itself it is usual.
const UNUSUAL: [&str; 5] = ["no_check", "ignore", "fail_on", "require_targets", "accept"];

/// The check before a set is published.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Check options")]
#[command(mut_args(|it| unusual(it, &UNUSUAL)))]
pub struct GateArgs {
    /// Publish without checking the packages
    #[arg(long)]
    pub no_check: bool,
    #[command(flatten)]
    pub policy: Policy,
}

/// What the check before a set is published says.
pub struct Checked {
    /// `None` with `--no-check`.
    pub report: Option<Report>,
    pub verdict: Result<()>,
    /// What need not be read again.
    pub read: KnownPackages,
}

impl GateArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) {
        self.policy.read_variables(variables);
    }

    /// Checks packages before they are published.
    pub fn check(
        &self,
        place: &SetPlace,
        depth: PlaceDepth,
        jobs: NonZeroUsize,
        is_part: bool,
        world: &World,
    ) -> Result<Checked> {
        if self.no_check {
            return Ok(Checked { report: None, verdict: Ok(()), read: KnownPackages::new() });
        }
        let policy = Policy { is_part, ..self.policy.clone() };
        let memory = match depth {
            PlaceDepth::Packages(_) => policy.memory_of_bucket(place)?,
            PlaceDepth::Pages => None,
        };
        if let Some(report) = memory.as_ref().and_then(VerdictMemory::report) {
            world.console.debug("the packages are those that this machine has checked");
            annotate(&report, world);
            policy.print(&report, world);
            let verdict = policy.verdict(&report);
            return Ok(Checked { report: Some(report), verdict, read: KnownPackages::new() });
        }
        let set = check::facts_of(place, depth, jobs, world)?;
        let report = policy.check(&set, world)?;
        // A package that changed meanwhile is not the one that was read.
        if let Some(memory) = memory
            && policy.memory_of_bucket(place)?.as_ref() == Some(&memory)
        {
            remember(&memory, place, &report, world);
        }
        Ok(Checked { verdict: policy.verdict(&report), read: set.read, report: Some(report) })
    }

    /// Remembers for the next `index` on this machine that packages were found to be good before they were published.
    /// What was found may be about the directory that they came from, and not about the place.
    pub fn remember_published(
        &self,
        report: &Report,
        place: &SetPlace,
        published: &PublishedUpload,
        world: &World,
    ) -> Result<()> {
        if report.findings.is_empty()
            && report.accepted.is_empty()
            && let Some(memory) =
                VerdictMemory::of_published(place, published, &self.policy.options()?)?
        {
            remember(&memory, place, report, world);
        }
        Ok(())
    }
}

impl Checked {
    /// Reads the packages of a directory, which must be those that its `set.json` describes if they were
    /// checked. Fails if the check found errors.
    pub fn set(self, root: &Path, world: &World) -> Result<(LocalSet, Option<Report>)> {
        self.verdict?;
        let set = LocalSet::read(root, PackageDirectories::Built, self.read, world)?;
        if self.report.is_some() {
            set.ensure_as_described(false)?;
        }
        Ok((set, self.report))
    }
}

/// Prints the annotations of a workflow.
fn annotate(report: &Report, world: &World) {
    if world.console.format() == OutputFormat::Github {
        for annotation in check::annotations(report) {
            world.console.annotate(&annotation);
        }
    }
}

/// A command whose verdict cannot be remembered has done its work nevertheless.
fn remember(memory: &VerdictMemory, place: &SetPlace, report: &Report, world: &World) {
    let write = || -> Result<()> {
        if let Some(caches) = place.caches() {
            fs::create_dir_all(caches)?;
        }
        memory.remember(report)
    };
    if let Err(error) = write() {
        world.console.debug(format!("the verdict is not remembered: {}", one_line(&error)));
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    Warning,
    #[default]
    Error,
}

pub fn run(args: &CheckArgs, world: &World) -> Result<()> {
    if let Some(CheckVerb::Explain { rules }) = &args.explain {
        let explanation = explanations(rules);
        let facts = serde_json::json!({ "explanation": explanation });
        return world.console.report("check explain", &facts, &explanation);
    }
    let place = &args.place(world)?;
    if let Some(file) = &args.write_accept {
        args.policy.accept.ensure_may_write(file)?;
    }
    let policy = Policy { select: args.select.clone(), shows_all: args.all, ..args.policy.clone() };
    let report = args.report(place, &policy, world)?;
    if let Some(file) = &args.page {
        atomic::write(file, check_page(&place.to_string(), &report))?;
    }
    world.console.answer(&ReportText { report: &report, text: policy.text(&report, world) })?;
    if let Some(file) = &args.write_accept {
        return policy.accept.write(file, &report, world);
    }
    policy.verdict(&report)
}

impl CheckArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.policy.read_variables(variables);
        self.jobs.read_variables(variables)?;
        self.published.read_variables(variables)?;
        self.access.read_variables(variables)
    }

    /// The set that was named, or the one that a run has published.
    fn place(&self, world: &World) -> Result<PlaceArg> {
        let place = match self.set.named() {
            Some(named) => {
                ensure!(!self.published.run.names_a_run(), "`{named}` and a run: name one of them");
                named.clone()
            }
            None => self.published.place(world)?,
        };
        self.published.ensure_readable(&place)?;
        Ok(place)
    }

    fn report(&self, place: &PlaceArg, policy: &Policy, world: &World) -> Result<Report> {
        let place = self.access.place(place, &world.stop)?;
        let destination = Destination::of_set(&place, &place);
        let policy = policy.going_to(destination);
        // A comparison says something about two sets, or about a set and a framework.
        let is_alone = self.baseline.is_none() && self.with.is_empty();
        // Other commands take a remembered verdict for one about every file.
        let is_remembered = is_alone && !self.no_contents;
        let memory = if is_remembered { policy.memory(&place)? } else { None };
        let read = if self.no_contents { check::facts_without_contents } else { check::facts_of };
        let set = read(&place, PlaceDepth::Pages, self.jobs.count(), world)?;
        let mut compared = self.with.findings(&set, self, world)?;
        if let Some(baseline) = &self.baseline {
            let baseline = summary::open_baseline(baseline, &self.access, world)?;
            compared.extend(baseline.changes(&place, None, world)?.findings());
        }
        let report = policy.find(&set, compared, world)?;
        // A package that changed meanwhile is not the one that was read.
        if let Some(memory) = memory
            && policy.memory(&place)?.as_ref() == Some(&memory)
            && let Err(error) = memory.remember(&report)
        {
            let why = one_line(&error);
            world.console.note(format!("`summary` will not know of this check: {why}"));
        }
        // The last line of the answer says the same.
        if !world.console.has_one_reader() {
            print_outcome(&report, world);
        }
        Ok(report)
    }
}

/// The text of docs/checks.md for each rule that was named.
fn explanations(patterns: &[RulePattern]) -> String {
    let named = RULES.iter().filter(|rule| patterns.iter().any(|it| it.fits(rule)));
    let texts = named.map(|rule| format!("{rule} ({})\n\n{}\n", rule.severity, rule.explanation()));
    texts.collect::<Vec<_>>().join("\n")
}

/// Fails if `check` finds an error in a set on this disk that is about to be installed. Packages
/// without a `set.json` may be a part of a set, so missing packages are no error there: only a damaged package is.
pub fn ensure_installable(
    place: &SetPlace,
    is_described: bool,
    accept: &AcceptArgs,
    world: &World,
) -> Result<()> {
    let Some(directory) = place.local() else {
        return Ok(());
    };
    let set = check::facts_of(place, PlaceDepth::Pages, World::jobs(), world)?;
    if !is_described {
        return ensure_undamaged(&set, &place.to_string());
    }
    let report = Policy::accepting(accept).judge(&set, Vec::new(), world)?;
    let count = report.count_from(Severity::Error);
    if count == 0 {
        return Ok(());
    }
    let shown = directory.display();
    Err(No(format!("check: {} in `{shown}`", many(count, "error")))).hint(format!(
        "`rocwheel check {shown}` says what is wrong; a list in the variable `ROCWHEEL_ACCEPT` accepts findings that are known, \
         and `--no-check` installs the set as it is"
    ))
}

/// Fails if a package of a set that is about to be used is damaged, replaced or hostile. Other
/// errors do not count: the publisher of the set may have accepted them.
pub fn ensure_undamaged(set: &SetFacts, place: &str) -> Result<()> {
    let Judgement { report, .. } = check::judge(set, &CheckOptions::default(), Vec::new());
    let mut findings = report.findings.iter();
    let is_damage = |it: &&Finding| it.rule.severity == Severity::Error && it.rule.is_damage;
    let Some(finding) = findings.find(is_damage) else {
        return Ok(());
    };
    let file = finding.file.as_deref().unwrap_or("a page");
    Err(No(format!("`{file}` of `{place}` is damaged: {}", finding.text()))).hint(format!(
        "`rocwheel check {place}` names everything that is wrong; build or copy the file again"
    ))
}

impl Policy {
    pub fn read_variables(&mut self, variables: &Variables<'_>) {
        self.accept.read_variables(variables);
    }

    /// The policy of a command that has no flags for it.
    pub fn accepting(accept: &AcceptArgs) -> Self {
        Self { accept: accept.clone(), ..Self::default() }
    }

    /// The same policy for a set that goes to a place of a run.
    #[must_use]
    pub fn going_to(&self, destination: Option<Destination>) -> Self {
        Self { destination, ..self.clone() }
    }

    /// Checks a set as a step of another command. Prints the findings as messages, not on stdout,
    /// which is for the answer of that command.
    pub fn check(&self, set: &SetFacts, world: &World) -> Result<Report> {
        let report = self.find(set, Vec::new(), world)?;
        self.print(&report, world);
        Ok(report)
    }

    /// Prints the outcome, and the findings as messages.
    fn print(&self, report: &Report, world: &World) {
        print_outcome(report, world);
        if report.count_from(Severity::Warning) > 0 {
            let _group = world.console.group("Findings");
            world.console.findings(self.text(report, world));
        }
    }

    /// Applies the rules, and prints the outcome. The report itself is returned.
    pub fn judge(&self, set: &SetFacts, compared: Vec<Finding>, world: &World) -> Result<Report> {
        let report = self.find(set, compared, world)?;
        print_outcome(&report, world);
        Ok(report)
    }

    /// Where the verdict about a set is remembered between commands.
    pub fn memory(&self, place: &SetPlace) -> Result<Option<VerdictMemory>> {
        VerdictMemory::of(place, &self.options()?)
    }

    /// The same about the packages of a bucket.
    fn memory_of_bucket(&self, place: &SetPlace) -> Result<Option<VerdictMemory>> {
        VerdictMemory::of_bucket(place, &self.options()?)
    }

    fn options(&self) -> Result<CheckOptions> {
        Ok(CheckOptions {
            targets: TargetTable::builtin().select(self.require_targets.as_slice())?,
            selection: RuleSelection { select: self.select.clone(), ignore: self.ignore.clone() },
            accept: self.accept.list()?,
            today: day(OffsetDateTime::now_utc()),
            is_part: self.is_part,
            destination: self.destination.clone(),
        })
    }

    /// Applies the rules; `compared` are the findings from comparing the set with something else. Prints
    /// entries of the accept list that match no finding, and the annotations of a workflow.
    fn find(&self, set: &SetFacts, compared: Vec<Finding>, world: &World) -> Result<Report> {
        let options = self.options()?;
        let Judgement { report, unused_entries } = check::judge(set, &options, compared);
        for entry in unused_entries {
            let list = self.accept.accept.as_deref().unwrap_or(Path::new(""));
            let shown = list.display();
            world.console.warn(format!("{entry}: remove it from `{shown}`, or write it again"));
        }
        annotate(&report, world);
        Ok(report)
    }

    /// The findings of each package, then how many each rule has, with its fix: the last lines are read
    /// first. In the log of a workflow all findings are shown, because no reader can run it again with
    /// `--all`.
    fn text(&self, report: &Report, world: &World) -> String {
        let shows_all = self.shows_all || world.console.format() == OutputFormat::Github;
        shown(report, if shows_all { usize::MAX } else { MOST_OF_A_RULE })
    }

    /// Fails if there is a finding of the severity of `--fail-on` or worse.
    pub fn verdict(&self, report: &Report) -> Result<()> {
        let (least, noun) = match self.fail_on {
            FailOn::Warning => (Severity::Warning, "finding"),
            FailOn::Error => (Severity::Error, "error"),
        };
        let count = report.count_from(least);
        let Some((rule, _)) = report.by_rule().into_iter().next().filter(|_| count > 0) else {
            return Ok(());
        };
        let no = No(format!("check: {} in the package set", many(count, noun)));
        let explain = format!("`rocwheel check explain {}` explains a rule", rule.id);
        // A damaged or replaced file is not to be accepted.
        let is_damaged = report.findings.iter().any(|it| it.rule.is_damage);
        Err(no).hint(if is_damaged {
            format!("{explain}; build the set or copy the file again")
        } else {
            format!(
                "{explain}; `--accept FILE` accepts findings that are known, and `--ignore` skips a rule"
            )
        })
    }
}

/// Prints how many packages were checked, and how many findings they have.
fn print_outcome(report: &Report, world: &World) {
    let rules = report.by_rule();
    let level = rules.first().map(|(rule, _)| check::level(rule.severity));
    world.console.outcome("Checked", format!("{}: {report}", report.counted()), level);
}

/// How long the entries of a new list are valid.
const ACCEPTED_FOR: Duration = Duration::days(90);

#[derive(Clone, Debug, Default, clap::Args)]
pub struct AcceptArgs {
    /// Accept the findings in this TOML list; each has a reason and an expiry date
    ///
    /// [env: `ROCWHEEL_ACCEPT`]
    #[arg(long, value_name = "FILE")]
    accept: Option<PathBuf>,
}

impl AcceptArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) {
        variables.fill_path(&mut self.accept, "ROCWHEEL_ACCEPT");
    }

    fn list(&self) -> Result<AcceptList> {
        let Some(file) = &self.accept else {
            return Ok(AcceptList::default());
        };
        AcceptList::parse(&read_text(file)?)
            .with_context(|| format!("failed to read `{}`", file.display()))
    }

    /// Fails if `--write-accept` would replace a file that is not the list of `--accept`. That list was read, so its
    /// reasons are kept; the contents of any other file would be lost.
    fn ensure_may_write(&self, file: &Path) -> Result<()> {
        let real = |path: &Path| fs::canonicalize(path).ok();
        let is_own = self.accept.as_deref().is_some_and(|list| real(list) == real(file));
        // An empty file has nothing to lose.
        let has_content = fs::symlink_metadata(file).is_ok_and(|it| !it.is_file() || it.len() > 0);
        if is_own || !has_content {
            return Ok(());
        }
        let shown = file.display();
        Err(anyhow!("`{shown}` exists, and is not the list of `--accept`")).hint(format!(
            "name another file; or pass `--accept {shown}` too, which keeps the reasons that it has"
        ))
    }

    /// Writes a list that accepts all findings of a report.
    fn write(&self, file: &Path, report: &Report, world: &World) -> Result<()> {
        let until = day(OffsetDateTime::now_utc() + ACCEPTED_FOR);
        let renewed = self.list()?.renewed(&report.accepted, &report.findings, &until)?;
        atomic::write(file, renewed)?;
        let count = many(report.count_from(Severity::Warning), "finding");
        let shown = file.display();
        let facts = format!("{shown}: {count} accepted until {until}; give each its reason");
        world.console.status("Wrote", facts);
        Ok(())
    }
}

/// `2026-11-22`
fn day(time: OffsetDateTime) -> String {
    time.date().to_string()
}

/// The most findings that are shown for one rule, without `--all`.
const MOST_OF_A_RULE: usize = 10;

/// A report as its JSON document, or as text.
#[derive(Debug, derive_more::Display, serde::Serialize)]
#[display("{text}")]
struct ReportText<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip)]
    text: String,
}

fn shown(report: &Report, most: usize) -> String {
    let rules = report.by_rule();
    let mut lines = Vec::new();
    let mut counts = BTreeMap::new();
    let is_shown = |finding: &&Finding| {
        let count: &mut usize = counts.entry(finding.rule.id).or_default();
        *count += 1;
        *count <= most
    };
    let findings = report.findings.iter().filter(is_shown);
    for (file, findings) in &findings.chunk_by(|finding| &finding.file) {
        lines.push(file.as_deref().unwrap_or("the set").to_owned());
        lines.extend(findings.map(|finding| format!("  {finding}")));
    }
    for (rule, findings) in rules.iter().filter(|(_, findings)| findings.len() > most) {
        let more = Finding::total(findings.iter().copied()).saturating_sub(most);
        lines.push(format!("…and {more} more of {} (`--all`)", rule.id));
    }
    lines.extend((!rules.is_empty()).then(String::new));
    for (rule, findings) in &rules {
        lines.push(format!(
            "{:>6} {:<7} {rule}",
            Finding::total(findings.iter().copied()),
            rule.severity
        ));
        lines.push(format!("{:15}{}", "", rule.fix()));
    }
    lines.extend((!rules.is_empty()).then(String::new));
    lines.push(format!("{report} in {}", report.counted()));
    lines.extend(report.reading());
    lines.push(String::new());
    lines.join("\n")
}
