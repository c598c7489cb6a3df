//! What an independent parser reads from the pages.

use super::{
    Bench,
    install::published_in_memory,
    judge,
    packages::{wheel, wheels},
};
use crate::support::prelude::*;

/// Prints what `pypi-simple` makes of a project's page, without what only one of the forms has.
const SHOW: &str = r"
import sys, pypi_simple
from pypi_simple import PyPISimple
base, project = sys.argv[1:]
with PyPISimple(endpoint=base) as client:
    print(sorted(client.get_index_page().projects))
    page = client.get_project_page(project)
    print(page.project, page.repository_version)
    for p in page.packages:
        print(p.filename, p.project, p.version, p.package_type)
        print(' ', p.url.split('/42-linux/')[1])
        print(' ', sorted(p.digests), p.requires_python, p.is_yanked)
        print(' ', p.has_metadata, p.metadata_digests == {'sha256': __import__('hashlib').sha256(
            client.get_package_metadata_bytes(p, verify=True)).hexdigest()})
        client.download_package(p, sys.argv[0] + '.out', verify=True, progress=pypi_simple.progress_tracker
            if False else __import__('pypi_simple.progress', fromlist=['null_progress_tracker']).null_progress_tracker())
        print(' ', p.size, p.upload_time)
";

fn shown(bench: &Bench, base: &str) -> String {
    let script = bench.path("show.py");
    fs_err::write(&script, SHOW).unwrap();
    judge("python", &[&script, base, "rocm-sdk-core"]).ok()
}

#[test]
#[ignore = "slow"]
fn another_parser_reads_the_pages() {
    let bench = Bench::new();
    wheels(&bench.root);
    let server = Server::start(Site::Keys(published_in_memory(&bench)));
    let html = shown(&bench, &format!("{}42-linux/python/simple/", server.url));
    insta::assert_snapshot!(html, @"
    ['rocm-sdk-core', 'rocm-sdk-device-gfx942', 'rocm-sdk-libraries']
    rocm-sdk-core 1.1
    rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl rocm_sdk_core 7.13.0.dev0+ab.cd wheel
      python/dist/rocm_sdk_core-7.13.0.dev0%2Bab.cd-py3-none-any.whl
      ['sha256'] >=3.8,<4 False
      True True
      None None
    ");
}

#[test]
fn checksums_check() {
    let bench = Bench::new();
    wheels(&bench.root);
    bench.run("index --no-check .").ok();
    let mut sums = std::process::Command::new("sha256sum");
    sums.args(["--check", "--strict", "SHA256SUMS"]);
    let said = succeed(sums.current_dir(&bench.root)).stdout;
    assert_eq!(String::from_utf8(said).unwrap().lines().count(), 6);
}

#[test]
fn pages_of_projects_that_are_gone_go_and_nothing_else_does() {
    let bench = Bench::new();
    wheels(&bench.root);
    let gone = wheel(&bench.root.join("dist"), "gone", "1.0", "");
    bench.run("index --no-check .").ok();
    fs_err::remove_file(gone).unwrap();
    fs_err::write(bench.path("simple/gone/notes.txt"), "mine").unwrap();
    fs_err::write(bench.path("dist/notes.metadata"), "mine").unwrap();
    fs_err::create_dir(bench.path("simple/empty")).unwrap();
    bench.run("index --no-check --dry-run .").ok();
    assert!(bench.root.join("simple/empty").exists(), "a dry run");
    let again = bench.run("index --no-check .");
    let said = again.stderr.clone();
    again.ok();
    insta::assert_snapshot!(said.lines().take(3).collect::<Vec<_>>().join("\n"), @"
    Removed simple/gone/index.html
    Removed dist/gone-1.0-py3-none-any.whl.metadata
    Indexed 3 files, 3.18 KiB, of 3 projects
    ");
    let left = super::tree(&bench.root);
    let left: Vec<&String> =
        left.iter().filter(|path| path.contains("gone") || path.contains("notes")).collect();
    assert_eq!(left, ["dist/notes.metadata", "simple/gone/notes.txt"]);
    let page = fs_err::read_to_string(bench.path("simple/index.html")).unwrap();
    assert!(!page.contains("gone"));
}
