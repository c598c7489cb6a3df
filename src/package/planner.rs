//! From the artifacts to the plan of a whole set. Decides; reads nothing, writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    artifact::{ArtifactTree, Merged, OnCollision, TreeFile},
    error::{Context as _, Result, anyhow, bail, ensure, hinted},
    package::{
        catalog::{Catalog, Kind, PackageSpec},
        claims::{Claim, Claims},
        describe::Describer,
        device,
        devel::DevelPlan,
        naming::{Mode, Release, platform_package},
        plan::{BuildPlan, Member, Members, Source, WheelPlan},
        runtime::Runtime,
        search::SearchPath,
    },
    relpath::RelPath,
    run::Platform,
    target::{PlatformView, Scope, Target, missing},
    wheel,
};

/// What is to be built, beyond what the artifacts say.
#[derive(Clone, Debug)]
pub struct Request {
    pub release: Release,
    pub mode: Mode,
    pub platform: Platform,
    /// The targets that Linux users are promised, if that is known.
    pub linux: Option<Vec<Target>>,
    /// The targets that Windows users are promised, if that is known.
    pub windows: Option<Vec<Target>>,
    /// The platform tag of the wheels; `linux_x86_64` or `win_amd64` when absent.
    pub wheel_tag: Option<String>,
    pub on_collision: OnCollision,
}

/// Decides what the packages of a set hold.
pub fn plan(catalog: &Catalog, tree: &ArtifactTree, request: &Request) -> Result<BuildPlan> {
    let planner = Planner::new(catalog, tree, request)?;
    match request.mode {
        Mode::Split => planner.split(),
        Mode::Legacy => planner.legacy(),
    }
}

struct Planner<'a> {
    catalog: &'a Catalog,
    tree: &'a ArtifactTree,
    request: &'a Request,
    /// The import name of the core package's files.
    core: String,
    /// What the artifacts have device code for.
    scopes: BTreeSet<Scope>,
    notes: Vec<String>,
    wheels: Vec<WheelPlan>,
}

impl<'a> Planner<'a> {
    fn new(catalog: &'a Catalog, tree: &'a ArtifactTree, request: &'a Request) -> Result<Self> {
        let core = catalog.core()?.dist_name(request.mode, None);
        let holder = match request.mode {
            Mode::Split => catalog.only(Kind::Device)?,
            Mode::Legacy => catalog.overlaid()?,
        };
        let scopes = tree.artifacts.iter().map(|artifact| &artifact.name).filter(|name| {
            name.scope != Scope::Generic && holder.takes_kind(name, request.mode)
        });
        Ok(Self {
            catalog,
            tree,
            request,
            core: platform_package(&core, &request.release),
            scopes: scopes.map(|name| name.scope.base()).collect(),
            notes: Vec::new(),
            wheels: Vec::new(),
        })
    }

    fn split(mut self) -> Result<BuildPlan> {
        self.check_targets()?;
        let mut claims = Claims::default();
        let mut absent = Vec::new();
        for spec in self.specs(Kind::Runtime) {
            match self.runtime(spec, None)? {
                Some(claim) => claims.push(claim),
                None => absent.push(spec.name.clone()),
            }
        }
        let device = self.catalog.only(Kind::Device)?;
        ensure!(
            self.scopes.is_empty() || !absent.contains(&self.catalog.overlaid()?.name),
            "device code for {} but no artifact for package `{}`, which it is laid over",
            listed(&self.scopes),
            self.catalog.overlaid()?.name
        );
        for scope in self.scopes.clone() {
            claims.push(self.device(device, &scope)?);
        }
        if self.scopes.is_empty() {
            absent.push(device.name.clone());
        }
        self.describe_and_finish(claims, &absent)
    }

    fn describe_and_finish(mut self, claims: Claims, absent: &[String]) -> Result<BuildPlan> {
        let view = self.view();
        let describer = Describer { catalog: self.catalog, request: self.request, view: &view, absent, only: None };
        let devel = self.devel(&claims, None)?;
        let sdist = describer.selector(None)?;
        for claim in claims.into_vec() {
            self.notes.extend(claim.notes.iter().cloned());
            self.wheels.push(describer.wheel(claim)?);
        }
        self.wheels.push(describer.devel(devel, None)?);
        Ok(BuildPlan {
            version: self.request.release.version.clone(),
            mode: self.request.mode,
            platform: self.request.platform,
            wheels: self.wheels,
            sdists: vec![sdist],
            notes: self.notes,
        })
    }

