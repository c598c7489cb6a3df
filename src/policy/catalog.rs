//! [`Catalog`]: the contents of `packages.toml`, which says which packages a set has, and which
//! artifacts and files each package takes.

mod without;

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
    sync::LazyLock,
};

use itertools::Itertools as _;
use serde::Deserialize;

use crate::{
    artifact::{ArtifactName, Component},
    policy::{
        naming::{DistributionMode, NameTemplate},
        required_file::{
            self, ArtifactPart, FileSpec, LibrarySpec, RequiredFile, RequiredFileKind, ScriptSpec,
        },
    },
    run::Platform,
};
use rocwheel_base::{
    error::{Context as _, Result, anyhow, ensure},
    glob::{Filter, Glob},
    relpath::RelPath,
    target::Scope,
};

const SCHEMA: u32 = 2;
const BUILT_IN: &str = include_str!("packages.toml");

/// The policy that is compiled into rocwheel. It is parsed once.
pub static CATALOG: LazyLock<Catalog> =
    LazyLock::new(|| Catalog::built_in().expect("a test reads the built-in policy"));

/// All packages, in the order of `packages.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    schema: u32,
    pub metadata: CommonMetadata,
    #[serde(default)]
    licenses: BTreeMap<String, String>,
    /// Artifacts that no package takes, and why.
    #[serde(default, rename = "not-shipped")]
    not_shipped: BTreeMap<String, String>,
    #[serde(rename = "package")]
    packages: Vec<PackageSpec>,
    /// The names of all artifacts in `take` rows, also of those that `without` removes.
    #[serde(skip)]
    taken: BTreeSet<String>,
    /// What [`Self::without`] removed.
    #[serde(skip)]
    without: BTreeSet<String>,
}

/// The metadata that is the same in every package.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CommonMetadata {
    /// The licence of the Python code and the metadata of rocwheel itself.
    pub license: String,
    pub requires_python: String,
    pub urls: BTreeMap<String, String>,
    /// The licence texts among the files of artifacts.
    #[serde(default)]
    pub license_files: Vec<Glob>,
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
    pub summary: String,
    platforms: Vec<Platform>,
    #[serde(default)]
    pub required: bool,
    #[serde(default)]
    scope: ScopeRule,
    legacy_scope: Option<ScopeRule>,
    #[serde(default)]
    take: Vec<Take>,
    #[serde(default)]
    include: Vec<Glob>,
    #[serde(default)]
    exclude: Vec<Glob>,
    /// Directories of the core package that are added to the run paths of this package, in order. One
    /// with `*` stands for each directory with libraries that the artifacts have.
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
    /// Whether `--without` leaves this package out.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScopeRule {
    #[default]
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

impl Take {
    fn is_for(&self, mode: DistributionMode) -> bool {
        self.only.is_none_or(|only| only == mode)
    }

    fn names(&self, artifact: &ArtifactName) -> bool {
        self.components.contains(&artifact.component) && self.artifacts.contains(&artifact.name)
    }
}

impl Catalog {
    /// The `packages.toml` that is compiled into rocwheel.
    pub fn built_in() -> Result<Self> {
        Self::parse(BUILT_IN).context("failed to read the built-in `packages.toml`")
    }

    /// Parses a policy.
    pub fn parse(text: &str) -> Result<Self> {
        let mut catalog: Self =
            toml::from_str(text).map_err(|error| anyhow!("{}", error.to_string().trim_end()))?;
        ensure!(
            catalog.schema == SCHEMA,
            "`schema` is {}, and this program reads {SCHEMA}",
            catalog.schema
        );
        catalog.check()?;
        let taken = catalog.packages.iter().flat_map(PackageSpec::artifacts);
        catalog.taken = taken.map(str::to_owned).collect();
        Ok(catalog)
    }

