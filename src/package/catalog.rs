//! [`Catalog`]: the contents of `packages.toml`, which says which packages a set has, and which
//! artifacts and files each package takes.

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

/// All packages, in the order of `packages.toml`.
#[derive(Clone, Debug)]
pub struct Catalog {
    pub metadata: CommonMetadata,
    packages: Vec<PackageSpec>,
    without: BTreeSet<String>,
}

/// `packages.toml` as serde reads it. The spans give the line of a package in error messages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogDocument {
    schema: u32,
    metadata: CommonMetadata,
    #[serde(default)]
    without: Vec<String>,
    package: Vec<toml::Spanned<PackageSpec>>,
}

/// The metadata that is the same in every package.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CommonMetadata {
    pub license: String,
    pub requires_python: String,
    pub urls: BTreeMap<String, String>,
}

/// One `[[package]]` of `packages.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PackageSpec {
    /// `core`, `libraries`, …; also the name of the extra of `rocm` that installs it.
    pub name: String,
    pub kind: PackageKind,
    dist: NameTemplate,
    legacy_dist: Option<NameTemplate>,
    /// The import name of its Python module: `rocm_sdk_core`.
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
    /// Directories of the core package that are added to the run paths of this package, in order.
    #[serde(default)]
    pub rpath: Vec<RelPath>,
    /// The package into whose directory the files of this one are installed.
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
    /// Further files that the Python code of the set opens.
    #[serde(default)]
    pub files: Vec<FileSpec>,
    /// Whether `--without` or `without` leaves this package out.
    #[serde(skip)]
    pub is_omitted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageKind {
    /// The `rocm` sdist, whose extras install the other packages.
    Selector,
    /// The files that programs need at run time. Libraries have their SONAME as file name, and
    /// launchers replace symlinks.
    Runtime,
    /// Device code for one target, installed into the directory of another package.
    Device,
    /// The SDK tree, as an archive.
    Devel,
}

/// The scopes of the artifacts that a package takes.
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
    /// Takes only files that match one of these. If empty, takes all files that the filter of the
    /// package accepts.
    #[serde(default)]
    include: Vec<Glob>,
}

impl Catalog {
    /// The `packages.toml` that is compiled into rocwheel.
    pub fn built_in() -> Result<Self> {
        Self::parse(BUILT_IN).context("failed to read the built-in `packages.toml`")
    }

    /// Parses a policy. Errors name the line.
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

    /// The only package of a kind.
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

    /// The package whose libraries the other packages are linked with.
    pub fn core(&self) -> Result<&PackageSpec> {
        self.packages
            .iter()
            .find(|package| package.kind == PackageKind::Runtime && package.required)
            .context("no required runtime package in `packages.toml`: the others find their libraries there")
    }

    /// The package that contains device code: `device` in a split set, `libraries` in a legacy set.
    pub fn holder(&self, mode: DistributionMode) -> Result<&PackageSpec> {
        match mode {
            DistributionMode::Split => self.only(PackageKind::Device),
            DistributionMode::Legacy => self.overlaid(),
        }
    }

    /// The package into whose directory device packages are installed.
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

    /// Whether a set for `platform` has this package.
    pub fn is_made_for(&self, platform: Platform) -> bool {
        self.ships_on(platform) && !self.is_omitted
    }

    /// The platform of the package; `None` if it is for both.
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

    /// The name of the distribution: `rocm-sdk-device-gfx942`.
    pub fn dist_name(&self, mode: DistributionMode, scope: Option<&Scope>) -> String {
        self.dist_template(mode).fill(scope)
    }

    pub fn summary(&self, scope: Option<&Scope>) -> String {
        let scope = scope
            .map(|scope| scope.base().to_string())
            .unwrap_or_default();
        self.summary.replace("{target}", &scope)
    }

    /// Whether this package, built for `scope`, takes files of an artifact.
    pub fn takes(
        &self,
        artifact: &ArtifactName,
        mode: DistributionMode,
        scope: Option<&Scope>,
    ) -> bool {
        self.takes_kind(artifact, mode) && self.reaches(artifact, mode, scope)
    }

    /// Whether the scope of an artifact fits this package, built for `scope`.
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

    /// Whether a `take` row takes this file of an artifact.
    pub fn takes_file(&self, artifact: &ArtifactName, path: &RelPath) -> bool {
        let mut rows = self.take.iter().filter(|take| {
            take.components.contains(&artifact.component) && take.artifacts.contains(&artifact.name)
        });
        let path = path.as_str();
        rows.any(|take| take.include.is_empty() || take.include.iter().any(|it| it.matches(path)))
    }

    /// Whether a devel package names the artifact itself. It also takes the artifacts that runtime
    /// packages take.
    pub fn takes_besides(&self, name: &str, mode: DistributionMode) -> bool {
        self.take
            .iter()
            .any(|take| take.only.is_none_or(|only| only == mode) && take.artifacts.contains(name))
    }

    /// Whether a devel package leaves out an artifact that a runtime package takes.
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

    /// Console scripts for a platform, by name, with the functions that they call. Scripts with
    /// `if-present` are in it only if the package has their program.
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

    /// The names of all artifacts in `take` rows.
    pub fn artifacts(&self) -> impl Iterator<Item = &str> {
        self.take
            .iter()
            .flat_map(|take| &take.artifacts)
            .map(String::as_str)
    }
}

/// The number of the line, counted from 1, that contains the byte at offset `at`.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests;
