//! `packages.toml`, typed: which packages there are, and what each one takes.

mod check;
mod promised;
mod without;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::{
    artifact::{ArtifactName, Component},
    error::{Context as _, Result, anyhow, bail, ensure},
    glob::{Filter, Glob},
    package::{
        naming::{DistributionMode, NameTemplate},
        promise::{FileSpec, LibrarySpec, ScriptSpec},
    },
    relpath::RelPath,
    run::Platform,
    target::Scope,
};

const BUILT_IN: &str = include_str!("packages.toml");
const SCHEMA: u32 = 2;

/// Every package, in the order in which they are declared.
#[derive(Clone, Debug)]
pub struct Catalog {
    pub metadata: CommonMetadata,
    packages: Vec<PackageSpec>,
    without: BTreeSet<String>,
}

/// The file as it is written, with the place of each package in it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogDocument {
    schema: u32,
    metadata: CommonMetadata,
    #[serde(default)]
    without: Vec<String>,
    package: Vec<toml::Spanned<PackageSpec>>,
}

/// What every package says of itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CommonMetadata {
    pub license: String,
    pub requires_python: String,
    pub urls: BTreeMap<String, String>,
}

/// One row of the catalog.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PackageSpec {
    /// `core`, `libraries`, …: also the name of the extra that asks for it.
    pub name: String,
    pub kind: PackageKind,
    dist: NameTemplate,
    legacy_dist: Option<NameTemplate>,
    /// The import name of its Python part.
    pub python: String,
    summary: String,
    platforms: Vec<Platform>,
    #[serde(default)]
    pub required: bool,
    scope: Option<ScopeRule>,
    legacy_scope: Option<ScopeRule>,
    #[serde(default)]
    take: Vec<Take>,
    #[serde(default)]
    include: Vec<Glob>,
    #[serde(default)]
    exclude: Vec<Glob>,
    /// Directories of the core package in which its libraries find what they need, in order.
    #[serde(default)]
    pub rpath: Vec<RelPath>,
    /// The package whose files these are laid over.
    pub overlay: Option<String>,
    #[serde(default)]
    without_components: Vec<Component>,
    legacy_without_components: Option<Vec<Component>>,
    #[serde(default)]
    without_artifacts: BTreeSet<String>,
    #[serde(default)]
    pub also_without_version: Vec<Glob>,
    #[serde(default)]
    pub also_as: BTreeMap<RelPath, RelPath>,
    #[serde(default)]
    pub scripts: Vec<ScriptSpec>,
    #[serde(default)]
    pub libraries: Vec<LibrarySpec>,
    /// Other files that Python code of the set opens.
    #[serde(default)]
    pub files: Vec<FileSpec>,
    /// Whether this set goes without it on purpose.
    #[serde(skip)]
    pub is_omitted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageKind {
    /// The sdist that chooses the others.
    Selector,
    /// Files as they run: libraries under their SONAME, launchers in place of links.
    Runtime,
    /// Files of one target, laid over another package.
    Device,
    /// A whole SDK tree, packed.
    Devel,
}

/// Which artifacts a package looks at, by what they were built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScopeRule {
    Any,
    Generic,
    FamilyOrGeneric,
    Target,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Take {
    artifacts: BTreeSet<String>,
    components: Vec<Component>,
    only: Option<DistributionMode>,
    /// Of these artifacts, only files that match; without any, all that the package lets through.
    #[serde(default)]
    include: Vec<Glob>,
}

impl Catalog {
    /// The policy that comes with this program.
    pub fn built_in() -> Result<Self> {
        Self::parse(BUILT_IN).context("read the built-in `packages.toml`")
    }

    /// Reads a policy; an error names the line.
    pub fn parse(text: &str) -> Result<Self> {
        let document: CatalogDocument =
            toml::from_str(text).map_err(|error| anyhow!("{}", error.to_string().trim_end()))?;
        ensure!(
            document.schema == SCHEMA,
            "`schema` is {}, and this program reads {SCHEMA}",
            document.schema
        );
        let lines: Vec<usize> = document
            .package
            .iter()
            .map(|package| line(text, package.span().start))
            .collect();
        let packages = document
            .package
            .into_iter()
            .map(toml::Spanned::into_inner)
            .collect();
        let catalog = Self {
            metadata: document.metadata,
            packages,
            without: BTreeSet::new(),
        };
        catalog.check(&lines)?;
        catalog.without(&document.without).context("`without`")
    }

    pub fn packages(&self) -> &[PackageSpec] {
        &self.packages
    }

    pub fn get(&self, name: &str) -> Option<&PackageSpec> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// The one package of a kind that there is one of.
    pub fn only(&self, kind: PackageKind) -> Result<&PackageSpec> {
        let mut of_kind = self.packages.iter().filter(|package| package.kind == kind);
        match (of_kind.next(), of_kind.next()) {
            (Some(package), None) => Ok(package),
            (None, _) => bail!("no package of kind `{kind:?}` in `packages.toml`"),
            (Some(_), Some(second)) => {
                bail!(
                    "two packages of kind `{kind:?}` in `packages.toml`: the second is `{}`",
                    second.name
                )
            }
        }
    }

    /// The package in which the others find the libraries they need.
    pub fn core(&self) -> Result<&PackageSpec> {
        self.packages
            .iter()
            .find(|package| package.kind == PackageKind::Runtime && package.required)
            .context("no required runtime package in `packages.toml`: the others find their libraries there")
    }

