//! Finds what a lock lacks: every requirement of every wheel of it, and of the wheels of given sets,
//! must have a version in the lock or in a set, for each environment. Pure.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{
    environment::PythonPlatform,
    lock::DepsLock,
    wishes::{Wishes, is_of_runs},
};
use crate::{
    error::one_line,
    run::Platform,
    version::Version,
    wheel::{DistName, PackageFilename, RequirementLine},
};

/// A wheel or sdist of a set, and what it needs.
#[derive(Clone, Debug)]
pub struct SetPackage {
    pub name: PackageFilename,
    pub requires_python: Option<String>,
    pub requires: Vec<String>,
}

impl SetPackage {
    pub(super) fn fits(&self, environment: PythonPlatform) -> bool {
        let python = self.requires_python.as_deref();
        environment.fit(&self.name).is_some() && environment.is_supported(python)
    }

    /// `torch 2.12.0`
    pub(super) fn shown(&self) -> String {
        format!("{} {}", self.name.name, self.name.version)
    }
}

/// The platforms that sets are for: those of their wheels for one platform, if they have any.
pub(super) fn platforms(sets: &[SetPackage]) -> Vec<Platform> {
    let tags = || sets.iter().filter_map(|it| it.name.tag.as_ref());
    let is_for = |platform: &Platform| {
        tags().any(|tag| match platform {
            Platform::Linux => tag.platform().contains("linux"),
            Platform::Windows => tag.platform().contains("win_"),
        })
    };
    let found: Vec<Platform> = Platform::ALL.into_iter().filter(is_for).collect();
    if found.is_empty() {
        Platform::ALL.into()
    } else {
        found
    }
}

/// Something that an installer may choose in an environment.
struct Offer<'a> {
    project: &'a DistName,
    version: &'a Version,
    requires: &'a [String],
}

/// What is open, each with the environments in which it is.
pub fn open_requirements(
    lock: &DepsLock,
    wishes: Option<&Wishes>,
    sets: &[SetPackage],
) -> Vec<String> {
    let is_limited = wishes.is_some_and(|it| it.is_limited);
    let mut environments = if is_limited {
        BTreeSet::new()
    } else {
        lock.environments()
    };
    environments.extend(wishes.iter().flat_map(|it| it.environments()));
    let for_sets = platforms(sets);
    let mut open: BTreeMap<String, BTreeSet<PythonPlatform>> = BTreeMap::new();
    for environment in environments {
        let sets = if for_sets.contains(&environment.platform) {
            sets
        } else {
            &[]
        };
        let found = open_in(environment, lock, wishes, sets);
        for text in found {
            open.entry(text).or_default().insert(environment);
        }
    }
    let line = |(text, environments): (String, BTreeSet<PythonPlatform>)| {
        format!("{text} ({})", environments.iter().join(", "))
    };
    open.into_iter().map(line).collect()
}

fn open_in(
    environment: PythonPlatform,
    lock: &DepsLock,
    wishes: Option<&Wishes>,
    sets: &[SetPackage],
) -> Vec<String> {
    let locked = lock.files.iter();
    let locked = locked.filter(|it| it.environments.contains(&environment));
    let locked = locked.map(|it| Offer {
        project: &it.project,
        version: &it.version,
        requires: &it.requires,
    });
    let of_sets = sets.iter().filter(|it| it.fits(environment));
    let of_sets = of_sets.map(|it| Offer {
        project: &it.name.name,
        version: &it.name.version,
        requires: &it.requires,
    });
    let offers: Vec<Offer<'_>> = locked.chain(of_sets).collect();
    let extras = extras(&offers);
    let mut found = Vec::new();
    for wish in wishes.iter().flat_map(|it| it.of(environment)) {
        found.extend(lacks(
            (&offers, lock),
            &wish.name,
            &wish.version,
            "deps.toml",
        ));
    }
    let none = BTreeSet::new();
    for offer in &offers {
        let by = format!("{} {}", offer.project, offer.version);
        let extras = extras.get(offer.project).unwrap_or(&none);
        for text in offer.requires {
            let Some(line) = RequirementLine::parse(text) else {
                found.push(format!(
                    "{by} has a requirement that cannot be read: {text:?}"
                ));
                continue;
            };
            match line.applies(&environment, extras) {
                Ok(false) => {}
                Ok(true) => found.extend(lacks((&offers, lock), &line.name, line.specifier, &by)),
                Err(error) => found.push(format!("{by}: {}", one_line(&error))),
            }
        }
    }
    found
}

/// The extras of each project that any requirement asks for.
fn extras(offers: &[Offer<'_>]) -> BTreeMap<DistName, BTreeSet<DistName>> {
    let mut extras: BTreeMap<DistName, BTreeSet<DistName>> = BTreeMap::new();
    let lines = offers.iter().flat_map(|it| it.requires);
    for line in lines.filter_map(|it| RequirementLine::parse(it)) {
        extras
            .entry(line.name.clone())
            .or_default()
            .extend(line.extras());
    }
    extras
}

/// What is wrong if no offer fulfils a requirement.
fn lacks(
    (offers, lock): (&[Offer<'_>], &DepsLock),
    name: &DistName,
    specifier: &str,
    by: &str,
) -> Option<String> {
    let versions = || {
        offers
            .iter()
            .filter(|it| it.project == name)
            .map(|it| it.version)
    };
    let mut fulfilling = versions().filter(|it| it.fulfils(specifier) == Some(true));
    if fulfilling.next().is_some() {
        return None;
    }
    let there = versions().sorted().dedup().join(", ");
    let elsewhere = lock.files.iter().filter(|it| it.project == *name);
    let elsewhere = elsewhere.map(|it| match &it.requires_python {
        Some(python) => format!("{} (Python {python})", it.version),
        None => it.version.to_string(),
    });
    let elsewhere = elsewhere.unique().join(", ");
    Some(if !there.is_empty() {
        format!("{by} needs `{name}{specifier}`, and {there} is there")
    } else if is_of_runs(name) {
        format!("{by} needs `{name}{specifier}`, which the set does not have")
    } else if !elsewhere.is_empty() {
        format!("{by} needs `{name}{specifier}`, and the lock has only {elsewhere}")
    } else {
        format!("{by} needs `{name}{specifier}`, which is not in the lock")
    })
}
