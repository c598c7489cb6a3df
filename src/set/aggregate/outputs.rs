//! The documents of an aggregate index, in the forms of TheRock's generator: its programs read them.
//! JSON has its keys in alphabetical order.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use serde::Serialize;

use super::{AggregateOptions, TOP, decide::AggregateIndex, percent_encode};
use crate::{
    error::{Context as _, Result},
    set::ownership::{OwnedProject, PUBLIC_BASE},
};

/// Which page answers for each project.
pub(super) const ROUTES: &str = "rocm-whl-next-routes.json";
/// What was found, for the job that publishes the index.
pub(super) const REPORT: &str = "validation.json";
const SCHEMA: u32 = 2;

#[derive(Serialize)]
struct RouteTable<'a> {
    public_base: &'static str,
    routes: Vec<Route<'a>>,
    schema_version: u32,
    stream: &'a str,
}

#[derive(Serialize)]
struct Route<'a> {
    owner_path: &'a str,
    package: &'a str,
    target: String,
}

#[derive(Serialize)]
struct Validation<'a> {
    content_validated: bool,
    generation_mode: &'static str,
    owners: BTreeMap<&'a str, Owner>,
    package_count: usize,
    packages: Vec<ValidatedProject<'a>>,
    public_base: &'static str,
    schema_version: u32,
    stream: &'a str,
    unpublished_package_count: usize,
    unpublished_packages: Vec<UnpublishedProject<'a>>,
}

#[derive(Serialize)]
struct Owner {
    package_count: usize,
}

#[derive(Serialize)]
struct ValidatedProject<'a> {
    name: &'a str,
    owner_path: &'a str,
    package_index: String,
    product_root_index: String,
    source: &'static str,
}

#[derive(Serialize)]
struct UnpublishedProject<'a> {
    name: &'a str,
    owner_path: &'a str,
    product_root_index: String,
}

impl AggregateIndex {
    /// The page of the index: a line for each project, by name.
    pub(super) fn root(&self) -> String {
        let names = self.projects.iter().map(|it| it.project.normalized());
        let line = |name: &str| {
            let href = percent_encode(name);
            format!("    <a href=\"{href}/\">{name}</a><br/>\n")
        };
        let lines = names.sorted().map(line).collect::<String>();
        format!("<!DOCTYPE html>\n<html>\n  <body>\n{lines}  </body>\n</html>\n")
    }

    pub(super) fn routes(&self, options: &AggregateOptions) -> Result<String> {
        let routes = self.projects.iter().map(|it| Route {
            owner_path: &it.owner,
            package: it.project.normalized(),
            target: format!("/{}", it.directory()),
        });
        json(&RouteTable {
            public_base: PUBLIC_BASE,
            routes: routes.collect(),
            schema_version: SCHEMA,
            stream: options.stream,
        })
    }

    pub(super) fn report(&self, options: &AggregateOptions) -> Result<String> {
        let root = |it: &OwnedProject| format!("/{TOP}{}/index.html", it.owner);
        let (mode, source) = if self.is_of_content {
            ("content", "exact")
        } else {
            ("manifest", "manifest")
        };
        let owners = self.projects.iter().map(|it| it.owner.as_str()).counts();
        let owners = owners.into_iter();
        let published = self.projects.iter().map(|it| ValidatedProject {
            name: it.project.normalized(),
            owner_path: &it.owner,
            package_index: format!("/{}index.html", it.directory()),
            product_root_index: root(it),
            source,
        });
        let missing = self.unpublished.iter().map(|it| UnpublishedProject {
            name: it.project.normalized(),
            owner_path: &it.owner,
            product_root_index: root(it),
        });
        json(&Validation {
            content_validated: self.is_of_content,
            generation_mode: mode,
            owners: owners
                .map(|(owner, package_count)| (owner, Owner { package_count }))
                .collect(),
            package_count: self.projects.len(),
            packages: published.collect(),
            public_base: PUBLIC_BASE,
            schema_version: SCHEMA,
            stream: options.stream,
            unpublished_package_count: self.unpublished.len(),
            unpublished_packages: missing.collect(),
        })
    }
}

fn json<T: Serialize>(document: &T) -> Result<String> {
    let text = serde_json::to_string_pretty(document).context("failed to render JSON")?;
    Ok(text + "\n")
}
