//! The source for artifacts that GitHub keeps for a run (`actions/upload-artifact`): an artifact is
//! either one archive as it is, or a zip file with several archives.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read as _},
    num::NonZeroUsize,
    sync::{Mutex, OnceLock, PoisonError},
};

use super::{
    inventory::{ArtifactArchive, ListedFile, RunInventory},
    source::{ArchiveSource, Concurrency, Parcel, ParcelPacking, ZipMember},
    zip_directory::{self, MOST, Zipped},
};
use crate::{
    artifact::ArchiveName,
    console::World,
    error::{Context as _, Error, Exit, No, Result, hinted, hints, one_line},
    github::{ArtifactBlob, GitHub, Keeping, RunArtifact},
    parallel,
    run::{Platform, Repository, RunId},
    store::{FIRST_PIECE, Ranged},
};

/// How many artifacts are inspected at once.
const LOOKS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// Connects to GitHub. Called only when the first request is due.
pub(super) type Connect<'a> = Box<dyn Fn() -> Result<GitHub<'a>> + Send + Sync + 'a>;

/// The artifacts of a run on GitHub that may contain archives for a platform.
pub(super) struct RunArtifacts<'a> {
    connect: Connect<'a>,
    github: OnceLock<GitHub<'a>>,
    world: &'a World,
    role: ArtifactRole,
    repository: Repository,
    run: RunId,
    platform: Platform,
    known: Mutex<KnownArtifact>,
}

/// Whether another source is searched for artifacts of the run too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArtifactRole {
    Only,
    /// The bucket was searched first and has none. If GitHub cannot be asked, that is only a note:
    /// the error is that the bucket has no artifacts.
    Second,
}

#[derive(Default)]
struct KnownArtifact {
    /// The archives in each inspected artifact, by its id. They are cached: an artifact never
    /// changes.
    inside: BTreeMap<u64, Vec<ArchiveInArtifact>>,
    /// The archives of the last inventory, by file name.
    archives: BTreeMap<String, ArtifactBlobPlace>,
    announced: Vec<String>,
}

/// An archive inside of an artifact on GitHub.
#[derive(Clone, Debug)]
struct ArchiveInArtifact {
    name: ArchiveName,
    size: u64,
    packing: ParcelPacking,
}

#[derive(Clone, Debug)]
struct ArtifactBlobPlace {
    artifact: RunArtifact,
    found: ArchiveInArtifact,
}

impl<'a> RunArtifacts<'a> {
    pub(super) fn new(
        connect: Connect<'a>,
        world: &'a World,
        (repository, run): (Repository, RunId),
        platform: Platform,
        role: ArtifactRole,
    ) -> Self {
        Self {
            connect,
            github: OnceLock::new(),
            world,
            role,
            repository,
            run,
            platform,
            known: Mutex::default(),
        }
    }

