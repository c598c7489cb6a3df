//! Proposes a lock: reads the pages of a registry until every pick is known.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    time::Duration,
};

use itertools::Itertools as _;
use time::OffsetDateTime;

use super::{
    closure::SetPackage,
    concern::{Concern, ConcernKind},
    lock::{DepsLock, LockedFile},
    page::RegistryFile,
    publisher::Publisher,
    registry::Registry,
    resolve::{AgeLimit, KnownProjects, Resolution},
    wishes::Wishes,
};
use crate::{
    console::{World, many},
    error::{Hint as _, No, Result, anyhow},
    parallel,
    set::refusal,
    wheel::DistName,
};

/// Options of `rocwheel deps update`.
#[derive(Debug)]
pub struct UpdateOptions {
    /// Files that are younger are not picked, unless `deps.toml` names their version.
    pub min_age: Duration,
    /// Projects that may be picked although neither `deps.toml` nor the earlier lock names them.
    pub allow: Vec<DistName>,
    pub deny: Vec<ConcernKind>,
    pub jobs: NonZeroUsize,
}

/// The newest files that fulfil the wishes, the sets, and each other.
pub fn update(
    wishes: &Wishes,
    earlier: &DepsLock,
    sets: Vec<SetPackage>,
    registry: &Registry,
    options: &UpdateOptions,
    world: &World,
) -> Result<DepsLock> {
    let age = AgeLimit {
        now: OffsetDateTime::now_utc(),
        youngest: options.min_age.try_into()?,
    };
    let mut known = KnownProjects {
        sets,
        ..KnownProjects::default()
    };
    let resolution = loop {
        let resolution = Resolution::of(wishes, &known, age);
        if resolution.is_complete() {
            break resolution;
        }
        look_up(&resolution, &mut known, registry, options.jobs, world)?;
    };
    ensure_same(earlier, &known)?;
    let hours = options.min_age.as_secs() / 3600;
    let held_back = resolution.held_back.iter().map(|version| Concern {
        kind: ConcernKind::Age,
        text: format!("held back: {version} is younger than {hours} h"),
    });
    Concern::tell(held_back.collect(), &options.deny, world)?;
    let mut problems = resolution.problems();
    let unknown = unknown_names(&resolution, wishes, earlier, &options.allow);
    problems.extend(unknown.iter().map(|(name, by)| {
        format!("`{name}` is new, and `deps.toml` does not name it: {by} needs it")
    }));
    let count = many(problems.len(), "requirement");
    if let Some(refusal) = refusal(
        format!("{count} of the base index cannot be fulfilled"),
        problems,
    ) {
        let names = unknown
            .iter()
            .map(|(name, _)| format!("`--allow {name}`"))
            .join(" ");
        return Err(refusal).hint(if unknown.is_empty() {
            "change `deps.toml`".to_owned()
        } else {
            format!("name it in `deps.toml`, or pass {names}")
        });
    }
    let facts = |file: &&RegistryFile| {
        let publisher = registry.provenance(file)?.map(|(_, publisher)| publisher);
        Ok((registry.size(file)?, publisher))
    };
    let facts = parallel::try_map(&resolution.files(), options.jobs, &world.stop, facts)?;
    let lock = resolution.lock(&known, facts);
    let mut concerns = publisher_changes(earlier, &lock);
    if !options.min_age.is_zero() {
        concerns.extend(without_age(&lock, wishes));
    }
    Concern::tell(concerns, &options.deny, world)?;
    Ok(lock)
}

/// Fails if the registry has other bytes under a locked name: an attack, or a fault of the registry.
fn ensure_same(earlier: &DepsLock, known: &KnownProjects) -> Result<()> {
    for locked in &earlier.files {
        let page = known.pages.get(&locked.project).and_then(Option::as_ref);
        let mut files = page.iter().flat_map(|it| &it.files);
        let file = files.find(|it| it.name.to_string() == locked.name);
        if let Some(file) = file {
            ensure_locked(locked, file)?;
        }
    }
    Ok(())
}

