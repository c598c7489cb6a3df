//! [`RunPlaces`]: everything that is read and written for a run, without a look into any bucket.

use std::fmt;

use serde::Serialize;

use crate::{
    error::Result,
    location::Location,
    run::{ArtifactGroup, OtherPlace, Platform, Repository, Run, RunId},
    set::{Layout, PART, Urls},
    store::s3::Access,
};

/// The answer of `place --all`, and of dry runs with `--offline`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunPlaces {
    schema: &'static str,
    run: RunId,
    repository: Repository,
    /// What decided the places, and nothing has said.
    assumed: Vec<String>,
    platforms: Vec<PlatformPlaces>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct PlatformPlaces {
    platform: Platform,
    bucket: String,
    region: Option<String>,
    role: Option<String>,
    /// Where the artifacts are read.
    reads: Vec<ReadPlace>,
    sets: Vec<WrittenSet>,
}

/// A directory with artifacts.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct ReadPlace {
    url: String,
    https_url: String,
    /// If this is not the expected place, the flag that makes it so. It is read if the expected
    /// place has nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    flag: Option<String>,
}

/// What is written of a package set.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct WrittenSet {
    /// Empty for the set of all families.
    group: String,
    set_url: String,
    index_url: String,
    find_links_url: String,
    /// Every key that is written is one of these, or begins with one that ends in `/`; `*` stands for
    /// the name of a family.
    writes: Vec<String>,
}

impl RunPlaces {
    /// The places of a run on these platforms, with the sets of these groups. `others` are the other
    /// buckets that the run may have used.
    pub fn new(
        run: &Run,
        platforms: &[Platform],
        groups: &[ArtifactGroup],
        layout: Layout,
        (access, others): (&Access, &[OtherPlace]),
    ) -> Result<Self> {
        let places = |platform: &Platform| -> Result<PlatformPlaces> {
            let own = run.on(*platform);
            let other = |other: &OtherPlace| {
                let run = other.run.on(*platform);
                ReadPlace::of(&run, Some(other.flag.clone()), access)
            };
            let set = |group: &ArtifactGroup| WrittenSet::of(&own, group, layout, access);
            let expected = ReadPlace::of(&own, None, access);
            Ok(PlatformPlaces {
                platform: *platform,
                reads: [expected]
                    .into_iter()
                    .chain(others.iter().map(other))
                    .collect(),
                sets: groups.iter().map(set).collect::<Result<_>>()?,
                bucket: own.bucket.to_string(),
                region: own.region,
                role: own.role,
            })
        };
        Ok(Self {
            schema: "rocwheel-places-v1",
            run: run.id.clone(),
            repository: run.repository.clone(),
            assumed: run.assumed.iter().map(ToString::to_string).collect(),
            platforms: platforms.iter().map(places).collect::<Result<_>>()?,
        })
    }
}

impl ReadPlace {
    fn of(run: &Run, flag: Option<String>, access: &Access) -> Self {
        let place = Location::new(run.bucket.clone(), run.prefix.directory());
        Self {
            url: place.to_string(),
            https_url: access.url(&place),
            flag,
        }
    }
}

impl WrittenSet {
    fn of(run: &Run, group: &ArtifactGroup, layout: Layout, access: &Access) -> Result<Self> {
        let root = run.python(group).directory();
        let urls: Urls = access.url(&root).parse()?;
        let urls = urls.in_layout(layout);
        // In a flat set the first path is the set itself, with all the others below it.
        let paths = [
            layout.files(),
            "simple/",
            "*/simple/",
            "SHA256SUMS",
            "set.json",
            PART,
        ];
        Ok(Self {
            group: group.to_string(),
            set_url: root.to_string(),
            index_url: urls.index(),
            find_links_url: urls.find_links(),
            writes: paths.map(|path| format!("{}{path}", root.key)).to_vec(),
        })
    }
}

impl fmt::Display for RunPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} of {}", self.run, self.repository)?;
        for PlatformPlaces {
            platform,
            region,
            role,
            reads,
            sets,
            ..
        } in &self.platforms
        {
            let region = region.as_deref().unwrap_or("not known");
            let role = role.as_deref().unwrap_or("none");
            write!(f, "\n\n{platform}, region {region}, role {role}")?;
            for ReadPlace { url, flag, .. } in reads {
                match flag {
                    None => write!(f, "\n  read  {url}")?,
                    Some(flag) => write!(f, "\n  else  {url} ({flag})")?,
                }
            }
            for set in sets {
                write!(f, "\n  write {}", set.set_url)?;
                write!(f, "\n        {}", set.index_url)?;
                write!(f, "\n        {}", set.find_links_url)?;
            }
        }
        Ok(())
    }
}
