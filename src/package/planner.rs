//! Plans a whole set: decides which package ships which file of the artifacts.
//!
//! [`plan`] works on the facts of an [`ArtifactTree`] and writes no files. Only its argument `same`
//! may read files, to compare two that have the same path.
//!
//! Four words say what a set lacks:
//!
//! - **absent**: an optional package that the set does not have, for any reason. `rocm` knows these names,
//!   and then does not look for the package.
//! - **omitted**: a package that is absent because the user leaves it out, with `--without` or in
//!   `packages.toml`.
//! - **not in the run**: an artifact that packages take, and that the run did not build.
//! - **unshipped**: an artifact that the run built, and that no package takes.

mod check;
mod devel;

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use crate::{
    artifact::{self, Artifact, ArtifactName, ArtifactTree, Merged, TreeContent, TreeFile},
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
};
use rocwheel_base::{
    error::{Context as _, Result, anyhow, ensure, hinted},
    glob::Glob,
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
    /// The packages that are absent because the artifacts have no files for them, or because a set of this
    /// mode has no such package. [`Planner::describer`] adds the packages that are absent for other reasons.
    absent: Vec<String>,
    notes: Notes,
}

/// Notes for the user, in the order in which they were written.
#[derive(Debug, Default)]
struct Notes(Vec<String>);

/// Plans the packages of a set.
pub fn plan(tree: &ArtifactTree, request: &Request<'_>, same: Same<'_>) -> Result<BuildPlan> {
    let catalog = &request.options.catalog;
    check::ensure_platform(tree, request.options.platform)?;
    let core = request.import_name(&catalog.core()?.dist_name(request.mode, None));
    let artifacts_with_files = tree
        .artifacts
        .iter()
        .filter(|artifact| !artifact.basedirs.is_empty())
        .map(|artifact| &artifact.name);
    let scopes_of_artifacts = catalog.scopes_with_code(artifacts_with_files, request.mode)?;
    check::ensure_no_shared_code(tree, &scopes_of_artifacts)?;
    let scopes;
    let devices;
    if let Some(subset) = &request.subset {
        check::ensure_subset(subset, &scopes_of_artifacts, request.mode)?;
        // Other jobs build the device packages of the other targets. The metadata names all targets of the
        // set, so that it is the same in each job.
        scopes = subset.targets.clone();
        devices = subset.devices().cloned().collect();
    } else {
        scopes = scopes_of_artifacts.clone();
        devices = scopes_of_artifacts;
    }
    let planner = Planner {
        catalog,
        tree,
        request,
        same,
        core: &core,
        scopes,
        devices,
        needed: collect_needed(tree),
        absent: Vec::new(),
        notes: Notes(
            [
                &request.notes[..],
                check::note_unknown_artifacts(catalog, tree).as_slice(),
                check::note_missing_archives(request, tree).as_slice(),
            ]
            .concat(),
        ),
    };
    planner.plan_set()
}

