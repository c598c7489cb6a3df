//! Manifests that are right, and those that are not.

use super::*;
use crate::error::render;

/// A small manifest with everything that one can have.
pub(in crate::set) const SMALL: &str = "\
# The projects of a test.
schema_version: 3
streams:
  known: [nightly, bkc, stable]
  groups:
    most: [nightly, stable]
    all:
      - nightly
      - bkc
      - stable
  default: most
python_indexes:
  - public_base: /rocm/whl-next
    packages:
      torch: { owner_path: pytorch/whl-next }
      rocm:
        owner_path: core/whl-next
        stream_group: all
      rocm-sdk-device-gfx900:
        owner_path: core/whl-next
        streams: [nightly]
";

fn projects(manifest: &OwnershipManifest, stream: &str) -> Vec<String> {
    let owned = manifest.of_stream(stream).unwrap().into_iter();
    owned
        .map(|it| format!("{}/{}", it.owner, it.project))
        .collect()
}

#[test]
fn streams_have_the_projects_of_their_groups() {
    let manifest = OwnershipManifest::parse(SMALL).unwrap();
    assert_eq!(
        projects(&manifest, "nightly"),
        [
            "core/whl-next/rocm",
            "core/whl-next/rocm-sdk-device-gfx900",
            "pytorch/whl-next/torch"
        ]
    );
    assert_eq!(projects(&manifest, "bkc"), ["core/whl-next/rocm"]);
    assert_eq!(
        projects(&manifest, "stable"),
        ["core/whl-next/rocm", "pytorch/whl-next/torch"]
    );
    let unknown = manifest.of_stream("weekly").unwrap_err();
    insta::assert_snapshot!(render(&unknown), @"
    error: the manifest has no stream `weekly`

    hint: the streams are nightly, bkc, stable
    ");
}

#[test]
fn every_problem_names_its_line() {
    let edit = |from: &str, to: &str| SMALL.replacen(from, to, 1);
    let several = edit("stream_group: all", "stream_groop: all")
        .replace("streams: [nightly]", "streams: [nightly, weekly]")
        .replace("      torch:", "      Torch_Audio:");
    let broken = [
        several,
        edit("schema_version: 3", "schema_version: \"3\""),
        edit("schema_version: 3\n", ""),
        edit("default: most", "default: some"),
        edit("known: [nightly, bkc, stable]", "known: []"),
        edit(
            "[nightly, bkc, stable]",
            "[nightly, nightly, bkc, sta.ble, stable]",
        ),
        edit(
            "stream_group: all",
            "stream_group: all\n        streams: [bkc]",
        ),
        edit("stream_group: all", "owner_path: jax/whl-next"),
        edit("pytorch/whl-next", "../whl-next"),
        edit("pytorch/whl-next", "/pytorch/whl-next"),
        edit("/rocm/whl-next", "/rocm/whl"),
        edit("{ owner_path: pytorch/whl-next }", "*torch"),
        edit("torch: { owner_path: pytorch/whl-next }", "torch:"),
        edit("torch:", "true:"),
        format!("{SMALL}  - public_base: /rocm/whl-next\n    packages: {{}}\n"),
        format!("{SMALL}---\na: b\n"),
        edit("groups:", "groups: {"),
        String::new(),
    ];
    let said = broken.map(|text| render(&OwnershipManifest::parse(&text).unwrap_err()));
    insta::assert_snapshot!(said.concat().replace("error: not a valid manifest\n", ""), @"
    caused by: line 15: `Torch_Audio` is not normalized: it has to be `torch-audio`
    caused by: line 18: unknown key `stream_groop` in `rocm`: the keys are `owner_path`, `stream_group`, `streams`
    caused by: line 21: not in `known`: `weekly`
    caused by: line 2: `schema_version` is not 3
    caused by: line 2: the manifest has no `schema_version`
    caused by: line 11: no group `some`: the groups are all, most
    caused by: line 4: expected a list with entries for `known`
    caused by: line 4: `nightly` is there twice
    caused by: line 4: `sta.ble` has more than small letters, digits, `_` and `-`
    caused by: line 19: `rocm` has both `stream_group` and `streams`
    caused by: line 18: the key `owner_path` is there twice
    caused by: line 15: `../whl-next` is not a path of small letters, digits, `.`, `_` and `-`
    caused by: line 15: `/pytorch/whl-next` is not a path of small letters, digits, `.`, `_` and `-`
    caused by: line 13: `public_base` is not `/rocm/whl-next`
    caused by: line 15: while parsing node, found unknown anchor
    caused by: line 15: expected keys and values for `torch`
    caused by: line 15: expected a text for a key
    caused by: line 22: 2 indexes, and only one is known
    caused by: line 24: a second document
    caused by: line 7: while parsing a flow mapping, did not find expected ',' or '}'
    caused by: line 1: an empty file
    ");
}

#[test]
fn a_deep_document_is_refused() {
    let text = "[".repeat(100_000);
    assert!(OwnershipManifest::parse(&text).is_err());
}
