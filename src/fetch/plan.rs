//! The plan of a fetch: which parcels to download, and which artifacts are on disk already.

use std::{collections::BTreeSet, fmt};

use serde::{Serialize, Serializer};
use serde_json::json;

use super::{
    output::{Fetched, OutputDir, OutputForm},
    source::{ArchiveSource, ArtifactArchive, Parcel},
};
use crate::{
    console::{many, size},
    error::Result,
};

/// Why a parcel is downloaded, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FetchReason {
    New,
    /// An artifact of this name exists, but with other bytes or from another place.
    Changed,
    /// The artifact is on disk and complete.
    Same,
}

#[derive(Debug)]
pub struct FetchPlan {
    pub from: String,
    to: String,
    kept: OutputForm,
    steps: Vec<(Parcel, FetchReason)>,
}

impl FetchPlan {
    pub(super) fn new(
        source: &dyn ArchiveSource,
        output: &OutputDir,
        parcels: Vec<Parcel>,
    ) -> Result<Self> {
        let from = source.to_string();
        let step = |parcel: Parcel| {
            let mut why = FetchReason::Same;
            for archive in &parcel.members {
                if !is_same(&parcel, &from, output.whole(archive)?) {
                    why = if output.has(&output.form.name(archive)) {
                        FetchReason::Changed
                    } else {
                        FetchReason::New
                    };
                    break;
                }
            }
            Ok((parcel, why))
        };
        Ok(Self {
            steps: parcels.into_iter().map(step).collect::<Result<_>>()?,
            to: output.root.display().to_string(),
            kept: output.form,
            from,
        })
    }

    /// The parcels to download.
    pub(super) fn due(&self) -> Vec<&Parcel> {
        let due = self
            .steps
            .iter()
            .filter(|(_, why)| *why != FetchReason::Same);
        due.map(|(parcel, _)| parcel).collect()
    }

    /// The names of all wanted artifacts in the output directory.
    pub(super) fn wanted(&self) -> BTreeSet<String> {
        self.archives().map(|it| self.kept.name(it)).collect()
    }

    /// The names of the artifacts that will be written.
    pub(super) fn due_names(&self) -> BTreeSet<String> {
        let due = self.due().into_iter().flat_map(|parcel| &parcel.members);
        due.map(|it| self.kept.name(it)).collect()
    }

    /// Number of bytes to download.
    pub(super) fn size(&self) -> u64 {
        self.due().iter().map(|parcel| parcel.size).sum()
    }

    /// All wanted archives, including those that are on disk already.
    pub(super) fn archives(&self) -> impl Iterator<Item = &ArtifactArchive> {
        self.steps.iter().flat_map(|(parcel, _)| &parcel.members)
    }
}

/// Whether a fetched artifact has the bytes of `parcel`: by size and SHA-256. If the source states
/// no SHA-256, the artifact must come from the same place, with the same `ETag`.
fn is_same(parcel: &Parcel, from: &str, entry: Option<&Fetched>) -> bool {
    entry.is_some_and(|entry| {
        let told = !parcel.sha256.is_empty();
        let same = parcel.sha256.iter().all(|sha256| entry.sha256 == *sha256);
        let unchanged = entry.from == from && entry.etag == parcel.etag;
        entry.size == parcel.size && same && (told || unchanged)
    })
}

impl fmt::Display for FetchPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (parcel, why) in &self.steps {
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
        let (due, size) = (self.due().len(), size(self.size()));
        let count = many(due, "archive");
        write!(f, "{count} of {size} from {} to {}", self.from, self.to)?;
        match self.steps.len() - due {
            0 => Ok(()),
            kept => write!(f, "; {kept} there already"),
        }
    }
}

impl Serialize for FetchPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = |parcel: &Parcel, why: FetchReason, archive: &ArtifactArchive| {
            let artifact = &archive.name.artifact;
            let is_alone = parcel.members.len() == 1;
            json!({
                "name": archive.name.to_string(),
                "artifact": artifact.name,
                "component": artifact.component.as_str(),
                "scope": artifact.scope.as_str(),
                "path": match self.kept {
                    OutputForm::Merged => ".".to_owned(),
                    kept => kept.name(archive),
                },
                "size": archive.size,
                "sha256": parcel.sha256.first().filter(|_| is_alone),
                "state": why,
            })
        };
        let rows = self.steps.iter().flat_map(|(parcel, why)| {
            let members = parcel.members.iter();
            members.map(move |archive| row(parcel, *why, archive))
        });
        let plan = json!({
            "schema": "rocwheel-fetch-v1",
            "from": self.from,
            "to": self.to,
            "kept": self.kept,
            "size": self.size(),
            "archives": rows.collect::<Vec<_>>(),
        });
        plan.serialize(serializer)
    }
}
