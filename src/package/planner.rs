//! Plans a whole set: decides which package ships which file of the artifacts.
//!
//! [`plan`] works on the facts of an [`ArtifactTree`] and writes no files. Only its argument `same`
//! may read files, to compare two that have the same path.

mod check;
mod devel;

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use crate::{
    artifact::{self, Artifact, ArtifactName, ArtifactTree, Merged, TreeContent, TreeFile},
    error::{Context as _, Result, anyhow, ensure, hinted},
    glob::Glob,
    package::{
        describe::{Describer, Devel},
        plan::{BuildPlan, Members},
        request::{OnCollision, Request},
        runtime::{Claim, Claims},
    },
    policy::{
        catalog::{Catalog, PackageKind, PackageSpec},
        dist_info::DistInfo,
        naming::DistributionMode,
        subset::Subset,
    },
    relpath::RelPath,
    target::{PlatformView, Scope},
};

/// Compares the contents of two files. The planner calls it only for files with the same path.
pub type Same<'a> = &'a dyn Fn(&TreeFile, &TreeFile) -> Result<bool>;

struct Planner<'a> {
    catalog: &'a Catalog,
    tree: &'a ArtifactTree,
    request: &'a Request<'a>,
    same: Same<'a>,
    /// The import name of the directory with the files of the core package: `_rocm_sdk_core`.
    core: &'a str,
    /// The targets or families that the set has device code for.
    scopes: BTreeSet<Scope>,
    /// The targets whose device packages are planned; fewer than `scopes` for a subset.
    devices: BTreeSet<Scope>,
    /// The `DT_NEEDED` entries of all ELF files of the artifacts.
    needed: BTreeSet<&'a str>,
    /// Packages that the set does not have.
    absent: Vec<String>,
    notes: Vec<String>,
}

/// Plans the packages of a set.
pub fn plan(tree: &ArtifactTree, request: &Request<'_>, same: Same<'_>) -> Result<BuildPlan> {
    let catalog = &request.options.catalog;
    check::platform(tree, request.options.platform)?;
    let core = request.import_name(&catalog.core()?.dist_name(request.mode, None));
    let artifacts = tree.artifacts.iter().filter(|it| !it.basedirs.is_empty());
    let mut scopes = catalog.scopes_with_code(artifacts.map(|it| &it.name), request.mode)?;
    let mut devices = scopes.clone();
    if let Some(subset) = &request.subset {
        check::subset(subset, &scopes, request.mode)?;
        devices = subset.devices().cloned().collect();
        scopes.clone_from(&subset.targets);
    }
    let planner = Planner {
        catalog,
        tree,
        request,
        same,
        core: &core,
        scopes,
        devices,
        needed: needed(tree),
        absent: Vec::new(),
        notes: [
            &request.notes[..],
            check::untaken(catalog, tree).as_slice(),
            check::without_archives(request, tree).as_slice(),
        ]
        .concat(),
    };
    planner.whole()
}

impl<'a> Planner<'a> {
    /// Plans which files each package takes, then the metadata, in which packages name each other.
    fn whole(mut self) -> Result<BuildPlan> {
        let unshipped = check::unshipped(self.catalog, self.tree);
        let not_in_run = check::not_in_run(self.catalog, self.tree, self.request);
        let mut claims = self.claims()?;
        let is_made = |kind| -> Result<bool> {
            let package = self.catalog.only(kind)?;
            Ok(!package.is_omitted && self.is_made(|subset| subset.has(package)))
        };
        let has_devel = is_made(PackageKind::Devel)?;
        let has_selector = is_made(PackageKind::Selector)?;
        // Symlinks of the devel tree extend run paths of libraries in other packages. So the tree
        // is planned even if the devel package is not built: those packages must have the same
        // bytes either way. Notes about the tree are dropped then.
        let notes = self.notes.len();
        let mut devels = Vec::new();
        for family in self.families() {
            devels.push(self.devel(&claims, family)?);
        }
        if !has_devel {
            self.notes.truncate(notes);
        }
        devel::extend_run_paths(&mut claims, &mut devels);
        let describer = self.describer(devels.len() > 1);
        let (mut packages, mut sdists) = (Vec::new(), Vec::new());
        for mut claim in claims.0 {
            self.notes.append(&mut claim.notes);
            packages.push(describer.wheel(claim)?);
        }
        for devel in devels {
            if has_selector {
                sdists.push(describer.selector(devel.family.as_ref())?);
            }
            if has_devel {
                packages.push(describer.devel(devel)?);
            }
        }
        packages.extend(sdists);
        Ok(BuildPlan {
            version: self.request.version.clone(),
            mode: self.request.mode,
            platform: self.request.options.platform,
            targets: self.scopes.into_iter().collect(),
            packages,
            unshipped,
            not_in_run,
            without: self.catalog.omitted().iter().cloned().collect(),
            notes: self.notes,
        })
    }

