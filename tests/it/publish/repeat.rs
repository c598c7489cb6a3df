//! Uploads that come again, come late, or meet others.

use std::time::{Duration, SystemTime};

use super::{
    Bench, Outcome,
    install::published_in_memory,
    packages::{wheel, wheels},
    rocwheel, tree,
};

fn upload(bench: &Bench, more: &[&str]) -> Outcome {
    let (from, to) = (bench.path("built"), bench.path("out"));
    let common = [
        "upload",
        "--packages-dir",
        &from,
        "--output-dir",
        &to,
        "--run-id=42",
        "--bucket=mine",
        "--platform",
        "linux",
        "--multi-target",
        "--no-check",
    ];
    rocwheel(&[&common[..], more].concat())
}

fn built() -> Bench {
    let bench = Bench::new();
    wheels(&bench.root.join("built"));
    bench
}

const CORE: &str = "out/42-linux/python/dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl";

#[test]
fn a_second_upload_changes_nothing_and_says_so() {
    let bench = built();
    upload(&bench, &[]).ok();
    let there = tree(&bench.root.join("out"));
    let again = upload(&bench, &[]);
    // Files that are compared at the same time end in any order.
    let said = again.stderr.replace(bench.root.to_str().unwrap(), "ROOT");
    let mut said: Vec<&str> = said.lines().collect();
    said.sort_unstable();
    insta::assert_snapshot!(said.join("\n"), @"
    Published 17 objects in ROOT/out/42-linux/python, 17 of them unchanged
    Unchanged dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl: 1.00 KiB
    Unchanged dist/rocm_sdk_device_gfx942-7.13.0.dev0+ab.cd-py3-none-any.whl: 1.14 KiB
    Unchanged dist/rocm_sdk_libraries-7.13.0.dev0+ab.cd-py3-none-any.whl: 1.04 KiB
    ");
    again.ok();
    assert_eq!(tree(&bench.root.join("out")), there);
}

#[test]
fn a_second_upload_of_families_changes_nothing_either() {
    let bench = built();
    let family = bench.root.join("built/dist/gfx94X-dcgpu");
    wheel(&family, "rocm", "7.13.0.dev0+ab.cd", "");
    upload(&bench, &[]).ok();
    let again = upload(&bench, &["--dry-run"]).ok();
    assert!(again.contains("\n0 new (0 B), 0 to replace"), "{again}");
}

#[test]
fn an_upload_that_was_interrupted_is_completed() {
    let bench = built();
    upload(&bench, &[]).ok();
    let whole = tree(&bench.root.join("out"));
    for part in [
        "set.json",
        "dist/index.html",
        "simple/rocm-sdk-core/index.html",
        "SHA256SUMS",
    ] {
        fs_err::remove_file(bench.path(&format!("out/42-linux/python/{part}"))).unwrap();
    }
    fs_err::remove_file(bench.path(CORE)).unwrap();
    fs_err::write(bench.path("out/42-linux/python/simple/index.html"), "half").unwrap();
    upload(&bench, &[]).ok();
    assert_eq!(tree(&bench.root.join("out")), whole);
    let page = fs_err::read_to_string(bench.path("out/42-linux/python/simple/index.html"));
    assert!(page.unwrap().contains("rocm-sdk-core"));
}

#[test]
fn other_bytes_are_refused_and_everything_stays() {
    let bench = built();
    upload(&bench, &[]).ok();
    let page = bench.path("out/42-linux/python/simple/index.html");
    // It is another name of the file that was built.
    fs_err::remove_file(bench.path(CORE)).unwrap();
    fs_err::write(bench.path(CORE), "other").unwrap();
    fs_err::write(&page, "old").unwrap();
    let refused = upload(&bench, &[]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    let here = fs_err::read(bench.path(&CORE.replace("out/42-linux/python", "built"))).unwrap();
    let here = rocwheel::digest::Sha256::of(&here).to_string();
    let said = refused.stderr.replace(bench.root.to_str().unwrap(), "ROOT");
    let said = said.replace(&here, "HERE");
    insta::assert_snapshot!(said, @r"
    error: 1 file is in `ROOT/out/42-linux/python` already, with other bytes; nothing was changed
      caused by: `dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl`: here 1024 bytes with sha256 HERE, there 5 bytes with sha256 d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa

    hint: build under another version, or pass `--overwrite` to replace the files
    ");
    assert_eq!(fs_err::read_to_string(&page).unwrap(), "old");
    assert_eq!(fs_err::read_to_string(bench.path(CORE)).unwrap(), "other");
    upload(&bench, &["--overwrite"]).ok();
    assert_ne!(fs_err::read_to_string(&page).unwrap(), "old");
}

#[test]
fn a_dry_run_says_what_would_be_and_does_nothing() {
    let bench = built();
    let output = bench.path("output");
    let plan = upload(&bench, &["--dry-run", "--github-output", &output]).ok();
    assert!(
        plan.lines()
            .any(|line| line.starts_with("new ") && line.contains("dist/rocm_sdk_core"))
    );
    let json = upload(&bench, &["--dry-run", "--format", "json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json["actions"].as_array().unwrap().len(),
        // The first line names the place, the last ones count.
        plan.lines().count() - 3
    );
    assert!(!bench.root.join("out").exists() && !bench.root.join("output").exists());
}

#[test]
fn files_that_are_not_of_the_set_are_reported() {
    let bench = built();
    upload(&bench, &[]).ok();
    fs_err::rename(bench.path(CORE), bench.path(&CORE.replace("7.13", "7.12"))).unwrap();
    let again = upload(&bench, &[]);
    assert!(
        again.stderr.contains("1 object not listed by the index"),
        "{}",
        again.stderr
    );
    again.ok();
}

#[test]
fn every_object_has_its_type_and_its_cache_header() {
    let bench = Bench::new();
    wheels(&bench.root);
    let store = published_in_memory(&bench);
    let lines: Vec<String> = store
        .keys()
        .iter()
        .filter(|key| !key.contains("libraries") && !key.contains("device"))
        .map(|key| {
            let kept = store.find(key).unwrap();
            let key = key.strip_prefix("42-linux/python/").unwrap();
            format!(
                "{key:?}: {}; {}",
                kept.content_type,
                kept.cache_control.unwrap()
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    "SHA256SUMS": text/plain; charset=utf-8; no-cache
    "dist/": text/html; charset=utf-8; no-cache
    "dist/index.html": text/html; charset=utf-8; no-cache
    "dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl": application/zip; public, max-age=31536000, immutable
    "dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl.metadata": text/plain; charset=utf-8; public, max-age=31536000, immutable
    "set.json": application/json; no-cache
    "simple/": text/html; charset=utf-8; no-cache
    "simple/_json/": application/vnd.pypi.simple.v1+json; no-cache
    "simple/_json/index.json": application/vnd.pypi.simple.v1+json; no-cache
    "simple/_json/rocm-sdk-core/": application/vnd.pypi.simple.v1+json; no-cache
    "simple/_json/rocm-sdk-core/index.json": application/vnd.pypi.simple.v1+json; no-cache
    "simple/index.html": text/html; charset=utf-8; no-cache
    "simple/rocm-sdk-core/": text/html; charset=utf-8; no-cache
    "simple/rocm-sdk-core/index.html": text/html; charset=utf-8; no-cache
    "#);
    let set = store.find("42-linux/python/set.json").unwrap();
    assert!(!String::from_utf8(set.bytes).unwrap().contains("modified"));
}

/// What `build` says of packages that it made from a commit.
fn made_from(bench: &Bench, commit: char) {
    let commit = commit.to_string().repeat(40);
    let text = format!(
        r#"{{"schema": 1, "run-id": "42", "commit": "{commit}", "version": "7.13.0.dev0+ab.cd", "targets": ["gfx942"], "files": []}}"#
    );
    fs_err::write(bench.root.join("built/set.json"), text).unwrap();
}

#[test]
fn a_part_of_another_commit_is_refused_and_the_whole_says_what_all_parts_said() {
    let bench = built();
    let published = bench.root.join("out/42-linux/python");
    made_from(&bench, 'a');
    upload(&bench, &["--part"]).ok();
    insta::assert_snapshot!(fs_err::read_to_string(published.join("part.json")).unwrap(), @r#"
    {
      "schema": 1,
      "run-id": "42",
      "platform": "linux",
      "commit": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
      "version": "7.13.0.dev0+ab.cd",
      "files": []
    }
    "#);
    made_from(&bench, 'b');
    let refused = upload(&bench, &["--part"]);
    assert_eq!(refused.code, 1);
    insta::assert_snapshot!(refused.stderr.replace(bench.root.to_str().unwrap(), "ROOT"), @"
    error: 1 file is in `ROOT/out/42-linux/python` already, with other bytes; nothing was changed
      caused by: `part.json`: here 164 bytes with sha256 d45506e94e29f167b9a5abf68fe967e634a15a54a4ffe52b02c3844e5cc0053e, there 164 bytes with sha256 3bfe502389a55ef510d39c08af55a64ea7344b56d1d290507ef2d0218af905b1

    hint: build under another version, or pass `--overwrite` to replace the files
    ");
    rocwheel(&["index", "--no-check", published.to_str().unwrap()]).ok();
    let said = fs_err::read_to_string(published.join("set.json")).unwrap();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["commit"], "a".repeat(40));
    assert_eq!(said["platform"], "linux");
    // The pages of a whole are its own.
    assert!(!fs_err::exists(bench.root.join("built/part.json")).unwrap());
}

#[test]
fn packages_of_other_tools_may_come_from_any_run() {
    let bench = built();
    let said = upload(&bench, &["--part", "--format", "json"]).ok();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["schema"], "rocwheel-upload-part-v1");
    assert_eq!(said["uploaded"], 6);
    let part = bench.root.join("out/42-linux/python/part.json");
    assert!(!fs_err::exists(part).unwrap());
}

/// `set.json` of what was published, after what an index says is yanked.
fn yanked(bench: &Bench) -> Vec<(String, String)> {
    let text = fs_err::read_to_string(bench.path("out/42-linux/python/set.json")).unwrap();
    let set: serde_json::Value = serde_json::from_str(&text).unwrap();
    let files = set["files"].as_array().unwrap().iter();
    let yanked = files.filter_map(|file| {
        let path = file["path"].as_str()?.to_owned();
        Some((path, file["yanked"].as_str()?.to_owned()))
    });
    yanked.collect()
}

#[test]
fn a_repeated_upload_takes_no_yank_back_but_other_bytes_are_another_file() {
    let bench = built();
    upload(&bench, &[]).ok();
    let core = CORE.rsplit('/').next().unwrap();
    let list = bench.path("list");
    fs_err::write(&list, format!("{core} broken\n")).unwrap();
    let place = bench.path("out/42-linux/python");
    rocwheel(&["index", "--no-check", &place, "--yank", &list]).ok();
    let expected = [(format!("dist/{core}"), "broken".to_owned())];
    assert_eq!(yanked(&bench), expected);
    upload(&bench, &[]).ok();
    assert_eq!(yanked(&bench), expected);
    // A yank of the directory that is uploaded wins.
    fs_err::write(&list, format!("{core} worse\n")).unwrap();
    rocwheel(&["index", "--no-check", &bench.path("built"), "--yank", &list]).ok();
    upload(&bench, &[]).ok();
    assert_eq!(
        yanked(&bench),
        [(format!("dist/{core}"), "worse".to_owned())]
    );
    fs_err::remove_file(bench.path("built/set.json")).unwrap();
    wheel(
        &bench.root.join("built/dist"),
        "rocm-sdk-core",
        "7.13.0.dev0+ab.cd",
        "Requires-Python: >=3.9\n",
    );
    upload(&bench, &["--overwrite"]).ok();
    assert_eq!(yanked(&bench), []);
}

#[test]
fn an_empty_destination_is_refused_and_not_the_place_of_the_run() {
    let bench = built();
    let from = bench.path("built");
    for (flag, more) in [("--output-dir", "--multi-target"), ("--to", "--no-check")] {
        for empty in [vec![format!("{flag}=")], vec![flag.into(), String::new()]] {
            let empty: Vec<&str> = empty.iter().map(String::as_str).collect();
            let line = ["upload", "--packages-dir", &from, "--run-id=42", more];
            let refused = rocwheel(&[&line[..], &empty].concat());
            assert_eq!(refused.code, 2, "{}", refused.stderr);
            assert!(refused.stderr.contains(flag), "{}", refused.stderr);
        }
    }
}

#[test]
fn what_the_parts_say_counts_after_a_set_of_others() {
    let bench = built();
    let torch = bench.root.join("torch");
    wheel(&torch, "torch", "2.9", "");
    let (from, to) = (bench.path("torch"), bench.path("out"));
    let line = ["upload", "--packages-dir", &from, "--output-dir", &to];
    let run = ["--run-id=42", "--bucket=mine", "--platform=linux"];
    rocwheel(&[&line[..], &run, &["--multi-target", "--no-check"]].concat()).ok();
    let place = bench.path("out/42-linux/python");
    let set = format!("{place}/set.json");
    let old = SystemTime::now() - Duration::from_mins(1);
    let file = fs_err::OpenOptions::new().write(true).open(&set).unwrap();
    file.file().set_modified(old).unwrap();
    made_from(&bench, 'a');
    upload(&bench, &["--part"]).ok();
    rocwheel(&["index", "--no-check", &place]).ok();
    let said: serde_json::Value =
        serde_json::from_str(&fs_err::read_to_string(set).unwrap()).unwrap();
    assert_eq!(said["commit"], "a".repeat(40));
    assert_eq!(said["files"].as_array().unwrap().len(), 4);
}

/// What a new build deletes, no page names any more.
#[test]
fn a_build_into_an_indexed_directory_takes_the_index_along() {
    let bench = Bench::new();
    let artifacts = crate::support::published::sample().artifacts();
    let (artifacts, packages) = (artifacts.to_str().unwrap(), bench.path("packages"));
    let build = |version: &str| {
        let from = ["build", "--artifact-dir", artifacts, "--version", version];
        let to = ["--clean", "--output-dir", &packages];
        rocwheel(&[&from[..], &to].concat()).ok();
    };
    build("7.13.0");
    rocwheel(&["index", &packages]).ok();
    // Pages of other programs stay.
    let root = bench.root.join("packages");
    for (path, text) in [
        ("simple/rocm-sdk-core/notes.txt", "mine"),
        ("simple/rocm/index.html", "<a href=x>mine</a>"),
    ] {
        fs_err::write(root.join(path), text).unwrap();
    }
    build("7.14.0");
    let left = tree(&root).into_iter();
    let mut left: Vec<String> = left.filter(|it| !it.starts_with("dist/")).collect();
    left.retain(|it| !it.contains(".rocwheel-"));
    left.sort();
    insta::assert_snapshot!(left.join("\n"), @"
    set.json
    simple/rocm-sdk-core/notes.txt
    simple/rocm/index.html
    ");
    rocwheel(&["check", &packages]).ok();
}
