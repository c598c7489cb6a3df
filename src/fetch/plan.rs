//! The plan of a fetch: which parcels to download, and which artifacts are on disk already.

use std::{collections::BTreeSet, fmt};

use serde::{Serialize, Serializer, ser::SerializeMap as _};

use super::{
    inventory::ArtifactArchive,
    output::{OutputDir, OutputForm},
    source::{ArchiveSource, Parcel, ZipMember},
    state::Fetched,
};
use crate::{
    console::{many, size},
    digest::Sha256,
    error::Result,
};

/// Why a parcel is downloaded, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FetchReason {
    New,
    /// An artifact of this name exists, but with other bytes or from another place.
    Changed,
    /// The artifact is on disk and complete.
    Same,
}

#[derive(Debug)]
pub struct FetchPlan {
    pub from: String,
    pub to: String,
    pub kept: OutputForm,
    pub steps: Vec<FetchStep>,
}

#[derive(Debug)]
pub struct FetchStep {
    pub parcel: Parcel,
    pub why: FetchReason,
}

impl FetchPlan {
    pub fn new(
        source: &dyn ArchiveSource,
        output: &OutputDir,
        parcels: Vec<Parcel>,
    ) -> Result<Self> {
        let from = source.to_string();
        let step = |parcel: Parcel| {
            let mut why = FetchReason::Same;
            for ZipMember { archive, .. } in &parcel.members {
                if !is_same(&parcel, &from, output.whole(archive)?.as_ref()) {
                    why = if output.has(&output.form.name(archive)) {
                        FetchReason::Changed
                    } else {
                        FetchReason::New
                    };
                    break;
                }
            }
            Ok(FetchStep { parcel, why })
        };
        Ok(Self {
            steps: parcels.into_iter().map(step).collect::<Result<_>>()?,
            to: output.root.display().to_string(),
            kept: output.form,
            from,
        })
    }

    /// The parcels to download.
    pub fn due(&self) -> Vec<&Parcel> {
        let due = self
            .steps
            .iter()
            .filter(|step| step.why != FetchReason::Same);
        due.map(|step| &step.parcel).collect()
    }

    /// The names of all wanted artifacts in the output directory.
    pub fn wanted(&self) -> BTreeSet<String> {
        self.archives().map(|it| self.kept.name(it)).collect()
    }

    /// The names of the artifacts that will be written.
    pub fn due_names(&self) -> BTreeSet<String> {
        let due = self
            .rows()
            .filter(|(step, _)| step.why != FetchReason::Same);
        due.map(|(_, it)| self.kept.name(it)).collect()
    }

    /// Number of bytes to download.
    pub fn size(&self) -> u64 {
        self.due().iter().map(|parcel| parcel.size).sum()
    }

    /// The number of due parcels without a digest or checksum from their source.
    pub fn unverified(&self) -> usize {
        let due = self.due();
        due.iter().filter(|it| !it.is_vouched_for()).count()
    }

    /// All wanted archives, including those that are on disk already.
    pub fn archives(&self) -> impl Iterator<Item = &ArtifactArchive> {
        self.rows().map(|(_, archive)| archive)
    }

    fn rows(&self) -> impl Iterator<Item = (&FetchStep, &ArtifactArchive)> {
        self.steps.iter().flat_map(|step| {
            let members = step.parcel.members.iter();
            members.map(move |member| (step, &member.archive))
        })
    }
}

/// Whether a fetched artifact has the bytes of `parcel`: by size and SHA-256. If the source states
/// no SHA-256, the artifact must come from the same place, with the same `ETag`.
fn is_same(parcel: &Parcel, from: &str, entry: Option<&Fetched>) -> bool {
    entry.is_some_and(|entry| {
        let told = !parcel.sha256.is_empty();
        let same = |sha256: &Sha256| entry.sha256 == *sha256;
        let unchanged = entry.from == from && entry.etag == parcel.etag;
        entry.size == parcel.size && parcel.sha256.iter().all(same) && (told || unchanged)
    })
}

impl fmt::Display for FetchPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (step, archive) in self.rows() {
            let verb = match step.why {
                FetchReason::New => "fetch",
                FetchReason::Changed => "renew",
                FetchReason::Same => "keep",
            };
            let sized = size(archive.size).to_string();
            writeln!(f, "{verb:5} {sized:>11} {archive}", archive = archive.name)?;
        }
        let kept = self.steps.len() - self.due().len();
        write!(
            f,
            "{} of {} from {} to {}",
            many(self.due().len(), "archive"),
            size(self.size()),
            self.from,
            self.to
        )?;
        if kept > 0 {
            write!(f, "; {kept} there already")?;
        }
        Ok(())
    }
}

impl Serialize for FetchPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", "rocwheel-fetch-v1")?;
        map.serialize_entry("from", &self.from)?;
        map.serialize_entry("to", &self.to)?;
        map.serialize_entry("kept", &self.kept)?;
        map.serialize_entry("size", &self.size())?;
        let rows: Vec<ArchiveRow> = self.rows().map(|(step, it)| self.row(step, it)).collect();
        map.serialize_entry("archives", &rows)?;
        map.end()
    }
}

/// One archive in the JSON output.
#[derive(Serialize)]
struct ArchiveRow {
    name: String,
    artifact: String,
    component: &'static str,
    scope: String,
    path: String,
    size: u64,
    sha256: Option<Sha256>,
    state: FetchReason,
}

impl FetchPlan {
    fn row(&self, step: &FetchStep, archive: &ArtifactArchive) -> ArchiveRow {
        let artifact = archive.artifact();
        let alone = step.parcel.members.len() == 1;
        ArchiveRow {
            name: archive.file_name(),
            artifact: artifact.name.clone(),
            component: artifact.component.as_str(),
            scope: artifact.scope.to_string(),
            path: match self.kept {
                OutputForm::Merged => ".".to_owned(),
                kept => kept.name(archive),
            },
            size: archive.size,
            sha256: step.parcel.sha256.first().copied().filter(|_| alone),
            state: step.why,
        }
    }
}
