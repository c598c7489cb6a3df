//! Plans of places that these tests make up.

use super::*;
use crate::error::render;

fn day(number: u8) -> Date {
    Date::from_calendar_date(2026, time::Month::August, number).unwrap()
}

fn package(project: &str, version: &str, rocm: &str) -> StoredPackage {
    let name = project.replace('-', "_");
    StoredPackage {
        place: 0,
        path: format!("rocm/x/whl-next/{project}/{name}-{version}-py3-none-linux_x86_64.whl"),
        project: project.parse().unwrap(),
        version: version.parse().unwrap(),
        rocm: rocm.parse().unwrap(),
        bytes: 10,
        uploaded: Some(day(1)),
        is_listed: true,
        is_yanked: false,
        named_by: None,
        unlisted: None,
        pins: Vec::new(),
    }
}

/// A whole nightly of a day in August.
fn nightly(day: u8) -> Vec<StoredPackage> {
    let version = format!("7.14.0a202608{day:02}");
    let projects = [
        "rocm-sdk-core",
        "rocm-sdk-libraries",
        "rocm-sdk-device-gfx942",
    ];
    projects
        .map(|project| package(project, &version, &version))
        .into()
}

fn nightlies(days: impl IntoIterator<Item = u8>) -> Vec<StoredPackage> {
    days.into_iter().flat_map(nightly).collect()
}

fn rule(keep: usize) -> PruneRule {
    PruneRule {
        stream: ReleaseStream::Nightly,
        keep: NonZeroUsize::new(keep),
        days: None,
        versions: Vec::new(),
        grace: 7,
        most_percent: 100,
        yank: None,
    }
}

fn plan(packages: &[StoredPackage], rule: &PruneRule) -> PrunePlan {
    decide(packages, rule, &BTreeSet::new(), day(20)).unwrap()
}

