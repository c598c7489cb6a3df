//! The page at the top of a place, and what others have there.

use super::{Bench, install::PLACE, pip, tree, uv};
use crate::support::prelude::*;
use crate::support::{memory::put, memory_server::MemoryServer, upstream::UpstreamRun};

const PAGE: &str = "out/42-linux/python/index.html";
const KEYS: [&str; 2] = ["42-linux/python/index.html", "42-linux/python/"];

fn page(bench: &Bench) -> String {
    fs_err::read_to_string(bench.path(PAGE)).unwrap()
}

/// What stands between quotes after `href=`.
fn links(page: &str) -> Vec<&str> {
    let links = page.split("href=\"").skip(1);
    links.map(|rest| rest.split('"').next().unwrap()).collect()
}

fn changes_nothing(bench: &Bench, layout: &str) {
    let again = bench.upload(&format!("{layout} --dry-run")).ok();
    assert_has!(again, "\n0 new (0 B), 0 to replace (0 B), ");
    let index = bench.run("index --no-check out/42-linux/python --dry-run").ok();
    assert_eq!(index.matches(".html").count(), 0, "{index}");
}

#[test]
fn the_page_at_the_top_leads_to_the_other_pages() {
    let bench = Bench::built();
    bench.upload("").ok();
    let run = "https://github.com/ROCm/TheRock/actions/runs/42";
    let leads = [run, "simple/", "dist/index.html", "simple/", "SHA256SUMS", "set.json"];
    assert_eq!(links(&page(&bench)), leads);
    assert_has!(page(&bench), "<meta name=\"generator\" content=\"rocwheel\">");
    changes_nothing(&bench, "");
    // A flat set has its find-links page there, and the same set in both layouts keeps it.
    fs_err::remove_dir_all(bench.root.join("out")).unwrap();
    bench.upload("--layout flat").ok();
    let flat = page(&bench);
    assert_has!(flat, "rocm_sdk_core-7.13.0.dev0%2Bab.cd-py3-none-any.whl#sha256=");
    changes_nothing(&bench, "--layout flat");
    let said = bench.upload("").done().stderr;
    assert_has!(said, "python/index.html` stays, because it lists packages that are there: ");
    assert_eq!(page(&bench), flat);
}

#[test]
fn a_page_that_somebody_wrote_stays() {
    let texts = [
        "<a href=\"https://example.com/\">mine</a>",
        "<a href=\"dist/index.html\">packages</a> <a href=\"notes.html\">notes</a>",
        "<meta name=\"generator\" content=\"rocwheel\"><a href=\"rocm/\">rocm</a>",
        "\u{fffd}",
    ];
    for text in texts {
        let bench = Bench::built();
        fs_err::create_dir_all(bench.path("out/42-linux/python")).unwrap();
        fs_err::write(bench.path(PAGE), text).unwrap();
        let said = bench.upload("").done().stderr;
        let why = if text.starts_with("<meta") {
            "it belongs to another index"
        } else {
            "another program wrote it"
        };
        let note = "it does not lead to the pages of the set";
        assert_has!(said, &format!("note: `{PAGE}` stays, because {why}: {note}"));
        changes_nothing(&bench, "");
        bench.run("index --no-check out/42-linux/python").done();
        assert_eq!(page(&bench), text);
        let checked = bench.run("check --select RW7 out/42-linux/python").ok();
        assert_has!(checked, "3 packages");
    }
}

#[test]
fn in_a_bucket_the_list_of_its_indexer_is_replaced_and_no_other_page() {
    let bench = Bench::new();
    super::packages::wheels(&bench.root);
    let server = MemoryServer::start();
    let bucket = &server.store;
    let run = UpstreamRun { bucket, prefix: "42-linux", is_local: false };
    let upload = || server.publish(PLACE, &bench.root, "");
    upload();
    let texts = || KEYS.map(|key| bucket.find(key).map(|it| String::from_utf8(it.bytes).unwrap()));
    let ours = texts();
    assert!(ours[0].is_some() && ours[0] == ours[1]);
    assert_has!(
        ours[0].as_ref().unwrap(),
        &format!("--index-url={}42-linux/python/simple/</pre>", server.url)
    );
    assert_eq!(upload(), 0);
    run.index();
    let [list, key] = texts();
    assert_has!(list.unwrap(), "<time datetime=");
    assert_eq!(key, ours[1]);
    upload();
    assert_eq!(texts(), ours);
    assert_eq!(upload(), 0);

    // Of somebody else, neither key is ours.
    let server = MemoryServer::start();
    let bucket = &server.store;
    put(bucket, KEYS[0], "text/html", b"mine");
    let upload = || server.publish(PLACE, &bench.root, "");
    upload();
    assert_eq!(bucket.find(KEYS[0]).unwrap().bytes, b"mine");
    assert!(bucket.find(KEYS[1]).is_none());
    assert_eq!(upload(), 0);
}

#[test]
fn the_page_at_the_top_stands_for_no_find_links_page() {
    let bench = Bench::new();
    let packages = published::sample().root().join("packages");
    let run = "--output-dir out --multi-target --run-id=42 --bucket=mine --no-check";
    bench.run(&format!("upload '{}' {run}", packages.display())).ok();
    let place = bench.root.join("out/42-linux/python");
    let server = Server::start(Site::Directory(place.clone()));
    let top = &server.url;
    let named = format!("{top}index.html");
    // Installers find no package there.
    for source in [top, &named] {
        let to = bench.path("downloaded");
        let none =
            pip("download --no-index rocm-sdk-core", &["--dest", &to, "--find-links", source]);
        assert_has!(none.stderr, "No matching distribution found for rocm-sdk-core");
        let none =
            uv("install --no-index rocm-sdk-core", &["--target", &to, "--find-links", source]);
        assert_has!(none.stderr, "rocm-sdk-core was not found");
    }
    let check = |place: &str| bench.run(&format!("check --select RW7 '{place}'"));
    for place in [top, &named, "out/42-linux/python"] {
        assert_has!(check(place).ok(), "7 packages");
    }
    for command in ["list", "diff 'out/42-linux/python'"] {
        let [one, other] =
            [top, &named].map(|place| bench.run(&format!("{command} '{place}'")).ok());
        assert_eq!(one.replace(&named, top), other.replace(&named, top));
    }
    fs_err::remove_file(place.join("dist/index.html")).unwrap();
    for place in [top, &named, "out/42-linux/python"] {
        let missing = check(place);
        assert_eq!(missing.code, 1);
        assert_has!(missing.stdout, "index.html", "`set.json` is there, and this page is not");
    }
    // `index` writes the missing page again, and nothing else.
    bench.run("index --no-check out/42-linux/python").done();
    assert_has!(check(top).ok(), "7 packages");
    assert!(tree(&place).contains(&"index.html".to_owned()));
}
