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
    lock::DepsLock,
    registry::{Registry, RegistryFile},
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
    for version in &resolution.held_back {
        let age = options.min_age.as_secs() / 3600;
        world
            .console
            .note(format!("held back: {version} is younger than {age} h"));
    }
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
    resolution.lock(&known, |file| registry.size(file))
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

/// An error for a file that the registry no longer has as it is locked.
pub(super) fn changed(name: &str, why: impl std::fmt::Display) -> crate::error::Error {
    anyhow!(No(format!("`{name}` is not what was locked: {why}")))
}
