//! The job summary of a package set, in Markdown.

use std::{fmt::Write as _, str::FromStr};

use itertools::Itertools as _;

use super::{
    cells::{LIMIT, code, folded, linked, plain},
    changes::changes,
    coverage::coverage,
    findings::{findings, first},
    packages::PackageTable,
};

use crate::{
    check::Report,
    console::{few, many},
    diff::Difference,
    error::Invalid,
    index::{Choice, Identity, Places, SetJson, Urls, install},
    run::{ArtifactGroup, Platform, Repository, RunId},
    target::{Scope, Target, TargetTable},
};

/// The most targets in a summary. No build has so many: a longer list is an error in the data.
const MOST_TARGETS: usize = 64;

/// The most artifacts in a summary. `packages.toml` names some 70, each with up to four components.
const MOST_ARTIFACTS: usize = 300;

/// The most bytes for the install commands. They are longer only if names or versions in the set
/// are invalid.
const LONGEST_INSTALLATION: usize = LIMIT / 4;

/// How many commands of a choice are not closed: those from the index.
const LINES_SHOWN: usize = 2;

/// A note for sets with packages such as `torch`, which require projects that no set of ROCm has.
const NO_BASE: &str = "These commands use no other index. If this set needs packages that it does not \
    have, name their index with `rocwheel summary --base-index URL`.\n\n";

/// Where the packages of a summary are.
#[derive(Clone, Copy, Debug)]
pub enum Whereabouts<'a> {
    /// Not published, because `check` found errors.
    Nowhere,
    Published(Places<'a>),
    /// In an artifact of a workflow that may not publish.
    Kept(&'a WorkflowArtifact),
}

/// The contents of a summary.
#[derive(Clone, Copy, Debug)]
pub struct SummaryPage<'a> {
    pub set: &'a SetJson,
    pub whereabouts: Whereabouts<'a>,
    /// The URL of the GitHub server, for links to runs and commits.
    pub server: &'a str,
    pub report: Option<&'a Report>,
    /// What changed since the set of `--baseline`.
    pub changes: Option<&'a Difference>,
}

impl<'a> SummaryPage<'a> {
    /// Renders a summary of at most `limit` bytes. If there are too many rows, it leaves some out
    /// and says how many. Empty if there is no room for the most important part.
    ///
    /// What a reader sees before opening anything has at most two screens, also of a set in which
    /// much is wrong: tables show their first rows, and the rest is closed.
    pub fn render(&self, limit: usize) -> String {
        let (head, install) = (self.head(), self.installation());
        let left = limit.saturating_sub(head.len() + install.len());
        let found = self.report.map(|report| findings(report, left / 4));
        let code = self.report.map(|report| coverage(report, left / 4));
        let changed = self.changes;
        let changed = changed.map(|it| changes(it, self.server, left / 4));
        let below = install
            + &self.not_in_run()
            + &found.unwrap_or_default()
            + &changed.unwrap_or_default()
            + &code.unwrap_or_default();
        let table = PackageTable { set: self.set, urls: self.urls(), changes: self.changes };
        let left = limit.saturating_sub(head.len() + below.len());
        match table.render(left).as_str() {
            "" => String::new(),
            packages => head + packages + &below,
        }
    }

    fn head(&self) -> String {
        let identity = &self.set.identity;
        let mut text = String::from("## ROCm Python packages");
        if let Some(version) = &identity.version {
            let _ = write!(text, " {}", code(&version.to_string()));
        }
        text += match identity.platform {
            Some(Platform::Linux) => " for Linux\n\n",
            Some(Platform::Windows) => " for Windows\n\n",
            None => "\n\n",
        };
        if let Some(report) = self.report {
            let mark = match (report.errors, report.warnings) {
                (0, 0) => "✅",
                (0, _) => "⚠️",
                _ => "❌",
            };
            let is_refused = matches!(self.whereabouts, Whereabouts::Nowhere);
            let refused = if is_refused { " Nothing was published." } else { "" };
            let _ = writeln!(text, "{mark} **check: {report}**{refused}\n");
            text += &first(report);
        } else {
            text += "**not checked**\n\n";
        }
        let facts = self.facts();
        if !facts.is_empty() {
            text += &(facts + "\n");
        }
        text
    }

