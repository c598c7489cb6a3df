//! From the artifacts to the plan of a whole set. Decides; reads nothing, writes nothing.

use std::{collections::BTreeSet, fmt::Display};

use crate::{
    artifact::{self, Artifact, ArtifactName, ArtifactTree, Merged, TreeFile},
    error::{Context as _, Result, anyhow, ensure, hinted},
    package::{
        catalog::{Catalog, Kind, PackageSpec},
        claims::{Claim, Claims},
        describe::Describer,
        devel, device,
        naming::{Mode, Release, platform_package},
        plan::BuildPlan,
        runtime::Runtime,
        sdk_tree::SdkTree,
        search::SearchPath,
    },
    run::Platform,
    target::{PlatformView, Scope, Target, missing},
    wheel::Tag,
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
    /// What the wheels say they run on: `py3-none-linux_x86_64`.
    pub tag: Tag,
    pub on_collision: OnCollision,
}

/// What to do when two artifacts differ about one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCollision {
    #[default]
    Refuse,
    /// The last of them counts, by name; a note says so.
    Last,
}

/// Says whether two files have the same bytes; asked only about files that meet at one path.
pub type Same<'a> = &'a dyn Fn(&TreeFile, &TreeFile) -> Result<bool>;

/// Decides what the packages of a set hold.
pub fn plan(
    catalog: &Catalog,
    tree: &ArtifactTree,
    request: &Request,
    same: Same<'_>,
) -> Result<BuildPlan> {
    let planner = Planner::new(catalog, tree, request, same)?;
    match request.mode {
        Mode::Split => planner.split(),
        Mode::Legacy => planner.legacy(),
    }
}

struct Planner<'a> {
    catalog: &'a Catalog,
    tree: &'a ArtifactTree,
    request: &'a Request,
    same: Same<'a>,
    /// The import name of the core package's files.
    core: String,
    /// What the artifacts have device code for.
    scopes: BTreeSet<Scope>,
    plan: BuildPlan,
}

impl<'a> Planner<'a> {
    fn new(
        catalog: &'a Catalog,
        tree: &'a ArtifactTree,
        request: &'a Request,
        same: Same<'a>,
    ) -> Result<Self> {
        let core = catalog.core()?.dist_name(request.mode, None);
        let holder = match request.mode {
            Mode::Split => catalog.only(Kind::Device)?,
            Mode::Legacy => catalog.overlaid()?,
        };
        let with_code = tree
            .artifacts
            .iter()
            .map(|artifact| &artifact.name)
            .filter(|name| name.scope != Scope::Generic && holder.takes_kind(name, request.mode));
        let scopes: BTreeSet<Scope> = with_code.map(|name| name.scope.base()).collect();
        let mut plan = BuildPlan::new(&request.release.version, request.mode, request.platform);
        plan.targets = scopes.iter().cloned().collect();
        Ok(Self {
            catalog,
            tree,
            request,
            same,
            core: platform_package(&core, &request.release),
            scopes,
            plan,
        })
    }

    /// One set for all targets: libraries without device code, and device code apart.
    fn split(mut self) -> Result<BuildPlan> {
        self.check_targets()?;
        let (mut claims, mut absent) = (Claims::default(), Vec::new());
        for spec in self.specs(Kind::Runtime) {
            match self.runtime(spec, None)? {
                Some(claim) => claims.push(claim),
                None => absent.push(spec.name.clone()),
            }
        }
        let below = &self.catalog.overlaid()?.name;
        ensure!(
            self.scopes.is_empty() || !absent.contains(below),
            "device code for {}, and no artifact for package `{below}`, which it is laid over",
            listed(&self.scopes)
        );
        let device = self.catalog.only(Kind::Device)?;
        for scope in self.scopes.clone() {
            claims.push(self.device(device, &scope)?);
        }
        if self.scopes.is_empty() {
            absent.push(device.name.clone());
        }
        let describer = self.describer(absent);
        self.add_selector_and_devel(&describer, &claims, None)?;
        self.add_wheels(&describer, claims)?;
        Ok(self.plan)
    }

