//! The page for `--find-links`: all files of the set on one page.
//!
//! Its links have hashes and metadata attributes too, so that installers can resolve without
//! downloading wheels. Yanked files ([PEP 592](https://peps.python.org/pep-0592/)) are left out,
//! because uv does not respect yanks on such pages.

use std::fmt::Write as _;

use crate::{
    index::{
        IndexPage, IndexView, Layout, PageKind, Rank, SetFile,
        html::{count_text, frame, whole_list},
        install,
    },
    run::ArtifactGroup,
};

/// `index.html`. If families have their own pages, the page of the set links to them.
pub(super) fn page<'a>(
    view: &IndexView,
    families: impl Iterator<Item = &'a ArtifactGroup>,
    layout: Layout,
) -> IndexPage {
    let mut content = String::new();
    let links: Vec<String> = families
        .filter(|_| view.family.is_none())
        .map(|family| format!("<li><a href=\"{family}/index.html\">{family}</a></li>\n"))
        .collect();
    if !links.is_empty() {
        let links = links.concat();
        let _ = writeln!(content, "<h2>By family</h2>\n<ul>\n{links}</ul>");
        content.push_str("<h2>For every family</h2>\n");
    }
    let directory = view.files_from(0, layout);
    let projects = view.projects().map(|(_, files)| files);
    content.push_str(&whole_list(projects, &directory));
    let title = match &view.family {
        Some(family) => format!("Python packages for {family}"),
        None => "Python packages".to_owned(),
    };
    let (listed, yanked): (Vec<&SetFile>, Vec<&SetFile>) =
        view.files.iter().partition(|file| file.yanked.is_none());
    let size = listed.iter().map(|file| file.size).sum();
    let left_out = match yanked.len() {
        0 => String::new(),
        1 => "<p>1 yanked file is only in the index.</p>\n".to_owned(),
        count => format!("<p>{count} yanked files are only in the index.</p>\n"),
    };
    let look = "--no-index --find-links <this address>";
    let lead = format!(
        "<p>{}. Install with the address of this page:</p>\n{}{left_out}",
        count_text(listed.len(), "file", size),
        install::of_page(view, look, look),
    );
    IndexPage {
        path: format!("{}index.html", view.top()),
        kind: PageKind::Html,
        rank: Rank::Root,
        body: frame(&title, &lead, &content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{PackageSet, set::samples};

    fn page_of(set: &PackageSet, layout: Layout) -> IndexPage {
        page(&set.views()[0], set.families().into_iter(), layout)
    }

    fn main_of(page: &IndexPage) -> &str {
        page.body.split("<header>\n").nth(1).unwrap()
    }

    #[test]
    fn every_file_is_linked_from_one_page() {
        insta::assert_snapshot!(main_of(&page_of(&samples::set(), Layout::Dist)), @r#"
        <h1>Python packages</h1>
        <p>2 files, 2.4 MiB. Install with the address of this page:</p>
        <pre>pip install --no-index --find-links &lt;this address&gt; &quot;rocm==7.13.0.dev0+ab&quot;
        uv pip install --no-index --find-links &lt;this address&gt; &quot;rocm==7.13.0.dev0+ab&quot;</pre>
        <p>1 yanked file is only in the index.</p>
        </header>
        <main>
        <ul>
        <li><a href="dist/rocm-7.13.0.dev0%2Bab.tar.gz#sha256=4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24" data-size="1234567">rocm-7.13.0.dev0+ab.tar.gz</a> <span>1.2 MiB</span></li>
        <li><a href="dist/rocm_sdk_core-7.13.0.dev0%2Bab-py3-none-linux_x86_64.whl#sha256=e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb" data-core-metadata="sha256=9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae" data-dist-info-metadata="sha256=9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae" data-size="1234567">rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl</a> <span>1.2 MiB</span></li>
        </ul>
        </main>
        </body>
        </html>
        "#);
    }

    #[test]
    fn an_empty_set_makes_a_page() {
        let empty = PackageSet::new(Vec::new()).unwrap();
        insta::assert_snapshot!(main_of(&page_of(&empty, Layout::Flat)), @"
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
}