    /// Validates what the types cannot express.
    fn check(&self) -> Result<()> {
        let common = &self.metadata;
        let urls = common.urls.iter().map(|(label, url)| format!("{label}, {url}"));
        let texts = [common.license.clone(), common.requires_python.clone()];
        for text in urls.chain(texts) {
            rocwheel_wheel::ensure_one_line(&text).context("`[metadata]`")?;
        }
        for (artifact, license) in &self.licenses {
            let is_of = |c: char| c.is_ascii_alphanumeric() || " .-+()".contains(c);
            ensure!(
                !license.is_empty() && license.chars().all(is_of),
                "`licenses.{artifact}` is no SPDX expression: `{license}`"
            );
        }
        for (artifact, reason) in &self.not_shipped {
            let mut packages = self.packages.iter();
            let taker = packages.find(|it| it.artifacts().contains(&artifact.as_str()));
            let at = || format!("`not-shipped.{artifact}`");
            rocwheel_wheel::ensure_one_line(reason).with_context(at)?;
            if let Some(taker) = taker {
                return Err(anyhow!("package `{}` takes the artifact", taker.name))
                    .with_context(at);
            }
        }
        let mut names = BTreeSet::new();
        let mut dists = BTreeMap::new();
        for package in &self.packages {
            let name = &package.name;
            ensure!(names.insert(name), "two packages are called `{name}`");
            let at = || format!("package `{name}`");
            package.check(self).with_context(at)?;
            for dist in iter::once(&package.dist).chain(&package.legacy_dist) {
                let other = dists.insert(dist.python_template(), &package.name);
                if let Some(other) = other.filter(|other| **other != package.name) {
                    return Err(anyhow!("package `{other}` has the same `dist`")).with_context(at);
                }
            }
        }
        self.only(PackageKind::Selector)?;
        self.only(PackageKind::Device)?;
        self.only(PackageKind::Devel)?;
        self.core()?;
        Ok(())
    }

    /// The SPDX expression of a package with files of these artifacts: all that they bring, each once. What
    /// an artifact without a row brings is not known, so it gets a name of its own.
    pub fn license<'a>(&self, artifacts: impl IntoIterator<Item = &'a str>) -> String {
        let mut terms = BTreeSet::from([self.metadata.license.clone()]);
        for artifact in artifacts {
            let known = self.licenses.get(artifact).cloned();
            let license =
                known.unwrap_or_else(|| format!("LicenseRef-ROCm-{}", artifact.replace('+', "-")));
            match license.as_str() {
                // `OR` binds less than `AND`.
                choice if choice.contains(" OR ") => _ = terms.insert(format!("({choice})")),
                all => terms.extend(all.split(" AND ").map(str::to_owned)),
            }
        }
        terms.into_iter().join(" AND ")
    }

    /// Whether a row says what the artifact of a `LicenseRef-ROCm-…` brings.
    pub fn knows_license(&self, reference: &str) -> bool {
        let rows = &self.licenses;
        rows.values().any(|it| it.split(' ').any(|term| term == reference))
    }

    /// Whether a row of a package names this artifact, or a reason says why none does.
    pub fn knows_artifact(&self, name: &str) -> bool {
        self.taken.contains(name) || self.not_shipped.contains_key(name)
    }

    /// The artifacts that the packages for a platform are made of, each with its components. Debug files
    /// and tests are not among them: a package works the same without them.
    pub fn ingredients(
        &self,
        mode: DistributionMode,
        platform: Platform,
    ) -> BTreeMap<&str, BTreeSet<Component>> {
        const SHIPPED: [Component; 4] =
            [Component::Lib, Component::Run, Component::Dev, Component::Doc];
        let mut ingredients = BTreeMap::<&str, BTreeSet<Component>>::new();
        let packages = self.packages.iter().filter(|package| package.is_made_for(platform));
        for package in packages.clone() {
            for take in package.take.iter().filter(|take| take.is_for(mode)) {
                let shipped = take.components.iter().filter(|it| SHIPPED.contains(it));
                for artifact in &take.artifacts {
                    ingredients.entry(artifact).or_default().extend(shipped.clone());
                }
            }
        }
        // A devel package also takes all that the other packages take, in all components.
        for devel in packages.filter(|package| package.kind == PackageKind::Devel) {
            for (artifact, components) in &mut ingredients {
                if !devel.without_artifacts.contains(*artifact) {
                    components.extend(SHIPPED);
                }
            }
        }
        ingredients
    }

    pub fn packages(&self) -> &[PackageSpec] {
        &self.packages
    }

    pub fn get(&self, name: &str) -> Option<&PackageSpec> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// Whether a distribution is one of these packages, by its normalized name.
    pub fn has_dist(&self, name: &str) -> bool {
        self.packages.iter().any(|package| package.has_dist(name))
    }

    /// The only package of a kind.
    pub fn only(&self, kind: PackageKind) -> Result<&PackageSpec> {
        let of_kind = self.packages.iter().filter(|package| package.kind == kind);
        let count = of_kind.clone().count();
        of_kind.exactly_one().map_err(|_| {
            anyhow!("one package of kind `{kind:?}` expected in `packages.toml`, not {count}")
        })
    }

    /// The package whose libraries the other packages are linked with.
    pub fn core(&self) -> Result<&PackageSpec> {
        let mut packages = self.packages.iter();
        packages.find(|package| package.kind == PackageKind::Runtime && package.required).context(
            "no required runtime package in `packages.toml`: the others find their libraries there",
        )
    }

    /// The targets or families that artifacts have device code for, without features.
    ///
    /// Ignores artifacts that no package with device code takes: an artifact with tests of a target
    /// does not make a package for that target.
    pub fn scopes_with_code<'a>(
        &self,
        artifacts: impl Iterator<Item = &'a ArtifactName>,
        mode: DistributionMode,
    ) -> Result<BTreeSet<Scope>> {
        let holder = match mode {
            DistributionMode::Split => self.only(PackageKind::Device)?,
            DistributionMode::Legacy => self.overlaid()?,
        };
        let with_code = artifacts
            .filter(|name| name.scope != Scope::Generic && holder.takes_component(name, mode));
        Ok(with_code.map(|name| name.scope.packaged()).collect())
    }

    /// What is missing because `gfx942:xnack+`, which runs only where XNACK is on, stands alone in a
    /// target that has other code. Only runs for sanitizers have nothing else for a target.
    pub fn only_with_xnack<'a>(
        &self,
        artifacts: impl Iterator<Item = &'a ArtifactName>,
    ) -> Result<Vec<String>> {
        let device = self.only(PackageKind::Device)?;
        let with_code = artifacts.filter(|it| device.takes_component(it, DistributionMode::Split));
        let (runs_with_xnack_off, xnack): (Vec<_>, Vec<_>) = with_code.partition(
            |it| !matches!(&it.scope, Scope::Target(target) if !target.runs_with_xnack_off()),
        );
        let base = |it: &ArtifactName| ArtifactName { scope: it.scope.packaged(), ..it.clone() };
        let plain: Vec<_> = runs_with_xnack_off.into_iter().map(base).collect();
        let is_bare = |it: &&ArtifactName| {
            let mut targets = plain.iter().map(|other| &other.scope);
            targets.contains(&it.scope.packaged()) && !plain.contains(&base(it))
        };
        let lack = |it| format!("no `{}`; `{it}` runs only where XNACK is on", base(it));
        Ok(xnack.into_iter().filter(is_bare).map(lack).collect())
    }

    /// The package into whose directory device packages are installed.
    pub fn overlaid(&self) -> Result<&PackageSpec> {
        let device = self.only(PackageKind::Device)?;
        let name = device.overlay.as_deref().unwrap_or_default();
        self.get(name).with_context(|| format!("no package `{name}` in `packages.toml`"))
    }
}