    /// One libraries package for each family; with several families, each has a selector and a
    /// devel package of its own.
    fn legacy(mut self) -> Result<BuildPlan> {
        let (mut claims, mut absent) = (Claims::default(), Vec::new());
        absent.push(self.catalog.only(Kind::Device)?.name.clone());
        for spec in self.specs(Kind::Runtime) {
            let families: Vec<Option<Scope>> =
                if spec.dist_template(Mode::Legacy).is_for_one_scope() {
                    self.scopes.iter().cloned().map(Some).collect()
                } else {
                    vec![None]
                };
            let before = claims.len();
            for family in families {
                if let Some(claim) = self.runtime(spec, family.as_ref())? {
                    claims.push(claim);
                }
            }
            if claims.len() == before {
                absent.push(spec.name.clone());
            }
        }
        let mut describer = self.describer(absent);
        let several = self.scopes.len() > 1;
        let mut families: Vec<Option<Scope>> = self.scopes.iter().cloned().map(Some).collect();
        if families.is_empty() {
            families.push(None);
        }
        for family in families {
            if several {
                describer.restricted.clone_from(&family);
                describer.directory = family.as_ref().map(Scope::to_string);
            }
            self.add_selector_and_devel(&describer, &claims, family.as_ref())?;
        }
        (describer.restricted, describer.directory) = (None, None);
        self.add_wheels(&describer, claims)?;
        Ok(self.plan)
    }

