//! The JSON documents of `summary` (`rocwheel-summary-v1`) and `pipeline` (`rocwheel-pipeline-v1`).

use std::fmt;

use itertools::Itertools as _;
use serde::{Serialize, Serializer};

use super::markdown::{self, SummaryPage};
use crate::{
    console::{many, size},
    set::{Addresses, Choice, SetJson, install},
};

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct SummaryDocument<'a> {
    schema: &'static str,
    /// `None` for a set that is not published.
    #[serde(flatten)]
    addresses: Option<Addresses>,
    set: &'a SetJson,
    install: Vec<Install>,
    /// `None` for a set that was not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<usize>,
}

#[derive(Serialize)]
struct Install {
    #[serde(rename = "for")]
    whom: String,
    with: &'static str,
    command: String,
}

impl Serialize for SummaryPage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document("rocwheel-summary-v1", &install::choices(self.set))
            .serialize(serializer)
    }
}

/// The answer of `pipeline`: the set, and how to install its first choice (a target or a family).
pub struct PipelineAnswer<'a>(pub SummaryPage<'a>);

impl Serialize for PipelineAnswer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let choices = install::choices(self.0.set);
        let first = choices.get(..1).unwrap_or_default();
        let document = self.0.document("rocwheel-pipeline-v1", first);
        document.serialize(serializer)
    }
}

impl fmt::Display for PipelineAnswer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = &self.0.set.files;
        for file in files {
            writeln!(f, "{:>10}  {}", size(file.size).to_string(), file.name())?;
        }
        let total = size(self.0.set.size()).to_string();
        writeln!(f, "{total:>10}  in {}", many(files.len(), "package"))?;
        let choices = install::choices(self.0.set);
        let Some((shown, others)) = choices.split_first() else {
            return Ok(());
        };
        if !others.is_empty() {
            let others = others.iter().join(", ");
            writeln!(f, "\nThese lines are for {shown}. Also built: {others}.")?;
        }
        for (with, command) in self.0.lines(shown) {
            write!(f, "\n{with}:\n\n    {command}\n")?;
        }
        Ok(())
    }
}

impl fmt::Display for SummaryPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(markdown::LIMIT))
    }
}

impl<'a> SummaryPage<'a> {
    fn document(&self, schema: &'static str, choices: &[Choice]) -> SummaryDocument<'a> {
        let addresses = |urls| Addresses::new(urls, &self.set.families());
        let install = choices.iter().flat_map(|choice| {
            let lines = self.lines(choice).into_iter();
            lines.map(|(with, command)| Install {
                whom: choice.to_string(),
                with,
                command,
            })
        });
        SummaryDocument {
            schema,
            addresses: self.places().map(|places| addresses(places.set)),
            set: self.set,
            install: install.collect(),
            errors: self.report.map(|report| report.errors),
            warnings: self.report.map(|report| report.warnings),
        }
    }
}