    fn facts(&self) -> String {
        let identity = &self.set.identity;
        let mut rows = String::new();
        let mut row = |name: &str, value: String| {
            let _ = writeln!(rows, "- **{name}**: {value}");
        };
        if let Some(run) = run(identity, self.server) {
            row("Run", run);
        }
        if let Some(commit) = &identity.commit {
            let (commit, repository) = (commit.to_string(), identity.repository.as_ref());
            let link = repository.map(|name| format!("{name}/commit/{commit}"));
            row("Commit", linked(&commit, link, self.server));
        }
        let mut names = |title: &str, names: Vec<&str>| {
            if !names.is_empty() {
                let names = names.into_iter().take(MOST_TARGETS);
                row(title, names.map(code).join(" "));
            }
        };
        let targets = identity.targets.iter().map(Scope::as_str);
        names("Targets", targets.collect());
        let without = identity.without.iter().map(String::as_str);
        names("Left out on purpose", without.collect());
        if let Some(places) = self.places() {
            row("Index", format!("<{}>", places.set.index()));
            row("Find-links", format!("<{}>", places.set.find_links()));
        }
        rows
    }

    /// What the run does not have, closed: most of it is left out on purpose.
    fn not_in_run(&self) -> String {
        let artifacts = &self.set.identity.not_in_run;
        if artifacts.is_empty() {
            return String::new();
        }
        let names = artifacts.iter().take(MOST_ARTIFACTS);
        let more = artifacts.len().saturating_sub(MOST_ARTIFACTS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let count = many(artifacts.len(), "artifact");
        let title = format!("{count} that packages are made of and this run does not have");
        folded(&title, &(names.map(|name| code(name)).join(" ") + &more))
    }

    /// The addresses of the set, if it is published.
    pub fn urls(&self) -> Option<&'a Urls> {
        self.places().map(|places| places.set)
    }

    pub(super) fn places(&self) -> Option<Places<'a>> {
        match self.whereabouts {
            Whereabouts::Published(places) => Some(places),
            Whereabouts::Nowhere | Whereabouts::Kept(_) => None,
        }
    }

    /// Whether the set should not be installed.
    fn has_errors(&self) -> bool {
        self.report.is_some_and(|report| report.errors > 0)
    }

    /// How to install the set. Empty if its check found errors.
    fn installation(&self) -> String {
        if self.has_errors() {
            return String::new();
        }
        let lines = self.for_each_choice();
        let text = match self.whereabouts {
            Whereabouts::Nowhere => return String::new(),
            Whereabouts::Published(places) => {
                let own = self.own_line().map(|line| {
                    format!("With `rocwheel`, which finds your GPU:\n\n```sh\n{line}\n```\n\n")
                });
                own.unwrap_or_default() + &lines + &self.note(places)
            }
            Whereabouts::Kept(artifact) => self.download(artifact) + &lines,
        };
        if text.len() > LONGEST_INSTALLATION {
            return String::new();
        }
        format!("### Install\n\n{text}")
    }

    /// What a reader must know of the lines: that they need another index, or may find other packages.
    fn note(&self, places: Places<'_>) -> String {
        match install::note_of_two_indexes(self.set, places) {
            Some(note) => format!("{note}\n\n"),
            None if !self.set.has("rocm") && places.base.is_none() => NO_BASE.to_owned(),
            None => String::new(),
        }
    }

    fn download(&self, artifact: &WorkflowArtifact) -> String {
        let name = code(&artifact.name);
        let run = artifact.run.as_ref();
        let run = run.map_or("the run of the workflow".to_owned(), |(repository, run)| {
            let path = format!("{repository}/actions/runs/{run}");
            format!("run {}", linked(run.as_str(), Some(path), self.server))
        });
        format!(
            "The packages are not published. They are the artifact {name} of {run}. \
             Download it, with GitHub's `gh` or from the page of the run, and install from there:\n\n\
             ```sh\n{}\n```\n\n",
            artifact.download()
        )
    }

    /// The command of this program that installs the set, for the GPU of the machine.
    pub(super) fn own_line(&self) -> Option<String> {
        install::own_line(self.set, self.places()?)
    }

    /// The commands that install the set for one choice.
    pub(super) fn lines(&self, choice: &Choice) -> Vec<(&'static str, String)> {
        let set = self.set;
        match self.whereabouts {
            Whereabouts::Nowhere => Vec::new(),
            Whereabouts::Published(places) => install::lines(set, places, choice),
            Whereabouts::Kept(artifact) => install::downloaded(set, &artifact.name, choice),
        }
    }

    /// The install commands for each choice. Only the first ones of the first choice are not closed.
    fn for_each_choice(&self) -> String {
        let choices = install::choices(self.set).into_iter().take(MOST_TARGETS);
        let mut blocks = choices.map(|choice| {
            let mut lines = self.lines(&choice);
            let further = lines.split_off(lines.len().min(LINES_SHOWN));
            let ways = folded("Other ways", &blocks_of(&further));
            let ways = Some(ways).filter(|_| !further.is_empty());
            (choice, blocks_of(&lines) + &ways.unwrap_or_default())
        });
        let Some((first, block)) = blocks.next() else {
            return String::new();
        };
        let (names, others): (Vec<String>, Vec<String>) =
            blocks.map(|(choice, block)| (short(&choice), folded(&named(&choice), &block))).unzip();
        if others.is_empty() && first == Choice::default() {
            return block;
        }
        let title = format!("For {}", few(names.into_iter()));
        let others = Some(folded(&title, &others.concat())).filter(|_| !others.is_empty());
        let others = others.unwrap_or_default();
        format!("For {}:\n\n{block}{others}", named(&first))
    }
}