impl<'a> Planner<'a> {
    /// Plans which files each package takes, then the metadata, in which packages name each other.
    fn plan_set(mut self) -> Result<BuildPlan> {
        let unshipped = check::find_unshipped(self.catalog, self.tree);
        let not_in_run = check::find_missing_artifacts(self.catalog, self.tree, self.request);
        let mut claims = self.plan_claims()?;
        let has_devel = self.builds(PackageKind::Devel)?;
        let has_selector = self.builds(PackageKind::Selector)?;
        // Symlinks of the devel tree extend the run paths of libraries in other packages, and these packages
        // must have the same bytes whether the devel package is built or not. So the tree is planned in any
        // case. Only the user of a devel package needs to read the notes about it.
        let mut devels = Vec::new();
        let mut devel_notes = Notes::default();
        for family in self.families() {
            devels.push(self.plan_devel(&claims, family, &mut devel_notes)?);
        }
        if has_devel {
            self.notes.add_all(devel_notes);
        }
        devel::extend_run_paths(&mut claims, &mut devels);
        let describer = self.describer(devels.len() > 1);
        let mut packages = Vec::new();
        let mut sdists = Vec::new();
        for mut claim in claims.0 {
            self.notes.0.append(&mut claim.notes);
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
            notes: self.notes.0,
        })
    }

    /// Whether this build makes the only package of a kind.
    fn builds(&self, kind: PackageKind) -> Result<bool> {
        let package = self.catalog.only(kind)?;
        Ok(!package.is_omitted && self.includes(|subset| subset.has(package)))
    }

    /// The families that have a selector and a devel package each; one `None` if the whole set shares one
    /// selector and one devel package.
    fn families(&self) -> Vec<Option<Scope>> {
        if self.request.mode == DistributionMode::Split || self.scopes.is_empty() {
            return vec![None];
        }
        self.scopes.iter().cloned().map(Some).collect()
    }

    /// Plans the files of the runtime packages, and of the device packages that a split set has. A legacy
    /// set has one libraries package for each family, with its device code inside.
    fn plan_claims(&mut self) -> Result<Claims<'a>> {
        let mode = self.request.mode;
        match mode {
            DistributionMode::Split => {
                check::ensure_no_family(self.catalog, self.tree, &self.scopes)?;
                check::ensure_code_without_xnack(self.catalog, self.tree)?;
                check::ensure_targets(self.request, &self.scopes)?;
            }
            DistributionMode::Legacy => {
                check::ensure_fat(self.catalog, self.tree, &self.scopes)?;
                // The device code is inside the libraries packages.
                self.absent.push(self.catalog.only(PackageKind::Device)?.name.clone());
            }
        }
        let mut claims = Claims::default();
        for spec in self.catalog.packages() {
            let is_runtime = spec.kind == PackageKind::Runtime
                && spec.is_made_for(self.request.options.platform);
            if !is_runtime || !self.includes(|subset| subset.must_know_files(spec)) {
                continue;
            }
            let is_for_each_family =
                mode == DistributionMode::Legacy && spec.dist_template(mode).is_for_one_scope();
            let families: Vec<Option<Scope>> = if is_for_each_family {
                self.scopes.iter().cloned().map(Some).collect()
            } else {
                vec![None]
            };
            if families.is_empty() {
                self.notes.0.push(format!(
                    "no artifact is for a GPU family: package `{}`, which there is one of for each \
                     family, is left out",
                    spec.name
                ));
            }
            let mut planned = Vec::new();
            for family in families {
                planned.extend(self.plan_runtime(spec, family.as_ref())?);
            }
            if planned.is_empty() {
                self.absent.push(spec.name.clone());
            }
            claims.0.extend(planned);
        }
        if mode == DistributionMode::Split {
            self.add_devices(&mut claims)?;
        }
        Ok(claims)
    }

    /// Adds the claims of the device packages, which install into the directory of the libraries.
    fn add_devices(&mut self, claims: &mut Claims<'a>) -> Result<()> {
        let libraries = self.catalog.overlaid()?;
        // A device package without the libraries package would install code that no library loads.
        if !self.scopes.is_empty() && self.absent.contains(&libraries.name) {
            return Err(hinted(
                anyhow!(
                    "device code for {}, and no files for package `{}`, which it is laid over",
                    check::list_quoted(&self.scopes),
                    libraries.name
                ),
                "fetch the `generic` artifacts of the same run",
            ));
        }
        let device = self.catalog.only(PackageKind::Device)?;
        for scope in self.devices.clone() {
            let claim = self.plan_claim(device, Some(&scope))?;
            ensure!(
                !claim.members.is_empty(),
                "failed to plan `{}`: its artifacts hold no files",
                device.dist_name(self.request.mode, Some(&scope))
            );
            claims.0.push(claim);
        }
        // Installers overwrite a file of one package with the file of another package. So the packages that
        // share the directory are compared here.
        let in_one_directory = claims.0.iter().filter(|claim| {
            claim.spec.kind == PackageKind::Device || claim.spec.name == libraries.name
        });
        let on_collision = self.request.options.on_collision;
        let notes = check::compare_overlaid(in_one_directory, on_collision, self.same)?;
        self.notes.0.extend(notes);
        Ok(())
    }

    /// Whether the request includes what `is_in_subset` asks a subset for. Without a subset the request
    /// includes everything.
    fn includes(&self, is_in_subset: impl Fn(&Subset) -> bool) -> bool {
        self.request.subset.as_ref().is_none_or(is_in_subset)
    }

    /// What writes the metadata of the packages. All claims must be planned before, because the metadata names
    /// the packages that are absent.
    fn describer(&self, has_directories: bool) -> Describer<'a> {
        let options = &self.request.options;
        let is_split = self.request.mode == DistributionMode::Split;
        let view = PlatformView::new(
            // The options name targets, and a legacy set is for families.
            options.linux.as_deref().filter(|_| is_split),
            options.windows.as_deref().filter(|_| is_split),
            self.scopes.iter().cloned(),
        );
        // Without targets there are no device packages. The mode alone does not say this: a split
        // release may have device code for one platform only.
        let has_no_device = is_split && view.available.is_empty();
        let mut absent = self.absent.clone();
        for package in self.catalog.packages() {
            let is_device = package.kind == PackageKind::Device;
            if package.is_omitted || (is_device && has_no_device) {
                absent.push(package.name.clone());
            }
        }
        Describer {
            info: DistInfo {
                catalog: self.catalog,
                mode: self.request.mode,
                version: self.request.version.to_string(),
                suffix: self.request.options.suffix.to_string(),
                view,
                absent: absent.into_iter().unique().collect(),
                only: None,
            },
            request: self.request,
            tree: self.tree,
            same: self.same,
            has_directories,
        }
    }

    /// Plans a runtime package; `None` if the artifacts have no files for it.
    fn plan_runtime(
        &mut self,
        spec: &'a PackageSpec,
        scope: Option<&Scope>,
    ) -> Result<Option<Claim<'a>>> {
        let mut claim = self.plan_claim(spec, scope)?;
        if !claim.members.is_empty() {
            claim.add_empty_module()?;
            return Ok(Some(claim));
        }
        let missing = if claim.artifacts.is_empty() { "artifacts" } else { "files" };
        let dist = spec.dist_name(self.request.mode, scope);
        if spec.required {
            return Err(hinted(
                anyhow!("no {missing} for `{dist}`, which every set has"),
                format!("look at what `{}` holds", self.tree.directory.display()),
            ));
        }
        self.notes.0.push(format!("no {missing} for `{dist}`: it is left out"));
        Ok(None)
    }

    /// Plans the files of a runtime or device package.
    fn plan_claim(&mut self, spec: &'a PackageSpec, scope: Option<&Scope>) -> Result<Claim<'a>> {
        let mode = self.request.mode;
        let selected = self.select_artifacts(|name| spec.takes(name, mode, scope));
        let filter = spec.filter();
        let mut notes = Notes::default();
        let merged =
            self.merge_artifacts(&selected, |path| filter.accepts(path.as_str()), &mut notes)?;
        self.notes.add_all(notes);
        let dist = spec.dist_name(mode, scope);
        // Device code is installed into the directory of the libraries.
        let dist_of_directory = match spec.kind {
            PackageKind::Device => self.catalog.overlaid()?.dist_name(mode, None),
            _ => dist.clone(),
        };
        let mut claim = Claim {
            spec,
            scope: scope.cloned(),
            directory: self.request.import_name(&dist_of_directory),
            files: merged.files,
            members: Members::default(),
            aliases: BTreeMap::new(),
            artifacts: selected.iter().map(|artifact| artifact.name.name.clone()).collect(),
            notes: Vec::new(),
            platform: self.request.options.platform,
            core: self.core,
            searched: self.find_directories(&spec.rpath)?,
        };
        claim.add_members().with_context(|| format!("failed to plan `{dist}`"))?;
        Ok(claim)
    }

    /// Finds the directories of the core package that the entries of `rpath` in `packages.toml` name.
    ///
    /// An entry is the path of a directory, or a pattern for directories with libraries. LLVM puts its runtimes
    /// into `lib/llvm/lib/x86_64-unknown-linux-gnu` since ROCm 10.1, and into `lib/llvm/lib` before. A path
    /// counts even if the artifacts do not have the directory, and a pattern may match no directory.
    fn find_directories(&self, entries: &[RelPath]) -> Result<Vec<RelPath>> {
        let is_pattern = |entry: &RelPath| entry.as_str().contains('*');
        // Most packages have no pattern, and then the files of the core package need not be looked at.
        if !entries.iter().any(is_pattern) {
            return Ok(entries.to_vec());
        }
        let library_directories = self.find_library_directories()?;
        let mut directories = Vec::new();
        for entry in entries {
            if is_pattern(entry) {
                let pattern = Glob::new(entry.as_str());
                directories.extend(
                    library_directories
                        .iter()
                        .filter(|directory| pattern.matches(directory.as_str()))
                        .cloned(),
                );
            } else {
                directories.push(entry.clone());
            }
        }
        Ok(directories)
    }

    /// Finds the directories of the core package that have libraries.
    fn find_library_directories(&self) -> Result<BTreeSet<RelPath>> {
        let core = self.catalog.core()?;
        let mode = self.request.mode;
        Ok(self
            .select_artifacts(|name| core.takes(name, mode, None))
            .iter()
            .flat_map(|artifact| &artifact.files)
            .filter(|file| file.path.file_name().contains(".so"))
            .filter_map(|file| file.path.parent())
            .collect())
    }

    /// Plans the tree of the devel package for a family, or for the whole set.
    fn plan_devel(
        &self,
        claims: &Claims<'_>,
        family: Option<Scope>,
        notes: &mut Notes,
    ) -> Result<Devel> {
        let spec = self.catalog.only(PackageKind::Devel)?;
        let mode = self.request.mode;
        let scope = family.as_ref();
        // The tree completes the runtime packages: it has all components of each artifact that one of them
        // takes, and the artifacts that `packages.toml` names for the devel package.
        let runtime_artifacts: BTreeSet<&String> =
            claims.0.iter().flat_map(|claim| &claim.artifacts).collect();
        let selected = self.select_artifacts(|name| {
            let is_taken =
                runtime_artifacts.contains(&name.name) || spec.names_artifact(&name.name, mode);
            is_taken && !spec.excludes(name, mode) && spec.scope_fits(name, mode, scope)
        });
        let merged = self.merge_artifacts(&selected, |_| true, notes)?;
        // The indices of the packages that the symlinks of the tree lead to.
        let mut linked_claims = BTreeSet::new();
        for (path, owned) in &merged.files {
            if let Some(shipped) = claims.find_shipped(path, scope) {
                linked_claims.insert(shipped.claim);
                continue;
            }
            // A damaged file of a runtime package is an error. The devel tree copies a file as it is.
            if let TreeContent::File(facts) = &owned.file.content
                && let Some(damage) = &facts.damage
            {
                let artifact = &owned.artifact.name;
                notes.add(format!("`{path}` of artifact `{artifact}` ships as it is: {damage}"));
            }
        }
        let requires = linked_claims
            .into_iter()
            .filter_map(|index| claims.0.get(index))
            .map(|claim| claim.spec.dist_name(mode, claim.scope.as_ref()))
            .collect();
        let dist = spec.dist_name(mode, scope);
        let top = self.request.import_name(&dist).parse()?;
        let platform = self.request.options.platform;
        let tree = devel::plan_tree(top, &merged.files, claims, scope, platform)
            .with_context(|| format!("failed to plan `{dist}`"))?;
        Ok(Devel { family, tree, requires })
    }

    fn select_artifacts(&self, is_wanted: impl Fn(&ArtifactName) -> bool) -> Vec<&'a Artifact> {
        self.tree.artifacts.iter().filter(|artifact| is_wanted(&artifact.name)).collect()
    }

    /// Merges artifacts into one install tree.
    ///
    /// `counts` says which paths matter to the package. Collisions at other paths are ignored.
    fn merge_artifacts(
        &self,
        selected: &[&'a Artifact],
        counts: impl Fn(&RelPath) -> bool,
        notes: &mut Notes,
    ) -> Result<Merged<'a>> {
        let mut merged = artifact::merge(selected.iter().copied(), self.same)?;
        merged.files.retain(|path, owned| {
            // A symlink with an absolute target leads to a file of the machine that built it. It is
            // kept only if it stands for a library that some file of the artifacts is linked with.
            let is_left_out = owned.file.leads_to_the_host()
                && !self.needed.contains(path.file_name());
            if is_left_out && counts(path) {
                let artifact = &owned.artifact.name;
                notes.add(format!(
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
                OnCollision::Refuse => return Err(check::refuse_collision(collision)),
                OnCollision::Last => notes.add(format!("{collision}: used the last")),
            }
        }
        Ok(merged)
    }
}

impl Notes {
    /// Adds a note about a file, unless another package that takes the file has added it.
    fn add(&mut self, note: String) {
        if !self.0.contains(&note) {
            self.0.push(note);
        }
    }

    fn add_all(&mut self, notes: Self) {
        for note in notes.0 {
            self.add(note);
        }
    }
}

/// The `DT_NEEDED` entries of all ELF files of a tree.
fn collect_needed(tree: &ArtifactTree) -> BTreeSet<&str> {
    tree.artifacts
        .iter()
        .flat_map(|artifact| &artifact.files)
        .filter_map(|file| match &file.content {
            TreeContent::File(facts) => facts.elf.as_deref(),
            TreeContent::Directory | TreeContent::Link { .. } => None,
        })
        .flat_map(|elf| elf.needed.iter().map(AsRef::as_ref))
        .collect()
}

#[cfg(test)]
mod tests;
