//! A decided fetch as text and as JSON.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::json;

use super::{FetchJob, FetchReason};
use crate::{
    console::{many, size},
    fetch::{
        output::OutputForm,
        source::{ArtifactArchive, Parcel},
    },
};

impl fmt::Display for FetchJob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (why, parcel) in &self.steps {
            let verb = match why {
                FetchReason::New => "fetch",
                FetchReason::Changed => "renew",
                FetchReason::Same => "keep",
            };
            for archive in &parcel.members {
                let sized = size(archive.size).to_string();
                writeln!(f, "{verb:5} {sized:>11} {}", archive.name)?;
            }
        }
        if let Some(line) = self.found.line() {
            writeln!(f, "{line}")?;
        }
        f.write_str(&self.in_short())
    }
}

impl FetchJob<'_> {
    /// `37 archives of 2.40 MiB from s3://… to artifacts; 3 there already`
    pub fn in_short(&self) -> String {
        let (due, size) = (self.due().len(), size(self.size()));
        let (count, to) = (many(due, "archive"), self.output.root.display());
        let kept = match self.steps.len() - due {
            0 => String::new(),
            kept => format!("; {kept} there already"),
        };
        format!("{count} of {size} from {} to {to}{kept}", self.from)
    }
}

impl Serialize for FetchJob<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = |parcel: &Parcel, why: FetchReason, archive: &ArtifactArchive| {
            let artifact = &archive.name.artifact;
            let is_alone = parcel.members.len() == 1;
            json!({
                "name": archive.name.to_string(),
                "artifact": artifact.name,
                "component": artifact.component.as_str(),
                "scope": artifact.scope.as_str(),
                "path": match self.output.form {
                    OutputForm::Merged => ".".to_owned(),
                    kept => kept.name(archive),
                },
                "size": archive.size,
                "sha256": parcel.sha256.first().filter(|_| is_alone),
                "state": why,
            })
        };
        let rows = self.steps.iter().flat_map(|(why, parcel)| {
            let members = parcel.members.iter();
            members.map(move |archive| row(parcel, *why, archive))
        });
        let plan = json!({
            "schema": "rocwheel-fetch-v1",
            "run": self.found,
            "from": self.from,
            "to": self.output.root.display().to_string(),
            "kept": self.output.form,
            "size": self.size(),
            "archives": rows.collect::<Vec<_>>(),
        });
        plan.serialize(serializer)
    }
}
