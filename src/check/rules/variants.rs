//! Rules about variant wheels ([PEP 825](https://peps.python.org/pep-0825/)), in packages of every project: what
//! a label means, what installers make of it, and what pages say about it.

use std::collections::BTreeMap;

use super::Observed;
use crate::{
    check::{
        facts::{CheckedPackage, SetFacts, WheelFile},
        rule::{self, Findings},
    },
    index::{identity, is_ours},
    place::{Listing, ListingPlace, PageClaim, PublishedFacts},
    policy::DistNames,
};
use rocwheel_base::{digest::Sha256, target::Target, version::Version};
use rocwheel_wheel::{
    DistName, Metadata, PackageFilename, Requirement, VARIANT_JSON, VARIANT_LIMIT, VariantDocument,
    VariantLabel,
};

/// The namespace of AMD's GPUs.
const AMD: &str = "amd";

/// A variant wheel with a document that can be read.
struct Variant<'a> {
    file: &'a str,
    label: &'a VariantLabel,
    document: VariantDocument,
}

/// The wheels and the sdists of one version.
#[derive(Default)]
struct VersionFiles<'a> {
    variants: Vec<Variant<'a>>,
    /// Packages that are no variants, and whether they bring device code.
    plain: Vec<(&'a str, bool)>,
}

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    let set = seen.all;
    for wheel in &set.wheels {
        let file = &wheel.package.file;
        if let Some(label) = label(wheel)
            && let Err(why) = document(wheel, label)
        {
            findings.of(rule::BAD_VARIANT, file, why);
        }
        if let Some(metadata) = wheel.metadata() {
            let rule = match label(wheel) {
                Some(_) => rule::UNREAD_VARIANT_MARKER,
                None => rule::VARIANT_MARKER,
            };
            markers(file, &metadata, rule, findings);
        }
    }
    for sdist in &set.sdists {
        if let Ok(metadata) = &sdist.metadata {
            markers(&sdist.package.file, metadata, rule::VARIANT_MARKER, findings);
        }
    }
    for ((project, version), files) in by_version(set) {
        if !files.variants.is_empty() {
            self::version(project, version, &files, findings);
        }
    }
}

fn label(wheel: &WheelFile) -> Option<&VariantLabel> {
    wheel.package.filename()?.label.as_ref()
}

/// The document of a variant wheel, or why there is none.
fn document(wheel: &WheelFile, label: &VariantLabel) -> Result<VariantDocument, String> {
    if wheel.unreadable.is_some() {
        return Err("the wheel cannot be read".to_owned());
    }
    let Some((path, bytes)) = wheel.dist_info(VARIANT_JSON) else {
        return Err(format!("no `*.dist-info/{VARIANT_JSON}`, which says what `{label}` means"));
    };
    // `index` reads no more.
    if bytes.len() as u64 > VARIANT_LIMIT {
        return Err(format!("`{path}` has more than {VARIANT_LIMIT} bytes"));
    }
    VariantDocument::of_wheel(bytes, label).map_err(|error| format!("`{path}`: {error:#}"))
}

/// Requirements that depend on the variant that was selected.
fn markers(file: &str, metadata: &Metadata, rule: &'static rule::Rule, findings: &mut Findings) {
    let requirements = metadata.requirements();
    let named = requirements.filter(|it| it.marker.names_variants()).collect::<Vec<Requirement>>();
    // One reader that fails, fails at the first of them.
    if let Some(first) = named.first() {
        let marker = &first.marker;
        let more = match named.len() {
            1 => String::new(),
            count => format!(", and {} more do", count - 1),
        };
        let fact = format!("the requirement of `{}` depends on `{marker}`{more}", first.name);
        findings.of(rule, file, fact);
    }
}

fn by_version(set: &SetFacts) -> BTreeMap<(&DistName, &Version), VersionFiles<'_>> {
    let mut files: BTreeMap<(&DistName, &Version), VersionFiles<'_>> = BTreeMap::new();
    for wheel in &set.wheels {
        let Some(of_version) = entry(&mut files, &wheel.package) else { continue };
        let file = wheel.package.file.as_str();
        let Some(label) = label(wheel) else {
            let requires_code = wheel.metadata().is_some_and(|it| requires_device_code(&it));
            of_version.plain.push((file, requires_code));
            continue;
        };
        let document = document(wheel, label).ok();
        of_version.variants.extend(document.map(|document| Variant { file, label, document }));
    }
    for sdist in &set.sdists {
        let Some(of_version) = entry(&mut files, &sdist.package) else { continue };
        let metadata = sdist.metadata.as_ref().ok();
        let requires_code =
            is_selector(&sdist.package) || metadata.is_some_and(requires_device_code);
        of_version.plain.push((&sdist.package.file, requires_code));
    }
    files
}

fn entry<'m, 'a>(
    files: &'m mut BTreeMap<(&'a DistName, &'a Version), VersionFiles<'a>>,
    package: &'a CheckedPackage,
) -> Option<&'m mut VersionFiles<'a>> {
    let name = package.filename()?;
    Some(files.entry((&name.name, &name.version)).or_default())
}

/// Whether a project selects the device code for a machine when it is built: `rocm`, or `amd-torch-device`.
fn is_selector(package: &CheckedPackage) -> bool {
    let project = package.filename().map(|name| name.name.normalized());
    project.is_some_and(|it| {
        it == DistNames::built_in().selector || it.starts_with("amd-") && it.ends_with("-device")
    })
}

/// Whether a package requires packages with device code, under an extra or without one: `rocm-sdk-device-gfx942`,
/// `amd-torch-device-gfx942`. Other projects have names such as `usb-device-tools`.
fn requires_device_code(metadata: &Metadata) -> bool {
    metadata.requirements().any(|requirement| {
        let scope = requirement.name.normalized().rsplit_once("-device-").map(|(_, scope)| scope);
        scope.is_some_and(|scope| scope.parse::<Target>().is_ok())
    })
}

