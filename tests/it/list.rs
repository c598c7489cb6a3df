//! `list`: the versions of a set, an index and a stream.

use rocwheel_test_servers::http::{Answer, serve};

use crate::install::streams::publish_index;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::support::prelude::*;

/// The present and the earlier place of the stream `dev`.
const PRESENT: &str = "mirror/dev.repo.amd.com/rocm/whl-next";
const EARLIER: &str = "mirror/rocm.devreleases.amd.com/whl-multi-arch";

/// Writes the first page of an index, which names its projects.
fn write_first_page(index: &Path) {
    let entries = fs_err::read_dir(index).unwrap().map(|entry| entry.unwrap().file_name());
    let projects: BTreeSet<String> = entries.map(|name| name.into_string().unwrap()).collect();
    let links = projects.iter().map(|name| format!("<a href=\"{name}/\">{name}</a><br/>\n"));
    fs_err::write(index.join("index.html"), links.collect::<String>()).unwrap();
}

/// A stream with three versions: a whole one for two platforms, one that lacks device code, and an earlier one.
fn with_stream() -> Sandbox {
    let t = Sandbox::new();
    let present = t.path(PRESENT);
    for version in ["0.99.2.dev0", "0.99.3.dev0"] {
        t.run(&format!("pipeline --sample --version {version} --output-dir {version}")).ok();
        publish_index(&present, &t.path(version).join("packages/dist"));
    }
    fs_err::remove_dir_all(present.join("rocm-sdk-device-gfx1100")).unwrap();
    let windows = t.path("windows");
    for name in tree(&t.path("0.99.3.dev0/packages/dist")) {
        let renamed = name.replace("linux_x86_64", "win_amd64");
        copy_files_as(&t.path("0.99.3.dev0/packages/dist").join(name), &windows.join(renamed));
    }
    publish_index(&present, &windows);
    let frameworks = t.path("frameworks");
    for name in [
        "torch-2.12.0+rocm0.99.3.dev0-cp312-cp312-linux_x86_64.whl",
        "torch-2.13.0+rocm0.99.3.dev0-cp312-cp312-linux_x86_64.whl",
        "torch-2.13.0+rocm0.99.3.dev0-cp313-cp313-linux_x86_64.whl",
        "torch-2.13.0+rocm0.99.3.dev0-cp310-cp310-linux_x86_64.whl",
        "torch-2.13.0+rocm0.99.3.dev0-cp311-cp311-win_amd64.whl",
        "amd_torch_device_gfx942-2.13.0+rocm0.99.3.dev0-py3-none-linux_x86_64.whl",
        "triton-3.8.0+rocm0.99.2.dev0-cp39-abi3-linux_x86_64.whl",
        "numpy-2.0.0-cp312-cp312-linux_x86_64.whl",
    ] {
        t.write(&format!("frameworks/{name}"), "a list reads names only");
    }
    publish_index(&present, &frameworks);
    write_first_page(&present);
    publish_index(&t.path(EARLIER), &sample().dist());
    write_first_page(&t.path(EARLIER));
    let server = Server::start(Site::Directory(t.path("mirror")));
    t.with("ROCWHEEL_STREAM_MIRROR", &server.url).shows(server.url, "MIRROR/")
}

fn copy_files_as(from: &Path, to: &Path) {
    fs_err::create_dir_all(to.parent().unwrap()).unwrap();
    fs_err::copy(from, to).unwrap();
}