    fn legacy(self) -> Result<BuildPlan> {
        Err(hinted(
            anyhow!("this set was built without the kpack split, which cannot be packaged yet"),
            "set `KPACK_SPLIT_ARTIFACTS` when the artifacts are built",
        ))
    }

    fn specs(&self, kind: Kind) -> Vec<&'a PackageSpec> {
        let on_platform = |spec: &&PackageSpec| spec.kind == kind && spec.ships_on(self.request.platform);
        self.catalog.packages().iter().filter(on_platform).collect()
    }

    /// The targets as users see them.
    fn view(&self) -> PlatformView {
        PlatformView::new(
            self.request.linux.as_deref(),
            self.request.windows.as_deref(),
            self.scopes.iter().cloned(),
        )
    }

    /// Refuses a set that lacks a target it is meant to have.
    fn check_targets(&mut self) -> Result<()> {
        let expected = match self.request.platform {
            Platform::Linux => &self.request.linux,
            Platform::Windows => &self.request.windows,
        };
        let Some(expected) = expected else { return Ok(()) };
        let missing = missing(expected, &self.scopes);
        if !missing.is_empty() {
            return Err(hinted(
                anyhow!(
                    "no device code for {}: expected {}, found {}",
                    listed(&missing),
                    listed(expected),
                    listed(&self.scopes)
                ),
                "fetch the artifacts of these targets, or leave them out of the families of this platform",
            ));
        }
        let promised: BTreeSet<Scope> = expected.iter().map(|target| Scope::Target(target.base())).collect();
        for extra in self.scopes.difference(&promised) {
            self.notes.push(format!("device code for `{extra}`, which no family of this platform names"));
        }
        Ok(())
    }

    /// What a runtime package takes; `None` when the artifacts have nothing for it.
    fn runtime(&mut self, spec: &PackageSpec, scope: Option<&Scope>) -> Result<Option<Claim>> {
        let merged = self.merge(|name| spec.takes(name, self.request.mode, scope))?;
        if merged.artifacts.is_empty() {
            if spec.required {
                return Err(hinted(
                    anyhow!("no artifacts for package `{}`, which every set has", spec.name),
                    "look at the artifact directory: `rocwheel build --plan` lists what it found",
                ));
            }
            self.notes.push(format!("no artifacts for package `{}`: left out", spec.name));
            return Ok(None);
        }
        let dist = spec.dist_name(self.request.mode, scope);
        let mut claim = Claim::new(&spec.name, &platform_package(&dist, &self.request.release));
        claim.scope = scope.cloned();
        claim.artifacts = merged.artifacts.iter().map(|name| name.name.clone()).collect();
        let search = SearchPath::new(&self.core, &spec.rpath);
        let runtime = Runtime { spec, platform: self.request.platform, search: &search };
        runtime.claim(&merged.files, &mut claim).with_context(|| format!("plan package `{}`", spec.name))?;
        claim.add_empty_module()?;
        Ok(Some(claim))
    }

    fn device(&self, spec: &PackageSpec, scope: &Scope) -> Result<Claim> {
        let merged = self.merge(|name| spec.takes(name, self.request.mode, Some(scope)))?;
        let below = self.catalog.overlaid()?.dist_name(self.request.mode, None);
        let mut claim = Claim::new(&spec.name, &platform_package(&below, &self.request.release));
        claim.scope = Some(scope.clone());
        let search = SearchPath::new(&self.core, &spec.rpath);
        device::claim(&merged.files, self.request.platform, &search, &mut claim)
            .with_context(|| format!("plan device package of `{scope}`"))?;
        Ok(claim)
    }

    fn devel(&self, claims: &Claims, scope: Option<&Scope>) -> Result<DevelPlan> {
        let spec = self.catalog.only(Kind::Devel)?;
        let mode = self.request.mode;
        let runtime = claims.runtime_artifacts();
        let merged = self.merge(|name| {
            let named = runtime.contains(name.name.as_str()) || spec.takes_besides(&name.name, mode);
            named && !spec.leaves_out(name, mode) && spec.reaches(name, mode, scope)
        })?;
        let top = platform_package(&spec.dist_name(mode, scope), &self.request.release);
        DevelPlan::new(top.parse()?, &merged.files, claims, scope, self.request.platform)
            .context("plan package `devel`")
    }

    fn merge(&self, select: impl Fn(&crate::artifact::ArtifactName) -> bool) -> Result<Merged<'_>> {
        self.tree.merge(select, self.request.on_collision)
    }
}

fn listed<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("`{item}`")).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
