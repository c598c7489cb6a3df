//! `--accept` and `--write-accept`: the list of known findings.

use std::path::{Path, PathBuf};

use fs_err as fs;
use time::{Duration, OffsetDateTime};

use crate::{
    check::{AcceptList, Report, Severity},
    commands::World,
    console::many,
    error::{Context as _, Result},
};

/// How long the entries of a new list are valid.
const ACCEPTED_FOR: Duration = Duration::days(90);

#[derive(Clone, Debug, Default, clap::Args)]
pub struct AcceptArgs {
    /// Accept the findings in this TOML list; each has a reason and an expiry date
    #[arg(long, value_name = "FILE", env = "ROCWHEEL_ACCEPT")]
    accept: Option<PathBuf>,
}

impl AcceptArgs {
    pub(super) fn list(&self) -> Result<AcceptList> {
        let Some(file) = &self.accept else {
            return Ok(AcceptList::default());
        };
        let text = fs::read_to_string(file)?;
        AcceptList::parse(&text).with_context(|| format!("failed to read `{}`", file.display()))
    }

    pub(super) fn shown(&self) -> String {
        let file = self.accept.as_ref();
        file.map_or(String::new(), |file| file.display().to_string())
    }

    /// Writes a list that accepts all findings of a report.
    pub(super) fn write(&self, file: &Path, report: &Report, world: &World) -> Result<()> {
        let until = day(OffsetDateTime::now_utc() + ACCEPTED_FOR);
        let list = self.list()?;
        fs::write(
            file,
            list.renewed(&report.accepted, &report.findings, &until),
        )?;
        let count = report.count_from(Severity::Warning);
        let (count, file) = (many(count, "finding"), file.display());
        let facts = format!("{file}: {count} accepted until {until}; give each its reason");
        world.console.status("Wrote", facts);
        Ok(())
    }
}

pub(super) fn today() -> String {
    day(OffsetDateTime::now_utc())
}

/// `2026-11-22`
fn day(time: OffsetDateTime) -> String {
    time.date().to_string()
}
