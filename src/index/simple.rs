//! The simple index in HTML: PEP 503, 592, 629, 658, 714.

use std::fmt::Write as _;

use crate::index::{
    Layout, PackageSet, Page, PageKind, Rank, SetFile,
    html::{escape, file_list, frame},
};

/// `simple/{project}/index.html`.
pub(super) fn project_page(project: &str, files: &[SetFile], layout: Layout) -> Page {
    let directory = format!("../../{}", layout.files());
    Page {
        path: format!("simple/{project}/index.html"),
        kind: PageKind::Html,
        rank: Rank::Project,
        body: frame(
            &format!("Links for {project}"),
            &file_list(files, &directory),
        ),
    }
}

/// `simple/index.html`.
pub(super) fn root_page(set: &PackageSet) -> Page {
    let mut list = String::from("<ul>\n");
    for (project, _) in set.projects() {
        let name = escape(project);
        let _ = writeln!(list, "<li><a href=\"{name}/\">{name}</a></li>");
    }
    list.push_str("</ul>\n");
    Page {
        path: "simple/index.html".into(),
        kind: PageKind::Html,
        rank: Rank::Root,
        body: frame("Simple index", &list),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::set::samples;

    fn main_of(page: &Page) -> &str {
        page.body.split("<main>\n").nth(1).unwrap()
    }

    #[test]
    fn a_project_page_carries_all_that_installers_read() {
        let set = samples::set();
        let (project, files) = set.projects().nth(1).unwrap();
        let page = project_page(project, files, Layout::Dist);
        assert_eq!(page.path, "simple/rocm-sdk-core/index.html");
        insta::assert_snapshot!(page.body, @r#"
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <meta name="pypi:repository-version" content="1.1">
        <title>Links for rocm-sdk-core</title>
        <style>:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}h1{font-size:1.5rem;line-height:1.2}li{margin:.25rem 0}a{font-family:ui-monospace,monospace;overflow-wrap:anywhere}</style>
        </head>
        <body>
        <main>
        <h1>Links for rocm-sdk-core</h1>
        <ul>
        <li><a href="../../dist/rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl#sha256=cf9f53400b4bde91dd10bf3b5d6119da97e7eb7ccfd5baee6008e53db992e808" data-requires-python="&gt;=3.8,&lt;4" data-yanked="broken &quot;launcher&quot; &amp; more" data-size="12" data-upload-time="2026-03-01T12:00:05.250000Z">rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl</a> 12 B, yanked</li>
        <li><a href="../../dist/rocm_sdk_core-7.13.0.dev0%2Bab-py3-none-linux_x86_64.whl#sha256=e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb" data-core-metadata="sha256=9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae" data-dist-info-metadata="sha256=9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae" data-size="1234567">rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl</a> 1.2 MiB</li>
        </ul>
        </main>
        </body>
        </html>
        "#);
    }

    #[test]
    fn a_root_page_lists_projects() {
        insta::assert_snapshot!(main_of(&root_page(&samples::set())), @r#"
        <h1>Simple index</h1>
        <ul>
        <li><a href="rocm/">rocm</a></li>
        <li><a href="rocm-sdk-core/">rocm-sdk-core</a></li>
        </ul>
        </main>
        </body>
        </html>
        "#);
    }

    #[test]
    fn a_hostile_name_stays_in_its_place() {
        let set = samples::hostile();
        let (project, files) = set.projects().next().unwrap();
        insta::assert_snapshot!(main_of(&project_page(project, files, Layout::Flat)), @r#"
        <h1>Links for a</h1>
        <ul>
        <li><a href="../../a%22%20onload%3D%27x%27%3E%3Cb%3E%26amp%3B%7C%60%252B%2B%20%C3%A9%E2%80%AE-1.0.tar.gz#sha256=dad207ec8f6dd1ec64ba280d82e6fd0ed4b0989cb4b1e1b91d901493ffac7095" data-requires-python="&quot;&gt;&lt;script&gt;" data-yanked=" &quot;&#39;&lt;&amp;&gt;" data-size="1234567">a&quot; onload=&#39;x&#39;&gt;&lt;b&gt;&amp;amp;|`%2B+ é�-1.0.tar.gz</a> 1.2 MiB, yanked</li>
        </ul>
        </main>
        </body>
        </html>
        "#);
    }
}
