//! A place that upstream's programs and ours fill in turns, with the bucket's indexer after each.

use super::{
    Bench,
    install::{pip_downloads, uv_installs},
    memory::MemoryStore,
    packages::wheels,
    server::{Server, Site},
};
use crate::support::upstream::{Placement, UpstreamRun};

const RUN: &str = "42-linux";

/// The run of a bucket in memory.
fn run(bucket: &MemoryStore) -> UpstreamRun<'_> {
    UpstreamRun {
        bucket,
        prefix: RUN,
        is_local: false,
    }
}

/// The links of a page in the bucket.
fn links(bucket: &MemoryStore, key: &str) -> Vec<String> {
    let page = String::from_utf8(bucket.find(key).unwrap().bytes).unwrap();
    let links = page.split("<a href=\"").skip(1);
    links
        .map(|rest| rest.split('"').next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_models_do_what_upstreams_programs_do() {
    let bench = Bench::new();
    wheels(&bench.root);
    let bucket = MemoryStore::default();
    let run = run(&bucket);
    let flat = run.upload(&bench.root, Placement::MultiArch);
    assert_eq!(flat, "42-linux/python/index.html");
    // The uploader leaves that page to the indexer.
    assert!(bucket.find(&flat).is_none());
    run.index();
    let group = run.upload(&bench.root, Placement::Group("gfx94X-dcgpu"));
    let server = Server::start(Site::Keys(bucket.clone()));
    for address in [&flat, &group] {
        let address = format!("{}{address}", server.url);
        pip_downloads(&bench, &["--no-index", "--find-links", &address]);
        uv_installs(&bench, &["--no-index", "--find-links", &address]);
    }
    let own = [
        "rocm_sdk_core-7.13.0.dev0%2Bab.cd-py3-none-any.whl",
        "rocm_sdk_device_gfx942-7.13.0.dev0%2Bab.cd-py3-none-any.whl",
        "rocm_sdk_libraries-7.13.0.dev0%2Bab.cd-py3-none-any.whl",
    ];
    assert_eq!(links(&bucket, "42-linux/index.html"), ["python/index.html"]);
    let listed = [&["../index.html"], &own[..]].concat();
    assert_eq!(links(&bucket, &flat), listed);
    assert_eq!(links(&bucket, &group), own);
    run.index();
    let with_group = ["../index.html", "gfx94X-dcgpu/index.html"];
    assert_eq!(links(&bucket, &flat), [&with_group, &own[..]].concat());
    assert_eq!(links(&bucket, &group), listed);
}
