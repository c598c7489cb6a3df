//! A summary for programs: `rocwheel-summary-v1`.

use std::fmt;

use serde::{Serialize, Serializer};

use super::markdown::{self, Page};
use crate::index::{Addresses, SetJson, install};

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Document<'a> {
    schema: &'static str,
    /// None of a set that is published nowhere.
    #[serde(flatten)]
    addresses: Option<Addresses>,
    set: &'a SetJson,
    install: Vec<Install>,
    /// Of a set that was checked.
    #[serde(flatten)]
    findings: Option<Findings>,
}

#[derive(Serialize)]
struct Install {
    #[serde(rename = "for")]
    whom: String,
    with: &'static str,
    command: String,
}

#[derive(Serialize)]
struct Findings {
    errors: usize,
    warnings: usize,
}

impl Serialize for Page<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let addresses = |urls| Addresses::new(urls, &self.set.families());
        Document {
            schema: "rocwheel-summary-v1",
            addresses: self.places().map(|places| addresses(places.set)),
            set: self.set,
            install: self.install(),
            findings: self.report.map(|report| Findings {
                errors: report.errors,
                warnings: report.warnings,
            }),
        }
        .serialize(serializer)
    }
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(markdown::LIMIT))
    }
}

impl Page<'_> {
    fn install(&self) -> Vec<Install> {
        let choices = install::choices(self.set).into_iter();
        let lines = choices.map(|choice| {
            let lines = self.lines(&choice).into_iter();
            let line = move |(with, command)| Install {
                whom: choice.to_string(),
                with,
                command,
            };
            lines.map(line).collect::<Vec<_>>()
        });
        lines.flatten().collect()
    }
}
