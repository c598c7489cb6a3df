//! The source for artifacts that GitHub keeps for a run (`actions/upload-artifact`): an artifact is
//! either one archive as it is, or a zip file with several archives.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::{self, Read as _},
    num::NonZeroUsize,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use itertools::Itertools as _;

use super::{
    inventory::{ArtifactArchive, one_each},
    query::LazyGitHub,
    source::{ArchiveSource, Parcel},
    zip_directory::{self, MOST, ZipSpan},
};
use crate::{
    artifact::ArchiveName,
    console::World,
    error::{Context as _, Error, Exit, No, Result, hinted, hints, one_line},
    github::{ArtifactBlob, GitHub, RunArtifact},
    parallel,
    run::{Platform, Run},
    store::{FIRST_PIECE, Ranged},
};

/// How many artifacts are inspected at once.
const LOOKS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// The artifacts of a run on GitHub that may contain archives for its platform.
pub(super) struct RunArtifacts<'a> {
    github: Arc<LazyGitHub<'a>>,
    world: &'a World,
    run: Run,
    /// Whether the bucket was searched first and has none. If GitHub cannot be asked then, that is
    /// only a note: the error is that the bucket has no artifacts.
    after_bucket: bool,
    /// The archives in each inspected artifact, by its id. They are cached: an artifact never
    /// changes.
    inside: Mutex<BTreeMap<u64, Vec<ArtifactArchive>>>,
    announced: Mutex<BTreeSet<String>>,
}

impl<'a> RunArtifacts<'a> {
    pub(super) fn new(
        github: Arc<LazyGitHub<'a>>,
        world: &'a World,
        run: Run,
        after_bucket: bool,
    ) -> Self {
        Self {
            github,
            world,
            run,
            after_bucket,
            inside: Mutex::default(),
            announced: Mutex::default(),
        }
    }

    /// Prints a note once, even if the artifacts are listed repeatedly while waiting.
    fn announce(&self, text: String) {
        let announced = self.announced.lock();
        let mut announced = announced.unwrap_or_else(PoisonError::into_inner);
        if !announced.contains(&text) {
            self.world.console.note(&text);
            announced.insert(text);
        }
    }

    fn list(&self) -> Result<Vec<ArtifactArchive>> {
        let github = self.github.get(self.world)?;
        let mut artifacts = github.artifacts(&self.run.repository, &self.run.id)?;
        artifacts.retain(|it| is_for(&it.name, self.run.platform));
        artifacts.sort_by_key(|artifact| artifact.id);
        let (kept, expired): (Vec<_>, Vec<_>) = artifacts.into_iter().partition(|it| !it.expired);
        if kept.is_empty() && !expired.is_empty() {
            return Err(self.expired(&expired));
        }
        if !expired.is_empty() {
            let names = expired.iter().map(|it| format!("`{}`", it.name));
            let names = names.sorted().join(", ");
            self.announce(format!("expired, and so left out: {names}"));
        }
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |it: &&RunArtifact| !inside.contains_key(&it.id);
        let new: Vec<&RunArtifact> = kept.iter().filter(is_new).collect();
        parallel::try_each(
            &new,
            LOOKS,
            &self.world.stop,
            |artifact| self.inside(github, artifact),
            |artifact, found| drop(inside.insert(artifact.id, found)),
        )?;
        // If several artifacts have the same archive, the one uploaded last is used.
        let mut archives: BTreeMap<String, ArtifactArchive> = BTreeMap::new();
        for newer in kept.iter().filter_map(|it| inside.get(&it.id)).flatten() {
            let name = newer.name.to_string();
            if let Some(older) = archives.insert(name.clone(), newer.clone())
                && !is_like(&older, newer)
            {
                self.announce(format!(
                    "`{name}` is in `{}` and in `{}`, which was uploaded last and counts",
                    older.key, newer.key
                ));
            }
        }
        Ok(one_each(archives.into_values()))
    }

