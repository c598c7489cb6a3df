//! Streams: a mirror that has the hosts of the streams as directories, with the pages that a router
//! in front of a bucket answers.

use std::path::Path;

use super::{expected, packages, sandbox};
use crate::support::{
    place::text,
    published::sample,
    web::{Server, Site},
};

const PRESENT: &str = "mirror/dev.repo.amd.com/rocm/whl-next";
const EARLIER: &str = "mirror/rocm.devreleases.amd.com/whl-multi-arch";

/// Adds packages to an index in which each project has a page, with its files beside it.
pub(super) fn publish_index(index: &Path, dist: &Path, is_there: impl Fn(&str) -> bool) {
    for entry in fs_err::read_dir(dist).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_package = name.ends_with(".whl") || name.ends_with(".tar.gz");
        if !is_package || !is_there(&name) {
            continue;
        }
        let project = index.join(name.split('-').next().unwrap().replace('_', "-"));
        fs_err::create_dir_all(&project).unwrap();
        fs_err::copy(dist.join(&name), project.join(&name)).unwrap();
        let names = fs_err::read_dir(&project).unwrap();
        let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|it| it != "index.html").collect();
        names.sort();
        let links = names
            .iter()
            .map(|it| format!("<a href=\"{it}\">{it}</a><br/>\n"));
        fs_err::write(project.join("index.html"), links.collect::<String>()).unwrap();
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
#[ignore = "slow"]
fn a_stream_is_read_at_its_present_place_and_then_at_the_earlier_one() {
    let t = sandbox();
    publish_index(&t.path(EARLIER), &sample().dist(), |_| true);
    let server = Server::start(Site::Directory(t.path("mirror")));
    let t = t.with("ROCWHEEL_STREAM_MIRROR", &server.url);
    let line = "install --stream dev --target gfx942";
    t.run(line).ok();
    assert_eq!(packages(&t.path(".venv")), expected(&["gfx942"]));

    // The present place has a version whose upload has not ended, another for Windows only, and one
    // of another stream.
    let dry = || t.run(&format!("{line} --dry-run"));
    for version in ["0.0.2.dev0", "0.0.3.dev0", "0.0.4"] {
        t.run(&format!(
            "pipeline --sample --version {version} --output-dir {version}"
        ))
        .ok();
        let dist = t.path(format!("{version}/packages/dist"));
        if version == "0.0.3.dev0" {
            for_windows(&dist);
        }
        let is_there = |name: &str| version != "0.0.2.dev0" || !name.starts_with("rocm_sdk_core");
        publish_index(&t.path(PRESENT), &dist, is_there);
    }
    let refused = dry();
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("rocm-sdk-core"),
        "{}",
        refused.stderr
    );
    publish_index(&t.path(PRESENT), &sample().dist(), |_| true);
    let chosen = dry();
    assert!(
        chosen.stderr.contains("not 0.0.2.dev0: "),
        "{}",
        chosen.stderr
    );
    let chosen = chosen.ok();
    assert!(
        chosen.contains("ROCm 0.0.1.dev0 ") && chosen.contains("/whl-next"),
        "{chosen}"
    );
    publish_index(
        &t.path(PRESENT),
        &t.path("0.0.2.dev0/packages/dist"),
        |_| true,
    );
    let chosen = dry().ok();
    assert!(chosen.contains("ROCm 0.0.2.dev0 "), "{chosen}");
}

#[test]
fn what_a_stream_does_not_have_is_refused() {
    let t = sandbox();
    publish_index(&t.path(EARLIER), &sample().dist(), |_| true);
    let server = Server::start(Site::Directory(t.path("mirror")));
    let t = t
        .with("ROCWHEEL_STREAM_MIRROR", &server.url)
        .shows(&server.url, "MIRROR/");
    let lines = [
        "--stream dev --version 7.0.0.dev0+ab",
        "--stream nightly",
        "--stream stable --version 10.1.0a20260823",
        "--stream bkc --run-id 7",
        "--stream rc --offline",
    ];
    let refusals = lines.map(|line| {
        let refused = t.run(&format!("install {line} --target none"));
        assert!(!t.path(".venv").exists(), "{line}");
        format!("{line} => {}\n{}", refused.code, refused.stderr)
    });
    insta::assert_snapshot!(refusals.concat(), @"
    --stream dev --version 7.0.0.dev0+ab => 1
    error: the stream `dev` does not have ROCm 7.0.0.dev0+ab

    hint: the newest versions there are: 0.0.1.dev0
    --stream nightly => 1
    error: the stream `nightly` has no packages

    hint: its indexes are MIRROR/nightly.repo.amd.com/rocm/whl-next/ and MIRROR/rocm.nightlies.amd.com/whl-multi-arch/
    --stream stable --version 10.1.0a20260823 => 2
    error: 10.1.0a20260823 is a version of the stream `nightly`

    hint: pass `--stream nightly`
    --stream bkc --run-id 7 => 2
    error: `--stream` and a run: name one of them
    --stream rc --offline => 2
    error: reading a stream is not possible with `--offline`
    ");
}