    /// The families that have a selector and a devel package each; one `None` if there is one of
    /// each for the whole set.
    fn families(&self) -> Vec<Option<Scope>> {
        if self.request.mode == DistributionMode::Split || self.scopes.is_empty() {
            return vec![None];
        }
        self.scopes.iter().cloned().map(Some).collect()
    }

    /// Claims of the runtime packages, and of the device packages that a split set has. A legacy set
    /// has one libraries package for each family, with its device code inside.
    fn claims(&mut self) -> Result<Claims<'a>> {
        let mode = self.request.mode;
        match mode {
            DistributionMode::Split => {
                check::is_apart(self.catalog, self.tree, &self.scopes)?;
                check::runs_without_xnack(self.catalog, self.tree)?;
                check::targets(self.request, &self.scopes)?;
            }
            DistributionMode::Legacy => {
                check::is_legacy(self.catalog, self.tree, &self.scopes)?;
                let device = self.catalog.only(PackageKind::Device)?.name.clone();
                self.absent.push(device);
            }
        }
        let mut claims = Claims::default();
        for spec in self.catalog.packages() {
            let is_runtime = spec.kind == PackageKind::Runtime
                && spec.is_made_for(self.request.options.platform);
            if !is_runtime || !self.is_made(|subset| subset.must_know_files(spec)) {
                continue;
            }
            let mut families = vec![None];
            if mode == DistributionMode::Legacy && spec.dist_template(mode).is_for_one_scope() {
                families = self.scopes.iter().cloned().map(Some).collect();
            }
            if families.is_empty() {
                self.notes.push(format!(
                    "no artifact is for a GPU family: package `{}`, which there is one of for each \
                     family, is left out",
                    spec.name
                ));
            }
            let before = claims.0.len();
            for family in families {
                claims.0.extend(self.runtime(spec, family.as_ref())?);
            }
            if claims.0.len() == before {
                self.absent.push(spec.name.clone());
            }
        }
        if mode == DistributionMode::Split {
            self.add_devices(&mut claims)?;
        }
        Ok(claims)
    }

    /// Adds the claims of the device packages, which install into the directory of the libraries.
    fn add_devices(&mut self, claims: &mut Claims<'a>) -> Result<()> {
        let below = self.catalog.overlaid()?;
        if !self.scopes.is_empty() && self.absent.contains(&below.name) {
            return Err(hinted(
                anyhow!(
                    "device code for {}, and no files for package `{}`, which it is laid over",
                    check::listed(&self.scopes),
                    below.name
                ),
                "fetch the `generic` artifacts of the same run",
            ));
        }
        let device = self.catalog.only(PackageKind::Device)?;
        for scope in self.devices.clone() {
            let claim = self.claim(device, Some(&scope))?;
            ensure!(
                !claim.members.is_empty(),
                "failed to plan `{}`: its artifacts hold no files",
                device.dist_name(self.request.mode, Some(&scope))
            );
            claims.0.push(claim);
        }
        let in_one_directory = claims.0.iter().filter(|claim| {
            claim.spec.kind == PackageKind::Device || claim.spec.name == below.name
        });
        let on_collision = self.request.options.on_collision;
        let notes = check::overlaid(in_one_directory, on_collision, self.same)?;
        self.notes.extend(notes);
        Ok(())
    }

    /// Whether the request includes something. Without a subset it includes everything.
    fn is_made(&self, of: impl Fn(&Subset) -> bool) -> bool {
        self.request.subset.as_ref().is_none_or(of)
    }

    fn describer(&self, has_directories: bool) -> Describer<'a> {
        let options = &self.request.options;
        let is_split = self.request.mode == DistributionMode::Split;
        let (linux, windows) = match self.request.mode {
            DistributionMode::Split => (options.linux.as_deref(), options.windows.as_deref()),
            DistributionMode::Legacy => (None, None),
        };
        let view = PlatformView::new(linux, windows, self.scopes.iter().cloned());
        // Without targets there are no device packages. The mode alone does not say this: a split
        // release may have device code for one platform only.
        let has_no_device = is_split && view.available.is_empty();
        let is_lacking =
            |it: &&PackageSpec| it.is_omitted || (has_no_device && it.kind == PackageKind::Device);
        let lacking = self.catalog.packages().iter().filter(is_lacking);
        let absent = self.absent.iter().chain(lacking.map(|it| &it.name));
        Describer {
            info: DistInfo {
                catalog: self.catalog,
                mode: self.request.mode,
                version: self.request.version.to_string(),
                suffix: self.request.options.suffix.to_string(),
                view,
                absent: absent.unique().cloned().collect(),
                only: None,
            },
            request: self.request,
            tree: self.tree,
            same: self.same,
            has_directories,
        }
    }

    /// Plans a runtime package; `None` if the artifacts have no files for it.
    fn runtime(
        &mut self,
        spec: &'a PackageSpec,
        scope: Option<&Scope>,
    ) -> Result<Option<Claim<'a>>> {
        let mut claim = self.claim(spec, scope)?;
        if !claim.members.is_empty() {
            claim.add_empty_module()?;
            return Ok(Some(claim));
        }
        let dist = spec.dist_name(self.request.mode, scope);
        let why = if claim.artifacts.is_empty() { "no artifacts" } else { "no files" };
        if spec.required {
            return Err(hinted(
                anyhow!("{why} for `{dist}`, which every set has"),
                format!("look at what `{}` holds", self.tree.directory.display()),
            ));
        }
        self.notes.push(format!("{why} for `{dist}`: it is left out"));
        Ok(None)
    }

    /// Plans the files of a runtime or device package.
    fn claim(&mut self, spec: &'a PackageSpec, scope: Option<&Scope>) -> Result<Claim<'a>> {
        let mode = self.request.mode;
        let selected = self.select(|name| spec.takes(name, mode, scope));
        let filter = spec.filter();
        let merged = self.merge(&selected, |path| filter.accepts(path.as_str()))?;
        let dist = spec.dist_name(mode, scope);
        // Device code is installed into the directory of the libraries.
        let directory = match spec.kind {
            PackageKind::Device => self.catalog.overlaid()?.dist_name(mode, None),
            _ => dist.clone(),
        };
        let artifacts = selected.iter().map(|artifact| artifact.name.name.clone());
        let mut claim = Claim {
            spec,
            scope: scope.cloned(),
            directory: self.request.import_name(&directory),
            files: merged.files,
            members: Members::default(),
            aliases: BTreeMap::new(),
            artifacts: artifacts.collect(),
            notes: Vec::new(),
            platform: self.request.options.platform,
            core: self.core,
            searched: self.searched(&spec.rpath)?,
        };
        claim.place_all().with_context(|| format!("failed to plan `{dist}`"))?;
        Ok(claim)
    }

    /// The directories of the core package that these entries of `rpath` name. A pattern stands for
    /// each directory with libraries that the artifacts of the core package have, if any.
    ///
    /// LLVM puts its runtimes into `lib/llvm/lib/x86_64-unknown-linux-gnu` since ROCm 10.1, and into
    /// `lib/llvm/lib` before. An entry without a pattern is added in any case.
    fn searched(&self, entries: &[RelPath]) -> Result<Vec<RelPath>> {
        let is_pattern = |entry: &&RelPath| entry.as_str().contains('*');
        if !entries.iter().any(|it| is_pattern(&it)) {
            return Ok(entries.to_vec());
        }
        let (core, mode) = (self.catalog.core()?, self.request.mode);
        let selected = self.select(|name| core.takes(name, mode, None));
        let paths = selected.iter().flat_map(|it| it.files.iter().map(|file| &file.path));
        let libraries = paths.filter(|it| it.file_name().contains(".so"));
        let directories: BTreeSet<RelPath> = libraries.filter_map(RelPath::parent).collect();
        let of_entry = |entry: &RelPath| {
            if !is_pattern(&entry) {
                return vec![entry.clone()];
            }
            let pattern = Glob::new(entry.as_str());
            let found = directories.iter().filter(|it| pattern.matches(it.as_str()));
            found.cloned().collect()
        };
        Ok(entries.iter().flat_map(of_entry).collect())
    }

    fn devel(&mut self, claims: &Claims<'_>, family: Option<Scope>) -> Result<Devel> {
        let spec = self.catalog.only(PackageKind::Devel)?;
        let (mode, scope) = (self.request.mode, family.as_ref());
        let runtime: BTreeSet<&String> = claims.0.iter().flat_map(|it| &it.artifacts).collect();
        let selected = self.select(|name| {
            let is_named = runtime.contains(&name.name) || spec.names_artifact(&name.name, mode);
            is_named && !spec.excludes(name, mode) && spec.scope_fits(name, mode, scope)
        });
        let merged = self.merge(&selected, |_| true)?;
        let mut owners = BTreeSet::new();
        for (path, owned) in &merged.files {
            let owner = claims.find(path, scope);
            owners.extend(owner.map(|(index, _)| index));
            if let TreeContent::File(facts) = &owned.file.content
                && let Some(damage) = &facts.damage
                && owner.is_none()
            {
                let artifact = &owned.artifact.name;
                let note = format!("`{path}` of artifact `{artifact}` ships as it is: {damage}");
                self.note(note);
            }
        }
        let owners = owners.into_iter().filter_map(|index| claims.0.get(index));
        let requires = owners.map(|claim| claim.spec.dist_name(mode, claim.scope.as_ref()));
        let dist = spec.dist_name(mode, scope);
        let top = self.request.import_name(&dist).parse()?;
        let tree = devel::tree(top, &merged.files, claims, scope, self.request.options.platform);
        Ok(Devel {
            tree: tree.with_context(|| format!("failed to plan `{dist}`"))?,
            requires: requires.collect(),
            family,
        })
    }

    fn select(&self, wanted: impl Fn(&ArtifactName) -> bool) -> Vec<&'a Artifact> {
        let artifacts = self.tree.artifacts.iter();
        artifacts.filter(|it| wanted(&it.name)).collect()
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
            match self.request.options.on_collision {
                OnCollision::Refuse => return Err(check::collision(collision)),
                OnCollision::Last => self.note(format!("{collision}: used the last")),
            }
        }
        Ok(merged)
    }

    /// Adds a note, unless another package has added the same one.
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

fn needed(tree: &ArtifactTree) -> BTreeSet<&str> {
    let files = tree.artifacts.iter().flat_map(|artifact| &artifact.files);
    let loaded = files.filter_map(|file| match &file.content {
        TreeContent::File(facts) => facts.elf.as_deref(),
        _ => None,
    });
    loaded.flat_map(|elf| elf.needed.iter().map(AsRef::as_ref)).collect()
}

#[cfg(test)]
mod tests;
