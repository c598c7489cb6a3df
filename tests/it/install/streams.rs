//! Streams: a mirror that has the hosts of the streams as directories, with the pages that a router
//! in front of a bucket answers.

use super::{assert_installed, refusals, sandbox};
use crate::support::prelude::*;

const PRESENT: &str = "mirror/dev.repo.amd.com/rocm/whl-next";
const EARLIER: &str = "mirror/rocm.devreleases.amd.com/whl-multi-arch";

/// Adds packages to an index in which each project has a page, with its files beside it.
pub(crate) fn publish_index(index: &Path, dist: &Path) {
    for name in tree(dist) {
        if !name.ends_with(".whl") && !name.ends_with(".tar.gz") {
            continue;
        }
        let project = index.join(name.split('-').next().unwrap().replace('_', "-"));
        fs_err::create_dir_all(&project).unwrap();
        fs_err::copy(dist.join(&name), project.join(&name)).unwrap();
        let files = tree(&project).into_iter().filter(|it| it != "index.html");
        let links = files.map(|it| format!("<a href=\"{it}\">{it}</a><br/>\n"));
        let page = format!("<!DOCTYPE html>\n{}", links.collect::<String>());
        fs_err::write(project.join("index.html"), page).unwrap();
    }
}

/// The sample in the earlier place of the stream `dev`, in a sandbox that reads streams from a mirror.
fn with_mirror() -> Sandbox {
    let t = sandbox();
    publish_index(&t.path(EARLIER), &sample().dist());
    let server = Server::start(Site::Directory(t.path("mirror")));
    t.with("ROCWHEEL_STREAM_MIRROR", &server.url).shows(server.url, "MIRROR/")
}

#[test]
#[ignore = "slow"]
fn a_stream_is_read_at_its_present_place_and_then_at_the_earlier_one() {
    let t = with_mirror();
    let line = "install --stream dev --target gfx942";
    t.run(line).ok();
    assert_installed(&t.path(".venv"), &["gfx942"]);

    // The present place has a version whose upload has not ended, another for Windows only, and one
    // of another stream.
    let (dry, present) = (format!("{line} --dry-run"), t.path(PRESENT));
    let [unfinished, windows, other] = ["0.99.2.dev0", "0.99.3.dev0", "0.99.4"].map(|version| {
        let pipeline = format!("pipeline --sample --version {version} --output-dir {version}");
        t.run(&pipeline).ok();
        t.path(version).join("packages/dist")
    });
    publish_index(&present, &unfinished);
    fs_err::remove_dir_all(present.join("rocm-sdk-core")).unwrap();
    for name in tree(&windows) {
        let renamed = name.replace("linux_x86_64", "win_amd64");
        fs_err::rename(windows.join(name), windows.join(renamed)).unwrap();
    }
    publish_index(&present, &windows);
    publish_index(&present, &other);
    assert_has!(t.run(&dry).refused(1), "rocm-sdk-core");
    publish_index(&present, &sample().dist());
    let chosen = t.run(&dry).done();
    assert_has!(chosen.stderr, "not 0.99.2.dev0: ");
    assert_has!(chosen.stdout, "ROCm 0.99.1.dev0 ", "/whl-next");
    publish_index(&present, &unfinished);
    assert_has!(t.run(&dry).ok(), "ROCm 0.99.2.dev0 ");
}

#[test]
fn what_a_stream_does_not_have_is_refused() {
    let lines = [
        "--stream dev --version 7.0.0.dev0+ab --target none",
        "--stream nightly --target none",
        "--stream stable --version 10.1.0a20260823",
        "--stream bkc --run-id 7",
        "--stream rc --offline",
    ];
    insta::assert_snapshot!(refusals(&with_mirror(), &lines), @"
    --stream dev --version 7.0.0.dev0+ab --target none => 1
    error: the stream `dev` does not have ROCm 7.0.0.dev0+ab

    hint: the newest versions there are: 0.99.1.dev0
    --stream nightly --target none => 1
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
