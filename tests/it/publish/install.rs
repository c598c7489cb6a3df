//! pip and uv resolve and install from every form of an index, over files and over two servers.

use super::{
    Bench, downloads,
    packages::{VERSION, wheels},
    pip, tree, uv,
};
use crate::support::{
    memory::{MemoryStore, put},
    memory_server::MemoryServer,
    prelude::*,
};

/// Where the packages of run 42 are in a bucket.
pub(crate) const PLACE: &str = "42-linux/python/";

/// Two wheels come: the one that is asked for, and the one that it needs.
pub(crate) const EXPECTED: [&str; 2] = [
    "rocm_sdk_device_gfx942-7.13.0.dev0+ab.cd-py3-none-any.whl",
    "rocm_sdk_libraries-7.13.0.dev0+ab.cd-py3-none-any.whl",
];

pub(crate) fn wanted() -> String {
    format!("rocm-sdk-device-gfx942=={VERSION}")
}

pub(crate) fn pip_downloads(bench: &Bench, arguments: &[&str]) {
    let got = downloads(bench, &[arguments, &[&wanted()]].concat());
    assert_eq!(got, EXPECTED, "{arguments:?}");
}

pub(crate) fn uv_installs(bench: &Bench, arguments: &[&str]) {
    let to = bench.path("installed");
    uv("install", &[&["--target", &to], arguments, &[&wanted()]].concat()).ok();
    for package in ["rocm_sdk_libraries", "rocm_sdk_device_gfx942"] {
        let part = bench.root.join("installed").join(package).join("__init__.py");
        assert!(part.exists(), "{arguments:?}");
    }
    fs_err::remove_dir_all(to).unwrap();
}

/// Every form that is for people, from the address of a set with its files in `dist/`.
pub(crate) fn every_form_installs(bench: &Bench, base: &str) {
    every_form_of_layout(bench, base, "dist/");
}

/// Every form, from an address that ends in `/`; the files are in this directory below it.
pub(crate) fn every_form_of_layout(bench: &Bench, base: &str, files: &str) {
    let (index, page) = (format!("{base}simple/"), format!("{base}{files}index.html"));
    pip_downloads(bench, &["--index-url", &index]);
    pip_downloads(bench, &["--no-index", "--find-links", &page]);
    uv_installs(bench, &["--default-index", &index]);
    uv_installs(bench, &["--no-index", "--find-links", &page]);
}

#[test]
#[ignore = "slow"]
fn an_index_beside_its_packages_installs_from_files_and_from_a_server() {
    let bench = Bench::new();
    wheels(&bench.root);
    let index = bench.run("index --no-check .").ok();
    let base = index.trim().strip_suffix("simple/").unwrap();
    assert_has!(base, "/a%20b%2Bc%2541%26%27%C3%A9/");
    every_form_installs(&bench, base);
    let server = Server::start(Site::Directory(bench.root.clone()));
    every_form_installs(&bench, &server.url);
}

/// A set in a store that is like S3, as the packages of run 42.
pub(crate) fn published_in_memory(bench: &Bench) -> MemoryStore {
    let server = MemoryServer::start();
    server.publish(PLACE, &bench.root, "");
    server.store
}

#[test]
#[ignore = "slow"]
fn a_server_that_knows_exact_keys_only_is_enough() {
    let bench = Bench::new();
    wheels(&bench.root);
    let store = published_in_memory(&bench);
    let server = Server::start(Site::Keys(store));
    let base = format!("{}42-linux/python/", server.url);
    every_form_installs(&bench, &base);
}

#[test]
#[ignore = "slow"]
fn packages_in_a_bucket_get_an_index_that_installs() {
    let bench = Bench::new();
    wheels(&bench.root);
    let bucket = MemoryServer::start();
    for path in tree(&bench.root.join("dist")) {
        let bytes = fs_err::read(bench.root.join("dist").join(&path)).unwrap();
        put(&bucket.store, &format!("{PLACE}dist/{path}"), "application/zip", &bytes);
    }
    bucket.run_in(&bench.root, &format!("index --no-check s3://bucket/{PLACE}")).ok();
    let server = Server::start(Site::Keys(bucket.store.clone()));
    every_form_installs(&bench, &format!("{}{PLACE}", server.url));
}

#[test]
#[ignore = "slow"]
fn resolving_takes_metadata_and_no_wheel() {
    let bench = Bench::new();
    wheels(&bench.root);
    let server = Server::start(Site::Keys(published_in_memory(&bench)));
    let target = bench.path("nowhere");
    let base = format!("{}42-linux/python/", server.url);
    let (index, page) = (format!("{base}simple/"), format!("{base}dist/index.html"));
    let wanted = wanted();
    for source in [&["--index-url", &*index][..], &["--no-index", "--find-links", &page]] {
        let dry = [&["--dry-run", "--target", &target], source, &[&wanted]].concat();
        pip("install", &dry).ok();
        uv("install", &dry).ok();
    }
    let requests = server.requests();
    let asked = |end: &str| requests.iter().filter(|path| path.ends_with(end)).count();
    assert!(asked(".whl.metadata") >= 8, "{requests:#?}");
    assert_eq!(asked(".whl"), 0, "{requests:#?}");
}

#[test]
fn a_wheel_that_is_not_what_its_link_says_is_refused() {
    let bench = Bench::new();
    wheels(&bench.root);
    let index = bench.run("index --no-check .").ok();
    let wheel = bench.root.join("dist").join(EXPECTED[1]);
    let mut bytes = fs_err::read(&wheel).unwrap();
    bytes.extend_from_slice(b"tampered");
    fs_err::write(&wheel, bytes).unwrap();
    let to = bench.path("downloaded");
    let source = ["--dest", &to, "--index-url", index.trim(), &wanted()];
    let refused = pip("download", &source);
    assert_ne!(refused.code, 0);
    assert_has!(refused.stderr, "DO NOT MATCH THE HASHES");
}
