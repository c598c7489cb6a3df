//! The link targets of a rendered page, parsed from the page itself like an installer would do it.

use std::collections::HashSet;

use crate::index::{IndexPage, PageKind};
use crate::location::decode_component;

/// A link whose target is outside the directory of the set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a link in `{page}` that leads out of the set: {link:?}")]
pub struct InvalidLink {
    page: String,
    link: String,
}

/// The paths that a page links to, in order and without duplicates, relative to the directory of
/// the set.
///
/// A path that ends in `/` is the page of that directory.
pub fn targets_of(page: &IndexPage) -> Result<Vec<String>, InvalidLink> {
    let mut targets = Vec::new();
    let mut seen = HashSet::new();
    for link in links(page) {
        let target = resolve(&page.path, &link).ok_or_else(|| InvalidLink {
            page: page.path.clone(),
            link,
        })?;
        if seen.insert(target.clone()) {
            targets.push(target);
        }
    }
    Ok(targets)
}

fn links(page: &IndexPage) -> Vec<String> {
    match page.kind {
        PageKind::Html => attribute_values(&page.body, "href=\""),
        PageKind::SimpleJson => {
            let value: serde_json::Value = serde_json::from_str(&page.body).unwrap_or_default();
            let files = value["files"].as_array().into_iter().flatten();
            let urls = files.filter_map(|file| file["url"].as_str());
            let projects = value["projects"].as_array().into_iter().flatten();
            let names = projects.filter_map(|project| project["name"].as_str());
            let pages = names.map(|name| format!("{name}/"));
            urls.map(str::to_owned).chain(pages).collect()
        }
        PageKind::Json | PageKind::Text => Vec::new(),
    }
}

/// The values of an attribute in one of our pages. A text search is enough: quotes in texts are
/// escaped, so `href="` occurs in tags only.
fn attribute_values(html: &str, name: &str) -> Vec<String> {
    let after = html.split(name).skip(1);
    let values = after.filter_map(|rest| rest.split_once('"'));
    values.map(|(value, _)| value.to_owned()).collect()
}

/// Resolves a link: `../../dist/a%2Bb.whl#sha256=…` in `simple/a/index.html` is `dist/a+b.whl`.
fn resolve(page: &str, link: &str) -> Option<String> {
    let link = link.split_once('#').map_or(link, |(path, _)| path);
    let (directory, _) = page.rsplit_once('/').unwrap_or_default();
    let mut path: Vec<String> = directory.split('/').map(str::to_owned).collect();
    path.retain(|component| !component.is_empty());
    let is_directory = link.ends_with('/');
    for component in link.strip_suffix('/').unwrap_or(link).split('/') {
        match component {
            ".." => _ = path.pop()?,
            "" | "." => return None,
            name => path.push(decode_component(name)?),
        }
    }
    let end = if is_directory { "/" } else { "" };
    (!path.is_empty()).then(|| path.join("/") + end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Layout, Rank, pages, set::samples};

    #[test]
    fn every_link_of_every_page_leads_to_a_file_or_a_page_of_the_set() {
        for set in [samples::set(), samples::hostile()] {
            for layout in [Layout::Flat, Layout::Dist] {
                let pages = pages(&set, layout);
                let files = set.files().iter();
                let mut there: Vec<String> = files.map(|file| file.path(layout)).collect();
                let directories = pages.iter().filter_map(IndexPage::directory);
                there.extend(directories.map(str::to_owned));
                let targets = pages.iter().flat_map(|page| targets_of(page).unwrap());
                let targets: Vec<String> = targets.collect();
                assert!(
                    targets.iter().all(|target| there.contains(target)),
                    "{targets:?}"
                );
                for file in set.files() {
                    let path = file.path(layout);
                    let count = targets.iter().filter(|target| **target == path).count();
                    // HTML, JSON and, unless it is yanked, find-links.
                    let expected = 2 + usize::from(file.yanked.is_none());
                    assert_eq!(count, expected, "{path}");
                }
            }
        }
    }

    #[test]
    fn links_that_leave_the_set_are_refused() {
        let links = [
            "../x",
            "/x",
            "https://h/x",
            "%2e%2e/x",
            "a%2Fb",
            "%zz",
            "%f",
            "%ff",
            "",
            "a//b",
            "..",
        ];
        for link in links {
            let page = IndexPage {
                path: "index.html".into(),
                kind: PageKind::Html,
                rank: Rank::Root,
                body: format!("<a href=\"{link}\">"),
            };
            assert!(targets_of(&page).is_err(), "{link}");
        }
        let page = IndexPage {
            path: "simple/a/index.json".into(),
            kind: PageKind::SimpleJson,
            rank: Rank::Project,
            body: r#"{"files":[{"url":"../../../up"}]}"#.into(),
        };
        insta::assert_snapshot!(targets_of(&page).unwrap_err(), @r#"a link in `simple/a/index.json` that leads out of the set: "../../../up""#);
    }
}
