//! `packages.toml`, typed: which packages there are, and what each one takes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::{
    artifact::{ArtifactName, Component},
    error::{Context as _, Result, anyhow, bail, ensure},
    glob::{Filter, Glob},
    package::naming::{Mode, NameTemplate},
    relpath::RelPath,
    run::Platform,
    target::Scope,
};

const BUILT_IN: &str = include_str!("packages.toml");
const SCHEMA: u32 = 1;

/// Every package, in the order in which they are declared.
#[derive(Clone, Debug)]
pub struct Catalog {
    pub metadata: CommonMetadata,
    packages: Vec<PackageSpec>,
}

/// The file as it is written, with the place of each package in it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: u32,
    metadata: CommonMetadata,
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
    pub kind: Kind,
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
    #[serde(default, deserialize_with = "rel_paths")]
    pub rpath: Vec<RelPath>,
    /// The package whose files these are laid over.
    pub overlay: Option<String>,
    #[serde(default)]
    without_components: Vec<Component>,
    legacy_without_components: Option<Vec<Component>>,
    #[serde(default)]
    without_artifacts: BTreeSet<String>,
    #[serde(default)]
    pub also_without_last_suffix: Vec<Glob>,
    #[serde(default, deserialize_with = "path_map")]
    pub also_as: BTreeMap<RelPath, RelPath>,
    #[serde(default)]
    scripts: BTreeMap<String, String>,
    #[serde(default)]
    linux_scripts: BTreeMap<String, String>,
    #[serde(default)]
    windows_scripts: BTreeMap<String, String>,
    #[serde(default)]
    windows_scripts_if_present: BTreeMap<String, ConditionalScript>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
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
    only: Option<Mode>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConditionalScript {
    #[serde(deserialize_with = "rel_path")]
    file: RelPath,
    call: String,
}

impl Catalog {
    /// The policy that comes with this program.
    pub fn built_in() -> Result<Self> {
        Self::parse(BUILT_IN).context("read the built-in `packages.toml`")
    }

    /// Reads a policy; an error names the line.
    pub fn parse(text: &str) -> Result<Self> {
        let document: Document =
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
        };
        catalog.check(&lines)?;
        Ok(catalog)
    }

    pub fn packages(&self) -> &[PackageSpec] {
        &self.packages
    }

    pub fn get(&self, name: &str) -> Option<&PackageSpec> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// The one package of a kind that there is one of.
    pub fn only(&self, kind: Kind) -> Result<&PackageSpec> {
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
            .find(|package| package.kind == Kind::Runtime && package.required)
            .context("no required runtime package in `packages.toml`: the others find their libraries there")
    }

    /// The package that device code is laid over.
    pub fn overlaid(&self) -> Result<&PackageSpec> {
        let name = self
            .only(Kind::Device)?
            .overlay
            .as_deref()
            .unwrap_or_default();
        self.get(name)
            .with_context(|| format!("no package `{name}` in `packages.toml`"))
    }

    /// Checks what types cannot say; `lines` are those where the packages begin.
    fn check(&self, lines: &[usize]) -> Result<()> {
        let mut names = BTreeMap::new();
        for (package, line) in self.packages.iter().zip(lines) {
            if let Some(first) = names.insert(&package.name, line) {
                bail!(
                    "lines {first} and {line}: two packages are called `{}`",
                    package.name
                );
            }
            package
                .check(self)
                .with_context(|| format!("line {line}: package `{}`", package.name))?;
        }
        self.only(Kind::Selector)?;
        self.only(Kind::Device)?;
        self.only(Kind::Devel)?;
        self.core()?;
        Ok(())
    }
}

impl PackageSpec {
    pub fn ships_on(&self, platform: Platform) -> bool {
        self.platforms.contains(&platform)
    }

    pub fn dist_template(&self, mode: Mode) -> &NameTemplate {
        match mode {
            Mode::Split => &self.dist,
            Mode::Legacy => self.legacy_dist.as_ref().unwrap_or(&self.dist),
        }
    }

    /// `rocm-sdk-device-gfx942`.
    pub fn dist_name(&self, mode: Mode, scope: Option<&Scope>) -> String {
        self.dist_template(mode).fill(scope)
    }

