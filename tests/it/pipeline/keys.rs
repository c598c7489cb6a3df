//! What `place` says, `upload` and `pipeline` do, to the key; and dry runs list what is written.

use super::{place, text};
use crate::support::prelude::*;
use crate::{
    fetch::Fixture,
    support::{place::TEMPORARY, sandbox::words},
};

/// A way to name a run: a name, arguments, variables of the workflow that it is part of, and its place.
struct Kind(&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str);

const ID: (&str, &str) = ("GITHUB_RUN_ID", "888");
const REPOSITORY: (&str, &str) = ("GITHUB_REPOSITORY", "ROCm/TheRock");

#[rustfmt::skip]
const KINDS: &[Kind] = &[
    Kind("no run", "", &[], "s3://local/local-linux/python/"),
    Kind("this run", "", &[ID, REPOSITORY], "s3://therock-ci-artifacts/888-linux/python/"),
    Kind("this run, for a family", "--artifact-group gfx94X-dcgpu", &[ID, REPOSITORY],
        "s3://therock-ci-artifacts/888-linux/python/gfx94X-dcgpu/"),
    Kind("a family of the workflow", "--run-id 888", &[ID, ("ARTIFACT_GROUP", "gfx110X-all")],
        "s3://therock-ci-artifacts/888-linux/python/gfx110X-all/"),
    Kind("another repository", "--run-id 888 --repository someone/TheRock", &[],
        "s3://therock-ci-artifacts-external/someone-TheRock/888-linux/python/"),
    Kind("the address of a run", "--run-id https://github.com/ROCm/rocm-libraries/actions/runs/888", &[],
        "s3://therock-ci-artifacts-external/ROCm-rocm-libraries/888-linux/python/"),
    Kind("a nightly", "--run-id 888 --release-type nightly", &[],
        "s3://therock-nightly-artifacts/888-linux/python/"),
    Kind("a bucket that was named", "--run-id 888 --bucket my-bucket", &[],
        "s3://my-bucket/888-linux/python/"),
    Kind("on behalf of a fork", "", &[ID, REPOSITORY, ("GITHUB_EVENT_PATH", "EVENT")],
        "s3://therock-ci-artifacts-external/ROCm-TheRock/888-linux/python/"),
];

impl Kind {
    fn run(&self, arguments: &[&str]) -> Outcome {
        let mut command = Command::new(ROCWHEEL);
        command.env_clear().args(arguments).args(words(self.1));
        for (name, value) in self.2 {
            let event = format!("{TEMPORARY}/pipeline/keys/event.json");
            command.env(name, value.replace("EVENT", &event));
        }
        Outcome::of(command.output().unwrap())
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["--format", "json"]].concat();
        serde_json::from_str(&self.run(&arguments).ok()).unwrap()
    }

    fn group(&self) -> &'static [&'static str] {
        let has_group = self.3.trim_end_matches('/').ends_with("python");
        if has_group { &["--multi-target"] } else { &[] }
    }
}

fn strings(list: &Value) -> BTreeSet<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// The files among keys: in a directory, the page of a directory is its `index.html`.
fn files(keys: &BTreeSet<String>) -> BTreeSet<String> {
    let files = keys.iter().filter(|key| !key.ends_with('/'));
    files.cloned().collect()
}

fn written(root: &Path) -> BTreeSet<String> {
    let names = contents_without_caches(root).into_keys();
    let others = ["artifacts/", "packages/", "."];
    let is_published = |name: &String| !others.iter().any(|it| name.starts_with(it));
    names.filter(is_published).collect()
}

