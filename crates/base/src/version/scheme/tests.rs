//! Versions in every spelling that upstream has used.

use proptest::prelude::*;
use strum::VariantArray as _;

use super::*;
use crate::error;

const SHA: &str = "efed3c3b10a5cce8578f58f8eb288582c26d18c4";

fn inputs() -> VersionInputs {
    VersionInputs {
        base: "10.1.0".parse().unwrap(),
        today: "20260814".parse().unwrap(),
        base_date: Some("20260811".parse().unwrap()),
        git_sha: Some(SHA.parse().unwrap()),
        prerelease: None,
    }
}

fn numbered() -> VersionInputs {
    VersionInputs { prerelease: Some(2), ..inputs() }
}

fn row(scheme: &VersionScheme, inputs: &VersionInputs) -> String {
    let versions = compute(scheme, inputs).unwrap();
    format!("{} {} {}", versions.wheel, versions.deb, versions.rpm)
}

fn refusal<T: std::fmt::Debug>(result: Result<T>) -> String {
    error::render(&result.unwrap_err())
}

#[test]
fn each_release_type_has_its_own_version_for_each_kind_of_package() {
    let rows: Vec<String> = ReleaseType::VARIANTS
        .iter()
        .map(|&kind| {
            let inputs = match kind {
                ReleaseType::Prerelease => numbered(),
                _ => inputs(),
            };
            format!("{kind}: {}", row(&VersionScheme::Type(kind), &inputs))
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @r"
    ci: 10.1.0.dev0+efed3c3b10a5cce8578f58f8eb288582c26d18c4 10.1.0~dev20260814 10.1.0~20260814gefed3c3b
    dev: 10.1.0.dev0+efed3c3b10a5cce8578f58f8eb288582c26d18c4 10.1.0~dev20260814 10.1.0~20260814gefed3c3b
    dev-bkc: 10.1.0.dev0+efed3c3b10a5cce8578f58f8eb288582c26d18c4 10.1.0~dev20260814 10.1.0~20260814gefed3c3b
    nightly: 10.1.0a20260814 10.1.0~20260814 10.1.0~20260814
    nightly-bkc: 10.1.0a20260811+bkc.20260814 10.1.0~20260811.bkc.20260814 10.1.0~20260811.bkc.20260814
    prerelease: 10.1.0rc2 10.1.0~pre2 10.1.0~rc2
    release: 10.1.0 10.1.0 10.1.0
    ");
}

#[test]
fn a_suffix_of_ones_own_is_the_same_for_every_kind_of_package() {
    let suffix = |text: &str| row(&VersionScheme::Suffix(text.into()), &inputs());
    assert_eq!(suffix(".dev0"), "10.1.0.dev0 10.1.0.dev0 10.1.0.dev0");
    assert_eq!(suffix("RC1"), "10.1.0rc1 10.1.0RC1 10.1.0RC1");
}

#[test]
fn what_a_release_type_lacks_is_named() {
    let bare = VersionInputs { base_date: None, git_sha: None, ..inputs() };
    let without_base_date = VersionInputs { base_date: None, ..inputs() };
    let of = |kind, inputs: &VersionInputs| refusal(compute(&VersionScheme::Type(kind), inputs));
    let messages = [
        of(ReleaseType::Ci, &bare),
        of(ReleaseType::DevBkc, &without_base_date),
        of(ReleaseType::NightlyBkc, &without_base_date),
        of(ReleaseType::Prerelease, &inputs()),
        of(ReleaseType::Nightly, &numbered()),
        refusal(compute(&VersionScheme::Suffix(".dev0".into()), &numbered())),
    ];
    insta::assert_snapshot!(messages.join("\n"), @r"
    error: a `ci` version without a commit

    hint: pass `--git-sha`

    error: a `dev-bkc` version without `release-metadata.base-date`

    hint: set it in `version.json`, or pass `--base-date`

    error: a `nightly-bkc` version without `release-metadata.base-date`

    hint: set it in `version.json`, or pass `--base-date`

    error: a prerelease without a number

    hint: pass `--rc`

    error: the number of a prerelease for something else: release type `nightly`

    hint: pass `--rc` with `--release-type prerelease` only

    error: the number of a prerelease for something else: suffix `.dev0`

    hint: pass `--rc` with `--release-type prerelease` only
    ");
}

#[test]
fn a_suffix_that_a_package_manager_would_misread_is_refused() {
    let of = |text: &str| refusal(compute(&VersionScheme::Suffix(text.into()), &inputs()));
    let messages = ["", " ", "-1", "~x", ".dev0\nx=y", "!1", "é", "+", ".x"].map(of);
    insta::assert_snapshot!(messages.join("\n"), @r#"
    error: an empty version suffix

    error: a version suffix with other characters than letters, digits, `.` and `+`: " "

    error: a version suffix with other characters than letters, digits, `.` and `+`: "-1"

    error: a version suffix with other characters than letters, digits, `.` and `+`: "~x"

    error: a version suffix with other characters than letters, digits, `.` and `+`: ".dev0\nx=y"

    error: a version suffix with other characters than letters, digits, `.` and `+`: "!1"

    error: a version suffix with other characters than letters, digits, `.` and `+`: "é"

    error: not a PEP 440 version: "10.1.0+"
      caused by: found a `+` indicating the start of a local component in a version, but did not find any alphanumeric ASCII segment following the `+`

    error: not a PEP 440 version: "10.1.0.x"
      caused by: after parsing `10.1.0`, found `.x`, which is not part of a valid version
    "#);
}

prop_compose! {
    fn date()(year in 1970u16..=9999, month in 1u8..=12, day in 1u8..=28) -> Date {
        format!("{year}{month:02}{day:02}").parse().unwrap()
    }
}

proptest! {
    #[test]
    fn nearer_releases_are_newer_and_every_wheel_version_is_normal(
        base in "(0|[1-9][0-9]{0,3})(\\.(0|[1-9][0-9]{0,3})){0,3}",
        (older, today) in (date(), date()).prop_filter("two days", |(a, b)| a < b),
        number in any::<u32>(),
        sha in "[0-9a-f]{40}",
    ) {
        let wheel = |kind| {
            let inputs = VersionInputs {
                base: base.parse().unwrap(),
                today,
                base_date: Some(older),
                git_sha: Some(sha.parse().unwrap()),
                prerelease: (kind == ReleaseType::Prerelease).then_some(number.into()),
            };
            compute(&VersionScheme::Type(kind), &inputs).unwrap().wheel
        };
        let order = [
            ReleaseType::Dev,
            ReleaseType::NightlyBkc,
            ReleaseType::Nightly,
            ReleaseType::Prerelease,
            ReleaseType::Release,
        ];
        for pair in order.windows(2) {
            prop_assert!(wheel(pair[0]) < wheel(pair[1]));
        }
        prop_assert_eq!(wheel(ReleaseType::Dev), wheel(ReleaseType::DevBkc));
        prop_assert_eq!(wheel(ReleaseType::Dev), wheel(ReleaseType::Ci));
        for &kind in ReleaseType::VARIANTS {
            let text = wheel(kind).to_string();
            prop_assert!(text.starts_with(&base), "{} is not normal", text);
        }
    }
}
