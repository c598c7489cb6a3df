//! A whole fetch. [`FetchRequest`] says what the user asked for. `decide` makes a [`FetchJob`] of it: which
//! parcels to download, and which artifacts are on disk already. `carry_out` downloads all due parcels,
//! several at once.

use std::{
    collections::BTreeSet,
    fmt,
    num::NonZeroUsize,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use itertools::Itertools as _;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::{
    download::{DownloadContext, Received, receive},
    found::FoundRun,
    output::{FetchState, Fetched, OutputDir, OutputForm},
    query::FetchRequest,
    source::{ArchiveSource, ArtifactArchive, Parcel, list_parcels},
};
use crate::{artifact::ArtifactName, console::World};
use rocwheel_base::{
    atomic::{
        self,
        lock::{Lock, LockPurpose},
    },
    error::{Error, Hint as _, No, Result, anyhow, hinted, hints, one_line},
    parallel,
    quantity::{few, many, rate, size, took},
};

/// Why a parcel is downloaded, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum FetchReason {
    New,
    /// An artifact of this name exists, but with other bytes or from another place.
    Changed,
    /// The artifact is on disk and complete.
    Same,
}

/// How many archives are asked for their digests at once. An answer is a few bytes.
const QUESTIONS: NonZeroUsize = NonZeroUsize::new(64).unwrap();
/// How often finished artifacts are recorded. Each record waits until their bytes are on the disk. If a
/// fetch is killed, the next fetch downloads again what was not recorded.
const RECORDING: Duration = Duration::from_secs(1);

/// A decided fetch: what to download from which source, and the output directory.
pub struct FetchJob<'a> {
    /// The run that the artifacts belong to, and what is known about it.
    pub found: FoundRun,
    /// The place that the artifacts come from.
    pub from: String,
    steps: Vec<FetchStep>,
    request: FetchRequest<'a>,
    source: Arc<dyn ArchiveSource + 'a>,
    output: OutputDir,
    /// Held until the job is dropped, so that no other fetch changes the artifacts while they are
    /// used.
    lock: Option<Lock>,
}

/// A parcel, and why it is downloaded or not.
struct FetchStep {
    reason: FetchReason,
    parcel: Parcel,
}

impl<'a> FetchRequest<'a> {
    /// Lists the artifacts of the run, selects from them, and compares that with directory `to`.
    /// A dry run takes no lock and changes nothing.
    pub fn decide(
        self,
        to: &Path,
        form: OutputForm,
        is_dry_run: bool,
        world: &'a World,
    ) -> Result<FetchJob<'a>> {
        let (found, choice) = self.choose_run(world)?;
        for lack in choice.lacks.iter().flatten() {
            world.console.warn(lack);
        }
        let source = choice.source;
        let parcels = list_parcels(&*source, choice.selection.archives, QUESTIONS, &world.stop)?;
        // Take the lock before reading the state: until then, another fetch may change both the
        // state and the files.
        let lock = if is_dry_run { None } else { Some(Lock::take(to, LockPurpose::Fetch)?) };
        let output = if lock.as_ref().is_some_and(Lock::is_held) {
            OutputDir::open_cleared(to, form)?
        } else {
            OutputDir::open(to, form)?
        };
        let from = source.to_string();
        let steps = parcels
            .into_iter()
            .map(|parcel| {
                Ok(FetchStep { reason: FetchReason::of(&parcel, &from, &output)?, parcel })
            })
            .collect::<Result<_>>()?;
        let job = FetchJob { found, from, steps, request: self, source, output, lock };
        // A tree is made once: the files of its artifacts are no longer apart, so none can be replaced.
        if job.output.is_tree && !job.due().is_empty() {
            return Err(anyhow!("`{}` is a tree of other artifacts", to.display()))
                .hint("choose another `--output-dir`, or remove this one");
        }
        if form == OutputForm::Merged && !job.output.is_tree {
            job.output.ensure_room_for_tree()?;
        }
        Ok(job)
    }
}

