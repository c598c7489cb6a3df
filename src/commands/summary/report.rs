//! `Report`: what `check` answered, as its JSON document says it.

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;

use crate::{
    check::Coverage,
    console::many,
    error::{Context as _, Hint as _, Result, ensure},
};

const SCHEMA: &str = "rocwheel-check-v1";

/// A whole answer. What later versions add to it is passed over.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Report {
    pub packages: usize,
    pub errors: usize,
    pub warnings: usize,
    pub findings: Vec<Row>,
    #[serde(default)]
    pub coverage: Coverage,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    pub id: String,
    pub name: String,
    pub severity: Severity,
    pub file: Option<String>,
    pub member: Option<String>,
    pub fact: String,
    #[serde(default)]
    pub way_out: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    Note,
    Warning,
    Error,
}

impl Report {
    pub fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Schema {
            schema: String,
        }
        let read = || -> Result<Self> {
            let form: Schema = serde_json::from_str(text)?;
            ensure!(form.schema == SCHEMA, "its schema is {:?}", form.schema);
            Ok(serde_json::from_str(text)?)
        };
        read()
            .context("read what `check` found")
            .hint("write it with `rocwheel check --format json`")
    }

    /// The findings of each rule, the gravest rules and the most frequent first.
    pub fn by_rule(&self) -> Vec<Vec<&Row>> {
        let mut rules: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        for row in &self.findings {
            rules.entry(&row.id).or_default().push(row);
        }
        let mut rules: Vec<Vec<&Row>> = rules.into_values().collect();
        rules.sort_by_key(|rows| {
            let severity = rows.first().map(|row| row.severity);
            std::cmp::Reverse((severity, rows.len()))
        });
        rules
    }
}

/// `1 error, 2 warnings`
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (errors, warnings) = (many(self.errors, "error"), many(self.warnings, "warning"));
        match (self.errors, self.warnings) {
            (0, 0) => f.write_str("nothing found"),
            (_, 0) => f.write_str(&errors),
            (0, _) => f.write_str(&warnings),
            _ => write!(f, "{errors}, {warnings}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::render;

    #[test]
    fn an_answer_is_read_and_ordered() {
        let row = |id: &str, severity: &str| {
            format!(
                r#"{{"id":"{id}","name":"n","severity":"{severity}","file":null,"member":null,"fact":"f","way-out":"w","new":1}}"#
            )
        };
        let rows = [
            row("RW303", "warning"),
            row("RW303", "warning"),
            row("RW201", "error"),
            row("RW101", "error"),
            row("RW101", "error"),
        ];
        let text = format!(
            r#"{{"schema":"rocwheel-check-v1","packages":7,"errors":3,"warnings":2,"findings":[{}],"new":{{}}}}"#,
            rows.join(",")
        );
        let report = Report::parse(&text).unwrap();
        let order: Vec<(&str, usize)> = report
            .by_rule()
            .iter()
            .map(|rows| (rows[0].id.as_str(), rows.len()))
            .collect();
        assert_eq!(order, [("RW101", 2), ("RW201", 1), ("RW303", 2)]);
        assert_eq!(report.to_string(), "3 errors, 2 warnings");
    }

    #[test]
    fn anything_else_is_refused_in_words() {
        let refused = ["", "{}", r#"{"schema":"rocwheel-plan-v1"}"#]
            .map(|text| render(&Report::parse(text).unwrap_err()));
        insta::assert_snapshot!(refused.concat(), @r#"
        error: read what `check` found
          caused by: EOF while parsing a value at line 1 column 0

        hint: write it with `rocwheel check --format json`
        error: read what `check` found
          caused by: missing field `schema` at line 1 column 2

        hint: write it with `rocwheel check --format json`
        error: read what `check` found
          caused by: its schema is "rocwheel-plan-v1"

        hint: write it with `rocwheel check --format json`
        "#);
    }
}
