//! What an index has, and what stands against it.

use super::*;
use crate::set::{
    links::root_links,
    ownership::{OwnershipManifest, tests::SMALL},
};

fn options<'a>(manifest: &'a OwnershipManifest, stream: &'a str) -> AggregateOptions<'a> {
    AggregateOptions {
        manifest,
        stream,
        is_static: false,
        is_strict: false,
        allows_unpublished: false,
        is_dry_run: false,
    }
}

fn root(owner: &str, page: &str) -> ProductRoot {
    ProductRoot {
        owner: owner.to_owned(),
        shown: format!("{owner}/index.html"),
        links: root_links(page),
    }
}

fn shown(index: &AggregateIndex) -> String {
    let list = |of: &[OwnedProject]| of.iter().map(|it| it.project.to_string()).join(" ");
    let lines = [list(&index.projects), list(&index.unpublished)].into_iter();
    lines.chain(index.findings.iter().cloned()).join("\n")
}

#[test]
fn an_index_has_what_the_manifest_says_and_the_products_have() {
    let manifest = OwnershipManifest::parse(SMALL).unwrap();
    let core = "<a href=\"rocm/\">rocm</a><br/><a href='more/'>more</a>";
    let roots = [
        root("core/whl-next", core),
        root("pytorch/whl-next", "<p><a href=torch/> torch </a>"),
    ];
    let decide = |stream, change: fn(&mut AggregateOptions)| {
        let mut options = options(&manifest, stream);
        change(&mut options);
        let owned = manifest.of_stream(stream).unwrap();
        shown(&AggregateIndex::decide(owned, &roots, &options))
    };
    assert_eq!(decide("stable", |_| ()), "rocm torch\n");
    insta::assert_snapshot!(decide("nightly", |_| ()), @"
    rocm torch
    rocm-sdk-device-gfx900
    `core/whl-next` has no `rocm-sdk-device-gfx900`
    ");
    assert_eq!(
        decide("nightly", |it| it.allows_unpublished = true),
        "rocm torch\nrocm-sdk-device-gfx900"
    );
    insta::assert_snapshot!(decide("bkc", |it| it.is_strict = true), @"
    rocm

    `core/whl-next/index.html` has `more`, which the manifest does not have for `bkc`
    `pytorch/whl-next/index.html` has `torch`, which the manifest does not have for `bkc`
    ");
}

#[test]
fn every_fault_of_a_root_page_is_a_finding() {
    let manifest = OwnershipManifest::parse(SMALL).unwrap();
    let core = "<a href=rocm/>rocm</a><a href=rocm/>rocm</a><a href=torch/>torch</a>\
        <a href=\"ROCm/\">ROCm</a><a href=\"../rocm/\">rocm</a><a href=\"https://h/rocm/\">rocm</a>\
        <a href=\"rocm\">rocm</a><a href=\"rocm-sdk-device-gfx900/\">else</a>";
    let roots = [root("core/whl-next", core), root("core/whl-next", "")];
    let owned = manifest.of_stream("nightly").unwrap();
    let index = AggregateIndex::decide(owned, &roots, &options(&manifest, "nightly"));
    insta::assert_snapshot!(index.findings.join("\n"), @r#"
    `core/whl-next` is published at two places
    `core/whl-next/index.html` links to "ROCm/", which is no directory of a project
    `core/whl-next/index.html` links to "../rocm/", which is no directory of a project
    `core/whl-next/index.html` links to "https://h/rocm/", which is no directory of a project
    `core/whl-next/index.html` links to "rocm", which is no directory of a project
    `core/whl-next/index.html` calls the link to `rocm-sdk-device-gfx900` "else"
    `core/whl-next/index.html` links to `rocm` twice
    `core/whl-next/index.html` has `torch`, which is of `pytorch/whl-next` in the manifest
    `core/whl-next` has no `rocm-sdk-device-gfx900`
    `pytorch/whl-next` has no `torch`
    "#);
}