/// Projects whose files have other publishers than before.
fn publisher_changes(earlier: &DepsLock, lock: &DepsLock) -> Vec<Concern> {
    let locked = |file: &LockedFile| -> Vec<&Publisher> {
        let files = earlier.files.iter().filter(|it| it.project == file.project);
        files.filter_map(|it| it.publisher.as_ref()).collect()
    };
    let changes = lock.files.iter().filter_map(|file| {
        let (locked, now) = (locked(file), file.publisher.as_ref());
        let is_same = locked.is_empty() || now.is_some_and(|it| locked.contains(&it));
        let what = format!("{} {}", file.project, file.version);
        (!is_same).then(|| Concern::of_publisher(&what, now, locked.into_iter()))
    });
    changes.unique_by(ToString::to_string).collect()
}

/// Says that nothing is known of the age of some files.
fn without_age(lock: &DepsLock, wishes: &Wishes) -> Option<Concern> {
    let files = lock.files.iter().filter(|it| it.upload_time.is_none());
    let projects = files.map(|it| &it.project).filter(|it| !wishes.pins(it));
    let projects = projects.unique().join(", ");
    (!projects.is_empty()).then(|| Concern {
        kind: ConcernKind::Age,
        text: format!("the registry does not say when these were uploaded: {projects}"),
    })
}

/// Picked projects that nothing allows, and who asks for each. A dependency of a dependency must not
/// come in unseen.
fn unknown_names(
    resolution: &Resolution,
    wishes: &Wishes,
    earlier: &DepsLock,
    allow: &[DistName],
) -> Vec<(DistName, String)> {
    let locked = earlier.files.iter().map(|it| &it.project);
    let named: BTreeSet<&DistName> = wishes.names().chain(locked).chain(allow).collect();
    let projects = resolution.projects().into_iter();
    let unknown = projects.filter(|(name, _)| !named.contains(name));
    unknown
        .map(|(name, by)| (name.clone(), by.to_owned()))
        .collect()
}

/// Reads the pages and the metadata that a resolution lacks.
fn look_up(
    resolution: &Resolution,
    known: &mut KnownProjects,
    registry: &Registry,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<()> {
    let names: Vec<DistName> = resolution.unknown_projects.iter().cloned().collect();
    let pages = parallel::try_map(&names, jobs, &world.stop, |name| registry.project(name))?;
    for (name, page) in names.into_iter().zip(pages) {
        let status = page.as_ref().and_then(|it| it.status.as_deref());
        if let Some(status) = status {
            let text = format!("the registry says that `{name}` is {status}");
            world.console.warn(text);
        }
        world.console.debug(format!("read the page of {name}"));
        known.pages.insert(name, page);
    }
    let files: Vec<&RegistryFile> = resolution.unknown_files.values().collect();
    let read = |file: &&RegistryFile| Ok(registry.metadata(file)?.requires_dist);
    let requires = parallel::try_map(&files, jobs, &world.stop, read)?;
    let names = files.iter().map(|file| file.name.to_string());
    known
        .requires
        .extend(names.zip(requires).collect::<BTreeMap<_, _>>());
    Ok(())
}

/// A negative answer about a lock that does not fulfil everything.
pub fn ensure_closed(open: Vec<String>) -> Result<()> {
    let count = many(open.len(), "requirement");
    match refusal(format!("{count} without a version in the lock"), open) {
        Some(refusal) => Err(refusal).hint("run `rocwheel deps update`"),
        None => Ok(()),
    }
}

/// Fails if a file of the registry does not have the locked digest.
pub(super) fn ensure_locked(locked: &LockedFile, file: &RegistryFile) -> Result<()> {
    if file.sha256 == locked.sha256 {
        return Ok(());
    }
    let (was, now) = (locked.sha256, file.sha256);
    let why = format!("its sha256 was {was}, and is {now} now");
    Err(changed(&locked.name, why))
}

/// An error for a file that the registry no longer has as it is locked.
pub(super) fn changed(name: &str, why: impl std::fmt::Display) -> crate::error::Error {
    anyhow!(No(format!("`{name}` is not what was locked: {why}")))
}
