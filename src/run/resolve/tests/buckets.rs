//! Every bucket of the table, and who writes to it.

use std::collections::BTreeSet;

use strum::VariantArray as _;

use super::*;

fn facts(origin: RunOrigin, updated_at: &str) -> RunFacts {
    RunFacts { origin, updated_at: Some(updated_at.to_owned()).filter(|it| !it.is_empty()) }
}

#[test]
fn each_release_type_has_its_buckets() {
    let buckets = Buckets::builtin();
    let own = facts(RunOrigin::Own, "");
    let rows: Vec<String> = ReleaseType::VARIANTS
        .iter()
        .map(|&kind| {
            let artifacts = buckets.artifacts(kind, buckets.home(), &own);
            if let Ok(bucket) = &artifacts {
                let back = buckets.release_types(&bucket.name);
                assert!(back.contains(&kind), "{kind}: {back:?}");
            }
            let name = artifacts.map_or_else(|error| error.to_string(), |it| it.name.to_string());
            format!("{kind}: {name}")
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @r"
    ci: therock-ci-artifacts
    dev: therock-dev-artifacts
    dev-bkc: therock-bkc-artifacts
    nightly: therock-nightly-artifacts
    nightly-bkc: therock-bkc-artifacts
    prerelease: therock-prerelease-artifacts
    release: no run keeps artifacts for release type `release`
    ");
}

#[test]
fn only_ci_tells_repositories_and_forks_apart() {
    let buckets = Buckets::builtin();
    let (home, other) = ("ROCm/TheRock", "ROCm/rocm-libraries");
    let table = [
        (ReleaseType::Ci, home, RunOrigin::Own, "therock-ci-artifacts"),
        (ReleaseType::Ci, home, RunOrigin::Fork, "therock-ci-artifacts-external"),
        (ReleaseType::Ci, other, RunOrigin::Own, "therock-ci-artifacts-external"),
        (ReleaseType::Ci, other, RunOrigin::Fork, "therock-ci-artifacts-external"),
        (ReleaseType::Nightly, other, RunOrigin::Own, "therock-nightly-artifacts"),
        (ReleaseType::Nightly, home, RunOrigin::Fork, "therock-nightly-artifacts"),
    ];
    for (kind, repository, origin, expected) in table {
        let repository = repository.parse().unwrap();
        let bucket = buckets.artifacts(kind, &repository, &facts(origin, "")).unwrap();
        assert_eq!(bucket.name.as_str(), expected, "{kind} {repository} {origin:?}");
    }
}

#[test]
fn runs_from_before_the_move_are_where_they_were() {
    let buckets = Buckets::builtin();
    let table = [
        (ReleaseType::Ci, RunOrigin::Own, "2025-11-11T16:18:48Z", "therock-artifacts"),
        (ReleaseType::Ci, RunOrigin::Fork, "2025-11-11T16:18:48Z", "therock-artifacts-external"),
        (ReleaseType::Ci, RunOrigin::Own, "2025-11-11T16:18:49Z", "therock-ci-artifacts"),
        (ReleaseType::Dev, RunOrigin::Own, "2025-11-11T16:18:48Z", "therock-dev-artifacts"),
    ];
    for (kind, origin, at, expected) in table {
        let bucket = buckets.artifacts(kind, buckets.home(), &facts(origin, at)).unwrap();
        assert_eq!(bucket.name.as_str(), expected, "{kind} {at}");
    }
}

#[test]
fn every_bucket_has_a_region_and_perhaps_a_role() {
    let rows: Vec<String> = Buckets::builtin()
        .known
        .iter()
        .map(|it| format!("{} {} {}", it.name, it.region, it.role.as_deref().unwrap_or("-")))
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @r"
    therock-ci-artifacts us-east-2 arn:aws:iam::692859939525:role/therock-ci
    therock-ci-artifacts-external us-east-2 arn:aws:iam::692859939525:role/therock-ci-external
    therock-bkc-artifacts us-east-2 arn:aws:iam::692859939525:role/therock-bkc
    therock-dev-artifacts us-east-2 arn:aws:iam::692859939525:role/therock-dev
    therock-dev-packages us-east-2 arn:aws:iam::692859939525:role/therock-dev
    therock-dev-python us-east-2 arn:aws:iam::692859939525:role/therock-dev
    therock-dev-tarball us-east-2 arn:aws:iam::692859939525:role/therock-dev
    therock-nightly-artifacts us-east-2 arn:aws:iam::692859939525:role/therock-nightly
    therock-nightly-packages us-east-2 arn:aws:iam::692859939525:role/therock-nightly
    therock-nightly-python us-east-2 arn:aws:iam::692859939525:role/therock-nightly
    therock-nightly-tarball us-east-2 arn:aws:iam::692859939525:role/therock-nightly
    therock-prerelease-artifacts us-east-2 arn:aws:iam::692859939525:role/therock-prerelease
    therock-prerelease-packages us-east-2 arn:aws:iam::692859939525:role/therock-prerelease
    therock-prerelease-python us-east-2 arn:aws:iam::692859939525:role/therock-prerelease
    therock-prerelease-tarball us-east-2 arn:aws:iam::692859939525:role/therock-prerelease
    therock-release-artifacts us-east-2 -
    therock-release-packages us-east-2 -
    therock-release-python us-east-2 -
    therock-release-tarball us-east-2 -
    therock-artifacts us-east-2 -
    therock-artifacts-external us-east-2 -
    ");
}

#[test]
fn every_rule_leads_to_a_bucket_of_its_kind() {
    let table = Buckets::builtin();
    let names: BTreeSet<&Bucket> = table.known.iter().map(|facts| &facts.name).collect();
    assert_eq!(names.len(), table.known.len(), "none is listed twice");
    assert_eq!(table.release_types.len(), ReleaseType::VARIANTS.len());
    let legacy = table.legacy.iter();
    let mut own: Vec<&Bucket> = legacy.clone().map(|it| &it.artifacts).collect();
    let mut external: Vec<&Bucket> = legacy.filter_map(|it| it.external.as_ref()).collect();
    for &kind in ReleaseType::VARIANTS {
        let release = table.release(kind).unwrap();
        own.extend(&release.artifacts);
        external.extend(&release.external);
    }
    for (buckets, is_external) in [(own, false), (external, true)] {
        for bucket in buckets {
            assert_eq!(table.listed(bucket).unwrap().external, is_external, "{bucket}");
        }
    }
}

#[test]
fn a_table_of_other_words_is_refused() {
    let good = include_str!("../../../buckets.toml");
    for (old, new) in [
        (r#"home = "ROCm/TheRock""#, r#"home = "TheRock""#),
        (r#"name = "therock-artifacts""#, r#"name = "therock_artifacts""#),
        (r#"{ name = "dev", "#, r#"{ name = "developer", "#),
        ("until ", "since "),
    ] {
        assert!(good.contains(old), "{old}");
        Buckets::parse(&good.replace(old, new)).unwrap_err();
    }
}

#[test]
fn the_code_of_a_fork_goes_to_buckets_that_it_shares_and_to_those_of_others() {
    let takes = |bucket: &str| Buckets::builtin().takes_forks(&bucket.parse().unwrap());
    for bucket in ["mine", "therock-ci-artifacts-external", "therock-artifacts-external"] {
        assert!(takes(bucket), "{bucket}");
    }
    for bucket in [
        "therock-ci-artifacts",
        "therock-nightly-python",
        "therock-release-python",
        "therock-repo-amd-rc-core",
    ] {
        assert!(!takes(bucket), "{bucket}");
    }
}
