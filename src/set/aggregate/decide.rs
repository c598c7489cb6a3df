//! Which projects an aggregate index has: those of the manifest that their products publish.

use std::collections::BTreeMap;

use itertools::Itertools as _;

use super::AggregateOptions;
use crate::{
    set::{links::RootLink, ownership::OwnedProject},
    wheel::DistName,
};

/// The root page of a product.
#[derive(Debug)]
pub(super) struct ProductRoot {
    pub(super) owner: String,
    /// For messages.
    pub(super) shown: String,
    pub(super) links: Vec<RootLink>,
}

/// The projects of an aggregate index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AggregateIndex {
    /// Sorted by product and name.
    pub(super) projects: Vec<OwnedProject>,
    pub(super) unpublished: Vec<OwnedProject>,
    /// Whether the pages of the products were read.
    pub(super) is_of_content: bool,
    /// Why it cannot be written.
    pub(super) findings: Vec<String>,
}

impl AggregateIndex {
    /// What the manifest says, without a look at any product.
    pub(super) fn declared(projects: Vec<OwnedProject>) -> Self {
        Self {
            projects,
            unpublished: Vec::new(),
            is_of_content: false,
            findings: Vec::new(),
        }
    }

    /// What the manifest says and the products have.
    pub(super) fn decide(
        declared: Vec<OwnedProject>,
        roots: &[ProductRoot],
        options: &AggregateOptions,
    ) -> Self {
        let mut findings = Vec::new();
        let owners: BTreeMap<&DistName, &str> = declared
            .iter()
            .map(|it| (&it.project, it.owner.as_str()))
            .collect();
        for twice in roots.iter().duplicates_by(|it| &it.owner) {
            findings.push(format!("`{}` is published at two places", twice.owner));
        }
        let mut published = Vec::new();
        for root in roots {
            let projects = root.projects(&mut findings);
            for project in projects.iter().duplicates() {
                findings.push(format!("`{}` links to `{project}` twice", root.shown));
            }
            for project in projects {
                match owners.get(&project) {
                    Some(owner) if *owner == root.owner => published.push(project),
                    Some(owner) => findings.push(format!(
                        "`{}` has `{project}`, which is of `{owner}` in the manifest",
                        root.shown
                    )),
                    None if options.is_strict => findings.push(format!(
                        "`{}` has `{project}`, which the manifest does not have for `{}`",
                        root.shown, options.stream
                    )),
                    None => {}
                }
            }
        }
        let (projects, unpublished): (Vec<_>, Vec<_>) = declared
            .into_iter()
            .partition(|it| published.contains(&it.project));
        if !options.allows_unpublished {
            let missing = unpublished.iter();
            findings.extend(missing.map(|it| format!("`{}` has no `{}`", it.owner, it.project)));
        }
        Self {
            projects,
            unpublished,
            is_of_content: true,
            findings,
        }
    }
}

impl ProductRoot {
    /// The projects that the page links to. Each link is `project/`, and says so.
    fn projects(&self, findings: &mut Vec<String>) -> Vec<DistName> {
        let mut projects = Vec::new();
        for RootLink { href, text } in &self.links {
            let name = href.strip_suffix('/').unwrap_or_default();
            match name.parse::<DistName>() {
                Ok(project) if project.normalized() == name && text == name => {
                    projects.push(project);
                }
                Ok(project) if project.normalized() == name => findings.push(format!(
                    "`{}` calls the link to `{project}` {text:?}",
                    self.shown
                )),
                _ => findings.push(format!(
                    "`{}` links to {href:?}, which is no directory of a project",
                    self.shown
                )),
            }
        }
        projects
    }
}

#[cfg(test)]
mod tests;