    pub fn summary(&self, scope: Option<&Scope>) -> String {
        let scope = scope
            .map(|scope| scope.base().to_string())
            .unwrap_or_default();
        self.summary.replace("{target}", &scope)
    }

    /// Whether this package, built for `scope`, takes the files of an artifact.
    pub fn takes(&self, artifact: &ArtifactName, mode: Mode, scope: Option<&Scope>) -> bool {
        self.takes_kind(artifact, mode) && self.reaches(artifact, mode, scope)
    }

    /// Whether an artifact was built for what this package is about.
    pub fn reaches(&self, artifact: &ArtifactName, mode: Mode, scope: Option<&Scope>) -> bool {
        let rule = match mode {
            Mode::Legacy => self.legacy_scope.or(self.scope),
            Mode::Split => self.scope,
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
    pub fn takes_kind(&self, artifact: &ArtifactName, mode: Mode) -> bool {
        self.take.iter().any(|take| {
            take.only.is_none_or(|only| only == mode)
                && take.components.contains(&artifact.component)
                && take.artifacts.contains(&artifact.name)
        })
    }

    /// Whether a devel package names the artifact itself, beside those of the runtime packages.
    pub fn takes_besides(&self, name: &str, mode: Mode) -> bool {
        self.take
            .iter()
            .any(|take| take.only.is_none_or(|only| only == mode) && take.artifacts.contains(name))
    }

    /// Whether a devel package leaves an artifact out although a runtime package took it.
    pub fn leaves_out(&self, artifact: &ArtifactName, mode: Mode) -> bool {
        let components = match mode {
            Mode::Legacy => self
                .legacy_without_components
                .as_ref()
                .unwrap_or(&self.without_components),
            Mode::Split => &self.without_components,
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

    /// Console scripts, by name; some are there only when their file is.
    pub fn scripts(
        &self,
        platform: Platform,
        has: impl Fn(&RelPath) -> bool,
    ) -> BTreeMap<String, String> {
        let mut scripts = self.scripts.clone();
        match platform {
            Platform::Linux => scripts.extend(self.linux_scripts.clone()),
            Platform::Windows => {
                scripts.extend(self.windows_scripts.clone());
                let present = self
                    .windows_scripts_if_present
                    .iter()
                    .filter(|(_, script)| has(&script.file));
                scripts.extend(present.map(|(name, script)| (name.clone(), script.call.clone())));
            }
        }
        scripts
    }

    fn check(&self, catalog: &Catalog) -> Result<()> {
        match self.kind {
            Kind::Selector => ensure!(self.take.is_empty(), "a selector takes no artifacts"),
            Kind::Device => {
                let overlay = self.overlay.as_deref().unwrap_or_default();
                ensure!(
                    catalog
                        .get(overlay)
                        .is_some_and(|below| below.kind == Kind::Runtime),
                    "`overlay` names no runtime package: `{overlay}`"
                );
                ensure!(
                    self.dist.is_for_one_scope(),
                    "`dist` has no place for the target: `{{target}}`"
                );
            }
            Kind::Runtime | Kind::Devel => {
                ensure!(
                    !self.take.is_empty(),
                    "it takes no artifacts: add a `[[package.take]]` row"
                );
            }
        }
        Ok(())
    }
}

/// The line, counted from 1, that holds a byte of the text.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

fn rel_path<'de, D: serde::Deserializer<'de>>(from: D) -> Result<RelPath, D::Error> {
    String::deserialize(from)?
        .parse()
        .map_err(serde::de::Error::custom)
}

fn rel_paths<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<RelPath>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts
        .iter()
        .map(|text| text.parse().map_err(serde::de::Error::custom))
        .collect()
}

fn path_map<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<RelPath, RelPath>, D::Error> {
    let texts = BTreeMap::<String, String>::deserialize(from)?;
    texts
        .iter()
        .map(|(key, value)| Ok((key.parse()?, value.parse()?)))
        .collect::<Result<_, crate::relpath::InvalidRelPath>>()
        .map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ArtifactName {
        text.parse().unwrap()
    }

    fn takes(package: &str, artifact: &str, scope: Option<&str>) -> bool {
        let catalog = Catalog::built_in().unwrap();
        let scope = scope.map(|scope| scope.parse().unwrap());
        catalog
            .get(package)
            .unwrap()
            .takes(&name(artifact), Mode::Split, scope.as_ref())
    }

    #[test]
    fn device_packages_take_library_artifacts_of_their_target_and_its_variants() {
        for artifact in [
            "blas_lib_gfx942",
            "rccl_lib_gfx942:xnack+",
            "hipkernelprovider_lib_gfx942",
        ] {
            assert!(takes("device", artifact, Some("gfx942")), "{artifact}");
        }
        for artifact in [
            "blas_lib_generic",
            "blas_lib_gfx1100",
            "blas_test_gfx942",
            "core-hip_lib_gfx942",
            "rpp_lib_gfx942",
        ] {
            assert!(!takes("device", artifact, Some("gfx942")), "{artifact}");
        }
    }

    #[test]
    fn the_core_package_takes_one_part_of_a_simulator_and_headers_of_two_projects() {
        for artifact in [
            "rocjitsu-hotswap_lib_generic",
            "core-hip_dev_generic",
            "core-ocl_dev_generic",
        ] {
            assert!(takes("core", artifact, None), "{artifact}");
        }
        for artifact in [
            "rocjitsu_lib_generic",
            "rocjitsu-hotswap_run_generic",
            "blas_dev_generic",
        ] {
            assert!(!takes("core", artifact, None), "{artifact}");
        }
    }

    #[test]
    fn without_the_split_libraries_take_their_family_too() {
        let catalog = Catalog::built_in().unwrap();
        let libraries = catalog.get("libraries").unwrap();
        let family = "gfx94X-dcgpu".parse().unwrap();
        let legacy = |artifact| libraries.takes(&name(artifact), Mode::Legacy, Some(&family));
        assert!(legacy("blas_lib_gfx94X-dcgpu") && legacy("rpp_lib_generic"));
        assert!(!legacy("blas_lib_gfx110X-all"));
        assert!(!libraries.takes(&name("blas_lib_gfx94X-dcgpu"), Mode::Split, None));
        assert_eq!(
            libraries.dist_name(Mode::Legacy, Some(&family)),
            "rocm-sdk-libraries-gfx94X-dcgpu"
        );
    }

    #[test]
    fn a_script_for_a_file_is_there_only_with_the_file() {
        let catalog = Catalog::built_in().unwrap();
        let core = catalog.get("core").unwrap();
        let windows = |has: bool| core.scripts(Platform::Windows, |_| has);
        assert!(windows(true).contains_key("rocminfo"));
        assert!(!windows(false).contains_key("rocminfo"));
        assert!(windows(false).contains_key("hipInfo"));
        let linux = core.scripts(Platform::Linux, |_| false);
        assert_eq!(linux["rocminfo"], "rocm_sdk_core._cli:rocm_info");
        assert!(!linux.contains_key("hipInfo"));
    }

    fn refusal(text: &str) -> String {
        format!("{:#}", Catalog::parse(text).unwrap_err())
    }

    #[test]
    fn a_mistake_in_the_policy_is_named_with_its_line() {
        let with = |from: &str, to: &str| refusal(&BUILT_IN.replacen(from, to, 1));
        insta::assert_snapshot!(with("kind = \"selector\"", "kind = \"selecter\""), @r#"
        TOML parse error at line 19, column 8
           |
        19 | kind = "selecter"
           |        ^^^^^^^^^^
        unknown variant `selecter`, expected one of `selector`, `runtime`, `device`, `devel`
        "#);
        insta::assert_snapshot!(with("overlay = \"libraries\"", "overlay = \"librarys\""), @"line 164: package `device`: `overlay` names no runtime package: `librarys`");
        insta::assert_snapshot!(with("name = \"libraries\"", "name = \"core\""), @"lines 31 and 134: two packages are called `core`");
        insta::assert_snapshot!(with("\"lib/llvm/lib\"", "\"/lib/llvm/lib\""), @r#"
        TOML parse error at line 50, column 9
           |
        50 | rpath = ["/lib/llvm/lib", "lib/rocm_sysdeps/lib"]
           |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        an absolute path: "/lib/llvm/lib"
        "#);
        insta::assert_snapshot!(with("schema = 1", "schema = 2"), @"`schema` is 2, and this program reads 1");
    }
}