    fn github(&self) -> Result<&GitHub<'a>> {
        if let Some(github) = self.github.get() {
            return Ok(github);
        }
        let github = (self.connect)()?;
        Ok(self.github.get_or_init(|| github))
    }

    /// Prints a note once, even if the artifacts are listed repeatedly while waiting.
    fn announce(&self, text: String) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.announced.contains(&text) {
            self.world.console.note(&text);
            known.announced.push(text);
        }
    }

    fn look_into(&self, artifacts: &[RunArtifact]) -> Result<()> {
        let github = self.github()?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |it: &&RunArtifact| !known.inside.contains_key(&it.id);
        let new: Vec<RunArtifact> = artifacts.iter().filter(is_new).cloned().collect();
        parallel::try_each(
            &new,
            LOOKS,
            &self.world.stop,
            |artifact| self.inside(github, artifact),
            |artifact, found| drop(known.inside.insert(artifact.id, found)),
        )
    }

    fn inside(&self, github: &GitHub, artifact: &RunArtifact) -> Result<Vec<ArchiveInArtifact>> {
        let size = artifact.size;
        if size == 0 {
            return Ok(Vec::new());
        }
        let read = |from: u64, to: u64| -> Result<_> {
            let mut blob = github.open(&self.repository, artifact, from..to)?;
            let mut bytes = Vec::new();
            blob.read_to_end(&mut bytes)?;
            Ok((blob.content().clone(), bytes))
        };
        let look = || -> Result<Vec<ArchiveInArtifact>> {
            let (content, end) = read(size.saturating_sub(FIRST_PIECE), size)?;
            let found = match content {
                ArtifactBlob::File(name) => return Ok(bare(&name, size)),
                ArtifactBlob::Zip => {
                    let mut total = 0;
                    let ranged = Ranged::new(size, |range| {
                        total += range.end - range.start;
                        if total > MOST {
                            return Err(io::Error::other("its directory is too long"));
                        }
                        let bytes = read(range.start, range.end).map(|(_, bytes)| bytes);
                        bytes.map_err(io::Error::other)
                    });
                    zip_directory::archives(ranged.with_end(end))?
                }
            };
            Ok(found.into_iter().map(ArchiveInArtifact::from).collect())
        };
        look().with_context(|| format!("failed to read artifact `{}`", artifact.name))
    }

    /// Maps each archive to its artifact. If several artifacts have the same archive, the one
    /// uploaded last is used, and a note says so.
    fn choose(&self, mut artifacts: Vec<RunArtifact>) -> BTreeMap<String, ArtifactBlobPlace> {
        artifacts.sort_by_key(|artifact| artifact.id);
        let mut archives: BTreeMap<String, ArtifactBlobPlace> = BTreeMap::new();
        let mut notes = Vec::new();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for artifact in artifacts {
            for found in known.inside.get(&artifact.id).into_iter().flatten() {
                let (name, artifact) = (found.name.to_string(), artifact.clone());
                let place = ArtifactBlobPlace {
                    artifact,
                    found: found.clone(),
                };
                let newer = place.artifact.name.clone();
                if let Some(older) = archives.insert(name.clone(), place)
                    && !older.found.is_like(found)
                {
                    let older = older.artifact.name;
                    notes.push(format!("`{name}` is in `{older}` and in `{newer}`, which was uploaded last and counts"));
                }
            }
        }
        drop(known);
        for note in notes {
            self.announce(note);
        }
        archives
    }

    fn place(&self, file_name: &str) -> Result<ArtifactBlobPlace> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.archives.get(file_name).cloned();
        place.with_context(|| format!("no `{file_name}` in {self}"))
    }

    fn expired(&self, expired: &[RunArtifact]) -> Error {
        let last = expired
            .iter()
            .filter_map(|artifact| match &artifact.keeping {
                Keeping::Expired(at) => at.as_deref(),
                Keeping::Kept => None,
            });
        let last = last
            .max()
            .map(|at| format!(", the last at {at}"))
            .unwrap_or_default();
        let message = format!("{self} have expired{last}");
        hinted(No(message), "take a newer run, or have its jobs run again")
    }
}

impl RunArtifacts<'_> {
    fn list(&self) -> Result<RunInventory> {
        let artifacts = self.github()?.artifacts(&self.repository, &self.run)?;
        let is_for = |it: &RunArtifact| is_for(&it.name, self.platform);
        let (kept, expired): (Vec<_>, Vec<_>) = artifacts
            .into_iter()
            .filter(is_for)
            .partition(|it| it.keeping == Keeping::Kept);
        if kept.is_empty() && !expired.is_empty() {
            return Err(self.expired(&expired));
        }
        if !expired.is_empty() {
            let names: Vec<String> = expired.iter().map(|it| format!("`{}`", it.name)).collect();
            self.announce(format!("expired, and so left out: {}", names.join(", ")));
        }
        self.look_into(&kept)?;
        let archives = self.choose(kept);
        let inventory = RunInventory::of(archives.iter().map(|(name, place)| {
            ListedFile {
                name: name.clone(),
                size: place.found.size,
                sha256: place
                    .artifact
                    .sha256
                    .filter(|_| place.found.packing == ParcelPacking::Bare),
                etag: None,
            }
        }));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.archives = archives;
        Ok(inventory)
    }
}

