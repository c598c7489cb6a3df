//! The source for artifacts that GitHub keeps for a run (`actions/upload-artifact`): an artifact is
//! either one archive as it is, or a zip file with several archives.
//!
//! The archives in a zip file are found from its central directory, which is at the end of the file.
//! Only that part is read, in ranges, so nothing of a remote file is downloaded in vain.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::{self, Read, Seek},
    num::NonZeroUsize,
    ops::Range,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use itertools::Itertools as _;
use zip::ZipArchive;

use super::source::{
    ArchiveSource, ArtifactArchive, Inventory, Parcel, ZipMember, archive_name, one_each,
};
use crate::{
    artifact::ArchiveName,
    console::World,
    error::{Context as _, Error, Exit, Hint as _, No, Result, Stop, hints, one_line},
    github::{ApiSettings, GitHub, RunArtifact},
    parallel,
    relpath::RelPath,
    run::{Platform, Repository, Run},
    store::{FIRST_PIECE, Ranged, StoreError, http::HttpClient},
};

/// How many artifacts are inspected at once.
const LOOKS: NonZeroUsize = NonZeroUsize::new(8).unwrap();
/// The length and the first bytes of the record at the end of a zip file, to which GitHub adds no comment.
const ZIP_END: usize = 22;
const ZIP_END_MAGIC: &[u8] = b"PK\x05\x06";

/// A connection to the GitHub server of a run, made when the first request is due: the token may
/// come from another program.
pub struct LazyGitHub<'a> {
    settings: Box<dyn Fn() -> Result<ApiSettings> + Send + Sync + 'a>,
    /// With the client of the servers that keep the bytes of artifacts. They never get the token.
    connected: OnceLock<(GitHub, HttpClient)>,
}

impl<'a> LazyGitHub<'a> {
    pub fn new(settings: impl Fn() -> Result<ApiSettings> + Send + Sync + 'a) -> Arc<Self> {
        Arc::new(Self { settings: Box::new(settings), connected: OnceLock::new() })
    }

    pub(super) fn get(&self, world: &World) -> Result<&GitHub> {
        Ok(&self.connected(world)?.0)
    }

    fn connected(&self, world: &World) -> Result<&(GitHub, HttpClient)> {
        if let Some(connected) = self.connected.get() {
            return Ok(connected);
        }
        let announce = world.console.notes();
        let github = GitHub::connect((self.settings)()?, world.stop.clone(), announce)?;
        let storage = storage_client(&github, &world.stop)?;
        Ok(self.connected.get_or_init(|| (github, storage)))
    }

    fn open(
        &self,
        run: &Run,
        artifact: &RunArtifact,
        range: Range<u64>,
        world: &World,
    ) -> Result<Box<dyn Read + Send + '_>> {
        let (github, storage) = self.connected(world)?;
        open_artifact(github, storage, &run.repository, artifact, range)
    }
}

/// A client for the servers that keep the bytes of artifacts.
pub fn storage_client(github: &GitHub, stop: &Stop) -> Result<HttpClient> {
    let waits = github.waits();
    HttpClient::new(waits.backoff, waits.silence, stop.clone())
        .context("failed to prepare to ask for artifacts")
}

/// Opens a range of an artifact. The range must not be empty. If a response breaks off, reading resumes
/// where it ended, as long as the artifact has not changed.
pub fn open_artifact<'a>(
    github: &'a GitHub,
    storage: &HttpClient,
    repository: &Repository,
    artifact: &RunArtifact,
    range: Range<u64>,
) -> Result<Box<dyn Read + Send + 'a>> {
    let name = format!("artifact {} of {repository}", artifact.name);
    let (repository, of) = (repository.clone(), artifact.clone());
    let place = name.clone();
    let locate = move || {
        let (repository, of, place) = (repository.clone(), of.clone(), place.clone());
        let locate = async move {
            let located = github.locate_artifact(&repository, of.id).await;
            let boxed = |error: Error| error.reallocate_into_boxed_dyn_error_without_backtrace();
            located.map_err(|error| StoreError::failed(place, boxed(error)))
        };
        Box::pin(locate) as _
    };
    Ok(storage.open_expiring(&name, artifact.size, locate, range)?)
}

/// The artifacts of a run on GitHub that may contain archives for its platform.
pub(super) struct RunArtifacts<'a> {
    pub github: Arc<LazyGitHub<'a>>,
    pub world: &'a World,
    pub run: Run,
    /// Whether the bucket was searched first and has none. If GitHub cannot be asked then, that is
    /// only a note: the error is that the bucket has no artifacts.
    pub after_bucket: bool,
    /// The archives in each inspected artifact, by its id. They are cached: an artifact never
    /// changes.
    pub inside: Mutex<BTreeMap<u64, Inventory>>,
}