/// Each command with its title, as blocks that GitHub has a button to copy for.
fn blocks_of(lines: &[(&'static str, String)]) -> String {
    let blocks = lines.iter().map(|(title, line)| format!("{title}:\n\n```sh\n{line}\n```\n\n"));
    blocks.collect()
}

/// `gfx942`, `gfx94X-dcgpu`, as HTML.
fn short(choice: &Choice) -> String {
    let (family, target) = (choice.family.as_ref(), choice.target.as_ref());
    let names = [family.map(ArtifactGroup::as_str), target.map(Target::as_str)];
    names.into_iter().flatten().map(plain).join(" ")
}

/// The name of a choice: `<b>gfx942</b>, MI300A`, `<b>gfx94X-dcgpu</b>`.
fn named(choice: &Choice) -> String {
    let (name, target) = (short(choice), choice.target.as_ref());
    match target.and_then(|target| TargetTable::builtin().product(target)) {
        Some(product) => format!("<b>{name}</b>, {}", plain(product)),
        None => format!("<b>{name}</b>"),
    }
}

fn run(identity: &Identity, server: &str) -> Option<String> {
    let run = identity.run_id.as_ref()?;
    let repository = identity.repository.as_ref();
    let link = repository.filter(|_| !run.is_local());
    let link = link.map(|name| format!("{name}/actions/runs/{run}"));
    let run = linked(run.as_str(), link, server);
    let of = repository.map(|name| format!(" of {}", code(&name.to_string())));
    Some(run + &of.unwrap_or_default())
}

/// The name of such an artifact: letters, digits, `-`, `_` and `.`, beginning with a letter or
/// digit.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display, derive_more::Deref)]
pub struct WorkflowArtifactName(#[deref(forward)] Box<str>);

/// An artifact, and the run that has it if the run is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowArtifact {
    pub name: WorkflowArtifactName,
    pub run: Option<(Repository, RunId)>,
}

impl WorkflowArtifact {
    /// The command that downloads the artifact to a directory of its name.
    pub fn download(&self) -> String {
        let name = &self.name;
        let run = match &self.run {
            Some((repository, run)) => format!(" {run} --repo {repository}"),
            None => String::new(),
        };
        format!("gh run download{run} --name {name} --dir {name}")
    }
}

impl FromStr for WorkflowArtifactName {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(known) {
            return Ok(Self(text.into()));
        }
        Err(Invalid::new(
            "not a name of letters, digits, `-`, `_` and `.` that begins with a letter or digit",
            text,
        ))
    }
}

#[cfg(test)]
mod tests;
