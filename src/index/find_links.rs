//! The find-links page: every file of the set on one page.
//!
//! It carries hashes and metadata too, so that `--find-links` resolves without whole wheels.

use crate::index::{
    Layout, PackageSet, Page, PageKind, Rank,
    html::{file_list, frame, size_text},
};

/// `index.html`.
pub(super) fn page(set: &PackageSet, layout: Layout) -> Page {
    let files = set.files();
    let count = files.len();
    let noun = if count == 1 { "file" } else { "files" };
    let content = format!(
        "<p>{count} {noun}, {}. Install from this page with <code>--find-links</code>.</p>\n{}",
        size_text(set.size()),
        file_list(files, layout.files()),
    );
    Page {
        path: "index.html".into(),
        kind: PageKind::Html,
        rank: Rank::Root,
        body: frame("Python packages", &content),
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
    fn every_file_is_linked_from_one_page() {
        insta::assert_snapshot!(main_of(&page(&samples::set(), Layout::Dist)), @r#"
        <h1>Python packages</h1>
        <p>3 files, 2.4 MiB. Install from this page with <code>--find-links</code>.</p>
        <ul>
        <li><a href="dist/rocm-7.13.0.dev0%2Bab.tar.gz#sha256=4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24" data-size="1234567">rocm-7.13.0.dev0+ab.tar.gz</a> 1.2 MiB</li>
        <li><a href="dist/rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl#sha256=cf9f53400b4bde91dd10bf3b5d6119da97e7eb7ccfd5baee6008e53db992e808" data-requires-python="&gt;=3.8,&lt;4" data-yanked="broken &quot;launcher&quot; &amp; more" data-size="12" data-upload-time="2026-03-01T12:00:05.250000Z">rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl</a> 12 B, yanked</li>
        <li><a href="dist/rocm_sdk_core-7.13.0.dev0%2Bab-py3-none-linux_x86_64.whl#sha256=e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb" data-core-metadata="sha256=9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae" data-dist-info-metadata="sha256=9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae" data-size="1234567">rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl</a> 1.2 MiB</li>
        </ul>
        </main>
        </body>
        </html>
        "#);
    }

    #[test]
    fn an_empty_set_makes_a_page() {
        let empty = PackageSet::new(Vec::new()).unwrap();
        insta::assert_snapshot!(main_of(&page(&empty, Layout::Flat)), @r"
        <h1>Python packages</h1>
        <p>0 files, 0 B. Install from this page with <code>--find-links</code>.</p>
        <ul>
        </ul>
        </main>
        </body>
        </html>
        ");
    }
}