impl FetchJob<'_> {
    /// Downloads what is due and, with `--flatten`, merges it into one tree.
    pub fn carry_out(&self, world: &World) -> Result<()> {
        if let Some(lock) = &self.lock
            && !self.due().is_empty()
        {
            lock.ensure_writable()?;
        }
        if self.output.is_tree {
            return Ok(());
        }
        let wanted = self.wanted();
        let packages = self.request.wish.packages();
        let mut due = self.due();
        if !due.is_empty() {
            self.check_space()?;
        }
        let mut state = self.output.state.clone();
        let due_names = due
            .iter()
            .flat_map(|parcel| &parcel.members)
            .map(|archive| self.output.form.name(archive))
            .collect();
        let foreign = self.found.foreign.as_ref();
        state.begin(&self.from, foreign, wanted.clone(), &due_names, packages)?;
        if !due.is_empty() {
            // Start the largest first: if a large download started last, it would run alone at the end.
            due.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
            self.download(&due, &mut state, world)?;
        }
        state.end(packages)?;
        if self.output.form == OutputForm::Merged {
            state.fetched.retain(|name, _| wanted.contains(name));
            let jobs = self.request.downloads;
            self.output.merge(&wanted, &state, jobs, world)?;
        }
        Ok(())
    }

    /// Fails if not even the archives fit. How much space their contents need is known only after they
    /// are unpacked.
    fn check_space(&self) -> Result<()> {
        let root = &self.output.root;
        let needed = self.size();
        // Some systems do not report the free space. Try then: a full disk fails later anyway.
        let Some(free) = atomic::free_space(root).filter(|free| *free < needed) else {
            return Ok(());
        };
        Err(anyhow!(
            "not enough space for `{}`: needs {} for the archives alone, has {}",
            root.display(),
            size(needed),
            size(free)
        ))
        .hint("choose another directory, or fetch less")
    }

    /// Downloads the due parcels. A failed parcel does not end the others; all failures are
    /// reported together at the end.
    fn download(&self, due: &[&Parcel], state: &mut FetchState, world: &World) -> Result<()> {
        let start = Instant::now();
        let console = &world.console;
        let bytes = self.size();
        let mut failures = Vec::new();
        let mut unverified = BTreeSet::new();
        // The artifacts that are complete and not recorded yet, and the time of the last record.
        let mut finished = Vec::new();
        let mut last_record = Instant::now();
        let progress = console.progress_in_parts("Fetching", &self.source, due.len(), bytes);
        let work = |parcel: &&Parcel| {
            progress.begin(&parcel.id);
            let context = DownloadContext {
                directory: &self.output.work,
                kept: self.output.form,
                stop: &world.stop,
                progress: &|bytes| progress.inc(bytes),
            };
            let received = receive(&*self.source, parcel, &context);
            progress.finish_part();
            Ok(received)
        };
        // `done` runs on one thread, because recording waits for the disk. The workers continue to
        // download meanwhile.
        let done = |parcel: &&Parcel, received: Result<Received>| match received {
            Ok(received) => {
                unverified.extend(received.unverified);
                let files =
                    received.artifacts.iter().map(|(_, fetched)| fetched.extent.files).sum();
                let files = many(files, "file");
                let facts = format!("{}: {}, {files}", parcel.id, size(parcel.size));
                console.item("Fetched", facts);
                finished.extend(received.artifacts);
                if last_record.elapsed() > RECORDING {
                    failures.extend(state.record(&mut finished).err());
                    last_record = Instant::now();
                }
            }
            Err(error) => failures.push(error),
        };
        let jobs = self.request.downloads;
        let fetched = parallel::try_each(due, jobs, &world.stop, work, done);
        drop(progress);
        // After an interruption too, so that the next fetch keeps the complete artifacts.
        let recorded = state.record(&mut finished);
        fetched.and(recorded)?;
        if !unverified.is_empty() {
            let count = many(unverified.len(), "archive");
            let names = few(unverified.iter().map(|name| format!("`{name}`")));
            console.warn(format!(
                "{count} fetched without any checksum, so damage would not be detected: {names}"
            ));
        }
        if !failures.is_empty() {
            return Err(join_failures(&failures, due.len()));
        }
        let count = many(due.len(), "archive");
        let total = size(bytes);
        let time = start.elapsed();
        // A time of zero has no rate.
        let rate = match rate(bytes, time) {
            Some(rate) => format!(", {}/s", size(rate)),
            None => String::new(),
        };
        console.status("Finished", format!("{count}, {total} in {}{rate}", took(time)));
        Ok(())
    }

    /// A warning about artifacts in the output directory that are not in the plan and come from
    /// another place; `None` if there are none.
    pub fn others(&self) -> Option<String> {
        let wanted = self.wanted();
        let output = &self.output;
        let mut names = Vec::new();
        let mut places = BTreeSet::new();
        for (name, fetched) in &output.state.fetched {
            if fetched.from != self.from && !wanted.contains(name) && output.has(name) {
                names.push(format!("`{name}`"));
                places.insert(format!("`{}`", fetched.from));
            }
        }
        if names.is_empty() {
            return None;
        }
        Some(format!(
            "`{}` also has {} from {}: {}; remove what does not belong together, or choose another `--output-dir`",
            output.root.display(),
            many(names.len(), "artifact"),
            places.iter().join(" and "),
            few(names.into_iter())
        ))
    }

    /// The artifacts of this job, which are complete on disk after [`FetchJob::carry_out`]. The
    /// directory may have others too.
    pub fn artifacts(&self) -> Vec<&ArtifactName> {
        self.archives().map(|archive| &archive.name.artifact).collect()
    }

    /// The parcels to download.
    fn due(&self) -> Vec<&Parcel> {
        self.steps
            .iter()
            .filter(|step| step.reason != FetchReason::Same)
            .map(|step| &step.parcel)
            .collect()
    }

    /// The names of all wanted artifacts in the output directory.
    fn wanted(&self) -> BTreeSet<String> {
        self.archives().map(|archive| self.output.form.name(archive)).collect()
    }

    /// Number of bytes to download.
    fn size(&self) -> u64 {
        self.due().iter().map(|parcel| parcel.size).sum()
    }

    /// All wanted archives, including those that are on disk already.
    fn archives(&self) -> impl Iterator<Item = &ArtifactArchive> {
        self.steps.iter().flat_map(|step| &step.parcel.members)
    }
}