fn version(
    project: &DistName,
    version: &Version,
    files: &VersionFiles<'_>,
    findings: &mut Findings,
) {
    let VersionFiles { variants, plain } = files;
    let mut read: Vec<&VariantDocument> = Vec::new();
    for Variant { file, label, document } in variants {
        let merged = VariantDocument::merge(read.iter().copied().chain([document]));
        match merged {
            Ok(_) => read.push(document),
            // Wheels of others that disagree do not stop ours: no index says what their labels mean.
            Err(error) if is_ours(project) => {
                findings.of(rule::VARIANTS_DISAGREE, file, error.to_string());
            }
            Err(error) => findings.of(rule::ODD_FOREIGN_PACKAGE, file, error.to_string()),
        }
        if document.is_static(AMD) {
            let fact = format!("`static-properties` give `{AMD}` to every machine");
            findings.of(rule::STATIC_GPU, file, fact);
        }
        let with_code = plain.iter().find(|(_, requires_code)| *requires_code);
        if let Some((other, _)) = with_code.filter(|_| label.is_null()) {
            let fact = format!("installers prefer it to `{other}`, which brings device code");
            findings.of(rule::GREEDY_NULL_VARIANT, file, fact);
        }
    }
    if plain.is_empty() {
        let fact = format!("`{project}` {version} has variant wheels only");
        findings.of_set(rule::VARIANTS_ONLY, fact);
    }
}

/// Each page that lists variant wheels lists the file that says what their labels mean, and the file says what
/// the wheels say.
pub(super) fn find_published(set: &SetFacts, published: &PublishedFacts, findings: &mut Findings) {
    let documents: BTreeMap<&str, VariantDocument> = set
        .wheels
        .iter()
        .filter_map(|wheel| Some((&*wheel.package.file, document(wheel, label(wheel)?).ok()?)))
        .collect();
    for listing in &published.listings {
        // SHA256SUMS and `set.json` are for no installer, and another program may have replaced a page.
        if matches!(listing.listing, Listing::Simple | Listing::FindLinks)
            && !published.replaced_listings.contains(listing)
        {
            listed(listing, published, &documents, findings);
        }
    }
    for (file, bytes) in &published.variant_indexes {
        let claims = published.variant_claims.iter().filter(|claim| claim.file == *file);
        let Some(bytes) = bytes else {
            let pages: Vec<&str> = claims.map(|claim| &*claim.page).collect();
            let fact = format!("it does not exist, but is listed by `{}`", pages.join("`, `"));
            findings.of(rule::VARIANTS_JSON_DISAGREES, file, fact);
            continue;
        };
        let sha256 = Sha256::of(bytes);
        for PageClaim { page, claim, .. } in claims {
            if claim.sha256.is_some_and(|claimed| claimed != sha256) {
                let fact = format!("`{page}` has the SHA-256 of another file");
                findings.of(rule::VARIANTS_JSON_DISAGREES, file, fact);
            }
            if claim.has_metadata || claim.yanked.is_some() {
                let fact = format!("`{page}` lists it as if it were a package");
                findings.of(rule::VARIANTS_JSON_DISAGREES, file, fact);
            }
        }
    }
}

fn listed(
    listing: &ListingPlace,
    published: &PublishedFacts,
    documents: &BTreeMap<&str, VariantDocument>,
    findings: &mut Findings,
) {
    let mut by_version: BTreeMap<(DistName, Version), Vec<&VariantDocument>> = BTreeMap::new();
    for file in published.named(listing) {
        if let (Some(version), Some(document)) = (identity(file), documents.get(file)) {
            by_version.entry(version).or_default().push(document);
        }
    }
    for ((project, version), wheels) in by_version {
        // Another rule says that the wheels disagree, and no index has a file for wheels of others that do.
        let Ok(Some(wanted)) = VariantDocument::merge(wheels) else { continue };
        let name = variants_json(&project, &version);
        let claim = published.variant_claims.iter().find(|claim| {
            claim.listing == *listing && claim.file.rsplit('/').next() == Some(&*name)
        });
        let page = listing.name();
        let Some(claim) = claim else {
            let fact = format!("`{page}` lists variant wheels, and not this file");
            findings.of(rule::VARIANTS_JSON_DISAGREES, &name, fact);
            continue;
        };
        let Some(Some(bytes)) = published.variant_indexes.get(&claim.file) else { continue };
        let has_all = |found: &VariantDocument| {
            let merged = VariantDocument::merge([found, &wanted]);
            merged.is_ok_and(|merged| merged.is_some_and(|merged| merged.says_the_same(found)))
        };
        // A find-links page leaves yanked wheels out, and a file of others may know more than the wheels here.
        let may_say_more = listing.listing == Listing::FindLinks || !is_ours(&project);
        match VariantDocument::parse(bytes) {
            Err(error) => {
                let fact = format!("installers cannot read it: {error:#}");
                findings.of(rule::VARIANTS_JSON_DISAGREES, &claim.file, fact);
            }
            Ok(found) if may_say_more && has_all(&found) => {}
            Ok(found) if !found.says_the_same(&wanted) => {
                let fact = format!("it does not say what the wheels say that `{page}` lists");
                findings.of(rule::VARIANTS_JSON_DISAGREES, &claim.file, fact);
            }
            Ok(_) => {}
        }
    }
}

/// `rocm-7.14.0-variants.json`
fn variants_json(project: &DistName, version: &Version) -> String {
    PackageFilename::new(project.clone(), version, None).variants_json()
}
