//! The pages in HTML.

use std::path::Path;

use super::*;
use crate::index::pages::html::escape;

fn main_of(page: &str) -> &str {
    page.split("<header>\n").nth(1).unwrap()
}

/// A page without its style.
fn without_style(page: &str) -> String {
    let (before, rest) = page.split_once("<style>\n").unwrap();
    let (_, after) = rest.split_once("</style>\n").unwrap();
    format!("{before}{after}")
}

fn page_of(set: &SetJson) -> String {
    find_links_page(&set.views()[0], set, set.layout().files(), None)
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
    let page = without_style(&project_page(view, &set, project, files, None));
    insta::assert_snapshot!(page, @r#"
    <!DOCTYPE html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta name="generator" content="rocwheel">
    <meta name="pypi:repository-version" content="1.1">
    <title>rocm-sdk-core, compiler, runtime and tools</title>
    </head>
    <body>
    <header>
    <nav>
    <form action="../"><button>All projects</button></form>
    <form action="../../dist/index.html"><button>All packages</button></form>
    </nav>
    <h1>rocm-sdk-core</h1>
    <p>compiler, runtime and tools</p>
    <dl>
    <div><dt>Packages</dt><dd>2 files, 1.18 MiB</dd></div>
    <div><dt>Uploaded</dt><dd>2026-03-01 12:00 UTC</dd></div>
    </dl>
    <p>To install, copy a line and paste the address of this page, up to <code>simple/</code>, at its end:</p>
    <pre>pip install &quot;rocm-sdk-core==7.13.0.dev0+ab&quot; --index-url=</pre>
    <pre>uv pip install &quot;rocm-sdk-core==7.13.0.dev0+ab&quot; --default-index=</pre>
    </header>
    <main>
    <h2>7.13.0.dev0+ab</h2>
    <ul>
    <li><a href="../../dist/rocm_sdk_core-7.13.0.dev0%2Bab-py3-none-linux_x86_64.whl#sha256=e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb" data-core-metadata="sha256=9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae" data-dist-info-metadata="sha256=9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae" data-size="1234567">rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl</a> <span>1.18 MiB</span><p><code>sha256:e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb</code></p></li>
    </ul>
    <h2>7.9.0</h2>
    <ul>
    <li><a href="../../dist/rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl#sha256=cf9f53400b4bde91dd10bf3b5d6119da97e7eb7ccfd5baee6008e53db992e808" data-requires-python="&gt;=3.8,&lt;4" data-yanked="broken &quot;launcher&quot; &amp; more" data-size="12" data-upload-time="2026-03-01T12:00:05.250000Z">rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl</a> <span>12 B</span> <em>yanked: broken &quot;launcher&quot; &amp; more</em><p>Python &gt;=3.8,&lt;4 · uploaded 2026-03-01 12:00 UTC · <code>sha256:cf9f53400b4bde91dd10bf3b5d6119da97e7eb7ccfd5baee6008e53db992e808</code></p></li>
    </ul>
    </main>
    </body>
    </html>
    "#);
}

#[test]
fn a_root_page_lists_projects() {
    insta::assert_snapshot!(main_of(&root_page(&samples::set().views()[0], &samples::set(), None)), @r#"
    <nav>
    <form action="../dist/index.html"><button>All packages</button></form>
    </nav>
    <h1>ROCm 7.13.0.dev0+ab</h1>
    <p>Python package index</p>
    <dl>
    <div><dt>Packages</dt><dd>2 projects, 2.35 MiB</dd></div>
    <div><dt>Uploaded</dt><dd>2026-03-01 12:00 UTC</dd></div>
    </dl>
    <p>To install, copy a line and paste the address of this page, up to <code>simple/</code>, at its end:</p>
    <pre>pip install &quot;rocm==7.13.0.dev0+ab&quot; --index-url=</pre>
    <pre>uv pip install &quot;rocm==7.13.0.dev0+ab&quot; --default-index=</pre>
    </header>
    <main>
    <h2>For every GPU</h2>
    <ul>
    <li><a href="rocm/">rocm</a> <span>7.13.0.dev0+ab</span><p>selects the packages for this machine&#39;s GPU</p></li>
    <li><a href="rocm-sdk-core/">rocm-sdk-core</a> <span>7.13.0.dev0+ab</span><p>compiler, runtime and tools</p></li>
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
    insta::assert_snapshot!(main_of(&project_page(view, &set, project, files, None)), @r#"
    <nav>
    <form action="../"><button>All projects</button></form>
    <form action="../../index.html"><button>All packages</button></form>
    </nav>
    <h1>a</h1>
    <dl>
    <div><dt>Packages</dt><dd>1 file, 1.18 MiB</dd></div>
    </dl>
    </header>
    <main>
    <ul>
    <li><a href="../../a%22%20onload%3D%27x%27%3E%3Cb%3E%26amp%3B%7C%60%252B%2B%20%C3%A9%E2%80%AE-1.0.tar.gz#sha256=dad207ec8f6dd1ec64ba280d82e6fd0ed4b0989cb4b1e1b91d901493ffac7095" data-requires-python="&quot;&gt;&lt;script&gt;" data-yanked=" &quot;&#39;&lt;&amp;&gt;" data-size="1234567">a&quot; onload=&#39;x&#39;&gt;&lt;b&gt;&amp;amp;|`%2B+ é�-1.0.tar.gz</a> <span>1.18 MiB</span> <em>yanked:  &quot;&#39;&lt;&amp;&gt;</em><p>Python &quot;&gt;&lt;script&gt; · <code>sha256:dad207ec8f6dd1ec64ba280d82e6fd0ed4b0989cb4b1e1b91d901493ffac7095</code></p></li>
    </ul>
    </main>
    </body>
    </html>
    "#);
}

#[test]
fn every_file_is_linked_from_one_page() {
    insta::assert_snapshot!(main_of(&page_of(&samples::set())), @r#"
    <nav>
    <a href="../simple/">Index</a>
    <a href="../SHA256SUMS">SHA256SUMS</a>
    <a href="../set.json">set.json</a>
    </nav>
    <h1>ROCm 7.13.0.dev0+ab</h1>
    <p>Python packages</p>
    <dl>
    <div><dt>Packages</dt><dd>2 files, 2.35 MiB, and 1 yanked file in the index</dd></div>
    <div><dt>Uploaded</dt><dd>2026-03-01 12:00 UTC</dd></div>
    </dl>
    <p>To install, copy a line and paste the address of this page at its end:</p>
    <pre>pip install &quot;rocm==7.13.0.dev0+ab&quot; --no-index --find-links=</pre>
    <pre>uv pip install &quot;rocm==7.13.0.dev0+ab&quot; --no-index --find-links=</pre>
    </header>
    <main>
    <h2>For every GPU</h2>
    <ul>
    <li><a href="rocm-7.13.0.dev0%2Bab.tar.gz#sha256=4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24" data-size="1234567">rocm-7.13.0.dev0+ab.tar.gz</a> <span>1.18 MiB</span><p>selects the packages for this machine&#39;s GPU</p></li>
    <li><a href="rocm_sdk_core-7.13.0.dev0%2Bab-py3-none-linux_x86_64.whl#sha256=e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb" data-core-metadata="sha256=9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae" data-dist-info-metadata="sha256=9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae" data-size="1234567">rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl</a> <span>1.18 MiB</span><p>compiler, runtime and tools</p></li>
    </ul>
    </main>
    </body>
    </html>
    "#);
}

#[test]
fn a_page_says_where_its_set_comes_from() {
    let mut set = samples::document();
    for (file, day) in set.files.iter_mut().zip(1..) {
        file.upload_time = Some(format!("2026-03-0{day}T12:00:05.250000Z"));
    }
    let view = &set.views()[0];
    insta::assert_snapshot!(main_of(&page_of(&set)), @r#"
    <nav>
    <a href="../simple/">Index</a>
    <a href="../SHA256SUMS">SHA256SUMS</a>
    <a href="../set.json">set.json</a>
    </nav>
    <h1>ROCm 7.13.0.dev0+ab</h1>
    <p>Python packages for Linux</p>
    <dl>
    <div><dt>Packages</dt><dd>6 files, 7.06 MiB</dd></div>
    <div><dt>Run</dt><dd><a href="https://github.com/ROCm/TheRock/actions/runs/21440027240">21440027240</a> of ROCm/TheRock</dd></div>
    <div><dt>Commit</dt><dd><a href="https://github.com/ROCm/TheRock/commit/89553ce3746eda74ade42557470d25e37c91b6f0">89553ce3</a></dd></div>
    <div><dt>Uploaded</dt><dd>2026-03-06 12:00 UTC</dd></div>
    </dl>
    <p>To install, copy a line and paste the address of this page at its end:</p>
    <pre>pip install &quot;rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab&quot; --no-index --find-links=</pre>
    <pre>uv pip install &quot;rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab&quot; --no-index --find-links=</pre>
    <p>The lines are for <code>gfx942</code>, MI300A/MI300X CDNA. For another GPU, write its name instead: <code>gfx1100</code>.</p>
    </header>
    <main>
    <h2>For every GPU</h2>
    <ul>
    <li><a href="rocm-7.13.0.dev0%2Bab.tar.gz#sha256=4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24" data-size="1234567" data-upload-time="2026-03-01T12:00:05.250000Z">rocm-7.13.0.dev0+ab.tar.gz</a> <span>1.18 MiB</span><p>selects the packages for this machine&#39;s GPU</p></li>
    <li><a href="rocm_sdk_core-7.13.0.dev0%2Bab.tar.gz#sha256=b4f104c33b0531684f20769dd3cfbe6fbe36ddfbe2c16ef81b2154906708e0a1" data-size="1234567" data-upload-time="2026-03-02T12:00:05.250000Z">rocm_sdk_core-7.13.0.dev0+ab.tar.gz</a> <span>1.18 MiB</span><p>compiler, runtime and tools</p></li>
    <li><a href="rocm_sdk_libraries-7.13.0.dev0%2Bab.tar.gz#sha256=8a2b5cb25e25025509a2cbe229c016a501023beebeb4fe654a6a29c3cc713d5a" data-size="1234567" data-upload-time="2026-03-06T12:00:05.250000Z">rocm_sdk_libraries-7.13.0.dev0+ab.tar.gz</a> <span>1.18 MiB</span><p>math and communication libraries</p></li>
    </ul>
    <h2>Device code, a package for each GPU</h2>
    <ul>
    <li><a href="rocm_sdk_device_gfx942-7.13.0.dev0%2Bab.tar.gz#sha256=c817a8b7c5800e688fbc9730f2ea013c6787e1878f3008cce3d8038e259157f4" data-size="1234567" data-upload-time="2026-03-05T12:00:05.250000Z">rocm_sdk_device_gfx942-7.13.0.dev0+ab.tar.gz</a> <span>1.18 MiB</span><p>MI300A/MI300X CDNA</p></li>
    <li><a href="rocm_sdk_device_gfx1100-7.13.0.dev0%2Bab.tar.gz#sha256=2d01689b386ba4db8df5110ce9c1c8f14f7e014668fceb2b340a35a32756c5ea" data-size="1234567" data-upload-time="2026-03-04T12:00:05.250000Z">rocm_sdk_device_gfx1100-7.13.0.dev0+ab.tar.gz</a> <span>1.18 MiB</span><p>AMD RX 7900 XTX</p></li>
    </ul>
    <h2>For development</h2>
    <ul>
    <li><a href="rocm_sdk_devel-7.13.0.dev0%2Bab.tar.gz#sha256=0f872144808fed8f9bdc64a8db3f0487522d76c9306a315d72a5ac67110edda3" data-size="1234567" data-upload-time="2026-03-03T12:00:05.250000Z">rocm_sdk_devel-7.13.0.dev0+ab.tar.gz</a> <span>1.18 MiB</span><p>headers, CMake files and the whole SDK tree</p></li>
    </ul>
    </main>
    </body>
    </html>
    "#);
    let root = root_page(view, &set, None);
    let header = root.split("<header>").nth(1).unwrap().split("</header>").next();
    insta::assert_snapshot!(header.unwrap(), @r#"
    <nav>
    <form action="../dist/index.html"><button>All packages</button></form>
    </nav>
    <h1>ROCm 7.13.0.dev0+ab</h1>
    <p>Python package index for Linux</p>
    <dl>
    <div><dt>Packages</dt><dd>6 projects, 7.06 MiB</dd></div>
    <div><dt>Run</dt><dd>21440027240 of ROCm/TheRock</dd></div>
    <div><dt>Commit</dt><dd>89553ce3</dd></div>
    <div><dt>Uploaded</dt><dd>2026-03-06 12:00 UTC</dd></div>
    </dl>
    <p>To install, copy a line and paste the address of this page, up to <code>simple/</code>, at its end:</p>
    <pre>pip install &quot;rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab&quot; --index-url=</pre>
    <pre>uv pip install &quot;rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab&quot; --default-index=</pre>
    <p>The lines are for <code>gfx942</code>, MI300A/MI300X CDNA. For another GPU, write its name instead: <code>gfx1100</code>.</p>
    "#);
}

fn is_html(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|end| end == "html")
}

/// Programs take each link of the pages below `simple/` for a project or a file.
#[test]
fn pages_of_the_index_link_to_projects_and_files_only() {
    let mut set = samples::document();
    set.identity.run_id = "42".parse().ok();
    for (path, body) in rendered(&set) {
        if path.starts_with("simple/") && is_html(&path) {
            let found = parse::html_links(&body).len();
            let expected = if path == "simple/index.html" { set.files.len() } else { 1 };
            assert_eq!(found, expected, "{path}");
        }
    }
}

#[test]
fn the_pages_of_a_family_lead_to_each_other() {
    let set = samples::document_of_families(&["gfx110X-all", "gfx94X-dcgpu"]);
    let pages = rendered(&set).into_iter();
    let pages = pages.filter(|(path, _)| is_html(path) && path.contains("gfx94X"));
    let lines = pages.map(|(path, body)| {
        let ways = body.split(['<', '>']).filter(|tag| {
            tag.starts_with("form ") || tag.starts_with("h1") || tag.starts_with("a ")
        });
        let ways: Vec<&str> = ways.filter(|tag| !tag.contains("sha256")).collect();
        format!("{path}: {}", ways.join(", "))
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    gfx94X-dcgpu/simple/rocm/index.html: form action="../", form action="../../../dist/gfx94X-dcgpu.html", h1
    gfx94X-dcgpu/simple/rocm-sdk-core/index.html: form action="../", form action="../../../dist/gfx94X-dcgpu.html", h1
    gfx94X-dcgpu/simple/index.html: form action="../../dist/gfx94X-dcgpu.html", h1, a href="rocm/", a href="rocm-sdk-core/"
    dist/gfx94X-dcgpu/index.html: a href="../index.html", a href="../../gfx94X-dcgpu/simple/", a href="../../SHA256SUMS", a href="../../set.json", h1
    dist/gfx94X-dcgpu.html: a href="index.html", a href="../gfx94X-dcgpu/simple/", a href="../SHA256SUMS", a href="../set.json", h1
    "#);
}

#[test]
fn the_page_of_a_place_leads_to_the_other_pages() {
    let set = samples::document_of_families(&["gfx110X-all", "gfx94X-dcgpu"]);
    let page = place_page(&set, &set.views(), None);
    assert!(is_place_page(&page));
    insta::assert_snapshot!(main_of(&page), @r#"
    <h1>Python packages</h1>
    <dl>
    <div><dt>Packages</dt><dd>1 file, 1.18 MiB</dd></div>
    </dl>
    <p>To install, copy a line and paste the address of the <a href="simple/">index</a> at its end:</p>
    <pre>pip install &quot;rocm-sdk-core==7.13.0.dev0+ab&quot; --index-url=</pre>
    <pre>uv pip install &quot;rocm-sdk-core==7.13.0.dev0+ab&quot; --default-index=</pre>
    </header>
    <main>
    <ul id="pages">
    <li><a href="dist/index.html">All packages</a><p>the page for <code>--find-links</code></p></li>
    <li><a href="simple/">Index</a><p>for <code>--index-url</code>, with a page for each project</p></li>
    <li><a href="SHA256SUMS">SHA256SUMS</a><p>for <code>sha256sum --check</code></p></li>
    <li><a href="set.json">set.json</a><p>what the set is, with the digest of each file</p></li>
    </ul>
    <h2>By family</h2>
    <ul>
    <li><a href="dist/gfx110X-all.html">gfx110X-all</a>, <a href="gfx110X-all/simple/">index</a></li>
    <li><a href="dist/gfx94X-dcgpu.html">gfx94X-dcgpu</a>, <a href="gfx94X-dcgpu/simple/">index</a></li>
    </ul>
    </main>
    </body>
    </html>
    "#);
    let set = samples::document();
    let page = place_page(&set, &set.views(), None);
    let version = "<h1>ROCm 7.13.0.dev0+ab</h1>\n<p>Python packages for Linux</p>";
    let targets = "For another GPU, write its name instead: <code>gfx1100</code>.";
    assert!(page.contains(version) && page.contains(targets), "{page}");
    for (path, body) in rendered(&set) {
        assert_eq!(is_place_page(&body), path == "index.html", "{path}");
    }
    let flat = rendered(&flat(samples::set()));
    assert!(!flat.iter().any(|(_, body)| is_place_page(body)));
}

#[test]
fn an_empty_set_makes_a_page() {
    let empty = SetJson::new(Identity::default(), Vec::new()).unwrap();
    insta::assert_snapshot!(main_of(&page_of(&empty)), @r#"
    <nav>
    <a href="../simple/">Index</a>
    <a href="../SHA256SUMS">SHA256SUMS</a>
    <a href="../set.json">set.json</a>
    </nav>
    <h1>Python packages</h1>
    <dl>
    <div><dt>Packages</dt><dd>0 files, 0 B</dd></div>
    </dl>
    </header>
    <main>
    </main>
    </body>
    </html>
    "#);
}