impl fmt::Display for FetchJob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for FetchStep { reason, parcel } in &self.steps {
            let verb = match reason {
                FetchReason::New => "fetch",
                FetchReason::Changed => "renew",
                FetchReason::Same => "keep",
            };
            for archive in &parcel.members {
                let size = size(archive.size).to_string();
                writeln!(f, "{verb:5} {size:>11} {}", archive.name)?;
            }
        }
        if let Some(line) = &self.found.line {
            writeln!(f, "{line}")?;
        }
        f.write_str(&self.in_short())
    }
}

impl FetchJob<'_> {
    /// `37 archives of 2.40 MiB from s3://… to artifacts; 3 there already`
    pub fn in_short(&self) -> String {
        let due = self.due().len();
        let count = many(due, "archive");
        let size = size(self.size());
        let to = self.output.root.display();
        let kept = match self.steps.len() - due {
            0 => String::new(),
            kept => format!("; {kept} there already"),
        };
        format!("{count} of {size} from {} to {to}{kept}", self.from)
    }
}

impl Serialize for FetchJob<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = |step: &FetchStep, archive: &ArtifactArchive| {
            let artifact = &archive.name.artifact;
            // The digest of a zip file with several archives is the digest of none of them.
            let is_alone = step.parcel.members.len() == 1;
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
                "sha256": step.parcel.digests.sha256.first().filter(|_| is_alone),
                "state": step.reason,
            })
        };
        let rows = self
            .steps
            .iter()
            .flat_map(|step| step.parcel.members.iter().map(move |archive| row(step, archive)));
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

impl FetchReason {
    fn of(parcel: &Parcel, from: &str, output: &OutputDir) -> Result<Self> {
        for archive in &parcel.members {
            if !is_same(parcel, from, output.find_whole(archive)?) {
                let is_on_disk = output.has(&output.form.name(archive));
                return Ok(if is_on_disk { Self::Changed } else { Self::New });
            }
        }
        Ok(Self::Same)
    }
}

/// Whether a fetched artifact has the bytes of `parcel`: by size and SHA-256. If one of the two has
/// no SHA-256, the artifact must come from the same place, with the same `ETag`.
fn is_same(parcel: &Parcel, from: &str, fetched: Option<&Fetched>) -> bool {
    let Some(fetched) = fetched else {
        return false;
    };
    let expected = &parcel.digests.sha256;
    let has_same_bytes = match fetched.sha256 {
        Some(sha256) if !expected.is_empty() => expected.iter().all(|it| *it == sha256),
        _ => fetched.from == from && fetched.etag == parcel.etag,
    };
    fetched.size == parcel.size && has_same_bytes
}

/// Makes one error of the errors of all failed parcels, with a line for each.
fn join_failures(failures: &[Error], tried: usize) -> Error {
    let lines: BTreeSet<String> = failures.iter().map(one_line).collect();
    let mut advice: BTreeSet<String> = failures.iter().flat_map(hints).collect();
    advice.insert("run it again: what is whole is kept".to_owned());
    let title = format!("{} of {} not fetched", failures.len(), many(tried, "archive"));
    let error = Error::new(No::list(title, lines, usize::MAX));
    advice.into_iter().fold(error, hinted)
}