    fn describer(&self, absent: Vec<String>) -> Describer<'a> {
        Describer {
            catalog: self.catalog,
            release: &self.request.release,
            mode: self.request.mode,
            platform: self.request.platform,
            tag: self.request.tag.clone(),
            view: self.view(),
            absent,
            restricted: None,
            directory: None,
        }
    }

    fn add_selector_and_devel(
        &mut self,
        describer: &Describer<'_>,
        claims: &Claims,
        scope: Option<&Scope>,
    ) -> Result<()> {
        let tree = self.devel(claims, scope)?;
        self.plan.sdists.push(describer.selector()?);
        self.plan.wheels.push(describer.devel(tree)?);
        Ok(())
    }

    fn add_wheels(&mut self, describer: &Describer<'_>, claims: Claims) -> Result<()> {
        for mut claim in claims.into_vec() {
            self.plan.notes.append(&mut claim.notes);
            self.plan.wheels.push(describer.wheel(claim)?);
        }
        Ok(())
    }

    fn specs(&self, kind: Kind) -> Vec<&'a PackageSpec> {
        let on_platform =
            |spec: &&PackageSpec| spec.kind == kind && spec.ships_on(self.request.platform);
        self.catalog.packages().iter().filter(on_platform).collect()
    }

    /// The targets as users see them.
    ///
    /// Packages of families know nothing of the targets that either platform was promised.
    fn view(&self) -> PlatformView {
        let (linux, windows) = match self.request.mode {
            Mode::Split => (
                self.request.linux.as_deref(),
                self.request.windows.as_deref(),
            ),
            Mode::Legacy => (None, None),
        };
        PlatformView::new(linux, windows, self.scopes.iter().cloned())
    }

    /// Refuses a set that lacks a target it is meant to have.
    fn check_targets(&mut self) -> Result<()> {
        let expected = match self.request.platform {
            Platform::Linux => &self.request.linux,
            Platform::Windows => &self.request.windows,
        };
        let Some(expected) = expected else {
            return Ok(());
        };
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
        let promised: BTreeSet<Scope> = expected
            .iter()
            .map(|target| Scope::Target(target.base()))
            .collect();
        for extra in self.scopes.difference(&promised) {
            self.plan.notes.push(format!(
                "device code for `{extra}`, which no family of this platform names"
            ));
        }
        Ok(())
    }

    /// What a runtime package takes; `None` when the artifacts have nothing for it.
    fn runtime(&mut self, spec: &PackageSpec, scope: Option<&Scope>) -> Result<Option<Claim>> {
        let selected = self.select(|name| spec.takes(name, self.request.mode, scope));
        if selected.is_empty() {
            if spec.required {
                return Err(hinted(
                    anyhow!(
                        "no artifacts for package `{}`, which every set has",
                        spec.name
                    ),
                    format!("look at what `{}` holds", self.tree.directory.display()),
                ));
            }
            self.plan.notes.push(format!(
                "no artifacts for package `{}`: left out",
                spec.name
            ));
            return Ok(None);
        }
        let merged = self.merge(&selected)?;
        let mut claim = self.claim(spec, &spec.dist_name(self.request.mode, scope), scope);
        claim.artifacts = selected
            .iter()
            .map(|artifact| artifact.name.name.clone())
            .collect();
        let search = SearchPath::new(&self.core, &spec.rpath);
        let runtime = Runtime {
            spec,
            platform: self.request.platform,
            search: &search,
        };
        runtime
            .claim(&merged.files, &mut claim)
            .with_context(|| format!("plan package `{}`", spec.name))?;
        claim.add_empty_module()?;
        Ok(Some(claim))
    }

    fn device(&mut self, spec: &PackageSpec, scope: &Scope) -> Result<Claim> {
        let selected = self.select(|name| spec.takes(name, self.request.mode, Some(scope)));
        let merged = self.merge(&selected)?;
        let below = self.catalog.overlaid()?.dist_name(self.request.mode, None);
        let mut claim = self.claim(spec, &below, Some(scope));
        let search = SearchPath::new(&self.core, &spec.rpath);
        device::claim(&merged.files, self.request.platform, &search, &mut claim)
            .with_context(|| format!("plan the device package of `{scope}`"))?;
        Ok(claim)
    }

    fn devel(&mut self, claims: &Claims, scope: Option<&Scope>) -> Result<SdkTree> {
        let spec = self.catalog.only(Kind::Devel)?;
        let mode = self.request.mode;
        let runtime = claims.runtime_artifacts();
        let selected = self.select(|name| {
            let named =
                runtime.contains(name.name.as_str()) || spec.takes_besides(&name.name, mode);
            named && !spec.leaves_out(name, mode) && spec.reaches(name, mode, scope)
        });
        let merged = self.merge(&selected)?;
        let top = platform_package(&spec.dist_name(mode, scope), &self.request.release);
        devel::tree(
            top.parse()?,
            &merged.files,
            claims,
            scope,
            self.request.platform,
        )
        .context("plan package `devel`")
    }

    /// An empty claim of a package whose files go where those of the distribution `dist` go.
    fn claim(&self, spec: &PackageSpec, dist: &str, scope: Option<&Scope>) -> Claim {
        let mut claim = Claim::new(&spec.name, &platform_package(dist, &self.request.release));
        claim.scope = scope.cloned();
        claim
    }

    fn select(&self, wanted: impl Fn(&ArtifactName) -> bool) -> Vec<&'a Artifact> {
        self.tree
            .artifacts
            .iter()
            .filter(|artifact| wanted(&artifact.name))
            .collect()
    }

    /// The install tree of some artifacts, in which every path has one owner.
    fn merge(&mut self, selected: &[&'a Artifact]) -> Result<Merged<'a>> {
        let merged = artifact::merge(selected.iter().copied(), self.same)?;
        for collision in &merged.collisions {
            match self.request.on_collision {
                OnCollision::Refuse => {
                    return Err(hinted(
                        anyhow!("two artifacts for one path: {collision}"),
                        "build them so that one of them has it; `--on-collision last` takes the last by name",
                    ));
                }
                OnCollision::Last => {
                    let note = format!("{collision}: the last counts");
                    if !self.plan.notes.contains(&note) {
                        self.plan.notes.push(note);
                    }
                }
            }
        }
        Ok(merged)
    }
}

fn listed<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("`{item}`")).collect();
    if items.is_empty() {
        "none".to_owned()
    } else {
        items.join(", ")
    }
}
