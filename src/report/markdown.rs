//! The job summary of a package set, in Markdown.

use std::{fmt::Write as _, str::FromStr};

use itertools::Itertools as _;

use super::{
    cells::{LIMIT, code, folded, linked, plain},
    changes::render_changes,
    coverage::render_coverage,
    findings::{render_findings, render_first, render_reading, report_mark},
    packages::PackageTable,
};

use crate::{
    check::Report,
    diff::Difference,
    index::{
        Choice, Identity, Places, SetJson, Urls,
        install::{self, ProductIndex},
    },
    run::{ArtifactGroup, Platform, Repository, RunId},
};
use rocwheel_base::{
    error::Invalid,
    quantity::{few, many},
    target::{Scope, Target, TargetTable},
};

/// The most targets in a summary. No build has so many: a longer list is an error in the data.
const MOST_TARGETS: usize = 64;

/// The most artifacts in a summary. `packages.toml` names some 70, each with up to four components.
const MOST_ARTIFACTS: usize = 300;

/// The most bytes for the install commands. They are longer only if names or versions in the set
/// are invalid.
const LONGEST_INSTALLATION: usize = LIMIT / 4;

/// How many commands of a choice are not closed: the commands that install from the index.
const LINES_SHOWN: usize = 2;

/// A note for sets with packages such as `torch`, which require projects that no set of ROCm has.
const NO_BASE: &str = "These commands use no other index. If this set needs packages that it does not \
    have, name their index with `rocwheel summary --base-index URL`.\n\n";

/// The same for packages of a product, about which `summary` cannot be asked later.
const NO_BASE_OF_PRODUCT: &str = "These commands use no other index. If the packages need others that this index does \
    not have, publish with `--base-index URL`, and the lines name that index too.\n\n";

