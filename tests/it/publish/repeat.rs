//! Uploads that come again, come late, or meet others.

use std::time::{Duration, SystemTime};

use super::{
    Bench,
    install::published_in_memory,
    packages::{wheel, wheels, yank},
    tree,
};
use itertools::Itertools as _;
use rocwheel_test_files::wheels::VERSION;

use crate::support::{memory::put, memory_server::MemoryServer, prelude::*};

const CORE: &str = "out/42-linux/python/dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl";

#[test]
fn a_second_upload_changes_nothing_and_says_so() {
    let bench = Bench::built();
    bench.upload("").ok();
    let there = tree(&bench.root.join("out"));
    let again = bench.upload("");
    // Files that are compared at the same time end in any order.
    let mut said: Vec<&str> = again.stderr.lines().collect();
    said.sort_unstable();
    insta::assert_snapshot!(said.join("\n"), @"
    Published 14 objects in out/42-linux/python, 14 of them unchanged
    Unchanged dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl: 1.00 KiB
    Unchanged dist/rocm_sdk_device_gfx942-7.13.0.dev0+ab.cd-py3-none-any.whl: 1.14 KiB
    Unchanged dist/rocm_sdk_libraries-7.13.0.dev0+ab.cd-py3-none-any.whl: 1.04 KiB
    ");
    again.ok();
    assert_eq!(tree(&bench.root.join("out")), there);
}

#[test]
fn an_upload_that_was_interrupted_is_completed() {
    let bench = Bench::built();
    bench.upload("").ok();
    let whole = tree(&bench.root.join("out"));
    for part in ["set.json", "dist/index.html", "simple/rocm-sdk-core/index.html", "SHA256SUMS"] {
        fs_err::remove_file(bench.path(&format!("out/42-linux/python/{part}"))).unwrap();
    }
    fs_err::remove_file(bench.path(CORE)).unwrap();
    fs_err::write(bench.path("out/42-linux/python/simple/index.html"), "half").unwrap();
    bench.upload("").ok();
    assert_eq!(tree(&bench.root.join("out")), whole);
    let page = fs_err::read_to_string(bench.path("out/42-linux/python/simple/index.html"));
    assert!(page.unwrap().contains("rocm-sdk-core"));
}

#[test]
fn other_bytes_are_refused_and_everything_stays() {
    let bench = Bench::built();
    bench.upload("").ok();
    let page = bench.path("out/42-linux/python/simple/index.html");
    // It is another name of the file that was built.
    fs_err::remove_file(bench.path(CORE)).unwrap();
    fs_err::write(bench.path(CORE), "other").unwrap();
    fs_err::write(&page, "old").unwrap();
    let refused = bench.upload("");
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    let digests = regex::Regex::new("[0-9a-f]{64}").unwrap();
    insta::assert_snapshot!(digests.replace_all(&refused.stderr, "SHA256"), @"
    error: 1 file is in `out/42-linux/python` already, with other bytes; nothing was changed
      caused by: `dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl`: here 1024 bytes with sha256 SHA256, there 5 bytes with sha256 SHA256

    hint: start the run again on GitHub, because a later attempt replaces the set of an earlier one; or replace it with `rocwheel upload --overwrite`
    ");
    assert_eq!(fs_err::read_to_string(&page).unwrap(), "old");
    assert_eq!(fs_err::read_to_string(bench.path(CORE)).unwrap(), "other");
    bench.upload("--overwrite").ok();
    assert_ne!(fs_err::read_to_string(&page).unwrap(), "old");
}

#[test]
fn a_dry_run_says_what_would_be_and_does_nothing() {
    let bench = Bench::built();
    let plan = bench.upload("--dry-run --github-output output").ok();
    assert!(
        plan.lines().any(|line| line.starts_with("new ") && line.contains("dist/rocm_sdk_core"))
    );
    let json = bench.upload("--dry-run --format json").ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json["actions"].as_array().unwrap().len(),
        // The first line names the place, the last one counts.
        plan.lines().count() - 2
    );
    assert!(!bench.root.join("out").exists() && !bench.root.join("output").exists());
}

#[test]
fn every_object_has_its_type_and_its_cache_header() {
    let bench = Bench::new();
    wheels(&bench.root);
    let headers = |place: &str| {
        let server = MemoryServer::start();
        server.publish(place, &bench.root, "");
        let keys = server.store.keys();
        let keys = keys.iter().filter(|key| !key.contains("libraries") && !key.contains("device"));
        let lines = keys.map(|key| {
            let kept = server.store.find(key).unwrap();
            let key = key.strip_prefix(place).unwrap();
            format!("{key:?}: {}; {}", kept.content_type, kept.cache_control.unwrap())
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    // A later attempt of a run may replace each of them.
    let of_run = headers("42-linux/python/");
    assert_eq!(of_run.matches("; no-cache").count(), of_run.lines().count());
    let release = headers("release/");
    insta::assert_snapshot!(release, @r#"
    "": text/html; charset=utf-8; no-cache
    "SHA256SUMS": text/plain; charset=utf-8; no-cache
    "dist/": text/html; charset=utf-8; no-cache
    "dist/index.html": text/html; charset=utf-8; no-cache
    "dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl": application/zip; public, max-age=31536000, immutable
    "dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl.metadata": text/plain; charset=utf-8; public, max-age=31536000, immutable
    "index.html": text/html; charset=utf-8; no-cache
    "set.json": application/json; no-cache
    "simple/": text/html; charset=utf-8; no-cache
    "simple/index.html": text/html; charset=utf-8; no-cache
    "simple/rocm-sdk-core/": text/html; charset=utf-8; no-cache
    "simple/rocm-sdk-core/index.html": text/html; charset=utf-8; no-cache
    "#);
    let set = published_in_memory(&bench).find("42-linux/python/set.json");
    assert!(!String::from_utf8(set.unwrap().bytes).unwrap().contains("modified"));
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
    let bench = Bench::built();
    let published = bench.root.join("out/42-linux/python");
    made_from(&bench, 'a');
    bench.upload("--part").ok();
    insta::assert_snapshot!(fs_err::read_to_string(published.join("part.json")).unwrap(), @r#"
    {
      "schema": 1,
      "repository": "ROCm/TheRock",
      "run-id": "42",
      "platform": "linux",
      "commit": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
      "version": "7.13.0.dev0+ab.cd",
      "files": []
    }
    "#);
    made_from(&bench, 'b');
    let refused = bench.upload("--part");
    assert_eq!(refused.code, 1);
    insta::assert_snapshot!(refused.stderr, @"
    error: 1 file is in `out/42-linux/python` already, with other bytes; nothing was changed
      caused by: `part.json`: here 196 bytes with sha256 2dd9b1f92f2f496e06d4dba119874c01b8294db71fce0715cdb6994725cc85e2, there 196 bytes with sha256 9e87c2171def13a19f5412301d98b4a591562005c1d3709dc78f06a94f8bfcd8

    hint: start the run again on GitHub, because a later attempt replaces the set of an earlier one; or replace it with `rocwheel upload --overwrite`
    ");
    bench.run("index --no-check out/42-linux/python").ok();
    let said = fs_err::read_to_string(published.join("set.json")).unwrap();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["commit"], "a".repeat(40));
    assert_eq!(said["platform"], "linux");
    // The pages of a whole are its own.
    assert!(!fs_err::exists(bench.root.join("built/part.json")).unwrap());
}

#[test]
fn packages_of_other_tools_may_come_from_any_run() {
    let bench = Bench::built();
    let said = bench.upload("--part --format json").ok();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["command"], "upload");
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
    let bench = Bench::built();
    bench.upload("").ok();
    let core = CORE.rsplit('/').next().unwrap();
    yank(&bench.path("out/42-linux/python/set.json"), core, "broken");
    bench.run("index --no-check out/42-linux/python").ok();
    let expected = [(format!("dist/{core}"), "broken".to_owned())];
    assert_eq!(yanked(&bench), expected);
    bench.upload("").ok();
    assert_eq!(yanked(&bench), expected);
    // A yank of the directory that is uploaded wins.
    bench.run("index --no-check built").ok();
    yank(&bench.path("built/set.json"), core, "worse");
    bench.run("index --no-check built").ok();
    bench.upload("").ok();
    let expected = [(format!("dist/{core}"), "worse".to_owned())];
    assert_eq!(yanked(&bench), expected);
    fs_err::remove_file(bench.path("built/set.json")).unwrap();
    let (dist, version) = (bench.root.join("built/dist"), "7.13.0.dev0+ab.cd");
    wheel(&dist, "rocm-sdk-core", version, "Requires-Python: >=3.9\n");
    bench.upload("--overwrite").ok();
    assert_eq!(yanked(&bench), []);
}

#[test]
fn an_empty_destination_is_refused_and_not_the_place_of_the_run() {
    let bench = Bench::built();
    for (flag, more) in [("--output-dir", "--multi-target"), ("--to", "--no-check")] {
        for empty in [format!("{flag}="), format!("{flag} ''")] {
            let refused = bench.run(&format!("upload built --run-id=42 {more} {empty}"));
            assert_eq!(refused.code, 2, "{}", refused.stderr);
            assert_has!(refused.stderr, flag);
        }
    }
}

#[test]
fn what_the_parts_say_counts_after_a_set_of_others() {
    let bench = Bench::built();
    wheel(&bench.root.join("torch"), "torch", "2.9", "");
    let run = "--run-id=42 --bucket=mine --platform=linux --multi-target --no-check";
    bench.run(&format!("upload torch --output-dir out {run}")).ok();
    let set = bench.path("out/42-linux/python/set.json");
    let old = SystemTime::now() - Duration::from_mins(1);
    let file = fs_err::OpenOptions::new().write(true).open(&set).unwrap();
    file.file().set_modified(old).unwrap();
    made_from(&bench, 'a');
    bench.upload("--part").ok();
    bench.run("index --no-check out/42-linux/python").ok();
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
    let artifacts = artifacts.display();
    let build = |version: &str| {
        let from = format!("build --artifact-dir '{artifacts}' --version {version}");
        bench.run(&format!("{from} --clean --output-dir packages")).ok();
    };
    build("7.13.0");
    bench.run("index packages").ok();
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
    bench.run("check packages").ok();
}

/// What somebody made under the name of a page is theirs to remove, and says so.
#[test]
fn what_is_no_file_in_place_of_a_page_is_refused_until_it_is_removed() {
    let bench = Bench::built();
    let page = bench.root.join("built/simple/index.html");
    let made: [fn(&Path); 2] = [
        |path| fs_err::create_dir(path).unwrap(),
        |path| std::os::unix::fs::symlink("/etc/hostname", path).unwrap(),
    ];
    for make in made {
        fs_err::create_dir_all(page.parent().unwrap()).unwrap();
        make(&page);
        let refused = bench.run("index --no-check built");
        assert_eq!(refused.code, 2);
        assert_has!(refused.stderr, "hint: remove it, or choose another directory");
        fs_err::remove_dir(&page).or_else(|_| fs_err::remove_file(&page)).unwrap();
        bench.run("index --no-check built").ok();
        fs_err::remove_dir_all(page.parent().unwrap()).unwrap();
    }
}

/// A set of ten packages in ten versions each, with an index: 100 wheels, and 228 objects.
fn wheels_of_others(root: &Path) {
    for (project, version) in (0..10).cartesian_product(0..10) {
        wheel(&root.join("dist"), &format!("other-{project}"), &format!("1.{version}"), "");
    }
}

#[test]
fn what_a_listing_and_this_machine_know_is_not_asked_again() {
    let server = MemoryServer::start();
    let packages = tempfile::tempdir().unwrap();
    wheels_of_others(packages.path());
    let upload = "upload . --to s3://bucket/place -q";
    let index = "index s3://bucket/place -q";
    let requests = |line: &str| {
        server.requests();
        server.run_in(packages.path(), line).ok();
        server.requests()
    };
    // One for each object, listings, and what tells whether the server keeps the pages of directories.
    let first = requests(upload);
    assert_eq!(first["put"], 228);
    assert!(first.values().sum::<usize>() < 240, "{first:?}");
    // What was written last may be written once more before the clock of the server goes on.
    let again = requests(upload);
    assert!(again.values().sum::<usize>() < 15 && !again.contains_key("put"), "{again:?}");
    // The pages of an index have the times of the uploads. No wheel is read for them. The last object is asked for again,
    // and one whose time happens to be a whole second, because that may be the clock of a server with nothing finer.
    let first = requests(index);
    assert!(first["get"] < 10 && first["head"] < 10, "{first:?}");
    let again = requests(index);
    assert_eq!(again.get("put"), None);
    assert!(again.values().sum::<usize>() < 15, "{again:?}");
    // Another version is one more wheel, with its sidecar and the pages that name it.
    wheel(&packages.path().join("dist"), "other-0", "2.0", "");
    let more = requests(upload);
    assert!(more["get"] < 10 && more["head"] < 10, "{more:?}");
}

/// Each write of an object shows in a listing, so what this machine knows of it is not believed any more.
#[test]
fn what_others_have_changed_is_noticed_all_the_same() {
    let server = MemoryServer::start();
    let packages = tempfile::tempdir().unwrap();
    wheels(packages.path());
    let run = |line: &str| server.run_in(packages.path(), line);
    let upload = "upload . --to s3://bucket/place --no-check --format json";
    run(upload).ok();
    let kept = |path: &str| server.store.find(&format!("place/{path}")).unwrap();
    let core = format!("dist/rocm_sdk_core-{VERSION}-py3-none-any.whl");
    for path in ["simple/rocm-sdk-core/index.html", "simple/rocm-sdk-core/", &core] {
        let before = kept(path);
        put(&server.store, &format!("place/{path}"), "text/plain", &before.bytes);
        let document: Value = serde_json::from_str(&run(upload).ok()).unwrap();
        assert_eq!(document["uploaded"], usize::from(path != core), "{path}");
        // Without a `Cache-Control`, the type of a package does not matter.
        assert_eq!(kept(path).content_type == before.content_type, path != core, "{path}");
    }
    let mut other = kept(&core).bytes;
    other.reverse();
    put(&server.store, &format!("place/{core}"), "application/zip", &other);
    let refused = run(upload);
    assert_eq!(refused.code, 1);
    refused.says("with other bytes; nothing was changed");
    assert_eq!(kept(&core).bytes, other);
}
