//! Lists the artifacts that the jobs of a run have uploaded to GitHub with
//! `actions/upload-artifact`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    failure::ApiFailureKind,
    model::{ArtifactsPage, RunArtifact},
    transport::GitHub,
};
use crate::{
    error::{Context as _, Result},
    run::{Repository, RunId},
};

impl GitHub<'_> {
    /// The artifacts of a run, sorted by name. If several attempts uploaded one name, the last
    /// upload.
    pub fn artifacts(&self, repository: &Repository, id: &RunId) -> Result<Vec<RunArtifact>> {
        self.list_artifacts(repository, id).with_context(|| {
            format!("failed to list the artifacts of run `{id}` of `{repository}`")
        })
    }

    fn list_artifacts(&self, repository: &Repository, id: &RunId) -> Result<Vec<RunArtifact>> {
        let segments = ["actions", "runs", id.as_str(), "artifacts"];
        let first = self.route(repository, &segments, "per_page=100");
        let (mut ids, mut promised) = (BTreeSet::new(), None);
        let mut newest: BTreeMap<String, RunArtifact> = BTreeMap::new();
        let mut next = Some(first.clone());
        while let Some(route) = next {
            let (page, further): (ArtifactsPage, _) = self.page(&route)?;
            promised = promised.or(Some(page.total_count));
            let known = ids.len();
            for artifact in &page.artifacts {
                let artifact = RunArtifact::read(artifact)?;
                ids.insert(artifact.id);
                let earlier = newest.get(&artifact.name);
                if earlier.is_none_or(|earlier| earlier.id < artifact.id) {
                    newest.insert(artifact.name.clone(), artifact);
                }
            }
            // A server that repeats a page would make us list forever.
            next = further.filter(|_| ids.len() > known);
        }
        let (found, promised) = (ids.len() as u64, promised.unwrap_or_default());
        if found < promised {
            let said = format!("{found} of {promised} artifacts were listed");
            return Err(self.refused(ApiFailureKind::Unavailable, &first, said));
        }
        Ok(newest.into_values().collect())
    }

    pub(super) fn route_of_artifact(&self, repository: &Repository, id: u64) -> String {
        let segments = ["actions", "artifacts", &id.to_string(), "zip"];
        self.route(repository, &segments, "")
    }
}
