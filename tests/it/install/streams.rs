//! Streams: a mirror that has the hosts of the streams as directories, with the pages that a router
//! in front of a bucket answers.

use std::path::Path;

use super::{expected, packages, place, ran};
use crate::support::web::{Server, Site};
use crate::support::{
    place::{empty, text},
    program::rocwheel,
    published::sample,
};

const PRESENT: &str = "dev.repo.amd.com/rocm/whl-next";
const EARLIER: &str = "rocm.devreleases.amd.com/whl-multi-arch";

/// Adds packages to an index in which each project has a page, with its files beside it.
fn publish(index: &Path, dist: &Path, is_there: impl Fn(&str) -> bool) {
    for entry in fs_err::read_dir(dist).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_package = name.ends_with(".whl") || name.ends_with(".tar.gz");
        if !is_package || !is_there(&name) {
            continue;
        }
        let project = name.split('-').next().unwrap().replace('_', "-");
        let directory = index.join(&project);
        fs_err::create_dir_all(&directory).unwrap();
        fs_err::copy(dist.join(&name), directory.join(&name)).unwrap();
        let mut names: Vec<String> = fs_err::read_dir(&directory)
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .filter(|it| it != "index.html")
            .collect();
        names.sort();
        let links = names
            .iter()
            .map(|it| format!("<a href=\"{it}\">{it}</a><br/>\n"));
        let page: String = links.collect();
        fs_err::write(directory.join("index.html"), page).unwrap();
    }
}

/// Gives wheels the names that they have for Windows.
fn for_windows(dist: &Path) {
    for entry in fs_err::read_dir(dist).unwrap() {
        let path = entry.unwrap().path();
        let name = text(&path).replace("linux_x86_64", "win_amd64");
        fs_err::rename(&path, name).unwrap();
    }
}

#[test]
fn a_stream_is_read_at_its_present_place_and_then_at_the_earlier_one() {
    let mirror = tempfile::tempdir().unwrap();
    publish(&mirror.path().join(EARLIER), &sample().dist(), |_| true);
    let server = Server::start(Site::Directory(mirror.path().to_owned()));
    let (_place, environment) = place();
    let base = ["--stream", "dev", "--mirror", &server.url];
    let with = |more: &[&str]| {
        ran(&[
            &base[..],
            &["--target", "gfx942", "--venv", text(&environment)],
            more,
        ]
        .concat())
    };
    with(&[]).ok();
    assert_eq!(packages(&environment), expected(&["gfx942"]));

    // The present place has a version whose upload has not ended, another for Windows only, and one
    // of another stream.
    let later = empty("install/later");
    for version in ["0.0.2.dev0", "0.0.3.dev0", "0.0.4"] {
        let out = later.join(version);
        let arguments = ["pipeline", "--sample", "--version", version, "--output-dir"];
        rocwheel(&[&arguments[..], &[text(&out)]].concat()).ok();
        let dist = out.join("packages/dist");
        if version == "0.0.3.dev0" {
            for_windows(&dist);
        }
        let is_there = |name: &str| version != "0.0.2.dev0" || !name.starts_with("rocm_sdk_core");
        publish(&mirror.path().join(PRESENT), &dist, is_there);
    }
    let refused = with(&["--dry-run"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("rocm-sdk-core"),
        "{}",
        refused.stderr
    );
    publish(&mirror.path().join(PRESENT), &sample().dist(), |_| true);
    let chosen = with(&["--dry-run"]);
    assert!(
        chosen.stderr.contains("not 0.0.2.dev0: "),
        "{}",
        chosen.stderr
    );
    let chosen = chosen.ok();
    assert!(chosen.contains("ROCm 0.0.1.dev0 "), "{chosen}");
    assert!(chosen.contains(PRESENT), "{chosen}");
    let whole = |name: &str| name.starts_with("rocm_sdk_core");
    publish(
        &mirror.path().join(PRESENT),
        &later.join("0.0.2.dev0/packages/dist"),
        whole,
    );
    let chosen = with(&["--dry-run"]).ok();
    assert!(chosen.contains("ROCm 0.0.2.dev0 "), "{chosen}");
}

#[test]
fn what_a_stream_does_not_have_is_refused() {
    let mirror = tempfile::tempdir().unwrap();
    publish(&mirror.path().join(EARLIER), &sample().dist(), |_| true);
    let server = Server::start(Site::Directory(mirror.path().to_owned()));
    let (_place, environment) = place();
    let refused = |more: &[&str]| {
        let base = [
            "--mirror",
            &server.url,
            "--target",
            "none",
            "--venv",
            text(&environment),
        ];
        let refused = ran(&[more, &base[..]].concat());
        assert!(!environment.exists(), "{more:?}");
        let stderr = refused.stderr.replace(&server.url, "MIRROR/");
        format!("{more:?} {}\n{stderr}", refused.code)
    };
    let refusals = [
        refused(&["--stream", "dev", "--version", "7.0.0.dev0+ab"]),
        refused(&["--stream", "nightly"]),
        refused(&["--stream", "stable", "--version", "10.1.0a20260823"]),
        refused(&["--stream", "bkc", "--run-id", "7"]),
        refused(&["--stream", "rc", "--offline"]),
    ];
    insta::assert_snapshot!(refusals.concat(), @r#"
    ["--stream", "dev", "--version", "7.0.0.dev0+ab"] 1
    error: the stream `dev` does not have ROCm 7.0.0.dev0+ab

    hint: the newest versions there are: 0.0.1.dev0
    ["--stream", "nightly"] 1
    error: the stream `nightly` has no packages

    hint: its indexes are MIRROR/nightly.repo.amd.com/rocm/whl-next/ and MIRROR/rocm.nightlies.amd.com/whl-multi-arch/
    ["--stream", "stable", "--version", "10.1.0a20260823"] 2
    error: 10.1.0a20260823 is a version of the stream `nightly`

    hint: pass `--stream nightly`
    ["--stream", "bkc", "--run-id", "7"] 2
    error: `--stream` and a run: name one of them
    ["--stream", "rc", "--offline"] 2
    error: reading a stream is not possible with `--offline`
    "#);
}
