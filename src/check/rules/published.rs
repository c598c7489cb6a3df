//! Rules about published sets: each file is as the pages describe it, and the pages agree.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use crate::{
    check::{
        facts::{CheckedPackage, SetFacts},
        rule::{self, Findings, some},
    },
    index::{identity, is_of_others},
    place::{Listing, ListingPlace, PageClaim, PublishedFacts},
};
use rocwheel_base::{digest::Sha256, quantity::many};

pub(super) fn find(set: &SetFacts, published: &PublishedFacts, findings: &mut Findings) {
    for (page, why) in &published.bad_pages {
        findings.of(rule::UNREADABLE_PAGE, page, why);
    }
    // They have one cause, such as a copy of the place by another program.
    if let [(page, content_type), others @ ..] = &*published.refused_pages {
        let more = match others.len() {
            0 => String::new(),
            count => format!(", and so for {} more", many(count, "page")),
        };
        let fact = format!(
            "installers refuse its type, `{content_type}`{more}: `rocwheel index` writes it again"
        );
        findings.of(rule::UNREADABLE_PAGE, page, fact);
    }
    for (page, why) in &published.torn_pages {
        findings.of(rule::PAGES_DISAGREE, page, why);
    }
    let packages: BTreeMap<&str, &CheckedPackage> =
        set.packages().map(|package| (&*package.file, package)).collect();
    let mut claims_about: BTreeMap<&str, Vec<&PageClaim>> = BTreeMap::new();
    for claim in &published.claims {
        claims_about.entry(&claim.file).or_default().push(claim);
    }
    for (file, claims) in &claims_about {
        if published.gone.contains(*file) {
            let pages = format_list(claims.iter().map(|it| it.page.clone()));
            let renamed = published.unlisted.iter().find(|other| is_same_package(file, other));
            let fact = match renamed {
                Some(other) => format!(
                    "it does not exist, but is listed by {pages}; `{other}`, which no page lists, is of the same \
                     project and version"
                ),
                None => format!("it does not exist, but is listed by {pages}"),
            };
            let project = identity(file).map(|(project, _)| project);
            findings.cause(rule::PROMISED_FILE_MISSING, file, project.as_ref(), fact);
            continue;
        }
        if let Some(package) = packages.get(file)
            && let Some(fact) = replaced_file(claims, package)
        {
            findings.of(rule::BROKEN_PROMISE, file, fact);
        }
        if let Some(bytes) = published.sidecars.get(*file) {
            let wheel = set.wheels.iter().find(|wheel| wheel.package.file == *file);
            let inside = wheel.and_then(|wheel| {
                let (_, metadata) = wheel.dist_info("METADATA")?;
                Some(metadata)
            });
            for fact in wrong_sidecar(bytes.as_deref(), inside, claims) {
                findings.of(rule::WRONG_SIDECAR, file, fact);
            }
        }
    }
    disagreements(published, &claims_about.into_keys().collect(), findings);
    for file in published.unlisted.iter().filter(|file| !is_of_others(file)) {
        findings.of(rule::UNLISTED_PACKAGE, file, "no page of the set leads to it");
    }
}

/// Whether two files are of one project and version, in the same family, such as a file and its new name.
fn is_same_package(file: &str, other: &str) -> bool {
    let family = |file: &str| file.rsplit_once('/').map(|(family, _)| family.to_owned());
    family(file) == family(other) && identity(file).is_some_and(|it| identity(other) == Some(it))
}

/// One sentence about a file if pages describe another file by its name, with the names of the pages.
fn replaced_file(claims: &[&PageClaim], package: &CheckedPackage) -> Option<String> {
    // Without a digest, the whole package was not read, and its size may still be another one.
    let is_other = |claimed: Sha256| package.sha256.is_some_and(|sha256| claimed != sha256);
    let len = package.size;
    let is_wrong = |page: &&PageClaim| {
        page.claim.size.is_some_and(|claimed| claimed != len)
            || page.claim.sha256.is_some_and(is_other)
    };
    let wrong: Vec<&PageClaim> = claims.iter().copied().filter(is_wrong).collect();
    let first = wrong.first()?;
    let pages = some(wrong.iter().map(|it| it.page.as_str()).unique(), MOST_PAGES);
    // The beginning of a digest tells two files apart, and fits into a line.
    let short = |digest: Sha256| digest.to_string().chars().take(12).collect::<String>();
    let how = match (first.claim.size, first.claim.sha256, package.sha256) {
        (Some(size), ..) if size != len => format!("{len} bytes instead of {size}"),
        (_, Some(other), Some(sha256)) => {
            format!("SHA-256 {}… instead of {}…", short(sha256), short(other))
        }
        _ => return None,
    };
    let verb = if wrong.iter().map(|it| &it.page).all_equal() { "describes" } else { "describe" };
    // If another page has the right digest, the page is wrong and not the file.
    let mut digests = claims.iter().filter_map(|it| it.claim.sha256);
    let prefix = if digests.any(|it| package.sha256 == Some(it)) {
        ""
    } else {
        "not the file that was built: "
    };
    Some(format!("{prefix}{pages} {verb} another one ({how})"))
}

