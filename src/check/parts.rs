//! Splits a set of several families or platforms into the parts that are installed together. Each
//! part is checked as a set of its own.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    check::{self, Finding, SetFacts, WheelFile, facts::NAMES},
    target::Target,
};

/// Packages that are installed together: those of one family on one platform.
pub(super) struct InstallGroup {
    family: Option<String>,
    platform: Option<GroupPlatform>,
    pub(super) set: SetFacts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupPlatform {
    Linux,
    Windows,
}

impl InstallGroup {
    /// ``the set of `gfx94X-dcgpu` for Windows``
    fn label(&self) -> String {
        let family = self.family.as_ref();
        let family = family.map_or(String::new(), |family| format!(" of `{family}`"));
        let platform = match self.platform {
            Some(GroupPlatform::Linux) => " for Linux",
            Some(GroupPlatform::Windows) => " for Windows",
            None => "",
        };
        format!("the set{family}{platform}")
    }

    /// The name of a library in a table with several parts.
    pub(super) fn name(&self, library: &str) -> String {
        match self.platform {
            Some(GroupPlatform::Windows) => format!("{library} (Windows)"),
            _ => library.to_owned(),
        }
    }

    fn has(&self, file: &str) -> bool {
        let mut wheels = self.set.wheels.iter();
        let mut sdists = self.set.sdists.iter();
        wheels.any(|it| it.file == file) || sdists.any(|it| it.file == file)
    }
}

/// The parts of a set, at least one.
pub(super) fn of(set: &SetFacts) -> Vec<InstallGroup> {
    let parts = by_family(set).into_iter();
    parts.flat_map(by_platform).collect()
}

/// A part for each family: the common packages, those in its directory, and its libraries.
fn by_family(all: &SetFacts) -> Vec<InstallGroup> {
    let directory = |file: &str| {
        file.split_once('/')
            .map(|(directory, _)| directory.to_owned())
    };
    let files = all.wheels.iter().map(|it| it.file.as_str());
    let files = files.chain(all.sdists.iter().map(|it| it.file.as_str()));
    let families: BTreeSet<String> = files.filter_map(directory).collect();
    let part = |family: Option<&String>| {
        let is_own = |wheel: &Arc<WheelFile>| match (directory(&wheel.file), family) {
            (Some(own), Some(family)) => own == *family,
            (Some(_), None) => false,
            (None, _) => families
                .iter()
                .all(|other| Some(other) == family || !is_library_of(wheel, other)),
        };
        let wheels = all.wheels.iter().filter(|it| is_own(it));
        let sdists = all.sdists.iter();
        let sdists = sdists.filter(|it| directory(&it.file).is_none_or(|own| Some(&own) == family));
        InstallGroup {
            family: family.cloned(),
            platform: None,
            set: all.with(wheels.cloned().collect(), sdists.cloned().collect()),
        }
    };
    if families.is_empty() {
        return vec![part(None)];
    }
    families.iter().map(|family| part(Some(family))).collect()
}

fn is_library_of(wheel: &WheelFile, family: &str) -> bool {
    let name = wheel.project();
    let suffix = name.and_then(|name| name.strip_prefix(&NAMES.of_family));
    suffix.is_some_and(|suffix| suffix == family.to_lowercase())
}

fn by_platform(part: InstallGroup) -> Vec<InstallGroup> {
    if part.set.platforms().len() < 2 {
        return vec![part];
    }
    let on = |platform| {
        let wheels = part.set.wheels.iter();
        let wheels = wheels.filter(|it| platform_of(it).is_none_or(|own| own == platform));
        InstallGroup {
            family: part.family.clone(),
            platform: Some(platform),
            set: part
                .set
                .with(wheels.cloned().collect(), part.set.sdists.clone()),
        }
    };
    [GroupPlatform::Linux, GroupPlatform::Windows]
        .map(on)
        .into()
}

/// The platform of a wheel. `None` if it is for any platform, or if its name is invalid.
fn platform_of(wheel: &WheelFile) -> Option<GroupPlatform> {
    let platform = match &wheel.name {
        Ok(name) => name.tag().platform().to_owned(),
        Err(_) => wheel.file.clone(),
    };
    match (platform.contains("linux"), platform.contains("win")) {
        (true, false) => Some(GroupPlatform::Linux),
        (false, true) => Some(GroupPlatform::Windows),
        _ => None,
    }
}

/// The targets for which no part has code.
pub(super) fn uncovered(parts: &[InstallGroup], targets: &[Target]) -> Vec<Target> {
    let targets = targets.iter().filter(|target| {
        let mut parts = parts.iter();
        !parts.any(|part| check::covers(&part.set, target))
    });
    targets.cloned().collect()
}

/// Merges the findings of all parts. A finding that every part has is reported once; another one
/// says in which part it is.
pub(super) fn together(parts: &[InstallGroup], all: &[Vec<Finding>]) -> Vec<Finding> {
    let everywhere = |finding: &Finding| all.iter().all(|found| found.contains(finding));
    let mut findings: Vec<Finding> = Vec::new();
    for (part, found) in parts.iter().zip(all) {
        for finding in found {
            let mut finding = finding.clone();
            let holders = finding.file.as_ref().map_or(parts.len(), |file| {
                parts.iter().filter(|part| part.has(file)).count()
            });
            if holders > 1 && !everywhere(&finding) {
                finding.fact = format!("{}, in {}", finding.fact, part.label());
            }
            findings.push(finding);
        }
    }
    findings
}