#[test]
fn the_newest_complete_nightlies_stay() {
    let mut packages = nightlies(1..=5);
    // One of the newest has no device code, so that an older one stays for it.
    packages.retain(|it| !it.path.contains("gfx942-7.14.0a20260804"));
    packages.retain(|it| !it.path.contains("gfx942") || !it.version.to_string().ends_with("04"));
    // Neither another stream nor a package without a version of ROCm is touched.
    packages.push(package("rocm-sdk-core", "7.13.0", "7.13.0"));
    packages.push(package("rocm-sdk-core", "7.14.0rc1", "7.14.0rc1"));
    insta::assert_snapshot!(plan(&packages, &rule(2)), @"
    nightly: 3 versions kept by the rule
    remove  7.14.0a20260802  3 files: off the pages now, deleted from 2026-08-27 on
    remove  7.14.0a20260801  3 files: off the pages now, deleted from 2026-08-27 on
    2 versions to remove, 6 files, 60 B
    ");
}

#[test]
fn what_is_kept_holds_what_it_requires() {
    let mut packages = nightlies(1..=4);
    let mut torch = package("torch", "2.10.0+rocm7.14.0a20260802", "7.14.0a20260802");
    torch.pins = vec![("rocm".parse().unwrap(), "7.14.0a20260802".parse().unwrap())];
    let mut vision = package("torchvision", "0.25+rocm7.14.0a20260804", "7.14.0a20260804");
    vision.pins = vec![(torch.project.clone(), torch.version.clone())];
    packages.extend([torch, vision]);
    let mut rule = rule(1);
    rule.versions = vec!["7.14.0a20260801".parse().unwrap()];
    insta::assert_snapshot!(plan(&packages, &rule), @"
    nightly: 1 version kept by the rule
    keep    7.14.0a20260802  required by torchvision 0.25+rocm7.14.0a20260804
    keep    7.14.0a20260801  named by `--keep-version`
    remove  7.14.0a20260803  3 files: off the pages now, deleted from 2026-08-27 on
    1 version to remove, 3 files, 30 B
    ");
    // A candidate of a release stays too, and young versions do.
    rule.versions.clear();
    (rule.keep, rule.days) = (None, Some(18));
    let released = BTreeSet::from(["7.14.0a20260801".parse().unwrap()]);
    let by_days = decide(&nightlies(1..=4), &rule, &released, day(20)).unwrap();
    insta::assert_snapshot!(by_days, @"
    nightly: 2 versions kept by the rule
    keep    7.14.0a20260801  a release was made of it
    remove  7.14.0a20260802  3 files: off the pages now, deleted from 2026-08-27 on
    1 version to remove, 3 files, 30 B
    ");
}

#[test]
fn files_go_after_their_links_and_after_the_time_of_grace() {
    let mut packages = nightlies(1..=4);
    let of = |state: fn(&mut StoredPackage), packages: &mut [StoredPackage], day: usize| {
        packages[(day - 1) * 3..day * 3].iter_mut().for_each(state);
    };
    of(
        |it| (it.is_listed, it.unlisted) = (false, Some(day(12))),
        &mut packages,
        1,
    );
    of(
        |it| (it.is_listed, it.unlisted) = (false, Some(day(14))),
        &mut packages,
        2,
    );
    packages[0].named_by = Some("rocm/whl-next/rocm-sdk-core/index.html".into());
    packages[6].unlisted = Some(day(1));
    packages[7].is_listed = false;
    let mut rule = rule(1);
    insta::assert_snapshot!(plan(&packages, &rule), @"
    nightly: 1 version kept by the rule
    remove  7.14.0a20260803  3 files: off the pages now, deleted from 2026-08-27 on
    remove  7.14.0a20260802  3 files: off the pages, deleted from 2026-08-21 on
    remove  7.14.0a20260801  2 files: deleted now
    keep    7.14.0a20260801  1 file: until no page names them
            named by rocm/whl-next/rocm-sdk-core/index.html
    3 versions to remove, 8 files, 80 B
    ");
    rule.grace = 0;
    insta::assert_snapshot!(plan(&packages, &rule), @"
    nightly: 1 version kept by the rule
    remove  7.14.0a20260803  1 file: deleted now
    remove  7.14.0a20260803  2 files: off the pages and deleted now
    remove  7.14.0a20260802  3 files: deleted now
    remove  7.14.0a20260801  2 files: deleted now
    keep    7.14.0a20260801  1 file: until no page names them
            named by rocm/whl-next/rocm-sdk-core/index.html
    3 versions to remove, 8 files, 80 B
    ");
    rule.yank = Some("old".into());
    packages[8].is_yanked = true;
    insta::assert_snapshot!(plan(&packages, &rule), @"
    nightly: 1 version kept by the rule
    yank    7.14.0a20260803  1 file: now
    keep    7.14.0a20260803  2 files: yanked already, or on no page
    keep    7.14.0a20260802  3 files: yanked already, or on no page
    keep    7.14.0a20260801  3 files: yanked already, or on no page
            named by rocm/whl-next/rocm-sdk-core/index.html
    1 version to yank, 1 file, 10 B
    ");
}

#[test]
fn a_rule_that_removes_too_much_is_refused() {
    let refused = |packages: &[StoredPackage], rule: &PruneRule| {
        render(&decide(packages, rule, &BTreeSet::new(), day(20)).unwrap_err())
    };
    let packages = nightlies(1..=4);
    let mut much = rule(1);
    much.most_percent = 20;
    let mut young = rule(1);
    (young.keep, young.days) = (None, Some(3));
    let alone = [package(
        "torch",
        "2.10.0+rocm7.14.0a20260802",
        "7.14.0a20260802",
    )];
    let said = [
        refused(&packages, &much),
        refused(&packages, &young),
        refused(&alone, &rule(1)),
    ];
    insta::assert_snapshot!(said.concat(), @"
    error: 90 B of 120 B would go, which is more than 20 percent
      caused by: the versions are 7.14.0a20260803, 7.14.0a20260802, 7.14.0a20260801

    hint: pass a larger `--most` if they have to go
    error: no version of `nightly` would be kept

    hint: pass `--keep` or a larger `--days`
    error: no version of `nightly` is complete there

    hint: name the places of all products; a version is complete with its core, its libraries and a device package for one platform
    ");
}