/// The number of pages named in a finding about a file that they describe wrongly.
const MOST_PAGES: usize = 2;

/// The sidecar of a wheel equals the METADATA in the wheel, and has the digest that pages say
/// ([PEP 658](https://peps.python.org/pep-0658/)).
fn wrong_sidecar(
    beside: Option<&[u8]>,
    inside: Option<&[u8]>,
    claims: &[&PageClaim],
) -> Vec<String> {
    let Some(bytes) = beside else {
        let fact = "its metadata is promised, and there is no such file beside it";
        return vec![fact.to_owned()];
    };
    if inside.is_some_and(|inside| inside != bytes) {
        return vec!["the metadata beside it is not the METADATA in it".to_owned()];
    }
    let sha256 = Sha256::of(bytes);
    claims
        .iter()
        .filter_map(|PageClaim { page, claim, .. }| {
            let claimed = claim.metadata.filter(|digest| *digest != sha256)?;
            Some(format!("its metadata has SHA-256 {sha256}, and {claimed} in `{page}`"))
        })
        .collect()
}

/// Every listing names every file that another listing names.
fn disagreements(published: &PublishedFacts, files: &BTreeSet<&str>, findings: &mut Findings) {
    let (empty, full): (Vec<_>, Vec<_>) = published
        .listings
        .iter()
        .map(|listing| (listing, published.named(listing)))
        .partition(|(_, named)| named.is_empty());
    // An installer that reads an empty listing finds nothing. The rule reports that once, not for each
    // file. In a place that has only packages of other projects, a listing without ours is not empty.
    let has_only_others = full.is_empty() && !published.foreign.is_empty();
    for (listing, _) in empty.into_iter().filter(|_| !has_only_others) {
        findings.of(rule::PAGES_DISAGREE, &listing.name(), "it lists no package");
    }
    // The list of a directory that another program wrote has only the packages beside it.
    let is_whole = |it: &&(&ListingPlace, _)| !published.replaced_listings.contains(it.0);
    // A find-links page leaves yanked files out: pip would take them from there.
    let yanked: BTreeSet<&str> = published
        .claims
        .iter()
        .filter(|claim| claim.claim.yanked.is_some())
        .map(|claim| claim.file.as_str())
        .collect();
    for file in files {
        let concerned = full.iter().filter(is_whole).filter(|(it, _)| it.concerns(file));
        let (listing, mut lacking): (Vec<_>, Vec<_>) =
            concerned.partition(|(_, named)| named.contains(file));
        lacking.retain(|(page, _)| page.listing != Listing::FindLinks || !yanked.contains(file));
        if !lacking.is_empty() {
            let names = |listings: Vec<&(&ListingPlace, _)>| {
                format_list(listings.into_iter().map(|(it, _)| it.name()))
            };
            let fact = format!("listed by {}, but not by {}", names(listing), names(lacking));
            findings.of(rule::PAGES_DISAGREE, file, fact);
        }
    }
    // If another page names files of the project, the loop above reports that the empty page lacks them.
    let is_named = |project: &str| {
        let mut names = files.iter().filter_map(|file| Some(identity(file)?.0));
        names.any(|name| name.normalized() == project)
    };
    for (page, project) in &published.empty_pages {
        if !full.is_empty() && !is_named(project) {
            let fact = "it lists no package of its project";
            findings.of(rule::PAGES_DISAGREE, page, fact);
        }
    }
}

/// Formats names: `` `a`, `b` ``.
fn format_list(names: impl Iterator<Item = String>) -> String {
    format!("`{}`", names.sorted_unstable().dedup().join("`, `"))
}