#[test]
#[ignore = "slow"]
fn every_kind_of_run_has_one_place_that_all_commands_agree_on() {
    let scratch = place("keys");
    let event = r#"{"repository": {"full_name": "ROCm/TheRock", "fork": false},
        "pull_request": {"head": {"repo": {"full_name": "me/TheRock"}},
                         "base": {"repo": {"full_name": "ROCm/TheRock"}}}}"#;
    fs_err::write(scratch.join("event.json"), event).unwrap();
    for (kind, set) in KINDS.iter().zip(sets().into_iter().cycle()) {
        let (artifacts, packages) = (set.artifacts(), set.root().join("packages"));
        let [artifacts, packages] = [text(&artifacts), text(&packages)];
        let &Kind(name, _, _, root) = kind;
        let out = scratch.join(name);
        // A local run has no bucket.
        if name != "no run" {
            assert_eq!(kind.json(&["place"])["set-url"], root, "{name}");
        }
        let (url, (_, root)) = (root, root[5..].split_once('/').unwrap());
        let upload = ["upload", "--packages-dir", packages, "--no-check", "--output-dir"];
        let to = |place| [&upload, &[text(place)][..], kind.group()].concat();
        let planned = kind.json(&[&to(&out)[..], &["--dry-run"]].concat());
        let there = format!("{}/{}", out.display(), root.trim_end_matches('/'));
        assert_eq!(planned["place"], there, "{name}");
        let place = scratch.join(format!("{name}, uploaded"));
        kind.run(&to(&place)).ok();
        let actions = planned["actions"].as_array().unwrap().iter();
        let paths = actions.map(|it| it["path"].as_str().unwrap().trim_start_matches("./"));
        let uploaded: BTreeSet<String> = paths.map(|it| format!("{root}{it}")).collect();
        assert_eq!(written(&place), files(&uploaded), "{name}");
        let pipeline = [
            "pipeline",
            "--artifact-dir",
            artifacts,
            "--output-dir",
            text(&out),
            // The sets have other targets than the groups here.
            "--ignore=RW317",
        ];
        let told = kind.json(&[&pipeline[..], &["--dry-run"]].concat());
        assert_eq!(told["set-url"], url, "{name}");
        assert_eq!(told["reads"], artifacts);
        assert_eq!(strings(&told["writes"]), uploaded, "{name}");
        assert!(!out.exists(), "{name}");
        kind.run(&pipeline).ok();
        assert_eq!(written(&out), files(&uploaded), "{name}");
    }
}

#[test]
#[ignore = "slow"]
fn a_dry_run_of_packed_artifacts_lists_what_is_written() {
    let (fixture, scratch) = (Fixture::of(published::odd()), place("packed"));
    let bucket = fixture.bucket();
    let run = bucket.join("7-linux");
    let own = ["--run-id", "7", "--input-dir", text(&bucket)];
    let family = "--amdgpu-targets gfx942 --artifact-group gfx94X-dcgpu";
    let ways = [
        own.to_vec(),
        own.into_iter().chain(family.split(' ')).collect(),
        vec!["--artifact-dir", text(&run), "--version", "9.1.dev0"],
        vec!["--sample", "--run-id", "7", "--bucket", "mine"],
    ];
    for (number, way) in ways.iter().enumerate() {
        let out = scratch.join(number.to_string());
        let kind = &KINDS[0];
        let pipeline = [&["pipeline", "--output-dir", text(&out)], &way[..]].concat();
        let told = kind.json(&[&pipeline[..], &["--dry-run"]].concat());
        let is_sample = way[0] == "--sample";
        let reads = if is_sample { "the built-in sample" } else { text(&run) };
        assert_eq!(told["reads"], reads, "{way:?}");
        assert!(!out.exists(), "{way:?}");
        kind.run(&pipeline).ok();
        assert_eq!(files(&strings(&told["writes"])), written(&out), "{way:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_dry_run_reads_directories_beside_archives() {
    let (set, scratch) = (published::sample(), place("mixed"));
    let dry = |input: &Path| {
        let (input, out) = (text(input), scratch.join("out"));
        let arguments = ["pipeline", "--dry-run", "--artifact-dir", input];
        KINDS[0].json(&[&arguments[..], &["--output-dir", text(&out)]].concat())
    };
    let unpacked = dry(&set.artifacts());
    // The manifest is in a directory, and then in an archive.
    for stem in ["base_lib_generic", "blas_lib_generic"] {
        let input = scratch.join(stem);
        set.write_archives(&input);
        fs_err::remove_file(input.join(format!("{stem}.tar.zst"))).unwrap();
        fs_err::os::unix::fs::symlink(set.artifacts().join(stem), input.join(stem)).unwrap();
        let mixed = dry(&input);
        assert_eq!(mixed["writes"], unpacked["writes"], "{stem}");
        let artifacts = strings(&mixed["artifacts"]);
        assert_eq!(artifacts.len(), strings(&unpacked["artifacts"]).len());
        assert!(artifacts.contains(stem), "{artifacts:?}");
        let entries = fs_err::read_dir(&input).unwrap();
        assert_eq!(entries.count(), artifacts.len(), "nothing was written");
    }
}

#[test]
fn a_run_that_is_searched_for_cannot_be_one_whose_artifacts_are_here() {
    let kind = &KINDS[0];
    let said = kind.run(&["pipeline", "--sample", "--latest", "--output-dir", "x"]);
    insta::assert_snapshot!(said.stderr, @"
    error: `--latest` cannot be used with `--sample`

    hint: name the run that the packages are for with `--run-id`, or leave out `--sample`
    ");
    let said = kind.run(&["fetch", "--run-id", "7", "--latest", "--output-dir", "x"]);
    insta::assert_snapshot!(said.stderr, @"error: `--run-id` cannot be used with `--latest`");
}