impl ArchiveSource for RunArtifacts<'_> {
    fn inventory(&self) -> Result<RunInventory> {
        match self.list() {
            Err(error)
                if self.role == ArtifactRole::Second && Exit::of(&error) == Exit::CouldNotTry =>
            {
                let hints = hints(&error).join("; ");
                let hints = Some(hints).filter(|it| !it.is_empty());
                let hints = hints.map(|it| format!(" ({it})")).unwrap_or_default();
                let error = one_line(&error);
                self.announce(format!("only the bucket was looked in: {error}{hints}"));
                Ok(RunInventory::default())
            }
            listed => listed,
        }
    }

    fn parcels(&self, archives: &[ArtifactArchive], _: &Concurrency) -> Result<Vec<Parcel>> {
        let mut parcels: BTreeMap<u64, Parcel> = BTreeMap::new();
        for archive in archives {
            let ArtifactBlobPlace { artifact, found } = self.place(&archive.file_name())?;
            let parcel = parcels.entry(artifact.id).or_insert_with(|| Parcel {
                id: artifact.name.clone(),
                size: artifact.size,
                sha256: artifact.sha256.into_iter().collect(),
                checksum: None,
                // GitHub has no ETag for an artifact, but uploading it again creates a new id.
                etag: Some(artifact.id.to_string()),
                members: Vec::new(),
            });
            parcel.members.push(ZipMember {
                archive: archive.clone(),
                packing: found.packing,
            });
        }
        let mut parcels: Vec<Parcel> = parcels.into_values().collect();
        for parcel in &mut parcels {
            parcel.members.sort_by_key(|member| match member.packing {
                ParcelPacking::Bare => 0,
                ParcelPacking::Zip(span) => span.header_at,
            });
        }
        parcels.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(parcels)
    }

    fn open(&self, parcel: &Parcel) -> Result<Box<dyn io::Read + Send + '_>> {
        let first = parcel.members.first().context("nothing is wanted of it")?;
        let ArtifactBlobPlace { artifact, .. } = self.place(&first.archive.file_name())?;
        let blob = self
            .github()?
            .open(&self.repository, &artifact, 0..artifact.size)?;
        Ok(Box::new(blob))
    }
}

impl ArchiveInArtifact {
    /// Whether two archives are the same: size and CRC-32 are equal. Only members of zip files
    /// have a CRC-32 in the listing.
    fn is_like(&self, other: &Self) -> bool {
        let crc32 = |found: &Self| match found.packing {
            ParcelPacking::Bare => None,
            ParcelPacking::Zip(span) => Some(span.crc32),
        };
        self.size == other.size && crc32(self).is_some() && crc32(self) == crc32(other)
    }
}

impl From<Zipped> for ArchiveInArtifact {
    fn from(zipped: Zipped) -> Self {
        Self {
            name: zipped.name,
            size: zipped.size,
            packing: ParcelPacking::Zip(zipped.span),
        }
    }
}

fn bare(name: &str, size: u64) -> Vec<ArchiveInArtifact> {
    let found = ArchiveName::of_file(name)
        .ok()
        .map(|name| ArchiveInArtifact {
            name,
            size,
            packing: ParcelPacking::Bare,
        });
    found.into_iter().collect()
}

/// Whether an artifact may have archives for a platform. Jobs for Linux and Windows upload to one
/// run: an artifact with the word `windows` or `linux` in its name is for that platform only.
fn is_for(name: &str, platform: Platform) -> bool {
    let lower = name.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let is_platform = |word: &str| Platform::ALL.iter().any(|it| it.as_str() == word);
    let named: Vec<&str> = words.by_ref().filter(|word| is_platform(word)).collect();
    named.is_empty() || named.contains(&platform.as_str())
}

impl fmt::Display for RunArtifacts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "GitHub's artifacts of run {} of {}",
            self.run, self.repository
        )
    }
}

impl fmt::Debug for RunArtifacts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunArtifacts")
            .field("repository", &self.repository)
            .field("run", &self.run)
            .finish_non_exhaustive()
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
