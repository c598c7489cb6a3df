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
    ArchiveSource, ArtifactArchive, Inventory, Parcel, ZipMember, archive_name, choose_formats,
};
use crate::{
    artifact::ArchiveName,
    console::World,
    github::{ApiSettings, GitHub, RunArtifact},
    run::{Platform, Repository, Run},
};
use rocwheel_base::{
    error::{Context as _, Exit, Hint as _, No, Result, Stop, hints, one_line},
    parallel,
    relpath::RelPath,
};
use rocwheel_store::{FIRST_PIECE, Ranged, StoreError, http::HttpClient};

/// How many artifacts are inspected at once.
const INSPECTIONS: NonZeroUsize = NonZeroUsize::new(8).unwrap();
/// The length and the first bytes of the record at the end of a zip file, to which GitHub adds no comment.
const ZIP_END: usize = 22;
const ZIP_END_MAGIC: &[u8] = b"PK\x05\x06";

/// A connection to the GitHub server of a run, made when the first request is due: the token may
/// come from another program.
pub struct LazyGitHub<'a> {
    settings: Box<dyn Fn() -> Result<ApiSettings> + Send + Sync + 'a>,
    connected: OnceLock<Connection>,
}

struct Connection {
    github: GitHub,
    /// The client of the servers that keep the bytes of artifacts. They never get the token.
    storage: HttpClient,
}

impl<'a> LazyGitHub<'a> {
    pub fn new(settings: impl Fn() -> Result<ApiSettings> + Send + Sync + 'a) -> Arc<Self> {
        Arc::new(Self { settings: Box::new(settings), connected: OnceLock::new() })
    }

    pub(super) fn get(&self, world: &World) -> Result<&GitHub> {
        Ok(&self.connect(world)?.github)
    }

    fn connect(&self, world: &World) -> Result<&Connection> {
        if let Some(connection) = self.connected.get() {
            return Ok(connection);
        }
        let announce = world.console.notes();
        let github = GitHub::connect((self.settings)()?, world.stop.clone(), announce)?;
        let storage = storage_client(&github, &world.stop)?;
        // If two threads come here at once, the first connection stays.
        Ok(self.connected.get_or_init(|| Connection { github, storage }))
    }

    fn open(
        &self,
        run: &Run,
        artifact: &RunArtifact,
        range: Range<u64>,
        world: &World,
    ) -> Result<Box<dyn Read + Send + '_>> {
        let Connection { github, storage } = self.connect(world)?;
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
    let repository = repository.clone();
    let id = artifact.id;
    let place = name.clone();
    // The address expires, so GitHub is asked for it again when a read is resumed. Each of these requests
    // outlives this call, and needs values that it owns.
    let locate = move || {
        let repository = repository.clone();
        let place = place.clone();
        let request = async move {
            github.locate_artifact(&repository, id).await.map_err(|error| {
                let cause = error.reallocate_into_boxed_dyn_error_without_backtrace();
                StoreError::failed(place, cause)
            })
        };
        Box::pin(request) as _
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
    /// The archives in each artifact that was inspected, by its id. They stay true: an artifact never
    /// changes.
    pub inspected: Mutex<BTreeMap<u64, Inventory>>,
}

impl RunArtifacts<'_> {
    fn ask(&self) -> Result<Vec<RunArtifact>> {
        self.github.get(self.world)?.artifacts(&self.run.repository, &self.run.id)
    }

    /// Finds the archives in the artifacts of the run.
    fn inspect_all(&self, mut artifacts: Vec<RunArtifact>) -> Result<Inventory> {
        artifacts.retain(|artifact| is_for_platform(&artifact.name, self.run.platform));
        artifacts.sort_by_key(|artifact| artifact.id);
        let (kept, expired): (Vec<_>, Vec<_>) =
            artifacts.into_iter().partition(|artifact| !artifact.expired);
        if kept.is_empty() && !expired.is_empty() {
            return Err(No(format!("{self} have expired")))
                .hint("take a newer run, or have its jobs run again");
        }
        if !expired.is_empty() {
            let names = expired.iter().map(|it| format!("`{}`", it.name)).sorted().join(", ");
            self.world.console.note(format!("expired, and so left out: {names}"));
        }
        let mut inspected = self.inspected.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<&RunArtifact> =
            kept.iter().filter(|artifact| !inspected.contains_key(&artifact.id)).collect();
        let mut unread = Vec::new();
        parallel::try_each(
            &new,
            INSPECTIONS,
            &self.world.stop,
            // An upload that cannot be read need not have what is wanted.
            |artifact| match self.inspect(artifact) {
                Err(error) if Exit::of(&error) == Exit::Interrupted => Err(error),
                inventory => Ok(inventory),
            },
            |artifact, inventory| match inventory {
                Ok(inventory) => _ = inspected.insert(artifact.id, inventory),
                Err(error) => unread.push(error),
            },
        )?;
        let inventories = || kept.iter().filter_map(|artifact| inspected.get(&artifact.id));
        // If several artifacts have the same archive, the archive that was uploaded last is used: it has
        // the highest id, and a map keeps the last value.
        let mut archives: BTreeMap<String, ArtifactArchive> = BTreeMap::new();
        for archive in inventories().flat_map(|inventory| &inventory.archives) {
            let name = archive.name.to_string();
            let uploaded = &archive.key;
            if let Some(earlier) = archives.insert(name.clone(), archive.clone()) {
                let earlier = earlier.key;
                let fact = format!("`{name}` was uploaded more than once, in `{earlier}` and");
                self.world.console.note(format!("{fact} `{uploaded}`: the last one is taken"));
            }
        }
        Ok(Inventory {
            archives: choose_formats(archives.into_values()),
            unknown: inventories().flat_map(|inventory| inventory.unknown.clone()).collect(),
            unread,
        })
    }