    /// The archives in an artifact.
    fn inside(&self, github: &GitHub, artifact: &RunArtifact) -> Result<Vec<ArtifactArchive>> {
        let read = |range: Range<u64>| -> Result<_> {
            let mut blob = github.open(&self.run.repository, artifact, range)?;
            let mut bytes = Vec::new();
            blob.read_to_end(&mut bytes)?;
            Ok((blob.content().clone(), bytes))
        };
        let archive = |name: ArchiveName, span: Option<ZipSpan>| ArtifactArchive {
            name,
            size: span.map_or(artifact.size, |span| span.size),
            key: artifact.name.clone(),
            sha256: artifact.sha256,
            // GitHub has no ETag for an artifact, but uploading it again creates a new id.
            etag: Some(artifact.id.to_string()),
            sidecar: false,
            upload: Some(artifact.clone()),
            span,
        };
        let look = || -> Result<Vec<ArtifactArchive>> {
            let size = artifact.size;
            if size == 0 {
                return Ok(Vec::new());
            }
            let (content, end) = read(size.saturating_sub(FIRST_PIECE)..size)?;
            if let ArtifactBlob::File(name) = content {
                let name = ArchiveName::of_file(&name).ok();
                return Ok(name.map(|name| archive(name, None)).into_iter().collect());
            }
            let mut total = 0;
            let ranged = Ranged::new(size, |range| {
                total += range.end - range.start;
                if total > MOST {
                    return Err(io::Error::other("its directory is too long"));
                }
                let bytes = read(range).map(|(_, bytes)| bytes);
                bytes.map_err(io::Error::other)
            });
            let found = zip_directory::archives(ranged.with_end(end))?.into_iter();
            Ok(found
                .map(|(name, span)| archive(name, Some(span)))
                .collect())
        };
        look().with_context(|| format!("failed to read artifact `{}`", artifact.name))
    }

    fn expired(&self, expired: &[RunArtifact]) -> Error {
        let times = expired.iter().filter_map(|it| it.expires_at.as_deref());
        let last = times.max().map(|at| format!(", the last at {at}"));
        let message = format!("{self} have expired{}", last.unwrap_or_default());
        hinted(No(message), "take a newer run, or have its jobs run again")
    }
}

impl ArchiveSource for RunArtifacts<'_> {
    fn inventory(&self) -> Result<Vec<ArtifactArchive>> {
        self.list().or_else(|error| {
            if !self.after_bucket || Exit::of(&error) != Exit::CouldNotTry {
                return Err(error);
            }
            let hints = hints(&error).join("; ");
            let hints = Some(hints).filter(|it| !it.is_empty());
            let hints = hints.map(|it| format!(" ({it})")).unwrap_or_default();
            let error = one_line(&error);
            self.announce(format!("only the bucket was looked in: {error}{hints}"));
            Ok(Vec::new())
        })
    }

    fn parcels(&self, archives: &[ArtifactArchive], _: NonZeroUsize) -> Result<Vec<Parcel>> {
        let mut parcels: BTreeMap<u64, Parcel> = BTreeMap::new();
        for archive in archives {
            let artifact = upload(archive)?;
            let parcel = parcels.entry(artifact.id).or_insert_with(|| Parcel {
                id: artifact.name.clone(),
                size: artifact.size,
                sha256: artifact.sha256.into_iter().collect(),
                checksum: None,
                etag: archive.etag.clone(),
                members: Vec::new(),
            });
            parcel.members.push(archive.clone());
        }
        let mut parcels: Vec<Parcel> = parcels.into_values().collect();
        for parcel in &mut parcels {
            let members = &mut parcel.members;
            members.sort_by_key(|member| member.span.map(|span| span.header_at));
        }
        parcels.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(parcels)
    }

    fn open(&self, parcel: &Parcel) -> Result<Box<dyn io::Read + Send + '_>> {
        let first = parcel.members.first().context("nothing is wanted of it")?;
        let (github, artifact) = (self.github.get(self.world)?, upload(first)?);
        let blob = github.open(&self.run.repository, artifact, 0..artifact.size)?;
        Ok(Box::new(blob))
    }
}

fn upload(archive: &ArtifactArchive) -> Result<&RunArtifact> {
    let upload = archive.upload.as_ref();
    upload.with_context(|| format!("`{}` is not on GitHub", archive.name))
}

/// Whether two archives are the same: size and CRC-32 are equal. Only members of zip files have a
/// CRC-32 in the listing.
fn is_like(one: &ArtifactArchive, other: &ArtifactArchive) -> bool {
    let facts = |archive: &ArtifactArchive| archive.span.map(|span| (span.size, span.crc32));
    facts(one).is_some() && facts(one) == facts(other)
}

/// Whether an artifact may have archives for a platform. Jobs for Linux and Windows upload to one
/// run: an artifact with the word `windows` or `linux` in its name is for that platform only.
fn is_for(name: &str, platform: Platform) -> bool {
    let lower = name.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let named: Vec<Platform> = words.filter_map(|word| word.parse().ok()).collect();
    named.is_empty() || named.contains(&platform)
}

impl fmt::Display for RunArtifacts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (run, repository) = (&self.run.id, &self.run.repository);
        write!(f, "GitHub's artifacts of run {run} of {repository}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_that_names_a_platform_is_for_that_alone() {
        for (name, linux, windows) in [
            ("artifacts-gfx942", true, true),
            ("artifacts-linux-gfx942", true, false),
            ("Windows_gfx942", false, true),
            ("linux-and-windows", true, true),
            ("linuxbrew", true, true),
        ] {
            let found = [Platform::Linux, Platform::Windows].map(|it| is_for(name, it));
            assert_eq!(found, [linux, windows], "{name}");
        }
    }
}
