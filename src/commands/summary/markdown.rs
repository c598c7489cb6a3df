//! The job summary of a package set, in Markdown.

use std::fmt::Write as _;

use super::{
    cell::{code, linked, plain},
    changes::Changes,
    install::{self, Places, Way},
    report::Report,
    sections,
};
use crate::{
    index::{Identity, SetJson},
    run::Platform,
    target::TargetTable,
};

/// GitHub drops a step's summary above 1 MiB, all of it.
pub const LIMIT: usize = 1000 * 1024;

/// More targets than there are; what is longer was not written by a build.
const MOST_TARGETS: usize = 64;

/// All that a summary tells of.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    pub set: &'a SetJson,
    /// Where the set is published; `None` for one that was refused.
    pub places: Option<Places<'a>>,
    /// Where runs and commits have their pages.
    pub server: &'a str,
    pub report: Option<&'a Report>,
    /// The set to compare with.
    pub earlier: Option<&'a SetJson>,
}

impl Page<'_> {
    /// A summary of at most `limit` bytes; rows are left out as needed, and counted. Empty when
    /// there is no room for what matters most.
    pub fn render(&self, limit: usize) -> String {
        let (mut text, install) = (self.head(), self.installation());
        let left = limit.saturating_sub(text.len() + install.len());
        let report = self.report;
        let findings = report.map(|report| sections::findings(report, left / 3));
        let findings = findings.unwrap_or_default();
        // What is wrong comes before how to install it.
        if report.is_some_and(|report| report.errors > 0) {
            text.push_str(&findings);
            text.push_str(&install);
        } else {
            text.push_str(&install);
            text.push_str(&findings);
        }
        if let Some(report) = report {
            text.push_str(&sections::coverage(report, left / 3));
        }
        let changes = self.earlier.map(Changes::since);
        let left = limit.saturating_sub(text.len());
        let urls = self.places.map(|places| places.set);
        let packages = sections::packages(self.set, urls, changes.as_ref(), left);
        if packages.is_empty() {
            return String::new();
        }
        text + &packages
    }

    fn head(&self) -> String {
        let identity = &self.set.identity;
        let version = identity.version.as_ref();
        let version = version.map(|version| format!(" {}", code(&version.to_string())));
        let platform = identity.platform.as_ref();
        let platform = platform.map(|platform| match platform {
            Platform::Linux => " for Linux",
            Platform::Windows => " for Windows",
        });
        let mut text = format!(
            "## ROCm Python packages{}{}\n\n",
            version.unwrap_or_default(),
            platform.unwrap_or_default()
        );
        if let Some(report) = self.report {
            let mark = match (report.errors, report.warnings) {
                (0, 0) => "✅",
                (0, _) => "⚠️",
                _ => "❌",
            };
            let refused = match self.places {
                None => " Nothing was published.",
                Some(_) => "",
            };
            let _ = writeln!(text, "{mark} **check: {report}**{refused}\n");
        }
        let facts = self.facts();
        if !facts.is_empty() {
            let _ = writeln!(text, "{}", facts.concat());
        }
        text
    }

    fn facts(&self) -> Vec<String> {
        let identity = &self.set.identity;
        let mut rows = Vec::new();
        let mut row = |name: &str, value: String| rows.push(format!("- **{name}**: {value}\n"));
        if let Some(run) = run(identity, self.server) {
            row("Run", run);
        }
        if let Some(commit) = &identity.commit {
            let commit = commit.to_string();
            let link = identity
                .repository
                .as_ref()
                .map(|name| format!("{name}/commit/{commit}"));
            row("Commit", linked(&commit, link, self.server));
        }
        let targets = identity.targets.iter().take(MOST_TARGETS);
        let targets: Vec<String> = targets.map(|name| code(name.as_str())).collect();
        if !targets.is_empty() {
            row("Targets", targets.join(" "));
        }
        if let Some(places) = self.places {
            row("Index", format!("<{}>", places.set.index()));
            row("Find-links", format!("<{}>", places.set.find_links()));
        }
        rows
    }

    /// The lines for each target, those of the first in sight.
    fn installation(&self) -> String {
        let Some(places) = self.places else {
            return String::new();
        };
        let ways: Vec<(Way, Vec<String>)> = Way::ALL
            .into_iter()
            .map(|way| (way, install::lines(self.set, places, way)))
            .collect();
        let block = |at: usize| {
            let lines = ways.iter().filter_map(|(way, lines)| {
                let line = lines.get(at)?;
                Some(format!("{}:\n\n```sh\n{line}\n```\n", way.title()))
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        let mut text = String::from("### Install\n\n");
        let targets = self.set.device_targets();
        if targets.is_empty() || !self.set.has("rocm") {
            let _ = writeln!(text, "{}", block(0));
        }
        let targets = targets.iter().filter(|_| self.set.has("rocm"));
        for (at, target) in targets.take(MOST_TARGETS).enumerate() {
            let open = if at == 0 { " open" } else { "" };
            let product = TargetTable::builtin().product(target);
            let product = product.map(|product| format!(": {}", plain(product)));
            let _ = writeln!(
                text,
                "<details{open}><summary><b>{}</b>{}</summary>\n\n{}\n</details>\n",
                plain(target.as_str()),
                product.unwrap_or_default(),
                block(at)
            );
        }
        let project = install::project(self.set, places);
        let _ = writeln!(
            text,
            "<details><summary>In a uv project (<code>pyproject.toml</code>)</summary>\n\n\
             ```toml\n{project}```\n\n</details>\n"
        );
        text
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

#[cfg(test)]
mod tests;
