//! pip and uv resolve and install from every form of an index, over files and over two servers.

use std::path::Path;

use rocwheel::{
    commands::World,
    console::{Console, Options},
    error::{Result, Stop},
    set::{
        Existing, Identity, KnownPackages, Layout, LocalSet, PackageDirectories, PublishedUpload,
        SetPlace, Upload, UploadOptions,
    },
    store::Store,
};

use super::{
    Bench, judge,
    memory::MemoryStore,
    packages::{VERSION, wheels},
    tree,
};
use crate::judges::tool;
use crate::support::web::{Server, Site};

/// Two wheels come: the one that is asked for, and the one that it needs.
pub(crate) const EXPECTED: [&str; 2] = [
    "rocm_sdk_device_gfx942-7.13.0.dev0+ab.cd-py3-none-any.whl",
    "rocm_sdk_libraries-7.13.0.dev0+ab.cd-py3-none-any.whl",
];

pub(crate) fn wanted() -> String {
    format!("rocm-sdk-device-gfx942=={VERSION}")
}

pub(crate) fn pip_downloads(bench: &Bench, arguments: &[&str]) {
    let place = bench.path("downloaded");
    let common = [
        "download",
        "--isolated",
        "--no-cache-dir",
        "--quiet",
        "--dest",
        &place,
    ];
    let wanted = wanted();
    judge("pip", &[&common[..], arguments, &[&wanted]].concat()).ok();
    assert_eq!(tree(place.as_ref()), EXPECTED, "{arguments:?}");
    fs_err::remove_dir_all(place).unwrap();
}

pub(crate) fn uv_installs(bench: &Bench, arguments: &[&str]) {
    let (place, python) = (bench.path("installed"), tool("python"));
    let python = python.to_str().unwrap();
    let common = [
        "pip",
        "install",
        "--no-cache",
        "--no-config",
        "--quiet",
        "--target",
        &place,
    ];
    let wanted = wanted();
    let arguments = [&common[..], &["--python", python], arguments, &[&wanted]].concat();
    judge("uv", &arguments).ok();
    for part in [
        "rocm_sdk_libraries/__init__.py",
        "rocm_sdk_device_gfx942/__init__.py",
    ] {
        let part = bench.root.join("installed").join(part);
        assert!(part.exists(), "{arguments:?}");
    }
    fs_err::remove_dir_all(place).unwrap();
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
    assert!(base.contains("/a%20b%2Bc%2541%26%27%C3%A9/"), "{base}");
    every_form_installs(&bench, base);
    let server = Server::start(Site::Directory(bench.root.clone()));
    every_form_installs(&bench, &server.url);
}

#[test]
#[ignore = "slow"]
fn an_index_among_its_packages_installs_too() {
    let bench = Bench::new();
    wheels(&bench.root);
    let index = bench.run("index --no-check dist").ok();
    every_form_of_layout(&bench, index.trim().strip_suffix("simple/").unwrap(), "");
}

#[test]
fn an_upload_to_a_directory_installs() {
    let bench = Bench::built();
    let index = bench.upload("--artifact-group gfx94X-dcgpu").ok();
    assert!(
        index.ends_with("/out/42-linux/python/gfx94X-dcgpu/simple/\n"),
        "{index}"
    );
    every_form_installs(&bench, index.trim().strip_suffix("simple/").unwrap());
}

/// A set in a store that is like S3, below `python/`.
pub(crate) fn published_in_memory(bench: &Bench) -> MemoryStore {
    let store = MemoryStore::default();
    publish_to(Box::new(store.clone()), bench).unwrap();
    store
}

pub(crate) fn publish_to(store: Box<dyn Store>, bench: &Bench) -> Result<PublishedUpload> {
    publish_in(store, &bench.root, Layout::Dist)
}

/// A world that says nothing.
pub(crate) fn quiet_world() -> World {
    let quiet = Options {
        quiet: 2,
        ..Options::default()
    };
    World {
        console: Console::of_this_process(&quiet),
        stop: Stop::default(),
    }
}

/// Uploads a set to `python/` of run 42.
pub(crate) fn publish_in(
    store: Box<dyn Store>,
    packages: &Path,
    layout: Layout,
) -> Result<PublishedUpload> {
    let world = quiet_world();
    let urls = "https://bucket.s3.amazonaws.com/42-linux/python/".parse()?;
    let directory = "42-linux/python/".parse()?;
    let destination = SetPlace::of_store(store.into(), &directory, urls, &world.stop);
    let set = LocalSet::read(
        packages,
        PackageDirectories::Built,
        KnownPackages::new(),
        &world,
    )?;
    let options = UploadOptions {
        is_part: false,
        layout,
        existing: Existing::Refuse,
    };
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
    let json = format!("{base}simple/_json/");
    pip_downloads(&bench, &["--index-url", &json]);
    uv_installs(&bench, &["--default-index", &json]);
}

#[test]
#[ignore = "slow"]
fn resolving_takes_metadata_and_no_wheel() {
    let bench = Bench::new();
    wheels(&bench.root);
    let server = Server::start(Site::Keys(published_in_memory(&bench)));
    let (python, target) = (tool("python"), bench.path("nowhere"));
    let python = python.to_str().unwrap();
    let page = format!("{}42-linux/python/dist/index.html", server.url);
    let index = format!("{}42-linux/python/simple/", server.url);
    let wanted = wanted();
    for source in [["--index-url", &index], ["--find-links", &page]] {
        let dry = [
            "--dry-run",
            "--target",
            &target,
            source[0],
            source[1],
            &wanted,
        ];
        let none: &[&str] = if source[0] == "--find-links" {
            &["--no-index"]
        } else {
            &[]
        };
        let pip = [&["install", "--isolated", "--no-cache-dir"][..], none, &dry].concat();
        judge("pip", &pip).ok();
        let uv = [
            &[
                "pip",
                "install",
                "--no-cache",
                "--no-config",
                "--python",
                python,
            ][..],
            none,
            &dry,
        ];
        judge("uv", &uv.concat()).ok();
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
    let place = bench.path("downloaded");
    let common = [
        "download",
        "--isolated",
        "--no-cache-dir",
        "--dest",
        &place,
        "--index-url",
    ];
    let refused = judge("pip", &[&common[..], &[index.trim(), &wanted()]].concat());
    assert_ne!(refused.code, 0);
    assert!(
        refused.stderr.contains("DO NOT MATCH THE HASHES"),
        "{}",
        refused.stderr
    );
}
