//! pip and uv resolve and install from every form of an index, over files and over two servers.

use rocwheel::{
    commands::World,
    console::{Console, Options},
    error::{Result, Stop},
    index::{Identity, Layout},
    place::{
        Existing, KnownPackages, LocalSet, PackageDirectories, PublishedUpload, SetPlace, Upload,
        UploadOptions,
    },
    store::Store,
};

use super::{
    Bench, downloads,
    memory::MemoryStore,
    packages::{VERSION, wheels},
    pip, uv,
};
use crate::support::prelude::*;

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

/// A set in a store that is like S3, below `python/`.
pub(crate) fn published_in_memory(bench: &Bench) -> MemoryStore {
    let store = MemoryStore::default();
    publish_to(Box::new(store.clone()), bench).unwrap();
    store
}

pub(crate) fn publish_to(store: Box<dyn Store>, bench: &Bench) -> Result<PublishedUpload> {
    publish_in(store, "42-linux/python/", &bench.root, Layout::Dist)
}

/// A world that says nothing.
pub(crate) fn quiet_world() -> World {
    let quiet = Options { quiet: 2, ..Options::default() };
    World { console: Console::of_this_process(&quiet), stop: Stop::default() }
}

/// Uploads a set to a directory, such as `python/` of run 42.
pub(crate) fn publish_in(
    store: Box<dyn Store>,
    directory: &str,
    packages: &Path,
    layout: Layout,
) -> Result<PublishedUpload> {
    publish_at("https://bucket.s3.amazonaws.com/", store, directory, packages, layout)
}

/// Publishes in a bucket that a server has at this address.
pub(crate) fn publish_at(
    server: &str,
    store: Box<dyn Store>,
    directory: &str,
    packages: &Path,
    layout: Layout,
) -> Result<PublishedUpload> {
    let world = quiet_world();
    let urls = format!("{server}{directory}").parse()?;
    let directory = &directory.parse()?;
    let destination = SetPlace::of_store(store.into(), directory, urls, &world.stop);
    let set = LocalSet::read(packages, PackageDirectories::Built, KnownPackages::new(), &world)?;
    let options = UploadOptions { is_part: false, layout, existing: Existing::Refuse };
    let upload = Upload {
        set: &set,
        identity: &Identity::default(),
        place: &destination,
        options,
        world: &world,
    };
    upload.publish()
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
