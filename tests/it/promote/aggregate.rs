//! The index of all products of a stream.

use std::{fmt::Write as _, path::Path};

use serde_json::Value;

use super::{built, fresh};
use crate::{
    publish::{
        judge,
        packages::wheel,
        server::{Server, Site},
        tree,
    },
    support::{
        place::{empty, text},
        program::{Outcome, rocwheel},
        published::sets,
    },
};

const CORE: &str = "core/whl-next";

/// A manifest in which each project is of a product, for the streams `rc` and `bkc`.
pub(crate) fn manifest(projects: &[(&str, &str)]) -> String {
    let mut manifest = "schema_version: 3\nstreams:\n  known: [rc, bkc]\n  groups:\n    all: [rc, bkc]\n    most: [rc]\n  default: most\npython_indexes:\n  - public_base: /rocm/whl-next\n    packages:\n".to_owned();
    for (project, owner) in projects {
        writeln!(manifest, "      {project}:\n        owner_path: {owner}").unwrap();
    }
    manifest
}

/// The projects of a product, which are its directories.
fn projects(place: &Path, product: &str) -> Vec<String> {
    let directory = fs_err::read_dir(place.join("rocm").join(product)).unwrap();
    let entries = directory
        .map(Result::unwrap)
        .filter(|it| it.path().is_dir());
    let mut names: Vec<String> = entries
        .map(|it| it.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn aggregate(manifest: &Path, place: &Path, flags: &[&str]) -> Outcome {
    let arguments = [
        "index",
        "aggregate",
        "--manifest",
        text(manifest),
        text(place),
    ];
    let content = ["--content", text(place), "--stream", "rc"];
    rocwheel(&[&arguments[..], &content, flags].concat())
}

fn actions(outcome: Outcome) -> Vec<String> {
    let answer: Value = serde_json::from_str(&outcome.ok()).unwrap();
    let actions = answer["actions"].as_array().unwrap().iter();
    actions
        .map(|it| format!("{} {}", it["action"], it["path"]).replace('"', ""))
        .collect()
}

#[test]
fn installers_use_the_index_of_all_products() {
    for set in sets() {
        let place = fresh(&format!("aggregate-{}", set.name));
        let arguments = ["promote", "--to", "same", "--layout", "product", "--into"];
        let candidate = built(set, "7.14.0rc1");
        rocwheel(&[&arguments[..], &[text(&place), text(&candidate)]].concat()).ok();
        // Another product, whose files have a `+` in their names.
        let torch = place.join("rocm/pytorch/whl-next/torch");
        let name = wheel(&torch, "torch", "2.10.0+rocm7.14.0rc1", "");
        let name = Path::new(&name).file_name().unwrap().to_str().unwrap();
        let link = format!("<a href=\"{}\">{name}</a>", name.replace('+', "%2B"));
        fs_err::write(torch.join("index.html"), link).unwrap();
        let root = "<a href=\"torch/\">torch</a><br>";
        fs_err::write(place.join("rocm/pytorch/whl-next/index.html"), root).unwrap();

        let core = projects(&place, CORE);
        let mut owned: Vec<(&str, &str)> = core.iter().map(|it| (it.as_str(), CORE)).collect();
        owned.push(("torch", "pytorch/whl-next"));
        let file = place.with_extension("yaml");
        fs_err::write(&file, manifest(&owned)).unwrap();
        let flags = ["--static", "--strict-completeness"];
        aggregate(&file, &place, &flags).ok();

        let server = Server::start(Site::Directory(place.clone()));
        let index = format!("{}rocm/whl-next/", server.url);
        let target = empty(&format!("promote/aggregate-{}-installed", set.name));
        let arguments = ["download", "--no-deps", "--quiet", "--dest", text(&target)];
        let wanted = ["rocm-sdk-core==7.14.0rc1", "torch==2.10.0+rocm7.14.0rc1"];
        judge(
            "pip",
            &[&arguments[..], &["--index-url", &index], &wanted].concat(),
        )
        .ok();
        assert_eq!(tree(&target).len(), 2);
        let arguments = [
            "pip",
            "install",
            "--dry-run",
            "--no-deps",
            "--target",
            text(&target),
        ];
        let wanted = ["--default-index", &index, "torch==2.10.0+rocm7.14.0rc1"];
        judge("uv", &[&arguments[..], &wanted].concat()).ok();

        // Nothing changed: nothing is written.
        let json = ["--static", "--format", "json"];
        assert_eq!(actions(aggregate(&file, &place, &json)), [""; 0]);
        // One project changed, and one left.
        let page = link_to(name, "data-yanked=\"slow\"");
        fs_err::write(torch.join("index.html"), page).unwrap();
        owned.retain(|(project, _)| *project != core[0]);
        fs_err::write(&file, manifest(&owned)).unwrap();
        let written = [
            "replace rocm/whl-next/torch/index.html".to_owned(),
            "replace rocm/whl-next/index.html".to_owned(),
            "replace rocm-whl-next-routes.json".to_owned(),
            "replace validation.json".to_owned(),
            format!("remove rocm/whl-next/{}/index.html", core[0]),
        ];
        assert_eq!(actions(aggregate(&file, &place, &json)), written);
        let page = fs_err::read_to_string(place.join("rocm/whl-next/torch/index.html")).unwrap();
        assert!(page.contains("data-yanked=\"slow\""), "{page}");
        assert!(!place.join("rocm/whl-next").join(&core[0]).exists());
    }
}

fn link_to(name: &str, attribute: &str) -> String {
    format!(
        "<a href=\"{}\" {attribute}>{name}</a>",
        name.replace('+', "%2B")
    )
}

#[test]
fn what_is_not_published_is_refused_before_anything_is_written() {
    let place = empty("promote/aggregate-refused");
    let core = place.join("rocm").join(CORE);
    fs_err::create_dir_all(core.join("rocm")).unwrap();
    fs_err::write(core.join("rocm/index.html"), "<a href=a.whl>a.whl</a>").unwrap();
    fs_err::write(
        core.join("index.html"),
        "<a href=rocm/>rocm</a><a href=more/>more</a>",
    )
    .unwrap();
    let file = place.join("owner's manifest.yaml");
    let owned = [
        ("rocm", CORE),
        ("rocm-profiler", CORE),
        ("torch", "pytorch/whl-next"),
    ];
    fs_err::write(&file, manifest(&owned)).unwrap();
    let before = tree(&place);
    let outcome = aggregate(&file, &place, &["--strict-completeness"]);
    assert_eq!(outcome.code, 1);
    let said = outcome.stderr.replace(text(&place), "PLACE");
    insta::assert_snapshot!(said, @"
    error: the index of `rc` cannot be written
      caused by: `PLACE/rocm/core/whl-next/index.html` has `more`, which the manifest does not have for `rc`
      caused by: `core/whl-next` has no `rocm-profiler`
      caused by: `pytorch/whl-next` has no `torch`

    hint: publish what is missing, edit the manifest, or pass `--allow-unpublished` to leave out what no product has
    ");
    assert_eq!(tree(&place), before);
    let outcome = aggregate(&file, &place, &["--allow-unpublished"]);
    insta::assert_snapshot!(outcome.stderr, @"warning: not published, and left out: rocm-profiler, torch");
    let routes = fs_err::read_to_string(place.join("rocm-whl-next-routes.json")).unwrap();
    insta::assert_snapshot!(routes, @r#"
    {
      "public_base": "/rocm/whl-next",
      "routes": [
        {
          "owner_path": "core/whl-next",
          "package": "rocm",
          "target": "/rocm/core/whl-next/rocm/"
        }
      ],
      "schema_version": 2,
      "stream": "rc"
    }
    "#);
    let report = fs_err::read_to_string(place.join("validation.json")).unwrap();
    insta::assert_snapshot!(report, @r#"
    {
      "content_validated": true,
      "generation_mode": "content",
      "owners": {
        "core/whl-next": {
          "package_count": 1
        }
      },
      "package_count": 1,
      "packages": [
        {
          "name": "rocm",
          "owner_path": "core/whl-next",
          "package_index": "/rocm/core/whl-next/rocm/index.html",
          "product_root_index": "/rocm/core/whl-next/index.html",
          "source": "exact"
        }
      ],
      "public_base": "/rocm/whl-next",
      "schema_version": 2,
      "stream": "rc",
      "unpublished_package_count": 2,
      "unpublished_packages": [
        {
          "name": "rocm-profiler",
          "owner_path": "core/whl-next",
          "product_root_index": "/rocm/core/whl-next/index.html"
        },
        {
          "name": "torch",
          "owner_path": "pytorch/whl-next",
          "product_root_index": "/rocm/pytorch/whl-next/index.html"
        }
      ]
    }
    "#);
    let page = fs_err::read_to_string(place.join("rocm/whl-next/index.html")).unwrap();
    insta::assert_snapshot!(page, @r#"
    <!DOCTYPE html>
    <html>
      <body>
        <a href="rocm/">rocm</a><br/>
      </body>
    </html>
    "#);
}

#[test]
fn a_manifest_alone_is_counted_or_refused_by_line() {
    let place = empty("promote/aggregate-manifest");
    let file = place.join("ownership.yaml");
    let alone = || rocwheel(&["index", "aggregate", "--manifest", text(&file)]);
    fs_err::write(
        &file,
        manifest(&[("rocm", CORE), ("torch", "pytorch/whl-next")]),
    )
    .unwrap();
    insta::assert_snapshot!(alone().ok(), @"
    rc: 2 projects (1 of core/whl-next, 1 of pytorch/whl-next)
    bkc: 0 projects
    ");
    fs_err::write(&file, manifest(&[("Rocm", CORE), ("torch", "..")])).unwrap();
    let refused = alone();
    assert_eq!(refused.code, 1);
    insta::assert_snapshot!(refused.stderr.replace(text(&place), "PLACE"), @"
    error: failed to read `PLACE/ownership.yaml`
      caused by: not a valid manifest
      caused by: line 12: `Rocm` is not normalized: it has to be `rocm`
      caused by: line 14: `..` is not a path of small letters, digits, `.`, `_` and `-`
    ");
}
