//! `version`, and where `build` and `pipeline` find the version of artifacts.

use crate::support::place;
use crate::support::prelude::*;

const SHA: &str = "efed3c3b10a5cce8578f58f8eb288582c26d18c4";

/// A checkout with `version.json` and a commit.
fn checkout() -> TempDir {
    let checkout = tempfile::tempdir().unwrap();
    let version = r#"{"rocm-version": "10.1.0", "release-metadata": {"base-date": "20260811"}}"#;
    for (path, text) in [
        ("version.json", version),
        // The least that git takes for a repository.
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/objects/info/packs", ""),
        (".git/refs/heads/main", SHA),
        ("docs/page.md", ""),
    ] {
        let path = checkout.path().join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    checkout
}

/// Runs it in a directory, with variables.
fn version(at: &Path, variables: &[(&str, &str)], arguments: &str) -> Outcome {
    let mut command = command();
    command.current_dir(at).envs(variables.iter().copied());
    command.arg("version").args(arguments.split_whitespace());
    Outcome::of(command.output().unwrap())
}

#[test]
fn a_line_of_a_workflow_needs_only_the_name_of_the_program() {
    let checkout = checkout();
    let outputs = checkout.path().join("outputs");
    let lines = [
        "--release-type=dev",
        "--release-type=ci --override-git-sha=0123456789ABCDEF0123456789abcdef01234567",
        "--release-type=nightly --override-base-version=7.99.0",
        "--release-type=nightly-bkc",
        "--release-type=prerelease --prerelease-version=02",
        "--release-type=release",
        "--custom-version-suffix=.dev0",
    ];
    let told = lines.map(|line| {
        fs_err::write(&outputs, "").unwrap();
        let variables = [
            ("GITHUB_OUTPUT", place::text(&outputs)),
            ("SOURCE_DATE_EPOCH", "1786751999"),
            ("GITHUB_SHA", SHA),
        ];
        version(checkout.path(), &variables, line).ok();
        let text = fs_err::read_to_string(&outputs).unwrap();
        let lines = text.lines().filter(|it| !it.starts_with("rocwheel_"));
        let lines: Vec<&str> = lines.collect();
        let values = lines.chunks(2).filter(|it| it[0].contains("_package_version"));
        let values = values.map(|it| format!("{}={}\n", it[0].split_once('<').unwrap().0, it[1]));
        format!("{line}\n{}", values.collect::<String>())
    });
    insta::assert_snapshot!(told.join("\n"), @"
    --release-type=dev
    rocm_package_version=10.1.0.dev0+efed3c3b10a5cce8578f58f8eb288582c26d18c4
    rocm_deb_package_version=10.1.0~dev20260814
    rocm_rpm_package_version=10.1.0~20260814gefed3c3b

    --release-type=ci --override-git-sha=0123456789ABCDEF0123456789abcdef01234567
    rocm_package_version=10.1.0.dev0+0123456789abcdef0123456789abcdef01234567
    rocm_deb_package_version=10.1.0~dev20260814
    rocm_rpm_package_version=10.1.0~20260814g01234567

    --release-type=nightly --override-base-version=7.99.0
    rocm_package_version=7.99.0a20260814
    rocm_deb_package_version=7.99.0~20260814
    rocm_rpm_package_version=7.99.0~20260814

    --release-type=nightly-bkc
    rocm_package_version=10.1.0a20260811+bkc.20260814
    rocm_deb_package_version=10.1.0~20260811.bkc.20260814
    rocm_rpm_package_version=10.1.0~20260811.bkc.20260814

    --release-type=prerelease --prerelease-version=02
    rocm_package_version=10.1.0rc2
    rocm_deb_package_version=10.1.0~pre2
    rocm_rpm_package_version=10.1.0~rc2

    --release-type=release
    rocm_package_version=10.1.0
    rocm_deb_package_version=10.1.0
    rocm_rpm_package_version=10.1.0

    --custom-version-suffix=.dev0
    rocm_package_version=10.1.0.dev0
    rocm_deb_package_version=10.1.0.dev0
    rocm_rpm_package_version=10.1.0.dev0
    ");
}

#[test]
fn a_checkout_says_what_was_not_given() {
    let checkout = checkout();
    let inside = checkout.path().join("docs");
    let Outcome { stdout, stderr, .. } = version(&inside, &[], "--release-type dev --format json");
    let root = fs_err::canonicalize(checkout.path()).unwrap();
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    let today = time::OffsetDateTime::now_utc().date();
    let format = time::macros::format_description!("[year][month][day]");
    let yesterday = today.previous_day().unwrap();
    let days = [today, yesterday].map(|day| day.format(&format).unwrap());
    let date = answer["date"].as_str().unwrap();
    assert!(days.iter().any(|day| day == date), "{date}");
    insta::assert_snapshot!(stdout.trim_end().replace(date, "TODAY"), @r#"{"schema":"rocwheel-report-v1","command":"version","wheel":"10.1.0.dev0+efed3c3b10a5cce8578f58f8eb288582c26d18c4","deb":"10.1.0~devTODAY","rpm":"10.1.0~TODAYgefed3c3b","release-type":"dev","suffix":null,"base-version":"10.1.0","date":"TODAY","base-date":null,"commit":"efed3c3b10a5cce8578f58f8eb288582c26d18c4"}"#);
    insta::assert_snapshot!(stderr.replace(place::text(&root), "ROOT"), @"
            Read commit efed3c3b10a5cce8578f58f8eb288582c26d18c4 from git in `ROOT`
            Read version 10.1.0 from `ROOT/version.json`
    ");
    // What a version does not have is not read: not even a broken repository is an error.
    fs_err::write(root.join(".git/HEAD"), "").unwrap();
    let line = "--release-type nightly --date 20261122";
    insta::assert_snapshot!(version(&inside, &[], line).ok(), @"
    wheel: 10.1.0a20261122
    deb:   10.1.0~20261122
    rpm:   10.1.0~20261122
    ");
    // The suffix on the command line is worth more than the variable of the job.
    let variables = [("RELEASE_TYPE", "nightly"), ("GITHUB_SHA", "")];
    let told = version(&inside, &variables, "--suffix .dev1").ok();
    assert!(told.starts_with("wheel: 10.1.0.dev1\n"), "{told}");
}

#[test]
fn what_is_missing_is_named_with_its_flag() {
    let nowhere = tempfile::tempdir().unwrap();
    let checkout = checkout();
    fs_err::write(checkout.path().join("version.json"), "{}").unwrap();
    let root = fs_err::canonicalize(checkout.path()).unwrap();
    let refusal = |at: &Path, line: &str| {
        let outcome = version(at, &[], line);
        assert_eq!(outcome.code, 2, "{}", outcome.stdout);
        outcome.stderr.replace(place::text(&root), "ROOT")
    };
    let told = [
        "",
        "--release-type nightly",
        "--release-type dev --base-version 7.0",
        "--release-type dev-bkc --base-version 7.0 --git-sha 0123abcd",
        "--release-type prerelease --base-version 7.0",
        "--release-type dev --base-version 7.0 --rc 1 --git-sha 0123abcd",
    ];
    let told = told.map(|line| refusal(nowhere.path(), line) + "\n").concat();
    let damaged = refusal(&root, "--release-type nightly");
    insta::assert_snapshot!(told + &damaged, @"
    error: no release type was given, so the suffix is unknown

    hint: pass `--release-type`, or `--suffix` for one of your own

    error: no `version.json` in this directory or above

    hint: pass `--base-version`, or the file as `--version-file`

    error: a `dev` version without a commit

    hint: pass `--git-sha`

    error: a `dev-bkc` version without `release-metadata.base-date`

    hint: set it in `version.json`, or pass `--base-date`

    error: a prerelease without a number

    hint: pass `--rc`

    error: the number of a prerelease for something else: release type `dev`

    hint: pass `--rc` with `--release-type prerelease` only

    error: failed to read `ROOT/version.json`
      caused by: `rocm-version` must be set in `version.json`

    hint: set it, or pass `--base-version`
    ");
}

/// The sample, with these as the manifest and the base version of its base artifact.
fn artifacts(name: &str, version: Option<&str>, has_base: bool) -> std::path::PathBuf {
    let place = place::empty(&format!("version/{name}"));
    published::sample().write_archives(&place);
    let base = "base_lib_generic";
    fs_err::remove_file(place.join(format!("{base}.tar.zst"))).unwrap();
    let from = published::sample().artifacts().join(base);
    place::copy_tree(&from, &place);
    let stage = place.join(base).join("base/aux-overlay/stage");
    let path = stage.join("share/therock/therock_manifest.json");
    let text = fs_err::read_to_string(&path).unwrap();
    let mut manifest: Value = serde_json::from_str(&text).unwrap();
    let key = "rocm_package_version";
    manifest.as_object_mut().unwrap().remove(key);
    if let Some(version) = version {
        manifest[key] = version.into();
    }
    fs_err::write(path, manifest.to_string()).unwrap();
    if !has_base {
        fs_err::remove_file(stage.join(".info/version")).unwrap();
    }
    place
}

#[test]
fn build_and_pipeline_find_the_version_alike() {
    let commit = "0.99.1.dev0+";
    for (name, version, has_base, kind, expected) in [
        ("said", Some("7.0rc1"), false, "ci", "7.0rc1"),
        ("git", Some("git"), true, "ci", commit),
        ("old", None, true, "dev", commit),
        ("release", None, true, "release", "0.99.1"),
        ("neither", None, false, "ci", "pass `--version`"),
        ("nightly", Some("git"), true, "nightly", "pass `--version`"),
    ] {
        let from = artifacts(name, version, has_base);
        let to = place::empty(&format!("version/{name}-to"));
        let from = ["--artifact-dir", place::text(&from), "--release-type", kind];
        let to = ["--output-dir", place::text(&to), "--dry-run", "--format=json"];
        for verb in ["build", "pipeline"] {
            let outcome = rocwheel(&[&[verb], &from[..], &to].concat());
            let said = outcome.stderr;
            assert_eq!(outcome.code == 0, !expected.contains(' '), "{name}: {said}");
            if outcome.code != 0 {
                assert!(said.contains(expected), "{name}: {said}");
                continue;
            }
            assert_has!(outcome.stdout, &format!("rocm-{expected}"));
            let notes = said.matches("note: version ").count();
            let is_noted = version != Some("7.0rc1");
            assert_eq!(notes, usize::from(is_noted), "{name}: {said}");
        }
    }
}