/// Where the packages of a summary are.
#[derive(Clone, Copy, Debug)]
pub enum Whereabouts<'a> {
    /// Not published, and no command was asked to.
    Nowhere,
    /// To be published, and refused because `check` found errors.
    Refused,
    Published(Places<'a>),
    /// Among other versions in the directories of a product.
    Product(ProductIndex<'a>),
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
        let head = self.head();
        let mut below = self.installation();
        // Each of the three lists may take a quarter; the table of packages gets the rest.
        let part = limit.saturating_sub(head.len() + below.len()) / 4;
        below += &self.missing_artifacts();
        if let Some(report) = self.report {
            below += &render_findings(report, part);
        }
        if let Some(difference) = self.changes {
            below += &render_changes(difference, self.server, part);
        }
        if let Some(report) = self.report {
            below += &render_coverage(report, part);
        }
        let table = PackageTable { set: self.set, urls: self.urls(), changes: self.changes };
        let left = limit.saturating_sub(head.len() + below.len());
        match table.render(left).as_str() {
            "" => String::new(),
            packages => head + packages + &below,
        }
    }

    fn head(&self) -> String {
        let identity = &self.set.identity;
        let mut markdown = String::from("## ROCm Python packages");
        if let Some(version) = &identity.version {
            let _ = write!(markdown, " {}", code(&version.to_string()));
        }
        markdown += match identity.platform {
            Some(Platform::Linux) => " for Linux\n\n",
            Some(Platform::Windows) => " for Windows\n\n",
            None => "\n\n",
        };
        if let Some(report) = self.report {
            let mark = report_mark(report);
            let is_refused = matches!(self.whereabouts, Whereabouts::Refused);
            let refused = if is_refused { " Nothing was published." } else { "" };
            let _ = writeln!(markdown, "{mark} **check: {report}**{refused}\n");
            markdown += &render_reading(report);
            markdown += &render_first(report);
        } else {
            markdown += "**not checked**\n\n";
        }
        let facts = self.facts();
        if !facts.is_empty() {
            markdown += &(facts + "\n");
        }
        markdown
    }

    fn facts(&self) -> String {
        let identity = &self.set.identity;
        let mut rows = String::new();
        let mut row = |name: &str, value: String| {
            let _ = writeln!(rows, "- **{name}**: {value}");
        };
        if let Some(link) = run_link(identity, self.server) {
            row("Run", link);
        }
        if let Some(commit) = &identity.commit {
            let path = identity.repository.as_ref().map(|name| format!("{name}/commit/{commit}"));
            row("Commit", linked(&commit.to_string(), path, self.server));
        }
        let mut name_row = |title: &str, names: Vec<&str>| {
            if !names.is_empty() {
                row(title, names.into_iter().take(MOST_TARGETS).map(code).join(" "));
            }
        };
        name_row("Targets", identity.targets.iter().map(Scope::as_str).collect());
        name_row("Left out on purpose", identity.without.iter().map(String::as_str).collect());
        if let Some(places) = self.places() {
            row("Index", format!("<{}>", places.set.index()));
            row("Find-links", format!("<{}>", places.set.find_links()));
        }
        if let Whereabouts::Product(index) = self.whereabouts {
            row("Index", format!("<{}>", index.address));
        }
        rows
    }

    /// The artifacts that the run does not have, closed: most of them are left out on purpose.
    fn missing_artifacts(&self) -> String {
        let artifacts = &self.set.identity.not_in_run;
        if artifacts.is_empty() {
            return String::new();
        }
        let names = artifacts.iter().take(MOST_ARTIFACTS).map(|name| code(name)).join(" ");
        let more = match artifacts.len().saturating_sub(MOST_ARTIFACTS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let count = many(artifacts.len(), "artifact");
        let title = format!("{count} that packages are made of and this run does not have");
        folded(&title, &format!("{names}{more}"))
    }

    /// The addresses of the set, if it is published.
    pub fn urls(&self) -> Option<&'a Urls> {
        self.places().map(|places| places.set)
    }

    pub(super) fn places(&self) -> Option<Places<'a>> {
        match self.whereabouts {
            Whereabouts::Published(places) => Some(places),
            Whereabouts::Nowhere
            | Whereabouts::Refused
            | Whereabouts::Product(_)
            | Whereabouts::Kept(_) => None,
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
        let lines = self.install_lines();
        let markdown = match self.whereabouts {
            Whereabouts::Nowhere | Whereabouts::Refused => return String::new(),
            Whereabouts::Published(places) => {
                let own_line = match self.own_line() {
                    Some(line) => {
                        format!("With `rocwheel`, which finds your GPU:\n\n```sh\n{line}\n```\n\n")
                    }
                    None => String::new(),
                };
                own_line + &lines + &self.index_note(places)
            }
            Whereabouts::Product(ProductIndex { is_complete: false, base: None, .. }) => {
                lines + NO_BASE_OF_PRODUCT
            }
            Whereabouts::Product(_) => lines,
            Whereabouts::Kept(artifact) => self.download_steps(artifact) + &lines,
        };
        if markdown.len() > LONGEST_INSTALLATION {
            return String::new();
        }
        format!("### Install\n\n{markdown}")
    }

    /// What a reader must know about the commands: that they need another index, or may find other packages.
    fn index_note(&self, places: Places<'_>) -> String {
        match install::note_of_two_indexes(self.set, places) {
            Some(note) => format!("{note}\n\n"),
            None if !self.set.has("rocm") && places.base.is_none() => NO_BASE.to_owned(),
            None => String::new(),
        }
    }

    /// How to get the packages of an artifact.
    fn download_steps(&self, artifact: &WorkflowArtifact) -> String {
        let name = code(&artifact.name);
        let run = match &artifact.run {
            Some((repository, id)) => {
                let path = format!("{repository}/actions/runs/{id}");
                format!("run {}", linked(id.as_str(), Some(path), self.server))
            }
            None => "the run of the workflow".to_owned(),
        };
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
            Whereabouts::Nowhere | Whereabouts::Refused => Vec::new(),
            Whereabouts::Published(places) => install::lines(set, places, choice),
            Whereabouts::Product(index) => install::of_product(set, index, choice),
            Whereabouts::Kept(artifact) => install::downloaded(set, &artifact.name, choice),
        }
    }

    /// The install commands for each choice. Only the first commands of the first choice are not closed.
    fn install_lines(&self) -> String {
        let choices = install::choices(self.set);
        let Some((first, others)) = choices.split_first() else {
            return String::new();
        };
        let first_block = self.choice_lines(first);
        if others.is_empty() && *first == Choice::default() {
            return first_block;
        }
        let mut names = Vec::new();
        let mut blocks = String::new();
        for choice in others.iter().take(MOST_TARGETS - 1) {
            names.push(choice_name(choice));
            blocks += &folded(&choice_title(choice), &self.choice_lines(choice));
        }
        let other_blocks = if names.is_empty() {
            String::new()
        } else {
            folded(&format!("For {}", few(names.into_iter())), &blocks)
        };
        format!("For {}:\n\n{first_block}{other_blocks}", choice_title(first))
    }

    /// The install commands for a choice. The last of them are closed.
    fn choice_lines(&self, choice: &Choice) -> String {
        let lines = self.lines(choice);
        let (shown, further) = lines.split_at(lines.len().min(LINES_SHOWN));
        let mut blocks = render_commands(shown);
        if !further.is_empty() {
            blocks += &folded("Other ways", &render_commands(further));
        }
        blocks
    }
}

/// Each command with its title, as blocks that GitHub has a button to copy for.
fn render_commands(lines: &[(&'static str, String)]) -> String {
    let blocks = lines.iter().map(|(title, line)| format!("{title}:\n\n```sh\n{line}\n```\n\n"));
    blocks.collect()
}

/// `gfx942`, `gfx94X-dcgpu`, as HTML.
fn choice_name(choice: &Choice) -> String {
    let family = choice.family.as_ref().map(ArtifactGroup::as_str);
    let target = choice.target.as_ref().map(Target::as_str);
    family.into_iter().chain(target).map(plain).join(" ")
}

/// The name of a choice, with the product: `<b>gfx942</b>, MI300A`, `<b>gfx94X-dcgpu</b>`.
fn choice_title(choice: &Choice) -> String {
    let name = choice_name(choice);
    match choice.target.as_ref().and_then(|target| TargetTable::builtin().product(target)) {
        Some(product) => format!("<b>{name}</b>, {}", plain(product)),
        None => format!("<b>{name}</b>"),
    }
}

/// The id of the run, linked to its page, and its repository.
fn run_link(identity: &Identity, server: &str) -> Option<String> {
    let run = identity.run_id.as_ref()?;
    let repository = identity.repository.as_ref();
    // A local run has no page.
    let path = repository
        .filter(|_| !run.is_local())
        .map(|repository| format!("{repository}/actions/runs/{run}"));
    let link = linked(run.as_str(), path, server);
    Some(match repository {
        Some(repository) => format!("{link} of {}", code(&repository.to_string())),
        None => link,
    })
}

/// The name of an artifact of a workflow: letters, digits, `-`, `_` and `.`, beginning with a letter or
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
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_allowed) {
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
