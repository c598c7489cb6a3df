//! Whether what the pages of a set promise is what is there.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    check::{
        facts::{SetFacts, WheelFile},
        finding::Finding,
        rule,
    },
    digest::Sha256,
    set::{ListingPlace, Promise, Published, SidecarPromise},
    wheel::{SdistFilename, WheelFilename},
};

pub(super) fn find(set: &SetFacts) -> Vec<Finding> {
    let Some(published) = &set.published else {
        return Vec::new();
    };
    let mut findings: Vec<Finding> = Vec::new();
    for (page, why) in &published.bad_pages {
        findings.push(Finding::new(rule::UNREADABLE_PAGE, why).in_file(page));
    }
    let digests = digests(set);
    let wheels = set.wheels.iter().map(|it| (it.file.as_str(), &**it));
    let wheels: BTreeMap<&str, &WheelFile> = wheels.collect();
    for (file, promises) in by_file(published) {
        if published.gone.contains(file) {
            let pages = promises.iter().map(|it| it.page.clone()).collect();
            let fact = format!("it does not exist, but is listed by {}", list(pages));
            findings.push(Finding::new(rule::PROMISED_FILE_MISSING, fact).in_file(file));
            continue;
        }
        if let Some(digest) = digests.get(file) {
            let broken = promises.iter().filter_map(|it| broken(it, *digest));
            findings.extend(broken.map(|it| it.in_file(file)));
        }
        let wheel = wheels.get(file).copied();
        findings.extend(sidecar(wheel, published, file, &promises));
    }
    findings.extend(disagreements(published));
    for file in &published.foreign {
        let fact = "a package of another project";
        findings.push(Finding::new(rule::FOREIGN_PACKAGE, fact).in_file(file));
    }
    for file in &published.unlisted {
        let fact = "no page of the set leads to it";
        findings.push(Finding::new(rule::UNLISTED_PACKAGE, fact).in_file(file));
    }
    findings
}

fn by_file(published: &Published) -> BTreeMap<&str, Vec<&Promise>> {
    let mut files: BTreeMap<&str, Vec<&Promise>> = BTreeMap::new();
    for promise in &published.promises {
        files.entry(&promise.file).or_default().push(promise);
    }
    files
}

/// What each file is, where all of it was read.
fn digests(set: &SetFacts) -> BTreeMap<&str, (Sha256, u64)> {
    let wheels = set.wheels.iter().map(|it| (it.file.as_str(), it.digest));
    let sdists = set.sdists.iter().map(|it| (it.file.as_str(), it.digest));
    let all = wheels.chain(sdists);
    all.filter_map(|(file, digest)| Some((file, digest?)))
        .collect()
}

fn broken(promise: &Promise, (sha256, len): (Sha256, u64)) -> Option<Finding> {
    let page = &promise.page;
    let fact = if promise.size.is_some_and(|size| size != len) {
        let size = promise.size.unwrap_or_default();
        format!("it has {len} bytes, and {size} in `{page}`")
    } else if promise.sha256.is_some_and(|promised| promised != sha256) {
        let promised = promise.sha256.map(|it| it.to_string()).unwrap_or_default();
        format!("it has SHA-256 {sha256}, and {promised} in `{page}`")
    } else {
        return None;
    };
    Some(Finding::new(rule::BROKEN_PROMISE, fact))
}

/// The metadata beside a wheel is the METADATA in it, and hashes to what pages say.
fn sidecar(
    wheel: Option<&WheelFile>,
    published: &Published,
    file: &str,
    promises: &[&Promise],
) -> Vec<Finding> {
    let finding = |fact: String| Finding::new(rule::WRONG_SIDECAR, fact).in_file(file);
    let Some(found) = published.sidecars.get(file) else {
        return Vec::new();
    };
    let Some(bytes) = found else {
        let fact = "its metadata is promised, and there is no such file beside it";
        return vec![finding(fact.to_owned())];
    };
    let inside = wheel.and_then(|wheel| wheel.dist_info("METADATA"));
    if inside.is_some_and(|(_, inside)| inside != bytes) {
        let fact = "the metadata beside it is not the METADATA in it";
        return vec![finding(fact.to_owned())];
    }
    let sha256 = Sha256::of(bytes);
    let broken = promises
        .iter()
        .filter_map(|promise| match promise.metadata {
            Some(SidecarPromise::Digest(digest)) if digest != sha256 => {
                let page = &promise.page;
                let fact = format!("its metadata has SHA-256 {sha256}, and {digest} in `{page}`");
                Some(finding(fact))
            }
            _ => None,
        });
    broken.collect()
}

/// Every listing names every file that another one names.
fn disagreements(published: &Published) -> Vec<Finding> {
    let listings = published.listings.iter();
    let listings: Vec<(&ListingPlace, BTreeSet<&str>)> =
        listings.map(|it| (it, published.named(it))).collect();
    let (empty, full): (Vec<_>, Vec<_>) = listings.iter().partition(|(_, it)| it.is_empty());
    let finding = |page: &str, fact: &str| Finding::new(rule::PAGES_DISAGREE, fact).in_file(page);
    // An installer that reads such a page finds nothing at all, which is one cause.
    let mut found: Vec<Finding> = empty
        .iter()
        .map(|(it, _)| finding(&it.name(), "it lists no package"))
        .collect();
    let files = by_file(published);
    for file in files.keys() {
        let concerned = full.iter().filter(|(it, _)| it.concerns(file));
        let (has, lacks): (Vec<_>, Vec<_>) = concerned.partition(|(_, it)| it.contains(file));
        let names = |listings: Vec<&&(&ListingPlace, _)>| {
            list(listings.into_iter().map(|(it, _)| it.name()).collect())
        };
        if !lacks.is_empty() {
            let (lacks, has) = (names(lacks), names(has));
            let fact = format!("listed by {has}, but not by {lacks}");
            found.push(finding(file, &fact));
        }
    }
    // Where another page names the project's files, the page is among those that lack them.
    let projects: BTreeSet<String> = files.keys().filter_map(|file| project_of(file)).collect();
    let empty = published.empty_pages.iter();
    let empty = empty.filter(|(_, project)| !full.is_empty() && !projects.contains(project));
    found.extend(empty.map(|(page, _)| finding(page, "it lists no package of its project")));
    found
}

fn project_of(file: &str) -> Option<String> {
    let name = file.rsplit('/').next()?;
    let wheel = name.parse::<WheelFilename>().map(|it| it.name().clone());
    let name = wheel.or_else(|_| name.parse::<SdistFilename>().map(|it| it.name().clone()));
    Some(name.ok()?.normalized().to_owned())
}

/// `a`, `b`
fn list(mut names: Vec<String>) -> String {
    names.sort_unstable();
    names.dedup();
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
