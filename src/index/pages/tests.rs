//! What the pages are, and what SHA256SUMS says.

mod html;

use itertools::Itertools as _;
use serde_json::Value;

use super::*;
use crate::index::{Identity, Layout, parse, tests as samples};

/// A set whose packages are beside `simple/`, and not in `dist/`.
fn flat(mut set: SetJson) -> SetJson {
    for file in &mut set.files {
        file.path = file.name().to_owned();
    }
    set
}

fn rendered(set: &SetJson) -> Vec<(String, String)> {
    let views = set.views();
    let pages = pages(set, &views, None).into_iter();
    pages.map(|page| (page.path.clone(), page.body())).collect()
}

#[test]
fn the_pages_of_a_set_and_the_order_in_which_they_may_appear() {
    let set = samples::set();
    let mut lines = Vec::new();
    let views = set.views();
    let pages = pages(&set, &views, None);
    for page in &pages {
        let key = directory_of(&page.path).unwrap_or("-");
        let kind = content_type(&page.path);
        assert!(page.paths().all(|path| content_type(path) == kind));
        lines.push(format!("{:?} {} ({key:?}): {kind}", page.phase, page.path));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    Project simple/rocm/index.html ("simple/rocm/"): text/html; charset=utf-8
    Project simple/rocm-sdk-core/index.html ("simple/rocm-sdk-core/"): text/html; charset=utf-8
    Root simple/index.html ("simple/"): text/html; charset=utf-8
    Root dist/index.html ("dist/"): text/html; charset=utf-8
    Root index.html ("./"): text/html; charset=utf-8
    Root SHA256SUMS ("-"): text/plain; charset=utf-8
    Whole set.json ("-"): application/json
    "#);
    assert!(pages.is_sorted_by_key(|page| page.phase));
}

#[test]
fn the_order_of_the_files_given_does_not_show() {
    let mut files = samples::files();
    let forwards = SetJson::new(Identity::default(), files.clone()).unwrap();
    files.reverse();
    let backwards = SetJson::new(Identity::default(), files).unwrap();
    assert_eq!(rendered(&forwards), rendered(&backwards));
}

#[test]
fn sums_name_files_and_sidecars_by_their_path() {
    insta::assert_snapshot!(checksums(&samples::set(), &[]), @r"
    4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24  dist/rocm-7.13.0.dev0+ab.tar.gz
    cf9f53400b4bde91dd10bf3b5d6119da97e7eb7ccfd5baee6008e53db992e808  dist/rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl
    e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb  dist/rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl
    9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae  dist/rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl.metadata
    ");
}

#[test]
fn every_link_of_every_page_leads_to_a_file_or_a_page_of_the_set() {
    for set in [samples::set(), samples::hostile()] {
        for set in [flat(set.clone()), set] {
            let there = paths(&set);
            let mut targets = Vec::new();
            for (path, body) in rendered(&set) {
                for form in body.split("<form action=\"").skip(1) {
                    let href = form.split('"').next().unwrap();
                    targets.push(parse::resolve(&path, href).unwrap().path);
                }
                let is_html = content_type(&path).starts_with("text/html");
                let links = if is_html { parse::html_links(&body) } else { Vec::new() };
                let links = links.iter().map(|link| parse::resolve(&path, &link.href));
                targets.extend(links.map(|target| target.unwrap().path));
            }
            assert!(targets.iter().all(|target| there.contains(target)), "{targets:?}");
            for file in &set.files {
                let path = &file.path;
                let count = targets.iter().filter(|target| *target == path).count();
                // The page of the project and, unless it is yanked, find-links.
                let expected = 1 + usize::from(file.yanked.is_none());
                assert_eq!(count, expected, "{path}");
            }
        }
    }
}

#[test]
fn a_link_goes_up_no_further_than_it_must() {
    let links = [
        link("simple/a/", "dist/a+b.whl"),
        link("dist/", "dist/a.whl"),
        link("dist/gfx1/", "dist/a.whl"),
        link("dist/gfx1/", "dist/gfx1/a.whl"),
        link("gfx1/simple/a/", "gfx1/a.whl"),
        link("dist/", "a.whl"),
        link("", "dist/a.whl"),
        link("", "a:b.whl"),
    ];
    insta::assert_snapshot!(links.join("\n"), @"
    ../../dist/a%2Bb.whl
    a.whl
    ../a.whl
    a.whl
    ../../a.whl
    ../a.whl
    dist/a.whl
    a%3Ab.whl
    ");
}

#[test]
fn files_in_both_layouts_are_on_the_page_of_each() {
    let mut set = samples::set();
    let other = PackageFile {
        path: "torch-2.9.0-py3-none-any.whl".into(),
        ..samples::file("", "torch", "2.9.0")
    };
    set.files.push(other);
    assert_eq!(set.layout(), Layout::Dist);
    let pages = ["dist/index.html", "index.html", "simple/torch/index.html"];
    let all = rendered(&set);
    let lines = pages.map(|path| {
        let (_, body) = all.iter().find(|(it, _)| it == path).unwrap();
        let files: Vec<String> = parse::html_links(body)
            .into_iter()
            .filter(|link| link.claim.sha256.is_some())
            .map(|link| link.href.split('#').next().unwrap().to_owned())
            .collect();
        format!("{path}: {}", files.join(" "))
    });
    insta::assert_snapshot!(lines.join("\n"), @"
    dist/index.html: rocm-7.13.0.dev0%2Bab.tar.gz rocm_sdk_core-7.13.0.dev0%2Bab-py3-none-linux_x86_64.whl ../torch-2.9.0-py3-none-any.whl
    index.html: dist/rocm-7.13.0.dev0%2Bab.tar.gz dist/rocm_sdk_core-7.13.0.dev0%2Bab-py3-none-linux_x86_64.whl torch-2.9.0-py3-none-any.whl
    simple/torch/index.html: ../../torch-2.9.0-py3-none-any.whl
    ");
}

/// A line to copy is complete where the address is known; a directory can be served anywhere.
#[test]
fn install_lines_have_the_address_of_a_bucket() {
    let set = samples::set();
    let urls: Urls = "https://bucket.s3.amazonaws.com/1-linux/python/".parse().unwrap();
    let views = set.views();
    let lines = |address| {
        let pages = pages(&set, &views, address).into_iter();
        let shown = ["dist/index.html", "simple/index.html", "simple/rocm/index.html"];
        let pages = pages.filter(|page| shown.contains(&page.path.as_str()));
        let lines = pages.flat_map(|page| {
            let body = page.body();
            let lines = body.lines().filter(|it| it.contains("<pre>") || it.contains("To install"));
            lines.map(|line| format!("{}: {line}\n", page.path)).collect::<Vec<_>>()
        });
        lines.collect::<String>()
    };
    insta::assert_snapshot!(lines(Some(&urls)), @"
    simple/rocm/index.html: <p>To install, copy a line:</p>
    simple/rocm/index.html: <pre>pip install &quot;rocm==7.13.0.dev0+ab&quot; --index-url=https://bucket.s3.amazonaws.com/1-linux/python/simple/</pre>
    simple/rocm/index.html: <pre>uv pip install &quot;rocm==7.13.0.dev0+ab&quot; --default-index=https://bucket.s3.amazonaws.com/1-linux/python/simple/</pre>
    simple/index.html: <p>To install, copy a line:</p>
    simple/index.html: <pre>pip install &quot;rocm==7.13.0.dev0+ab&quot; --index-url=https://bucket.s3.amazonaws.com/1-linux/python/simple/</pre>
    simple/index.html: <pre>uv pip install &quot;rocm==7.13.0.dev0+ab&quot; --default-index=https://bucket.s3.amazonaws.com/1-linux/python/simple/</pre>
    dist/index.html: <p>To install, copy a line:</p>
    dist/index.html: <pre>pip install &quot;rocm==7.13.0.dev0+ab&quot; --no-index --find-links=https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html</pre>
    dist/index.html: <pre>uv pip install &quot;rocm==7.13.0.dev0+ab&quot; --no-index --find-links=https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html</pre>
    ");
    assert!(lines(None).contains("--index-url=</pre>"), "{}", lines(None));
}

/// A variant wheel of `rocm`.
fn variant(directory: &str, label: &str, target: &str) -> PackageFile {
    let name = format!("rocm-7.13.0.dev0+ab-py3-none-any-{label}.whl");
    let document = format!(
        r#"{{"$schema": "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json",
            "default-priorities": {{"namespace": ["amd"]}},
            "variants": {{"{label}": {{"amd": {{"gfx_arch": ["{target}"]}}}}}}}}"#
    );
    let document = VariantDocument::parse(document.as_bytes()).unwrap();
    let file = samples::file(&name, "rocm", "7.13.0.dev0+ab");
    PackageFile {
        path: format!("dist/{directory}{name}"),
        variant: Some(Box::new(document)),
        ..file
    }
}

/// The pages that link to files about variants or have their text, with these links and the labels.
fn variant_lines(set: &SetJson) -> String {
    let mut lines = String::new();
    for (path, body) in rendered(set) {
        if is_variants_json(&path) {
            let labels: Value = serde_json::from_str(&body).unwrap();
            let labels = labels["variants"].as_object().unwrap().keys().join(" ");
            let _ = writeln!(lines, "{path}: {labels}");
        } else if path != "set.json" {
            let named = body.lines().filter(|line| line.contains("variants.json"));
            named.for_each(|line| _ = writeln!(lines, "{path}: {line}"));
        }
    }
    lines
}

#[test]
fn pages_list_what_the_labels_of_variant_wheels_mean() {
    assert_eq!(variant_lines(&samples::set()), "");
    let files = [variant("", "gfx942", "gfx942"), variant("", "gfx1100", "gfx1100")]
        .into_iter()
        .chain(samples::files());
    let set = SetJson::new(Identity::default(), files.collect()).unwrap();
    insta::assert_snapshot!(variant_lines(&set), @r#"
    dist/rocm-7.13.0.dev0+ab-variants.json: gfx1100 gfx942
    simple/rocm/index.html: <li><a href="../../dist/rocm-7.13.0.dev0%2Bab-variants.json#sha256=660f640b6891d1314f88b240451d2ffb5badc8d528882c57cc59bf7e2f3d9cde" data-size="362">rocm-7.13.0.dev0+ab-variants.json</a><p>what the labels of the variant wheels mean</p></li>
    dist/index.html: <li><a href="rocm-7.13.0.dev0%2Bab-variants.json#sha256=660f640b6891d1314f88b240451d2ffb5badc8d528882c57cc59bf7e2f3d9cde" data-size="362">rocm-7.13.0.dev0+ab-variants.json</a><p>what the labels of the variant wheels mean</p></li>
    SHA256SUMS: 660f640b6891d1314f88b240451d2ffb5badc8d528882c57cc59bf7e2f3d9cde  dist/rocm-7.13.0.dev0+ab-variants.json
    "#);
    let again = SetJson::parse(&set.pretty()).unwrap();
    assert_eq!(variant_lines(&again), variant_lines(&set));
}

#[test]
fn a_family_has_the_labels_of_its_own_wheels_and_the_common_ones() {
    let files = vec![
        variant("", "gfx942", "gfx942"),
        variant("gfx94X-dcgpu/", "gfx940", "gfx940"),
        variant("gfx110X-all/", "gfx1100", "gfx1100"),
    ];
    let set = SetJson::new(Identity::default(), files).unwrap();
    insta::assert_snapshot!(variant_lines(&set), @r#"
    dist/rocm-7.13.0.dev0+ab-variants.json: gfx942
    dist/gfx110X-all/rocm-7.13.0.dev0+ab-variants.json: gfx1100 gfx942
    dist/gfx94X-dcgpu/rocm-7.13.0.dev0+ab-variants.json: gfx940 gfx942
    simple/rocm/index.html: <li><a href="../../dist/rocm-7.13.0.dev0%2Bab-variants.json#sha256=7e357bd98543c9b30c53812d9957b02ce4f9d0b8983d54580d66bbee6b5da033" data-size="263">rocm-7.13.0.dev0+ab-variants.json</a><p>what the labels of the variant wheels mean</p></li>
    gfx110X-all/simple/rocm/index.html: <li><a href="../../../dist/gfx110X-all/rocm-7.13.0.dev0%2Bab-variants.json#sha256=660f640b6891d1314f88b240451d2ffb5badc8d528882c57cc59bf7e2f3d9cde" data-size="362">rocm-7.13.0.dev0+ab-variants.json</a><p>what the labels of the variant wheels mean</p></li>
    gfx94X-dcgpu/simple/rocm/index.html: <li><a href="../../../dist/gfx94X-dcgpu/rocm-7.13.0.dev0%2Bab-variants.json#sha256=19a69eef07e9edf6abf0eb1734b4207dc70dcfcb0c886c90370224b69d25dafc" data-size="360">rocm-7.13.0.dev0+ab-variants.json</a><p>what the labels of the variant wheels mean</p></li>
    dist/index.html: <li><a href="rocm-7.13.0.dev0%2Bab-variants.json#sha256=7e357bd98543c9b30c53812d9957b02ce4f9d0b8983d54580d66bbee6b5da033" data-size="263">rocm-7.13.0.dev0+ab-variants.json</a><p>what the labels of the variant wheels mean</p></li>
    dist/gfx110X-all/index.html: <li><a href="rocm-7.13.0.dev0%2Bab-variants.json#sha256=660f640b6891d1314f88b240451d2ffb5badc8d528882c57cc59bf7e2f3d9cde" data-size="362">rocm-7.13.0.dev0+ab-variants.json</a><p>what the labels of the variant wheels mean</p></li>
    dist/gfx110X-all.html: <li><a href="gfx110X-all/rocm-7.13.0.dev0%2Bab-variants.json#sha256=660f640b6891d1314f88b240451d2ffb5badc8d528882c57cc59bf7e2f3d9cde" data-size="362">rocm-7.13.0.dev0+ab-variants.json</a><p>what the labels of the variant wheels mean</p></li>
    dist/gfx94X-dcgpu/index.html: <li><a href="rocm-7.13.0.dev0%2Bab-variants.json#sha256=19a69eef07e9edf6abf0eb1734b4207dc70dcfcb0c886c90370224b69d25dafc" data-size="360">rocm-7.13.0.dev0+ab-variants.json</a><p>what the labels of the variant wheels mean</p></li>
    dist/gfx94X-dcgpu.html: <li><a href="gfx94X-dcgpu/rocm-7.13.0.dev0%2Bab-variants.json#sha256=19a69eef07e9edf6abf0eb1734b4207dc70dcfcb0c886c90370224b69d25dafc" data-size="360">rocm-7.13.0.dev0+ab-variants.json</a><p>what the labels of the variant wheels mean</p></li>
    SHA256SUMS: 7e357bd98543c9b30c53812d9957b02ce4f9d0b8983d54580d66bbee6b5da033  dist/rocm-7.13.0.dev0+ab-variants.json
    SHA256SUMS: 660f640b6891d1314f88b240451d2ffb5badc8d528882c57cc59bf7e2f3d9cde  dist/gfx110X-all/rocm-7.13.0.dev0+ab-variants.json
    SHA256SUMS: 19a69eef07e9edf6abf0eb1734b4207dc70dcfcb0c886c90370224b69d25dafc  dist/gfx94X-dcgpu/rocm-7.13.0.dev0+ab-variants.json
    "#);
}

#[test]
fn variant_wheels_that_disagree_are_no_set() {
    let of = |value| {
        let wheel = variant("", "gfx942", value);
        PackageFile { path: wheel.path.replace("-any-", "-linux_x86_64-"), ..wheel }
    };
    let set =
        |other| SetJson::new(Identity::default(), vec![variant("", "gfx942", "gfx942"), other]);
    set(of("gfx942")).unwrap();
    let refused = set(of("gfx90a")).unwrap_err();
    insta::assert_snapshot!(rocwheel_base::error::one_line(&refused), @"variant wheels of one version do not agree: `rocm-7.13.0.dev0+ab-py3-none-any-gfx942.whl` and `rocm-7.13.0.dev0+ab-py3-none-linux_x86_64-gfx942.whl`: two wheels have different properties for `gfx942`");
}