impl PackageSpec {
    fn check(&self, catalog: &Catalog) -> Result<()> {
        for script in &self.scripts {
            rocwheel_wheel::entry_point(&script.name, &script.call(&self.python))?;
            ensure!(
                !script.only_asks || self.name == "core",
                "script `{}`: only scripts of `core` unpack anything, so `only-asks` says nothing here",
                script.name
            );
        }
        rocwheel_wheel::ensure_one_line(&self.summary).context("`summary`")?;
        ensure!(
            self.kind == PackageKind::Runtime
                || self.take.iter().all(|take| take.include.is_empty()),
            "`include` in a `[[package.take]]` row is for runtime packages"
        );
        for artifact in self.artifacts() {
            format!("{artifact}_lib_generic")
                .parse::<ArtifactName>()
                .with_context(|| format!("`artifacts` names `{artifact}`"))?;
        }
        match self.kind {
            PackageKind::Selector => ensure!(self.take.is_empty(), "a selector takes no artifacts"),
            PackageKind::Device => {
                let overlay = self.overlay.as_deref().unwrap_or_default();
                ensure!(
                    catalog.get(overlay).is_some_and(|below| below.kind == PackageKind::Runtime),
                    "`overlay` names no runtime package: `{overlay}`"
                );
                ensure!(
                    self.dist.is_for_one_scope(),
                    "`dist` has no place for the target: `{{target}}`"
                );
            }
            PackageKind::Runtime | PackageKind::Devel => {
                ensure!(
                    !self.take.is_empty(),
                    "it takes no artifacts: add a `[[package.take]]` row"
                );
            }
        }
        Ok(())
    }

