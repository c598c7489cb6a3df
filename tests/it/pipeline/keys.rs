//! What `place` says, `upload` and `pipeline` do, to the key; and dry runs list what is written.

use std::{collections::BTreeSet, path::Path, process::Command};

use serde_json::Value;

use super::{contents, place, text};
use crate::{
    fetch::Fixture,
    support::{
        place::TEMPORARY,
        program::{Outcome, ROCWHEEL},
        published::{self, sets},
    },
};

/// A way to name a run: arguments, and variables of the workflow that it is part of.
struct Kind {
    name: &'static str,
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    root: &'static str,
}

const THIS_RUN: &[(&str, &str)] = &[
    ("GITHUB_RUN_ID", "888"),
    ("GITHUB_REPOSITORY", "ROCm/TheRock"),
];

const KINDS: &[Kind] = &[
    Kind {
        name: "no run",
        arguments: &[],
        variables: &[],
        root: "s3://local/local-linux/python/",
    },
    Kind {
        name: "this run",
        arguments: &[],
        variables: THIS_RUN,
        root: "s3://therock-ci-artifacts/888-linux/python/",
    },
    Kind {
        name: "this run, for a family",
        arguments: &["--artifact-group", "gfx94X-dcgpu"],
        variables: THIS_RUN,
        root: "s3://therock-ci-artifacts/888-linux/python/gfx94X-dcgpu/",
    },
    Kind {
        name: "a family of the workflow",
        arguments: &["--run-id", "888"],
        variables: &[("GITHUB_RUN_ID", "888"), ("ARTIFACT_GROUP", "gfx110X-all")],
        root: "s3://therock-ci-artifacts/888-linux/python/gfx110X-all/",
    },
    Kind {
        name: "another repository",
        arguments: &["--run-id", "888", "--repository", "someone/TheRock"],
        variables: &[],
        root: "s3://therock-ci-artifacts-external/someone-TheRock/888-linux/python/",
    },
    Kind {
        name: "the address of a run",
        arguments: &[
            "--run-id",
            "https://github.com/ROCm/rocm-libraries/actions/runs/888",
        ],
        variables: &[],
        root: "s3://therock-ci-artifacts-external/ROCm-rocm-libraries/888-linux/python/",
    },
    Kind {
        name: "a nightly",
        arguments: &["--run-id", "888", "--release-type", "nightly"],
        variables: &[],
        root: "s3://therock-nightly-artifacts/888-linux/python/",
    },
    Kind {
        name: "a bucket that was named",
        arguments: &["--run-id", "888", "--bucket", "my-bucket"],
        variables: &[],
        root: "s3://my-bucket/888-linux/python/",
    },
    Kind {
        name: "on behalf of a fork",
        arguments: &[],
        variables: &[
            ("GITHUB_RUN_ID", "888"),
            ("GITHUB_REPOSITORY", "ROCm/TheRock"),
            ("GITHUB_EVENT_PATH", "EVENT"),
        ],
        root: "s3://therock-ci-artifacts-external/ROCm-TheRock/888-linux/python/",
    },
];

impl Kind {
    fn run(&self, arguments: &[&str]) -> Outcome {
        let mut command = Command::new(ROCWHEEL);
        command.env_clear().args(arguments).args(self.arguments);
        for (name, value) in self.variables {
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
        let has_group = self.root.trim_end_matches('/').ends_with("python");
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
    let names = contents(root).into_keys();
    let is_published = |name: &String| {
        !["artifacts/", "packages/", "."]
            .iter()
            .any(|it| name.starts_with(it))
    };
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
        let out = scratch.join(kind.name);
        // A local run has no bucket.
        if kind.name != "no run" {
            assert_eq!(kind.json(&["place"])["set-url"], kind.root, "{}", kind.name);
        }
        let (_, root) = kind.root[5..].split_once('/').unwrap();
        let upload = [
            "upload",
            "--packages-dir",
            packages,
            "--no-check",
            "--dry-run",
        ];
        let upload = [&upload, &["--output-dir", text(&out)][..], kind.group()];
        let upload = kind.json(&upload.concat());
        let to = format!("{}/{}", out.display(), root.trim_end_matches('/'));
        assert_eq!(upload["place"], to, "{}", kind.name);
        let place = scratch.join(format!("{}, uploaded", kind.name));
        let really = ["upload", "--packages-dir", packages, "--no-check"];
        let really = [&really, &["--output-dir", text(&place)][..], kind.group()];
        kind.run(&really.concat()).ok();
        let actions = upload["actions"].as_array().unwrap().iter();
        let path = |it: &Value| {
            it["path"]
                .as_str()
                .unwrap()
                .trim_start_matches("./")
                .to_owned()
        };
        let uploaded: BTreeSet<String> = actions.map(|it| format!("{root}{}", path(it))).collect();
        assert_eq!(written(&place), files(&uploaded), "{}", kind.name);
        let pipeline = [
            "pipeline",
            "--artifact-dir",
            artifacts,
            "--output-dir",
            text(&out),
        ];
        let told = kind.json(&[&pipeline[..], &["--dry-run"]].concat());
        assert_eq!(told["set-url"], kind.root, "{}", kind.name);
        assert_eq!(told["reads"], artifacts);
        assert_eq!(strings(&told["writes"]), uploaded, "{}", kind.name);
        assert!(!out.exists(), "{}", kind.name);
        kind.run(&pipeline).ok();
        assert_eq!(written(&out), files(&uploaded), "{}", kind.name);
    }
}

#[test]
#[ignore = "slow"]
fn a_dry_run_of_packed_artifacts_lists_what_is_written() {
    let (fixture, scratch) = (Fixture::of(published::odd()), place("packed"));
    let bucket = fixture.bucket();
    let run = bucket.join("7-linux");
    let own = ["--run-id", "7", "--input-dir", text(&bucket)];
    let ways = [
        own.to_vec(),
        [
            &own[..],
            &[
                "--amdgpu-targets",
                "gfx942",
                "--artifact-group",
                "gfx94X-dcgpu",
            ],
        ]
        .concat(),
        vec!["--artifact-dir", text(&run), "--version", "9.1.dev0"],
        vec!["--sample", "--run-id", "7", "--bucket", "mine"],
    ];
    for (number, way) in ways.iter().enumerate() {
        let out = scratch.join(number.to_string());
        let kind = &KINDS[0];
        let pipeline = [&["pipeline", "--output-dir", text(&out)], &way[..]].concat();
        let told = kind.json(&[&pipeline[..], &["--dry-run"]].concat());
        let is_sample = way[0] == "--sample";
        let reads = if is_sample {
            "the built-in sample"
        } else {
            text(&run)
        };
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
