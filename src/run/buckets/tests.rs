//! Every bucket of the table, and who writes to it.

use super::*;

fn facts(origin: RunOrigin, updated_at: &str) -> RunFacts {
    RunFacts {
        origin,
        updated_at: updated_at.parse().ok(),
    }
}

fn role(facts: &BucketFacts) -> String {
    facts.role.as_ref().map_or("-".into(), ToString::to_string)
}

#[test]
fn each_release_type_has_its_buckets() {
    let buckets = Buckets::builtin();
    let own = facts(RunOrigin::Own, "");
    let rows: Vec<String> = ReleaseType::ALL
        .iter()
        .map(|&kind| {
            let artifacts = buckets.artifacts(kind, buckets.home(), &own);
            let python = buckets.published(kind, Channel::Python);
            let name = |facts: Result<&BucketFacts>| {
                facts.map_or_else(|error| error.to_string(), |it| it.name.to_string())
            };
            format!("{kind}: {}, {}", name(artifacts), name(python))
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @r"
    ci: therock-ci-artifacts, nothing is published of release type `ci`
    dev: therock-dev-artifacts, therock-dev-python
    dev-bkc: therock-dev-artifacts, therock-dev-python
    nightly: therock-nightly-artifacts, therock-nightly-python
    nightly-bkc: therock-nightly-artifacts, therock-nightly-python
    prerelease: therock-prerelease-artifacts, therock-prerelease-python
    release: no run keeps artifacts for release type `release`, therock-release-python
    ");
}

#[test]
fn only_ci_tells_repositories_and_forks_apart() {
    let buckets = Buckets::builtin();
    let (home, other) = ("ROCm/TheRock", "ROCm/rocm-libraries");
    let table = [
        (
            ReleaseType::Ci,
            home,
            RunOrigin::Own,
            "therock-ci-artifacts",
        ),
        (
            ReleaseType::Ci,
            home,
            RunOrigin::Fork,
            "therock-ci-artifacts-external",
        ),
        (
            ReleaseType::Ci,
            other,
            RunOrigin::Own,
            "therock-ci-artifacts-external",
        ),
        (
            ReleaseType::Ci,
            other,
            RunOrigin::Fork,
            "therock-ci-artifacts-external",
        ),
        (
            ReleaseType::Nightly,
            other,
            RunOrigin::Own,
            "therock-nightly-artifacts",
        ),
        (
            ReleaseType::Nightly,
            home,
            RunOrigin::Fork,
            "therock-nightly-artifacts",
        ),
    ];
    for (kind, repository, origin, expected) in table {
        let repository = repository.parse().unwrap();
        let bucket = buckets
            .artifacts(kind, &repository, &facts(origin, ""))
            .unwrap();
        assert_eq!(
            bucket.name.as_str(),
            expected,
            "{kind} {repository} {origin:?}"
        );
    }
}

#[test]
fn runs_from_before_the_move_are_where_they_were() {
    let buckets = Buckets::builtin();
    let table = [
        (
            ReleaseType::Ci,
            RunOrigin::Own,
            "2025-11-11T16:18:48Z",
            "therock-artifacts",
        ),
        (
            ReleaseType::Ci,
            RunOrigin::Fork,
            "2025-11-11T16:18:48Z",
            "therock-artifacts-external",
        ),
        (
            ReleaseType::Ci,
            RunOrigin::Own,
            "2025-11-11T16:18:49Z",
            "therock-ci-artifacts",
        ),
        (
            ReleaseType::Dev,
            RunOrigin::Own,
            "2025-11-11T16:18:48Z",
            "therock-dev-artifacts",
        ),
    ];
    for (kind, origin, at, expected) in table {
        let bucket = buckets
            .artifacts(kind, buckets.home(), &facts(origin, at))
            .unwrap();
        assert_eq!(bucket.name.as_str(), expected, "{kind} {at}");
    }
}

#[test]
fn every_bucket_has_a_region_and_perhaps_a_role() {
    let rows: Vec<String> = Buckets::builtin()
        .known
        .iter()
        .map(|it| format!("{} {} {}", it.name, it.region, role(it)))
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @r"
    therock-ci-artifacts us-east-2 arn:aws:iam::692859939525:role/therock-ci
    therock-ci-artifacts-external us-east-2 arn:aws:iam::692859939525:role/therock-ci-external
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
fn each_stream_publishes_each_product() {
    let rows: Vec<String> = ReleaseType::ALL
        .iter()
        .map(
            |&kind| match Buckets::builtin().publication(kind, Product::Pytorch) {
                Ok(it) => {
                    let (name, role) = (&it.bucket.name, role(&it.bucket));
                    format!("{kind}: {name} {role} {}", it.index_url)
                }
                Err(error) => error.to_string(),
            },
        )
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @r"
    no stream publishes release type `ci`
    dev: therock-repo-amd-dev-pytorch arn:aws:iam::324352301041:role/therock-repo-dev-pytorch https://dev.repo.amd.com/rocm/whl-next/
    dev-bkc: therock-repo-amd-bkc-pytorch arn:aws:iam::324352301041:role/therock-repo-bkc-pytorch https://bkc.repo.amd.com/rocm/whl-next/
    nightly: therock-repo-amd-nightly-pytorch arn:aws:iam::324352301041:role/therock-repo-nightly-pytorch https://nightly.repo.amd.com/rocm/whl-next/
    nightly-bkc: therock-repo-amd-bkc-pytorch arn:aws:iam::324352301041:role/therock-repo-bkc-pytorch https://bkc.repo.amd.com/rocm/whl-next/
    prerelease: therock-repo-amd-rc-pytorch arn:aws:iam::324352301041:role/therock-repo-rc-pytorch https://rc.repo.amd.com/rocm/whl-next/
    no stream publishes release type `release`
    ");
    let names = [Product::Core, Product::Pytorch, Product::Jax].map(Product::as_str);
    assert_eq!(names, ["core", "pytorch", "jax"]);
}

#[test]
fn what_others_make_lies_in_an_index_of_its_own() {
    assert_eq!(
        Buckets::builtin().dependencies().https(),
        "https://therock-ci-artifacts.s3.amazonaws.com/python-deps/simple/"
    );
}

#[test]
fn rules_that_lead_nowhere_are_refused() {
    let good = include_str!("../../buckets.toml");
    let broken = [
        (r#"account = "692859939525""#, r#"account = "69285""#),
        (r#"{ name = "therock-artifacts" },"#, ""),
        (
            r#"{ name = "therock-nightly-python",        role = "therock-nightly" },"#,
            "",
        ),
        (
            r#"name = "therock-dev-python""#,
            r#"name = "therock-dev-packages""#,
        ),
        (
            r#"{ name = "dev",         artifacts"#,
            r#"{ name = "ci", artifacts"#,
        ),
        (
            r#"{ name = "release",     published = "therock-release-{channel}" },"#,
            "",
        ),
        (r#"role = "therock-ci-external", external = true"#, ""),
        (r#"home = "ROCm/TheRock""#, r#"home = "TheRock""#),
        (r#"until     = "2025-11-11T"#, r#"until = "2025"#),
        ("{stream}-{product}\"\nrole", "{stream}_{product}\"\nrole"),
    ];
    let messages: Vec<String> = broken
        .iter()
        .map(|(old, new)| {
            assert!(good.contains(old), "{old}");
            let error = Buckets::parse(&good.replace(old, new)).unwrap_err();
            format!("{error:#}")
        })
        .collect();
    insta::assert_snapshot!(messages.join("\n"), @r#"
    not an account of 12 digits: `69285`
    a bucket that is not listed: `therock-artifacts`
    a bucket that is not listed: `therock-nightly-python`
    a bucket listed twice
    no rule for release type `dev`
    not one rule for each release type
    a bucket of the other kind: `therock-ci-artifacts-external`
    not a repository such as `ROCm/TheRock`: "TheRock"
    not a time such as `2025-11-11T16:18:48Z`: "202516:18:48Z"
    a bucket's name has small letters, digits, `-` and `.`: "therock-repo-amd-dev_core"
    "#);
}