    /// The package that has the device code of a set.
    pub fn holder(&self, mode: DistributionMode) -> Result<&PackageSpec> {
        match mode {
            DistributionMode::Split => self.only(PackageKind::Device),
            DistributionMode::Legacy => self.overlaid(),
        }
    }

    /// The package that device code is laid over.
    pub fn overlaid(&self) -> Result<&PackageSpec> {
        let name = self
            .only(PackageKind::Device)?
            .overlay
            .as_deref()
            .unwrap_or_default();
        self.get(name)
            .with_context(|| format!("no package `{name}` in `packages.toml`"))
    }
}

impl PackageSpec {
    pub fn ships_on(&self, platform: Platform) -> bool {
        self.platforms.contains(&platform)
    }

    /// Whether a set for a platform has it.
    pub fn is_made_for(&self, platform: Platform) -> bool {
        self.ships_on(platform) && !self.is_omitted
    }

    /// The platform, if it is for one alone.
    pub fn only_platform(&self) -> Option<Platform> {
        match self.platforms[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    pub fn dist_template(&self, mode: DistributionMode) -> &NameTemplate {
        match mode {
            DistributionMode::Split => &self.dist,
            DistributionMode::Legacy => self.legacy_dist.as_ref().unwrap_or(&self.dist),
        }
    }

    /// `rocm-sdk-device-gfx942`.
    pub fn dist_name(&self, mode: DistributionMode, scope: Option<&Scope>) -> String {
        self.dist_template(mode).fill(scope)
    }

    pub fn summary(&self, scope: Option<&Scope>) -> String {
        let scope = scope
            .map(|scope| scope.base().to_string())
            .unwrap_or_default();
        self.summary.replace("{target}", &scope)
    }

    /// Whether this package, built for `scope`, takes the files of an artifact.
    pub fn takes(
        &self,
        artifact: &ArtifactName,
        mode: DistributionMode,
        scope: Option<&Scope>,
    ) -> bool {
        self.takes_kind(artifact, mode) && self.reaches(artifact, mode, scope)
    }

    /// Whether an artifact was built for what this package is about.
    pub fn reaches(
        &self,
        artifact: &ArtifactName,
        mode: DistributionMode,
        scope: Option<&Scope>,
    ) -> bool {
        let rule = match mode {
            DistributionMode::Legacy => self.legacy_scope.or(self.scope),
            DistributionMode::Split => self.scope,
        };
        let same = || scope.is_some_and(|scope| artifact.scope.base() == scope.base());
        match rule.unwrap_or(ScopeRule::Any) {
            ScopeRule::Any => true,
            ScopeRule::Generic => artifact.scope == Scope::Generic,
            ScopeRule::FamilyOrGeneric => artifact.scope == Scope::Generic || same(),
            ScopeRule::Target => artifact.scope != Scope::Generic && same(),
        }
    }

    /// Whether a `take` row names an artifact of this name and component.
    pub fn takes_kind(&self, artifact: &ArtifactName, mode: DistributionMode) -> bool {
        self.take.iter().any(|take| {
            take.only.is_none_or(|only| only == mode)
                && take.components.contains(&artifact.component)
                && take.artifacts.contains(&artifact.name)
        })
    }

    /// Whether a row that takes an artifact takes this file of it.
    pub fn takes_file(&self, artifact: &ArtifactName, path: &RelPath) -> bool {
        let mut rows = self.take.iter().filter(|take| {
            take.components.contains(&artifact.component) && take.artifacts.contains(&artifact.name)
        });
        let path = path.as_str();
        rows.any(|take| take.include.is_empty() || take.include.iter().any(|it| it.matches(path)))
    }

    /// Whether a devel package names the artifact itself, beside those of the runtime packages.
    pub fn takes_besides(&self, name: &str, mode: DistributionMode) -> bool {
        self.take
            .iter()
            .any(|take| take.only.is_none_or(|only| only == mode) && take.artifacts.contains(name))
    }

    /// Whether a devel package leaves an artifact out although a runtime package took it.
    pub fn leaves_out(&self, artifact: &ArtifactName, mode: DistributionMode) -> bool {
        let components = match mode {
            DistributionMode::Legacy => self
                .legacy_without_components
                .as_ref()
                .unwrap_or(&self.without_components),
            DistributionMode::Split => &self.without_components,
        };
        components.contains(&artifact.component) || self.without_artifacts.contains(&artifact.name)
    }

    pub fn filter(&self) -> Filter {
        Filter {
            includes: self.include.clone(),
            excludes: self.exclude.clone(),
            force_includes: Vec::new(),
        }
    }

    /// Console scripts of a platform and what they call, by name. Some exist only if the package
    /// has their program.
    pub fn scripts(
        &self,
        platform: Platform,
        has: impl Fn(&str) -> bool,
    ) -> BTreeMap<&str, String> {
        let scripts = self.scripts.iter().filter(|script| script.is_on(platform));
        let is_there = |script: &&ScriptSpec| {
            !script.if_present
                || script
                    .program(platform)
                    .is_some_and(|program| has(&program))
        };
        let scripts = scripts.filter(is_there);
        scripts
            .map(|script| (script.name.as_str(), script.call(&self.python)))
            .collect()
    }

    /// Every artifact that a `take` row names.
    pub fn artifacts(&self) -> impl Iterator<Item = &str> {
        self.take
            .iter()
            .flat_map(|take| &take.artifacts)
            .map(String::as_str)
    }
}

/// The line, counted from 1, that holds a byte of the text.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests;