impl RunArtifacts<'_> {
    fn list(&self) -> Result<Inventory> {
        let github = self.github.get(self.world)?;
        let mut artifacts = github.artifacts(&self.run.repository, &self.run.id)?;
        artifacts.retain(|it| is_for(&it.name, self.run.platform));
        artifacts.sort_by_key(|artifact| artifact.id);
        let (kept, expired): (Vec<_>, Vec<_>) = artifacts.into_iter().partition(|it| !it.expired);
        if kept.is_empty() && !expired.is_empty() {
            return Err(No(format!("{self} have expired")))
                .hint("take a newer run, or have its jobs run again");
        }
        if !expired.is_empty() {
            let names = expired.iter().map(|it| format!("`{}`", it.name));
            let names = names.sorted().join(", ");
            let note = format!("expired, and so left out: {names}");
            self.world.console.note(note);
        }
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |it: &&RunArtifact| !inside.contains_key(&it.id);
        let new: Vec<&RunArtifact> = kept.iter().filter(is_new).collect();
        parallel::try_each(
            &new,
            LOOKS,
            &self.world.stop,
            |artifact| self.inside(artifact),
            |artifact, found| drop(inside.insert(artifact.id, found)),
        )?;
        // If several artifacts have the same archive, the one uploaded last is used.
        let found = || kept.iter().filter_map(|it| inside.get(&it.id));
        let archives: BTreeMap<String, ArtifactArchive> = found()
            .flat_map(|it| &it.archives)
            .map(|it| (it.name.to_string(), it.clone()))
            .collect();
        Ok(Inventory {
            archives: one_each(archives.into_values()),
            unknown: found().flat_map(|it| it.unknown.clone()).collect(),
        })
    }

    /// The archives in an artifact.
    fn inside(&self, artifact: &RunArtifact) -> Result<Inventory> {
        let read = |range: Range<u64>| -> Result<_> {
            let mut bytes = Vec::new();
            let opened = self.github.open(&self.run, artifact, range, self.world);
            opened?.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let archive = |name: ArchiveName, zipped: Option<ZipMember>| ArtifactArchive {
            name,
            size: zipped.map_or(artifact.size, |member| member.size),
            key: artifact.name.clone(),
            sha256: artifact.sha256,
            // GitHub has no ETag for an artifact, but uploading it again creates a new id.
            etag: Some(artifact.id.to_string()),
            sidecar: false,
            upload: Some(artifact.clone()),
            zipped,
        };
        let look = || -> Result<Inventory> {
            let (size, mut unknown) = (artifact.size, BTreeSet::new());
            if size == 0 {
                return Ok(Inventory::default());
            }
            let end = read(size.saturating_sub(FIRST_PIECE)..size)?;
            let record = end.len().checked_sub(ZIP_END).and_then(|at| end.get(at..));
            if record.is_none_or(|it| !it.starts_with(ZIP_END_MAGIC)) {
                // An artifact that was uploaded as a single file has the name of the file.
                let name = archive_name(&artifact.name, &mut unknown);
                let archives = name.map(|name| archive(name, None)).into_iter().collect();
                return Ok(Inventory { archives, unknown });
            }
            let mut total = 0;
            let ranged = Ranged::new(size, |range| {
                total += range.end - range.start;
                if total > MOST_OF_A_DIRECTORY {
                    return Err(io::Error::other("its directory is too long"));
                }
                read(range).map_err(io::Error::other)
            });
            let found = archives(ranged.with_end(end), &mut unknown)?.into_iter();
            let archives = found.map(|(name, member)| archive(name, Some(member)));
            let archives = archives.collect();
            Ok(Inventory { archives, unknown })
        };
        look().with_context(|| format!("failed to read artifact `{}`", artifact.name))
    }
}

impl ArchiveSource for RunArtifacts<'_> {
    fn is_github(&self) -> bool {
        true
    }

    fn inventory(&self) -> Result<Inventory> {
        self.list().or_else(|error| {
            if !self.after_bucket || Exit::of(&error) != Exit::CouldNotTry {
                return Err(error);
            }
            let hints = hints(&error).join("; ");
            let hints = Some(hints).filter(|it| !it.is_empty());
            let hints = hints.map(|it| format!(" ({it})")).unwrap_or_default();
            let error = one_line(&error);
            let note = format!("only the bucket was looked in: {error}{hints}");
            self.world.console.note(note);
            Ok(Inventory::default())
        })
    }

    fn open(&self, parcel: &Parcel) -> Result<Box<dyn io::Read + Send + '_>> {
        let upload = parcel.members.first().and_then(|it| it.upload.as_ref());
        let artifact = upload.with_context(|| format!("`{}` is not on GitHub", parcel.id))?;
        let whole = 0..artifact.size;
        self.github.open(&self.run, artifact, whole, self.world)
    }
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

/// The limit for reading a central directory. No upload needs more, but a damaged or hostile file
/// could ask for any size.
const MOST_OF_A_DIRECTORY: u64 = 64 << 20;

/// Lists the archives of artifacts in a zip file, in all of its directories. Other members are ignored,
/// but archives of unknown names go to `unknown`.
pub(super) fn archives(
    zip: impl Read + Seek,
    unknown: &mut BTreeSet<String>,
) -> Result<Vec<(ArchiveName, ZipMember)>> {
    let zip = ZipArchive::new(zip).context("not a zip file that can be read")?;
    let mut archives = Vec::new();
    for index in 0..zip.len() {
        let entry = zip.by_index_data(index)?;
        let path = entry.name()?;
        let last = path.rsplit(['/', '\\']).next().unwrap_or_default();
        let Some(name) = archive_name(last, unknown) else {
            continue;
        };
        let _: RelPath = path.parse().context("a member that must not be unpacked")?;
        let member = ZipMember { index, size: entry.size() };
        archives.push((name, member));
    }
    Ok(archives)
}

#[cfg(test)]
mod tests;
