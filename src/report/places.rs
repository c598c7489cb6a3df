//! [`RunPlaces`]: everything that is read and written for a run, without a look into any bucket.

use std::fmt;

use serde::Serialize;

use crate::{
    error::Result,
    location::Location,
    run::{ArtifactGroup, OtherPlace, Platform, Repository, Run, RunId},
    set::{Layout, Urls},
    store::s3::Access,
};

/// The answer of dry runs with `--offline`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunPlaces {
    schema: &'static str,
    run: RunId,
    repository: Repository,
    platform: Platform,
    /// What decided the places, and nothing has said.
    assumed: Vec<String>,
    region: Option<String>,
    role: Option<String>,
    /// Where the artifacts are read: the expected place, and those that are read if it has nothing.
    reads: Vec<ReadPlace>,
    /// Where the set is written: its address, its index and its find-links page.
    writes: Vec<String>,
}

/// A directory with artifacts.
#[derive(Debug, Serialize)]
struct ReadPlace {
    url: String,
    /// The flag that makes it the expected place, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    flag: Option<String>,
}

impl RunPlaces {
    /// The places of a run, with those of the set of a group if there is one. `others` are the other buckets that the run
    /// may have used.
    pub fn new(
        run: &Run,
        group: Option<&ArtifactGroup>,
        layout: Layout,
        access: &Access,
        others: &[OtherPlace],
    ) -> Result<Self> {
        let read = |run: &Run, flag| {
            let place = Location::new(run.bucket.clone(), run.prefix.directory());
            let url = place.to_string();
            ReadPlace { url, flag }
        };
        let others = others.iter().map(|it| read(&it.run, Some(it.flag.clone())));
        let mut writes = Vec::new();
        if let Some(group) = group {
            let root = run.python(group).directory();
            let urls: Urls = access.url(&root).parse()?;
            let urls = urls.in_layout(layout);
            writes = vec![root.to_string(), urls.index(), urls.find_links()];
        }
        Ok(Self {
            schema: "rocwheel-places-v1",
            run: run.id.clone(),
            repository: run.repository.clone(),
            platform: run.platform,
            assumed: run.assumed.iter().map(ToString::to_string).collect(),
            region: run.region.clone(),
            role: run.role.clone(),
            reads: [read(run, None)].into_iter().chain(others).collect(),
            writes,
        })
    }
}

impl fmt::Display for RunPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let region = self.region.as_deref().unwrap_or("not known");
        let role = self.role.as_deref().unwrap_or("none");
        writeln!(f, "run {} of {}\n", self.run, self.repository)?;
        write!(f, "{}, region {region}, role {role}", self.platform)?;
        for ReadPlace { url, flag } in &self.reads {
            match flag {
                None => write!(f, "\n  read  {url}")?,
                Some(flag) => write!(f, "\n  else  {url} ({flag})")?,
            }
        }
        for (number, address) in self.writes.iter().enumerate() {
            let verb = if number == 0 { "write" } else { "     " };
            write!(f, "\n  {verb} {address}")?;
        }
        Ok(())
    }
}