    /// Finds the archives in an artifact.
    fn inspect(&self, artifact: &RunArtifact) -> Result<Inventory> {
        let read = |range: Range<u64>| -> Result<_> {
            let mut bytes = Vec::new();
            self.github.open(&self.run, artifact, range, self.world)?.read_to_end(&mut bytes)?;
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
        let inspect = || -> Result<Inventory> {
            let size = artifact.size;
            let mut unknown = BTreeSet::new();
            if size == 0 {
                return Ok(Inventory::default());
            }
            let end = read(size.saturating_sub(FIRST_PIECE)..size)?;
            let record = end.len().checked_sub(ZIP_END).and_then(|start| end.get(start..));
            let is_zip = record.is_some_and(|record| record.starts_with(ZIP_END_MAGIC));
            if !is_zip {
                // An artifact that was uploaded as a single file has the name of the file.
                let archives = archive_name(&artifact.name, &mut unknown)
                    .map(|name| archive(name, None))
                    .into_iter()
                    .collect();
                return Ok(Inventory { archives, unknown, unread: Vec::new() });
            }
            let mut bytes_read = 0;
            let ranged = Ranged::new(size, |range| {
                bytes_read += range.end - range.start;
                if bytes_read > MOST_OF_A_DIRECTORY {
                    return Err(io::Error::other("its directory is too long"));
                }
                read(range).map_err(io::Error::other)
            });
            let archives = list_zipped(ranged.with_end(end), &mut unknown)?
                .into_iter()
                .map(|ZippedArchive { name, member }| archive(name, Some(member)))
                .collect();
            Ok(Inventory { archives, unknown, unread: Vec::new() })
        };
        inspect().with_context(|| format!("failed to read artifact `{}`", artifact.name))
    }
}

impl ArchiveSource for RunArtifacts<'_> {
    fn is_github(&self) -> bool {
        true
    }

    fn inventory(&self) -> Result<Inventory> {
        let error = match self.ask() {
            Ok(artifacts) => return self.inspect_all(artifacts),
            Err(error) => error,
        };
        if !self.after_bucket || Exit::of(&error) == Exit::Interrupted {
            return Err(error);
        }
        let hints = hints(&error);
        let advice =
            if hints.is_empty() { String::new() } else { format!(" ({})", hints.join("; ")) };
        let why = one_line(&error);
        self.world.console.note(format!("only the bucket was looked in: {why}{advice}"));
        Ok(Inventory::default())
    }

    fn open(&self, parcel: &Parcel) -> Result<Box<dyn io::Read + Send + '_>> {
        let artifact = parcel
            .members
            .first()
            .and_then(|archive| archive.upload.as_ref())
            .with_context(|| format!("`{}` is not on GitHub", parcel.id))?;
        let whole = 0..artifact.size;
        self.github.open(&self.run, artifact, whole, self.world)
    }
}

/// Whether an artifact may have archives for a platform. Jobs for Linux and Windows upload to one
/// run: an artifact with the word `windows` or `linux` in its name is for that platform only.
fn is_for_platform(name: &str, platform: Platform) -> bool {
    let lower = name.to_ascii_lowercase();
    let named: Vec<Platform> = lower
        .split(|character: char| !character.is_ascii_alphanumeric())
        .filter_map(|word| word.parse().ok())
        .collect();
    named.is_empty() || named.contains(&platform)
}

impl fmt::Display for RunArtifacts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { id, repository, .. } = &self.run;
        write!(f, "GitHub's artifacts of run {id} of {repository}")
    }
}

/// The limit for reading a central directory. No upload needs more, but a damaged or hostile file
/// could ask for any size.
const MOST_OF_A_DIRECTORY: u64 = 64 << 20;

/// An archive of an artifact in a zip file.
#[derive(Debug)]
pub(super) struct ZippedArchive {
    pub name: ArchiveName,
    pub member: ZipMember,
}

/// Lists the archives of artifacts in a zip file, in all of its directories. Other members are ignored,
/// but archives of unknown names go to `unknown`.
pub(super) fn list_zipped(
    zip: impl Read + Seek,
    unknown: &mut BTreeSet<String>,
) -> Result<Vec<ZippedArchive>> {
    let zip = ZipArchive::new(zip).context("not a zip file that can be read")?;
    let mut archives = Vec::new();
    for index in 0..zip.len() {
        let entry = zip.by_index_data(index)?;
        let path = entry.name()?;
        let file_name = path.rsplit(['/', '\\']).next().unwrap_or_default();
        let Some(name) = archive_name(file_name, unknown) else {
            continue;
        };
        // A path that leads out of the directory is hostile, even if only its last part is used.
        let _: RelPath = path.parse().context("a member that must not be unpacked")?;
        let member = ZipMember { index, size: entry.size() };
        archives.push(ZippedArchive { name, member });
    }
    Ok(archives)
}

#[cfg(test)]
mod tests;
