//! What the pages are, and what those in JSON and SHA256SUMS say.

use super::*;
use crate::set::{Identity, Layout, links, tests as samples};

/// A set whose packages are beside `simple/`, and not in `dist/`.
fn flat(mut set: SetJson) -> SetJson {
    for file in &mut set.files {
        file.path = file.name().to_owned();
    }
    set
}

fn rendered(set: &SetJson) -> Vec<(String, String)> {
    let views = set.views();
    let pages = pages(set, &views).into_iter();
    pages.map(|page| (page.path.clone(), page.body())).collect()
}

#[test]
fn the_pages_of_a_set_and_the_order_in_which_they_may_appear() {
    let (set, mut lines) = (samples::set(), Vec::new());
    let views = set.views();
    let pages = pages(&set, &views);
    for page in &pages {
        let key = directory_of(&page.path).unwrap_or("-");
        let kind = content_type(&page.path);
        assert!(page.paths().all(|path| content_type(path) == kind));
        lines.push(format!("{:?} {} ({key:?}): {kind}", page.phase, page.path));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    Project simple/rocm/index.html ("simple/rocm/"): text/html; charset=utf-8
    Project simple/_json/rocm/index.json ("simple/_json/rocm/"): application/vnd.pypi.simple.v1+json
    Project simple/rocm-sdk-core/index.html ("simple/rocm-sdk-core/"): text/html; charset=utf-8
    Project simple/_json/rocm-sdk-core/index.json ("simple/_json/rocm-sdk-core/"): application/vnd.pypi.simple.v1+json
    Root simple/index.html ("simple/"): text/html; charset=utf-8
    Root simple/_json/index.json ("simple/_json/"): application/vnd.pypi.simple.v1+json
    Root dist/index.html ("dist/"): text/html; charset=utf-8
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
    insta::assert_snapshot!(checksums(&samples::set()), @r"
    4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24  dist/rocm-7.13.0.dev0+ab.tar.gz
    cf9f53400b4bde91dd10bf3b5d6119da97e7eb7ccfd5baee6008e53db992e808  dist/rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl
    e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb  dist/rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl
    9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae  dist/rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl.metadata
    ");
}

#[test]
fn a_project_page_says_what_the_html_page_says() {
    let set = samples::set();
    let view = &set.views()[0];
    let (project, files) = view.projects().nth(1).unwrap();
    insta::assert_snapshot!(json_project(view, project, files), @r#"
    {
      "meta": {
        "api-version": "1.1"
      },
      "name": "rocm-sdk-core",
      "versions": [
        "7.9.0",
        "7.13.0.dev0+ab"
      ],
      "files": [
        {
          "filename": "rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl",
          "url": "../../../dist/rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl",
          "hashes": {
            "sha256": "cf9f53400b4bde91dd10bf3b5d6119da97e7eb7ccfd5baee6008e53db992e808"
          },
          "size": 12,
          "upload-time": "2026-03-01T12:00:05.250000Z",
          "requires-python": ">=3.8,<4",
          "yanked": "broken \"launcher\" & more"
        },
        {
          "filename": "rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl",
          "url": "../../../dist/rocm_sdk_core-7.13.0.dev0%2Bab-py3-none-linux_x86_64.whl",
          "hashes": {
            "sha256": "e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb"
          },
          "size": 1234567,
          "core-metadata": {
            "sha256": "9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae"
          },
          "dist-info-metadata": {
            "sha256": "9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae"
          }
        }
      ]
    }
    "#);
}

#[test]
fn a_root_page_in_json_lists_projects() {
    insta::assert_snapshot!(json_root(&samples::set().views()[0]), @r#"
    {
      "meta": {
        "api-version": "1.1"
      },
      "projects": [
        {
          "name": "rocm"
        },
        {
          "name": "rocm-sdk-core"
        }
      ]
    }
    "#);
}

#[test]
fn a_version_is_listed_once_in_each_spelling() {
    let names = [
        "a-1.0.0.tar.gz",
        "a-1.0-x.whl",
        "a-1.0.1.zip",
        "a-1.0-a.whl",
    ];
    let versions = ["1.0.0", "1.0", "1.0.1", "1.0"];
    let files = names.iter().zip(versions);
    let files = files.map(|(name, version)| samples::file(name, "a", version));
    let set = SetJson::new(Identity::default(), files.collect()).unwrap();
    let view = &set.views()[0];
    let (project, files) = view.projects().next().unwrap();
    let page = json_project(view, project, files);
    let value: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(value["versions"], json!(["1.0", "1.0.0", "1.0.1"]));
}

#[test]
fn a_yank_without_a_reason_is_still_a_yank() {
    let mut file = samples::file("a-1.tar.gz", "a", "1");
    file.yanked = Some(String::new());
    assert_eq!(json_file(&file, "")["yanked"], true);
}

#[test]
fn every_link_of_every_page_leads_to_a_file_or_a_page_of_the_set() {
    for set in [samples::set(), samples::hostile()] {
        for set in [flat(set.clone()), set] {
            let there = paths(&set);
            let mut targets = Vec::new();
            for (path, body) in rendered(&set) {
                let links = match content_type(&path) {
                    "text/html; charset=utf-8" => links::html_links(&body),
                    "application/vnd.pypi.simple.v1+json" if body.contains("\"files\"") => {
                        links::json_links(&body).unwrap()
                    }
                    _ => Vec::new(),
                };
                let links = links.iter().map(|link| links::resolve(&path, &link.href));
                targets.extend(links.map(|target| target.unwrap().path));
            }
            assert!(
                targets.iter().all(|target| there.contains(target)),
                "{targets:?}"
            );
            for file in &set.files {
                let path = &file.path;
                let count = targets.iter().filter(|target| *target == path).count();
                // HTML, JSON and, unless it is yanked, find-links.
                let expected = 2 + usize::from(file.yanked.is_none());
                assert_eq!(count, expected, "{path}");
            }
        }
    }
}

fn main_of(page: &str) -> &str {
    page.split("<header>\n").nth(1).unwrap()
}

fn page_of(set: &SetJson) -> String {
    find_links_page(&set.views()[0], set, set.layout().files())
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
    let other = SetFile {
        path: "torch-2.9.0-py3-none-any.whl".into(),
        ..samples::file("", "torch", "2.9.0")
    };
    set.files.push(other);
    assert_eq!(set.layout(), Layout::Dist);
    let pages = ["dist/index.html", "index.html", "simple/torch/index.html"];
    let all = rendered(&set);
    let lines = pages.map(|path| {
        let (_, body) = all.iter().find(|(it, _)| it == path).unwrap();
        let links = links::html_links(body).into_iter();
        let links = links.map(|link| link.href.split('#').next().unwrap().to_owned());
        format!("{path}: {}", links.collect::<Vec<_>>().join(" "))
    });
    insta::assert_snapshot!(lines.join("\n"), @"
    dist/index.html: rocm-7.13.0.dev0%2Bab.tar.gz rocm_sdk_core-7.13.0.dev0%2Bab-py3-none-linux_x86_64.whl ../torch-2.9.0-py3-none-any.whl
    index.html: dist/rocm-7.13.0.dev0%2Bab.tar.gz dist/rocm_sdk_core-7.13.0.dev0%2Bab-py3-none-linux_x86_64.whl torch-2.9.0-py3-none-any.whl
    simple/torch/index.html: ../../torch-2.9.0-py3-none-any.whl
    ");
}

proptest::proptest! {
    #[test]
    fn no_text_leaves_its_place(text in "\\PC*|[\"'<>&\\x00-\\x1f]*") {
        let escaped = escape(&text);
        let left = escaped.contains(['<', '>', '"', '\'', '\n', '\0']);
        proptest::prop_assert!(!left);
        for (at, _) in escaped.match_indices('&') {
            let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
            proptest::prop_assert!(known.iter().any(|name| escaped[at..].starts_with(name)));
        }
    }
}

#[test]
fn a_project_page_carries_all_that_installers_read() {
    let set = samples::set();
    let view = &set.views()[0];
    let (project, files) = view.projects().nth(1).unwrap();
    insta::assert_snapshot!(project_page(view, project, files), @r#"
    <!DOCTYPE html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta name="pypi:repository-version" content="1.1">
    <title>rocm-sdk-core</title>
    <style>
    :root{color-scheme:light dark;--line:#8883;--soft:#8881;--mute:#667085;--link:#b4232c}
    @media(prefers-color-scheme:dark){:root{--mute:#98a2b3;--link:#ff8f8a}}
    *{box-sizing:border-box}
    body{font:1rem/1.5 system-ui,sans-serif;margin:0 auto;max-width:64rem;padding:1.5rem 1rem 4rem}
    header{border-bottom:1px solid var(--line);margin-bottom:1.5rem;padding-bottom:1rem}
    h1{font-size:1.6rem;line-height:1.2;margin:0 0 .4rem;overflow-wrap:anywhere}
    h2{font-size:1rem;margin:1.5rem 0 .5rem;overflow-wrap:anywhere}
    p{margin:.2rem 0}
    pre,li a{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.875rem}
    pre{background:var(--soft);border-radius:.5rem;margin:.7rem 0 0;overflow-wrap:anywhere;padding:.7rem .9rem;white-space:pre-wrap}
    ul{border:1px solid var(--line);border-radius:.5rem;list-style:none;margin:0;padding:0}
    li{align-items:baseline;display:flex;flex-wrap:wrap;gap:.1rem 1rem;padding:.55rem .9rem}
    li+li{border-top:1px solid var(--line)}
    li a{color:var(--link);flex:1 1 18rem;overflow-wrap:anywhere;text-decoration:none}
    .short a{flex-basis:9rem}
    li a:hover,li a:focus{text-decoration:underline}
    li span{color:var(--mute);font-size:.875rem;font-variant-numeric:tabular-nums;white-space:nowrap}
    li em{background:#d9770622;border-radius:.3rem;color:#b45309;font-size:.8125rem;font-style:normal;padding:0 .4rem}
    @media(prefers-color-scheme:dark){li em{color:#fdba74}}
    </style>
    </head>
    <body>
    <header>
    <h1>rocm-sdk-core</h1>
    <p>2 files, 1.18 MiB</p>
    </header>
    <main>
    <h2>7.13.0.dev0+ab</h2>
    <ul>
    <li><a href="../../dist/rocm_sdk_core-7.13.0.dev0%2Bab-py3-none-linux_x86_64.whl#sha256=e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb" data-core-metadata="sha256=9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae" data-dist-info-metadata="sha256=9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae" data-size="1234567">rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl</a> <span>1.18 MiB</span></li>
    </ul>
    <h2>7.9.0</h2>
    <ul>
    <li><a href="../../dist/rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl#sha256=cf9f53400b4bde91dd10bf3b5d6119da97e7eb7ccfd5baee6008e53db992e808" data-requires-python="&gt;=3.8,&lt;4" data-yanked="broken &quot;launcher&quot; &amp; more" data-size="12" data-upload-time="2026-03-01T12:00:05.250000Z">rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl</a> <em>yanked: broken &quot;launcher&quot; &amp; more</em> <span>12 B</span></li>
    </ul>
    </main>
    </body>
    </html>
    "#);
}

#[test]
fn a_root_page_lists_projects() {
    insta::assert_snapshot!(main_of(&root_page(&samples::set().views()[0])), @r#"
    <h1>Python package index</h1>
    <p>2 projects, 2.35 MiB. Install with the address of this page up to <code>simple/</code>:</p>
    <pre>pip install --index-url &lt;address up to simple/&gt; &quot;rocm==7.13.0.dev0+ab&quot;
    uv pip install --default-index &lt;address up to simple/&gt; &quot;rocm==7.13.0.dev0+ab&quot;</pre>
    </header>
    <main>
    <ul class="short">
    <li><a href="rocm/">rocm</a> <span>7.13.0.dev0+ab</span></li>
    <li><a href="rocm-sdk-core/">rocm-sdk-core</a> <span>7.13.0.dev0+ab</span></li>
    </ul>
    </main>
    </body>
    </html>
    "#);
}

#[test]
fn a_hostile_name_stays_in_its_place() {
    let set = flat(samples::hostile());
    let view = &set.views()[0];
    let (project, files) = view.projects().next().unwrap();
    insta::assert_snapshot!(main_of(&project_page(view, project, files)), @r#"
    <h1>a</h1>
    <p>1 file, 1.18 MiB</p>
    </header>
    <main>
    <ul>
    <li><a href="../../a%22%20onload%3D%27x%27%3E%3Cb%3E%26amp%3B%7C%60%252B%2B%20%C3%A9%E2%80%AE-1.0.tar.gz#sha256=dad207ec8f6dd1ec64ba280d82e6fd0ed4b0989cb4b1e1b91d901493ffac7095" data-requires-python="&quot;&gt;&lt;script&gt;" data-yanked=" &quot;&#39;&lt;&amp;&gt;" data-size="1234567">a&quot; onload=&#39;x&#39;&gt;&lt;b&gt;&amp;amp;|`%2B+ é�-1.0.tar.gz</a> <em>yanked:  &quot;&#39;&lt;&amp;&gt;</em> <span>1.18 MiB</span></li>
    </ul>
    </main>
    </body>
    </html>
    "#);
}

#[test]
fn every_file_is_linked_from_one_page() {
    insta::assert_snapshot!(main_of(&page_of(&samples::set())), @r#"
    <h1>Python packages</h1>
    <p>2 files, 2.35 MiB. Install with the address of this page:</p>
    <pre>pip install --no-index --find-links &lt;this address&gt; &quot;rocm==7.13.0.dev0+ab&quot;
    uv pip install --no-index --find-links &lt;this address&gt; &quot;rocm==7.13.0.dev0+ab&quot;</pre>
    <p>1 yanked file is only in the index.</p>
    </header>
    <main>
    <ul>
    <li><a href="rocm-7.13.0.dev0%2Bab.tar.gz#sha256=4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24" data-size="1234567">rocm-7.13.0.dev0+ab.tar.gz</a> <span>1.18 MiB</span></li>
    <li><a href="rocm_sdk_core-7.13.0.dev0%2Bab-py3-none-linux_x86_64.whl#sha256=e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb" data-core-metadata="sha256=9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae" data-dist-info-metadata="sha256=9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae" data-size="1234567">rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl</a> <span>1.18 MiB</span></li>
    </ul>
    </main>
    </body>
    </html>
    "#);
}

#[test]
fn an_empty_set_makes_a_page() {
    let empty = SetJson::new(Identity::default(), Vec::new()).unwrap();
    insta::assert_snapshot!(main_of(&page_of(&empty)), @"
    <h1>Python packages</h1>
    <p>0 files, 0 B. Install with the address of this page:</p>
    </header>
    <main>
    <ul>
    </ul>
    </main>
    </body>
    </html>
    ");
}
