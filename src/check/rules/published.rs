//! Rules about published sets: the files are what the pages say, and the pages agree.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    check::{
        facts::{SetFacts, WheelFile},
        finding::Findings,
        rule,
    },
    digest::Sha256,
    set::{ListingPlace, PageClaim, PublishedFacts, SidecarPromise, identity},
};

pub(super) fn find(set: &SetFacts, findings: &mut Findings) {
    let Some(published) = &set.published else {
        return;
    };
    for (page, why) in &published.bad_pages {
        findings.add(rule::UNREADABLE_PAGE, page, why);
    }
    let digests = digests(set);
    let wheels = set.wheels.iter().map(|it| (it.file.as_str(), &**it));
    let wheels: BTreeMap<&str, &WheelFile> = wheels.collect();
    for (file, promises) in by_file(published) {
        if published.gone.contains(file) {
            let pages = promises.iter().map(|it| it.page.clone()).collect();
            let fact = format!("it does not exist, but is listed by {}", list(pages));
            findings.add_cause(rule::PROMISED_FILE_MISSING, file, fact);
            continue;
        }
        if let Some(digest) = digests.get(file) {
            for fact in promises.iter().filter_map(|it| broken(it, *digest)) {
                findings.add(rule::BROKEN_PROMISE, file, fact);
            }
        }
        if let Some(bytes) = published.sidecars.get(file) {
            let inside = wheels.get(file).and_then(|it| it.dist_info("METADATA"));
            let inside = inside.map(|(_, inside)| inside);
            for fact in sidecar(bytes.as_deref(), inside, &promises) {
                findings.add(rule::WRONG_SIDECAR, file, fact);
            }
        }
    }
    disagreements(published, findings);
    for file in &published.foreign {
        findings.add(rule::FOREIGN_PACKAGE, file, "a package of another project");
    }
    for file in &published.unlisted {
        let fact = "no page of the set leads to it";
        findings.add(rule::UNLISTED_PACKAGE, file, fact);
    }
}

fn by_file(published: &PublishedFacts) -> BTreeMap<&str, Vec<&PageClaim>> {
    let mut files: BTreeMap<&str, Vec<&PageClaim>> = BTreeMap::new();
    for promise in &published.promises {
        files.entry(&promise.file).or_default().push(promise);
    }
    files
}

/// Digest and size of each file that was read completely.
fn digests(set: &SetFacts) -> BTreeMap<&str, (Sha256, u64)> {
    let wheels = set.wheels.iter().map(|it| (it.file.as_str(), it.digest));
    let sdists = set.sdists.iter().map(|it| (it.file.as_str(), it.digest));
    let all = wheels.chain(sdists);
    all.filter_map(|(file, digest)| Some((file, digest?)))
        .collect()
}

fn broken(promise: &PageClaim, (sha256, len): (Sha256, u64)) -> Option<String> {
    let page = &promise.page;
    match (promise.size, promise.sha256) {
        (Some(size), _) if size != len => {
            Some(format!("it has {len} bytes, and {size} in `{page}`"))
        }
        (_, Some(promised)) if promised != sha256 => Some(format!(
            "it has SHA-256 {sha256}, and {promised} in `{page}`"
        )),
        _ => None,
    }
}

/// The sidecar of a wheel equals the METADATA inside it, and has the digest that pages say
/// ([PEP 658](https://peps.python.org/pep-0658/)).
fn sidecar(beside: Option<&[u8]>, inside: Option<&[u8]>, promises: &[&PageClaim]) -> Vec<String> {
    let Some(bytes) = beside else {
        let fact = "its metadata is promised, and there is no such file beside it";
        return vec![fact.to_owned()];
    };
    if inside.is_some_and(|inside| inside != bytes) {
        return vec!["the metadata beside it is not the METADATA in it".to_owned()];
    }
    let sha256 = Sha256::of(bytes);
    let promises = promises.iter();
    let broken = promises.filter_map(|promise| match promise.metadata {
        Some(SidecarPromise::Digest(digest)) if digest != sha256 => {
            let page = &promise.page;
            Some(format!(
                "its metadata has SHA-256 {sha256}, and {digest} in `{page}`"
            ))
        }
        _ => None,
    });
    broken.collect()
}

/// Every listing names every file that another one names.
fn disagreements(published: &PublishedFacts, findings: &mut Findings) {
    let listings = published.listings.iter();
    let listings: Vec<(&ListingPlace, BTreeSet<&str>)> =
        listings.map(|it| (it, published.named(it))).collect();
    let (empty, full): (Vec<_>, Vec<_>) = listings.iter().partition(|(_, it)| it.is_empty());
    // An installer that reads an empty listing finds nothing. Report that once, not for each file.
    for (listing, _) in empty {
        findings.add(rule::PAGES_DISAGREE, &listing.name(), "it lists no package");
    }
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
            findings.add(rule::PAGES_DISAGREE, *file, fact);
        }
    }
    // If another page names files of the project, the empty page is reported as lacking them.
    let projects = files.keys().filter_map(|file| identity(file));
    let projects: BTreeSet<String> = projects
        .map(|(name, _)| name.normalized().to_owned())
        .collect();
    for (page, project) in &published.empty_pages {
        if !full.is_empty() && !projects.contains(project) {
            let fact = "it lists no package of its project";
            findings.add(rule::PAGES_DISAGREE, page, fact);
        }
    }
}

/// Formats names: `` `a`, `b` ``.
fn list(mut names: Vec<String>) -> String {
    names.sort_unstable();
    names.dedup();
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