#[test]
fn a_stream_is_a_table_of_versions_and_of_what_each_lacks() {
    let t = with_stream();
    let lines = [
        "list --stream dev",
        "list --stream dev --limit 1",
        "list --stream dev --target gfx1100 --package torch",
        "list --stream dev --target gfx94X-dcgpu --package torch",
        "list --stream dev --version 0.99.2.dev0",
        "list --stream dev --version 0.99.9.dev0",
        "list --stream dev --package jax",
        "list --stream nightly",
        "list --stream dev --platform windows --target gfx1201",
    ];
    let answers = lines.map(|line| {
        let outcome = t.run(line);
        format!("$ rocwheel {line}\n{}", outcome.all())
    });
    insta::assert_snapshot!(answers.join("\n"), @"
    $ rocwheel list --stream dev
    exit 0
    VERSION      PLATFORM  TARGETS         FRAMEWORKS    STATE
    0.99.3.dev0  linux     gfx942          torch 2.13.0  lacks rocm-sdk-device-gfx1100
    0.99.3.dev0  windows   gfx1100 gfx942  torch 2.13.0  whole
    0.99.2.dev0  linux     gfx942          triton 3.8.0  lacks rocm-sdk-device-gfx1100
    0.99.1.dev0  linux     gfx1100 gfx942  -             whole

    $ rocwheel list --stream dev --limit 1
    exit 0
    ROCm 0.99.3.dev0 for linux: lacks rocm-sdk-device-gfx1100
    Python >=3.10
      rocm-0.99.3.dev0.tar.gz
      rocm_profiler-0.99.3.dev0-py3-none-linux_x86_64.whl
      rocm_sdk_core-0.99.3.dev0-py3-none-linux_x86_64.whl
      rocm_sdk_devel-0.99.3.dev0-py3-none-linux_x86_64.whl
      rocm_sdk_device_gfx942-0.99.3.dev0-py3-none-linux_x86_64.whl
      rocm_sdk_libraries-0.99.3.dev0-py3-none-linux_x86_64.whl
      6 packages
      torch 2.13.0+rocm0.99.3.dev0 for Python 3.10, 3.12, 3.13
      torch 2.12.0+rocm0.99.3.dev0 for Python 3.12
    and 3 more: `--limit 4` lists all

    $ rocwheel list --stream dev --target gfx1100 --package torch
    exit 0
    VERSION      PLATFORM  TARGETS         FRAMEWORKS           STATE
    0.99.3.dev0  windows   gfx1100 gfx942  torch 2.13.0 (3.11)  whole

    $ rocwheel list --stream dev --target gfx94X-dcgpu --package torch
    exit 0
    VERSION      PLATFORM  TARGETS         FRAMEWORKS                                      STATE
    0.99.3.dev0  linux     gfx942          torch 2.13.0 (3.10, 3.12, 3.13), 2.12.0 (3.12)  lacks rocm-sdk-device-gfx1100
    0.99.3.dev0  windows   gfx1100 gfx942  torch 2.13.0 (3.11)                             whole

    $ rocwheel list --stream dev --version 0.99.2.dev0
    exit 0
    ROCm 0.99.2.dev0 for linux: lacks rocm-sdk-device-gfx1100
    Python >=3.10
      rocm-0.99.2.dev0.tar.gz
      rocm_profiler-0.99.2.dev0-py3-none-linux_x86_64.whl
      rocm_sdk_core-0.99.2.dev0-py3-none-linux_x86_64.whl
      rocm_sdk_devel-0.99.2.dev0-py3-none-linux_x86_64.whl
      rocm_sdk_device_gfx942-0.99.2.dev0-py3-none-linux_x86_64.whl
      rocm_sdk_libraries-0.99.2.dev0-py3-none-linux_x86_64.whl
      6 packages
      triton 3.8.0+rocm0.99.2.dev0 for Python 3.9+

    $ rocwheel list --stream dev --version 0.99.9.dev0
    exit 1
    error: no ROCm 0.99.9.dev0 at `MIRROR/dev.repo.amd.com/rocm/whl-next/` and `MIRROR/rocm.devreleases.amd.com/whl-multi-arch/`

    hint: there is 0.99.3.dev0, 0.99.2.dev0, 0.99.1.dev0

    $ rocwheel list --stream dev --package jax
    exit 1
    error: no `jax` for a version of ROCm at `MIRROR/dev.repo.amd.com/rocm/whl-next/` and `MIRROR/rocm.devreleases.amd.com/whl-multi-arch/`

    hint: there is torch, triton

    $ rocwheel list --stream nightly
    exit 1
    error: the stream `nightly` has no packages

    hint: its indexes are MIRROR/nightly.repo.amd.com/rocm/whl-next/ and MIRROR/rocm.nightlies.amd.com/whl-multi-arch/

    $ rocwheel list --stream dev --platform windows --target gfx1201
    exit 1
    error: no device code for gfx1201 at `MIRROR/dev.repo.amd.com/rocm/whl-next/` and `MIRROR/rocm.devreleases.amd.com/whl-multi-arch/`

    hint: there is gfx1100, gfx942
    ");
}

#[test]
fn a_document_has_what_a_script_needs_of_each_version() {
    let t = with_stream();
    let document: Value = serde_json::from_str(&t.run("list --stream dev --json").ok()).unwrap();
    let versions = document["versions"].as_array().unwrap();
    let short = versions
        .iter()
        .map(|it| format!("{} {} {}", it["version"], it["platform"], it["state"]).replace('"', ""));
    assert_eq!(
        short.collect::<Vec<_>>(),
        [
            "0.99.3.dev0 linux lacks",
            "0.99.3.dev0 windows whole",
            "0.99.2.dev0 linux lacks",
            "0.99.1.dev0 linux whole"
        ]
    );
    assert_eq!(versions[0]["missing"], json!(["rocm-sdk-device-gfx1100"]));
    assert_eq!(versions[0]["targets"], json!(["gfx942"]));
    assert_eq!(versions[0]["frameworks"][0]["pythons"], json!(["cp310", "cp312", "cp313"]));
    let file = &versions[3]["packages"][0];
    let shown = file["url"].as_str().unwrap().ends_with("/rocm/rocm-0.99.1.dev0.tar.gz");
    assert!(shown, "{file}");
}

#[test]
fn a_set_is_listed_with_its_packages_in_each_form() {
    for set in sets() {
        let t = Sandbox::new();
        let place = set.place();
        let server = Server::start(Site::Directory(place.clone()));
        let forms = [
            text(&place).to_owned(),
            text(&set.dist()).to_owned(),
            server.url.clone(),
            format!("{}simple/", server.url),
            format!("{}dist/index.html", server.url),
        ];
        for form in forms {
            let listed = t.run(&format!("list {form}")).ok();
            assert_has!(
                listed,
                "0.99.1.dev0 for linux: whole",
                &format!("{} packages", set.packages())
            );
            for target in set.targets {
                assert_has!(listed, &format!("device_{}", target.replace('-', "_")));
            }
        }
    }
}

#[test]
fn a_version_whose_metadata_cannot_be_read_is_listed_with_the_reason() {
    let t = Sandbox::new();
    fs_err::create_dir_all(t.path("set")).unwrap();
    copy_files(&sample().dist(), &t.path("set"));
    t.write("set/rocm-0.99.1.dev0.tar.gz", "no archive");
    assert_has!(
        t.run("list set").ok(),
        "ROCm 0.99.1.dev0 for linux: unknown: failed to read the metadata"
    );
    fs_err::remove_file(t.path("set/rocm-0.99.1.dev0.tar.gz")).unwrap();
    assert_has!(t.run("list set").ok(), "linux: lacks rocm\n");
    t.write("empty/readme", "");
    assert_has!(t.run("list empty").refused(1), "no packages at `empty`");
}

#[test]
fn without_a_set_the_streams_are_listed() {
    insta::assert_snapshot!(Sandbox::new().run("list").ok(), @"
    STREAM   INDEX
    stable   https://stable.repo.amd.com/rocm/whl-next/
    stable   https://repo.amd.com/rocm/whl-multi-arch/         before 10.0
    rc       https://rc.repo.amd.com/rocm/whl-next/
    rc       https://rocm.prereleases.amd.com/whl-multi-arch/  before 10.1
    nightly  https://nightly.repo.amd.com/rocm/whl-next/
    nightly  https://rocm.nightlies.amd.com/whl-multi-arch/    before 20260823
    dev      https://dev.repo.amd.com/rocm/whl-next/
    dev      https://rocm.devreleases.amd.com/whl-multi-arch/
    bkc      https://bkc.repo.amd.com/rocm/whl-next/
    ");
}

/// The public registry has some 700,000 projects, of which a list reads those of ROCm.
#[test]
fn a_large_index_is_asked_for_few_pages() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let file = "rocm_sdk_core-7.14.0-py3-none-linux_x86_64.whl";
    let port = serve(move |request| {
        counted.fetch_add(1, SeqCst);
        let page = match request.path.as_str() {
            "/simple/" => (0..100_000)
                .map(|number| format!("<a href=\"p{number}/\">p</a>\n"))
                .chain(
                    ["rocm", "rocm-sdk-core", "torch"]
                        .map(|name| format!("<a href=\"{name}/\">x</a>")),
                )
                .collect::<Vec<_>>()
                .concat(),
            "/simple/rocm/" => "<a href=\"rocm-7.14.0.tar.gz\">x</a>".to_owned(),
            "/simple/rocm-sdk-core/" => format!("<a href=\"{file}\">x</a>"),
            _ => return Answer::new(404, "text/plain", Vec::new()),
        };
        Answer::new(200, "text/html", page.into_bytes())
    });
    let listed = Sandbox::new().run(&format!("list http://127.0.0.1:{port}/simple/")).ok();
    assert_has!(listed, "ROCm 7.14.0 for linux: unknown: ", file);
    let count = asked.load(SeqCst);
    assert!(count < 30, "{count} requests");
}

/// One page of the index is damaged: the others are listed, and the answer is no.
#[test]
fn a_page_that_cannot_be_read_hides_no_other() {
    let t = with_stream();
    t.write(&format!("{PRESENT}/torch/index.html"), "{");
    let said = t.run("list --stream dev --version 0.99.2.dev0");
    assert_eq!(said.code, 1, "{}", said.all());
    assert_has!(said.stdout, "rocm_sdk_core-0.99.2.dev0", "triton 3.8.0");
    assert_has!(
        said.stderr,
        "warning: failed to read the page of `torch`: ",
        "error: the list lacks `torch`, because pages could not be read"
    );
    let said = t.run("list --stream dev --format json");
    let answer: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((said.code, &answer["unread"][0]["project"]), (1, &json!("torch")));
}
