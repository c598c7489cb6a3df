//! Plans a whole set: decides which package ships which file of the artifacts.
//!
//! [`plan`] works on the facts of an [`ArtifactTree`] and writes no files. Only its argument `same`
//! may read files, to compare two that have the same path.

mod check;
#[cfg(test)]
mod fixture;
mod overlay;
mod platform;
mod reached;

use std::collections::BTreeSet;

use crate::{
    artifact::{self, Artifact, ArtifactName, ArtifactTree, Merged, TreeContent, TreeFile},
    error::{Context as _, Result, anyhow, hinted},
    package::{
        catalog::{Catalog, PackageKind, PackageSpec},
        claims::{Claim, Claims},
        describe::{Describer, Devel, Share},
        devel, device,
        naming::{DistributionMode, PublicationName, platform_package},
        plan::{BuildPlan, SdkTreePacking},
        runtime::{self, LinkPolicy, Placing},
        search::SearchPath,
        subset::Subset,
    },
    relpath::RelPath,
    run::Platform,
    target::{PlatformView, Scope, Target},
    wheel::Tag,
};
use overlay::Overlay;

/// What to build, as far as the artifacts do not say it.
#[derive(Clone, Debug)]
pub struct Request {
    pub release: PublicationName,
    pub mode: DistributionMode,
    pub platform: Platform,
    /// The targets whose extras `rocm` offers on Linux; `None` if they were not given.
    pub linux: Option<Vec<Target>>,
    /// The targets whose extras `rocm` offers on Windows; `None` if they were not given.
    pub windows: Option<Vec<Target>>,
    /// The tag of the wheels: `py3-none-linux_x86_64`.
    pub tag: Tag,
    pub on_collision: OnCollision,
    /// How the devel package packs its tree.
    pub devel_packing: SdkTreePacking,
    /// The packages to build if the artifacts are only some of those of the run.
    pub subset: Option<Subset>,
}

/// What to do when two artifacts differ about one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OnCollision {
    /// Stop with an error that names both
    #[default]
    Refuse,
    /// Use the artifact whose name sorts last, and print a note
    Last,
}

/// Compares the contents of two files. The planner calls it only for files with the same path.
pub type Same<'a> = &'a dyn Fn(&TreeFile, &TreeFile) -> Result<bool>;

/// Plans the packages of a set.
pub fn plan(
    catalog: &Catalog,
    tree: &ArtifactTree,
    request: &Request,
    same: Same<'_>,
) -> Result<BuildPlan> {
    platform::check(tree, request.platform)?;
    let planner = Planner::new(catalog, tree, request, same)?;
    planner.whole()
}

const NO_LISTS: &str = "the lists of families are for sets with split device code, and this one has it \
    inside: they are ignored";