    /// Whether a distribution is this package for some scope, by its normalized name.
    pub fn has_dist(&self, name: &str) -> bool {
        let mut dists = iter::once(&self.dist).chain(&self.legacy_dist);
        dists.any(|dist| dist.matches(name))
    }

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
        mode.pick(&self.dist, self.legacy_dist.as_ref())
    }

    /// The name of the distribution: `rocm-sdk-device-gfx942`.
    pub fn dist_name(&self, mode: DistributionMode, scope: Option<&Scope>) -> String {
        self.dist_template(mode).fill(&base(scope))
    }

    pub fn summary(&self, scope: Option<&Scope>) -> String {
        self.summary.replace("{target}", &base(scope))
    }

    /// Whether this package, built for `scope`, takes files of an artifact.
    pub fn takes(
        &self,
        artifact: &ArtifactName,
        mode: DistributionMode,
        scope: Option<&Scope>,
    ) -> bool {
        self.takes_component(artifact, mode) && self.scope_fits(artifact, mode, scope)
    }

    /// Whether the scope of an artifact fits this package, built for `scope`.
    pub fn scope_fits(
        &self,
        artifact: &ArtifactName,
        mode: DistributionMode,
        scope: Option<&Scope>,
    ) -> bool {
        let is_generic = artifact.scope == Scope::Generic;
        let is_same = scope.is_some_and(|scope| artifact.scope.packaged() == scope.packaged());
        match mode.pick(self.scope, self.legacy_scope) {
            ScopeRule::Any => true,
            ScopeRule::Generic => is_generic,
            ScopeRule::FamilyOrGeneric => is_generic || is_same,
            ScopeRule::Target => !is_generic && is_same,
        }
    }

    /// Whether a `take` row names an artifact of this name and component.
    pub fn takes_component(&self, artifact: &ArtifactName, mode: DistributionMode) -> bool {
        let mut rows = self.take.iter();
        rows.any(|take| take.is_for(mode) && take.names(artifact))
    }

    /// Whether a `take` row takes this file of an artifact.
    pub fn takes_file(&self, artifact: &ArtifactName, path: &RelPath) -> bool {
        self.take.iter().any(|take| {
            take.names(artifact)
                && (take.include.is_empty()
                    || take.include.iter().any(|it| it.matches(path.as_str())))
        })
    }

    /// Whether a devel package names the artifact itself. It also takes the artifacts that runtime
    /// packages take.
    pub fn names_artifact(&self, name: &str, mode: DistributionMode) -> bool {
        let mut rows = self.take.iter();
        rows.any(|take| take.is_for(mode) && take.artifacts.contains(name))
    }

    /// Whether a devel package leaves out an artifact that a runtime package takes.
    pub fn excludes(&self, artifact: &ArtifactName, mode: DistributionMode) -> bool {
        let legacy = self.legacy_without_components.as_ref();
        let components = mode.pick(&self.without_components, legacy);
        components.contains(&artifact.component) || self.without_artifacts.contains(&artifact.name)
    }

    pub fn filter(&self) -> Filter {
        Filter {
            includes: self.include.clone(),
            excludes: self.exclude.clone(),
            force_includes: Vec::new(),
        }
    }

    /// The console scripts for a platform, as lines of `entry_points.txt`, sorted by name. Scripts
    /// with `if-present` are among them only if the package has their program.
    pub fn scripts(&self, platform: Platform, has: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let scripts = self.scripts.iter().filter(|script| {
            let is_there = script.program(platform).is_some_and(|it| has(&it));
            script.is_on(platform) && (is_there || !script.if_present)
        });
        // By name. The last script of a name counts.
        let lines: BTreeMap<&str, Result<String>> = scripts
            .map(|script| {
                let line = rocwheel_wheel::entry_point(&script.name, &script.call(&self.python));
                (script.name.as_str(), line)
            })
            .collect();
        lines.into_values().collect()
    }

    /// What the package must contain on a platform.
    pub fn required_files(&self, platform: Platform) -> Vec<RequiredFile> {
        let file = |kind, pattern: Option<Glob>, artifact: &Option<ArtifactPart>| {
            Some(RequiredFile {
                package: self.name.clone(),
                kind,
                pattern: pattern?,
                artifact: artifact.clone(),
            })
        };
        let mut files = Vec::new();
        for it in self.libraries.iter().filter(|it| !it.optional) {
            let kind = RequiredFileKind::Library(it.name.clone());
            let names = [&*it.linux, &*it.windows];
            let pattern = required_file::library(platform, &it.directory, names);
            files.extend(file(kind, pattern, &it.artifact));
        }
        for it in self.scripts.iter().filter(|it| !it.if_present) {
            let kind = RequiredFileKind::Command(it.name.clone());
            let program = it.program(platform).filter(|_| it.is_on(platform));
            files.extend(file(kind, program.map(Glob::new), &it.artifact));
        }
        let is_here = |it: &&FileSpec| it.platform.is_none_or(|only| only == platform);
        for it in self.files.iter().filter(is_here) {
            let pattern = Some(Glob::new(&*it.path));
            files.extend(file(RequiredFileKind::File, pattern, &it.artifact));
        }
        files
    }

    /// The names of all artifacts in `take` rows.
    pub fn artifacts(&self) -> impl Iterator<Item = &str> {
        let artifacts = self.take.iter().flat_map(|take| &take.artifacts);
        artifacts.map(String::as_str)
    }
}

/// The name of a target or family. Names have no features such as `xnack+`, only the base of a
/// target.
fn base(scope: Option<&Scope>) -> String {
    scope.map_or(String::new(), |scope| scope.packaged().to_string())
}

#[cfg(test)]
mod tests;