struct Planner<'a> {
    catalog: &'a Catalog,
    tree: &'a ArtifactTree,
    request: &'a Request,
    same: Same<'a>,
    /// The import name of the directory with the files of the core package: `_rocm_sdk_core`.
    core: String,
    /// The targets or families that the set has device code for.
    scopes: BTreeSet<Scope>,
    /// The targets whose device packages are planned; fewer than `scopes` for a subset.
    devices: BTreeSet<Scope>,
    /// The `DT_NEEDED` entries of all ELF files of the artifacts.
    needed: BTreeSet<&'a str>,
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
        let mut scopes = check::scopes_with_code(catalog, tree, request.mode)?;
        let mut devices = scopes.clone();
        if let Some(subset) = &request.subset {
            check::subset(subset, &scopes, request.mode)?;
            devices = subset.devices().cloned().collect();
            scopes.clone_from(subset.targets());
        }
        let mut plan = BuildPlan::new(&request.release.version, request.mode, request.platform);
        plan.targets = scopes.iter().cloned().collect();
        plan.without = catalog.omitted().iter().cloned().collect();
        plan.notes = check::untaken(catalog, tree).into_iter().collect();
        Ok(Self {
            catalog,
            tree,
            request,
            same,
            core: platform_package(&core, &request.release),
            scopes,
            devices,
            needed: needed(tree),
            plan,
        })
    }

    /// Plans which files each package takes, then the metadata, in which packages name each other.
    fn whole(mut self) -> Result<BuildPlan> {
        let mut families: Vec<Option<Scope>> = match self.request.mode {
            DistributionMode::Split => Vec::new(),
            // Each family has its own selector and its own devel package.
            DistributionMode::Legacy => self.scopes.iter().cloned().map(Some).collect(),
        };
        let several = families.len() > 1;
        if families.is_empty() {
            families.push(None);
        }
        let (mut claims, absent) = match self.request.mode {
            DistributionMode::Split => self.claims_of_targets()?,
            DistributionMode::Legacy => self.claims_of_families()?,
        };
        let describer = self.describer(absent);
        let is_made = |kind| -> Result<bool> {
            let package = self.catalog.only(kind)?;
            Ok(!package.is_omitted && self.is_made(|subset| subset.has(package)))
        };
        let (has_devel, has_selector) = (
            is_made(PackageKind::Devel)?,
            is_made(PackageKind::Selector)?,
        );
        // Symlinks of the devel tree extend run paths of libraries in other packages. So the tree
        // is planned even if the devel package is not built: those packages must have the same
        // bytes either way. Notes about the tree are dropped then.
        let notes = self.plan.notes.len();
        let mut devels = Vec::new();
        for family in families {
            let devel = self.devel(&claims, family.as_ref())?;
            devels.push((family, devel));
        }
        if !has_devel {
            self.plan.notes.truncate(notes);
        }
        reached::extend(self.tree, &mut claims, &mut devels)?;
        for mut claim in claims.0 {
            self.plan.notes.append(&mut claim.notes);
            self.plan.wheels.push(describer.wheel(claim)?);
        }
        for (family, devel) in devels {
            let share = Share {
                family: family.as_ref(),
                directory: family.as_ref().filter(|_| several).map(Scope::as_str),
            };
            if has_devel {
                self.plan.wheels.push(describer.devel(devel, share)?);
            }
            if has_selector {
                self.plan.sdists.push(describer.selector(share)?);
            }
        }
        Ok(self.plan)
    }

    /// Claims of a set for all targets, in which device packages have the device code.
    ///
    /// Also returns the names of the packages that the artifacts have no files for.
    fn claims_of_targets(&mut self) -> Result<(Claims, Vec<String>)> {
        check::is_apart(self.catalog, self.tree, &self.scopes)?;
        let extra = check::targets(self.request, &self.scopes)?;
        self.plan.notes.extend(extra);
        let (mut claims, mut absent) = (Claims::default(), Vec::new());
        let mut overlay = Overlay::new(self.request.on_collision, self.same);
        let below = &self.catalog.overlaid()?.name;
        for spec in self.specs(PackageKind::Runtime) {
            if !self.is_made(|subset| subset.looks_at(spec)) {
                continue;
            }
            let Some((claim, merged)) = self.runtime(spec, None)? else {
                absent.push(spec.name.clone());
                continue;
            };
            if spec.name == *below {
                overlay.add(&claim, &merged, &mut self.plan.notes)?;
            }
            claims.0.push(claim);
        }
        if !self.scopes.is_empty() && absent.contains(below) {
            return Err(check::nothing_below(below, &self.scopes));
        }
        let device = self.catalog.only(PackageKind::Device)?;
        for scope in self.devices.clone() {
            let (claim, merged) = self.device(device, &scope)?;
            overlay.add(&claim, &merged, &mut self.plan.notes)?;
            claims.0.push(claim);
        }
        Ok((claims, absent))
    }

    /// Whether the request includes something. Without a subset it includes everything.
    fn is_made(&self, of: impl Fn(&Subset) -> bool) -> bool {
        self.request.subset.as_ref().is_none_or(of)
    }

    /// Claims of a legacy set: one libraries package for each family, with its device code inside.
    ///
    /// Also returns the names of the packages that the artifacts have no files for.
    fn claims_of_families(&mut self) -> Result<(Claims, Vec<String>)> {
        check::is_legacy(self.catalog, self.tree, &self.scopes)?;
        if self.request.linux.is_some() || self.request.windows.is_some() {
            self.note(NO_LISTS.to_owned());
        }
        let device = self.catalog.only(PackageKind::Device)?.name.clone();
        let (mut claims, mut absent) = (Claims::default(), vec![device]);
        for spec in self.specs(PackageKind::Runtime) {
            let before = claims.0.len();
            for family in self.families_of(spec) {
                let claim = self.runtime(spec, family.as_ref())?;
                claims.0.extend(claim.map(|(claim, _)| claim));
            }
            if claims.0.len() == before {
                absent.push(spec.name.clone());
            }
        }
        Ok((claims, absent))
    }

    /// The families that a package is built for; one `None` if it is built once for all of them.
    fn families_of(&mut self, spec: &PackageSpec) -> Vec<Option<Scope>> {
        if !spec
            .dist_template(DistributionMode::Legacy)
            .is_for_one_scope()
        {
            return vec![None];
        }
        if self.scopes.is_empty() {
            self.plan.notes.push(format!(
                "no artifact is for a GPU family: package `{}`, which there is one of for each \
                 family, is left out",
                spec.name
            ));
        }
        self.scopes.iter().cloned().map(Some).collect()
    }

    fn describer(&self, mut absent: Vec<String>) -> Describer<'a> {
        let view = self.view();
        let packages = self.catalog.packages().iter();
        let omitted = packages.filter(|package| package.is_omitted);
        absent.extend(omitted.map(|package| package.name.clone()));
        // Without targets there are no device packages. The mode alone does not say this: a split
        // release may have device code for one platform only.
        if self.request.mode == DistributionMode::Split
            && view.available.is_empty()
            && let Ok(device) = self.catalog.only(PackageKind::Device)
        {
            absent.push(device.name.clone());
        }
        Describer {
            catalog: self.catalog,
            release: &self.request.release,
            mode: self.request.mode,
            platform: self.request.platform,
            tag: self.request.tag.clone(),
            view,
            absent,
        }
    }

    fn specs(&self, kind: PackageKind) -> Vec<&'a PackageSpec> {
        let on_platform =
            |spec: &&PackageSpec| spec.kind == kind && spec.is_made_for(self.request.platform);
        self.catalog.packages().iter().filter(on_platform).collect()
    }

    /// The targets that the packages offer to users, on each platform.
    ///
    /// Legacy sets ignore the lists of the request.
    fn view(&self) -> PlatformView {
        let (linux, windows) = match self.request.mode {
            DistributionMode::Split => (
                self.request.linux.as_deref(),
                self.request.windows.as_deref(),
            ),
            DistributionMode::Legacy => (None, None),
        };
        PlatformView::new(linux, windows, self.scopes.iter().cloned())
    }

    /// Plans a runtime package; `None` if the artifacts have no files for it.
    fn runtime(
        &mut self,
        spec: &PackageSpec,
        scope: Option<&Scope>,
    ) -> Result<Option<(Claim, Merged<'a>)>> {
        let dist = spec.dist_name(self.request.mode, scope);
        let selected = self.select(|name| spec.takes(name, self.request.mode, scope));
        let filter = spec.filter();
        let merged = self.merge(&selected, |path| filter.accepts(path.as_str()))?;
        let mut claim = self.claim(spec, &dist, scope);
        claim.artifacts = selected
            .iter()
            .map(|artifact| artifact.name.name.clone())
            .collect();
        let search = SearchPath::new(&self.core, &spec.rpath);
        runtime::claim(
            spec,
            self.placing(&search, LinkPolicy::Drop),
            &merged.files,
            &mut claim,
        )
        .with_context(|| format!("failed to plan `{dist}`"))?;
        if !claim.members.is_empty() {
            claim.add_empty_module()?;
            return Ok(Some((claim, merged)));
        }
        let why = if selected.is_empty() {
            "no artifacts"
        } else {
            "no files"
        };
        if spec.required {
            return Err(hinted(
                anyhow!("{why} for `{dist}`, which every set has"),
                format!("look at what `{}` holds", self.tree.directory.display()),
            ));
        }
        self.plan
            .notes
            .push(format!("{why} for `{dist}`: it is left out"));
        Ok(None)
    }

    fn device(&mut self, spec: &PackageSpec, scope: &Scope) -> Result<(Claim, Merged<'a>)> {
        let selected = self.select(|name| spec.takes(name, self.request.mode, Some(scope)));
        let merged = self.merge(&selected, |_| true)?;
        let below = self.catalog.overlaid()?.dist_name(self.request.mode, None);
        let mut claim = self.claim(spec, &below, Some(scope));
        let search = SearchPath::new(&self.core, &spec.rpath);
        device::claim(
            self.placing(&search, LinkPolicy::Refuse),
            &merged.files,
            &mut claim,
        )
        .with_context(|| {
            format!(
                "failed to plan `{}`",
                spec.dist_name(self.request.mode, Some(scope))
            )
        })?;
        Ok((claim, merged))
    }

    fn devel(&mut self, claims: &Claims, scope: Option<&Scope>) -> Result<Devel> {
        let spec = self.catalog.only(PackageKind::Devel)?;
        let mode = self.request.mode;
        let runtime = claims.runtime_artifacts();
        let selected = self.select(|name| {
            let named =
                runtime.contains(name.name.as_str()) || spec.takes_besides(&name.name, mode);
            named && !spec.leaves_out(name, mode) && spec.reaches(name, mode, scope)
        });
        let merged = self.merge(&selected, |_| true)?;
        for (path, owned) in &merged.files {
            if let TreeContent::File(facts) = &owned.file.content
                && let Some(damage) = &facts.damage
                && claims.find(path, scope).is_none()
            {
                let artifact = &owned.artifact.name;
                let note = format!("`{path}` of artifact `{artifact}` ships as it is: {damage}");
                self.note(note);
            }
        }
        let dist = spec.dist_name(mode, scope);
        let top = platform_package(&dist, &self.request.release).parse()?;
        let tree = devel::tree(top, &merged.files, claims, scope, self.request.platform)
            .with_context(|| format!("failed to plan `{dist}`"))?;
        let mut requires = Vec::new();
        for claim in claims.owners(merged.files.keys().copied(), scope) {
            let owner = self
                .catalog
                .get(&claim.package)
                .context("a claimed package")?;
            requires.push(owner.dist_name(mode, claim.scope.as_ref()));
        }
        Ok(Devel {
            tree,
            packing: self.request.devel_packing,
            requires,
        })
    }

    fn placing<'b>(&self, search: &'b SearchPath, links: LinkPolicy) -> Placing<'b> {
        Placing {
            platform: self.request.platform,
            search,
            links,
        }
    }

    /// An empty claim of a package whose files go into the directory of the distribution `dist`.
    /// For a device package that is the distribution of the libraries.
    fn claim(&self, spec: &PackageSpec, dist: &str, scope: Option<&Scope>) -> Claim {
        let directory = platform_package(dist, &self.request.release);
        Claim::new(spec, &directory, scope)
    }

    fn select(&self, wanted: impl Fn(&ArtifactName) -> bool) -> Vec<&'a Artifact> {
        self.tree
            .artifacts
            .iter()
            .filter(|artifact| wanted(&artifact.name))
            .collect()
    }

    /// Merges artifacts into one install tree.
    ///
    /// `counts` says which paths matter to the package. Collisions at other paths are ignored.
    fn merge(
        &mut self,
        selected: &[&'a Artifact],
        counts: impl Fn(&RelPath) -> bool,
    ) -> Result<Merged<'a>> {
        let mut merged = artifact::merge(selected.iter().copied(), self.same)?;
        merged.files.retain(|path, owned| {
            // A symlink with an absolute target leads to a file of the machine that built it. It is
            // kept only if it stands for a library that some file of the artifacts is linked with.
            let is_left_out = owned.file.leads_to_the_host()
                && !self.needed.contains(path.file_name());
            if is_left_out && counts(path) {
                let artifact = &owned.artifact.name;
                self.note(format!(
                    "symlink `{path}` of artifact `{artifact}` is left out: it has an absolute target"
                ));
            }
            !is_left_out
        });
        for collision in &merged.collisions {
            if !counts(collision.path) {
                continue;
            }
            match self.request.on_collision {
                OnCollision::Refuse => return Err(check::collision(collision)),
                OnCollision::Last => self.note(format!("{collision}: used the last")),
            }
        }
        Ok(merged)
    }

    /// Adds a note, unless another package has added the same one.
    fn note(&mut self, note: String) {
        if !self.plan.notes.contains(&note) {
            self.plan.notes.push(note);
        }
    }
}

fn needed(tree: &ArtifactTree) -> BTreeSet<&str> {
    let files = tree.artifacts.iter().flat_map(|artifact| &artifact.files);
    let loaded = files.filter_map(|file| match &file.content {
        TreeContent::File(facts) => facts.elf.as_deref(),
        _ => None,
    });
    loaded
        .flat_map(|elf| elf.needed.iter().map(AsRef::as_ref))
        .collect()
}

#[cfg(test)]
mod tests;
