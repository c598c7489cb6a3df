//! A whole build, from artifacts to packages, for the commands `build`, `pipeline` and `check`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use itertools::Itertools as _;

use crate::{
    artifact::{ArtifactTree, ensure_fit, same_content},
    console::{World, many},
    error::{Result, anyhow, hinted},
    index::Identity,
    package::{
        assemble::{self, MadeSet, Reuse},
        plan::{BuildPlan, MemberSource, PackagePlan},
        planner,
        request::BuildOptions,
        split_tree::SplitTree,
    },
    policy::{
        DistributionMode, Subset,
        catalog::{Catalog, PackageKind, PackageSpec},
        required_file::RequiredFile,
    },
    run::Provenance,
};

/// Which packages of a set to build.
#[derive(Clone, Debug)]
pub enum BuildSelection {
    All,
    /// The packages of these names, from all artifacts of the run.
    Named(Vec<String>),
    /// Some packages, from some artifacts of the run.
    Subset(Subset),
}

/// A build that is planned and not yet carried out.
pub struct Build<'a> {
    pub plan: BuildPlan,
    options: &'a BuildOptions,
    selection: &'a BuildSelection,
    tree: SplitTree<'a>,
}

impl<'a> Build<'a> {
    /// Plans the set, without writing anything. `make` will write archives of device code that it
    /// splits out of binaries below `dest`.
    pub fn plan(
        tree: &'a ArtifactTree,
        options: &'a BuildOptions,
        selection: &'a BuildSelection,
        dest: &Path,
        world: &World,
    ) -> Result<Self> {
        let (staging, jobs) = (dest.join("kpack.part"), options.settings.jobs);
        let tree = SplitTree::new(tree, options.kpack, &staging, jobs, world)?;
        let mut request = options.request(&tree.tree.therock_manifest()?)?;
        if let BuildSelection::Subset(subset) = selection {
            request.subset = Some(subset.clone());
        }
        if request.mode == DistributionMode::Split {
            ensure_fit(&tree.tree.artifacts, jobs, &world.stop)?;
        }
        let mut plan = planner::plan(&tree.tree, &request, &same_content)?;
        say(&plan, world);
        match selection {
            BuildSelection::All => {}
            BuildSelection::Named(names) => plan.keep(names)?,
            BuildSelection::Subset(subset) => plan.keep_subset(subset)?,
        }
        Ok(Self { plan, options, selection, tree })
    }

    /// Fails if the plan lacks a file that the Python code of its packages finds by name. The error
    /// names the artifacts that should have it.
    pub fn ensure_complete(&self) -> Result<()> {
        let (catalog, plan) = (&self.options.catalog, &self.plan);
        let mut missing = Vec::new();
        let mut of_kept = BTreeSet::new();
        for package in &plan.packages {
            let Some(spec) = catalog.get(&package.label.package) else {
                continue;
            };
            let (kept, broken) = required_files(spec, plan, package);
            of_kept.extend(kept.into_iter().filter_map(|it| Some(it.artifact?.name)));
            missing.extend(broken.into_iter().map(|it| Missing::file(it, plan, package)));
        }
        for one in &mut missing {
            one.suggest_artifact(&of_kept);
        }
        if matches!(self.selection, BuildSelection::All) {
            missing.extend(packages(catalog, plan));
        }
        if missing.is_empty() {
            return Ok(());
        }
        let names: BTreeSet<&str> = missing.iter().map(|one| one.without.as_str()).collect();
        let names = names.iter().join(",");
        Err(hinted(
            anyhow!("{}", sentence(&missing)),
            format!(
                "add the artifacts, or leave out on purpose what this run does not build: `--without {names}`"
            ),
        ))
    }

    /// Writes the packages to `{dest}/dist`.
    pub fn make(&self, dest: &Path, reuse: &Reuse, world: &World) -> Result<MadeSet> {
        let settings = &self.options.settings;
        let archives = self.tree.write(settings.jobs, world)?;
        let made = assemble::assemble(&self.plan, &dest.join("dist"), reuse, settings, world)?;
        Ok(MadeSet { _archives: archives, ..made })
    }

    /// What `set.json` says of the set: the run is the one that the artifacts were fetched from, or else the
    /// one that TheRock's manifest names.
    pub fn identity(&self, provenance: Provenance) -> Result<Identity> {
        let manifest = self.tree.tree.therock_manifest()?;
        let plan = &self.plan;
        let Provenance { run_id, foreign_code } = provenance;
        let foreign = foreign_code.as_ref();
        let foreign_run = foreign.map(|code| code.run_id.clone());
        Ok(Identity {
            repository: foreign.map(|code| code.repository.clone()),
            run_id: foreign_run.or(run_id).or(manifest.run_id),
            run_attempt: None,
            platform: Some(plan.platform),
            commit: manifest.commit,
            version: Some(plan.version.clone()),
            targets: plan.targets.clone(),
            promoted_from: None,
            foreign_code,
            without: plan.without.clone(),
            unshipped: plan.unshipped.clone(),
            not_in_run: plan.not_in_run.clone(),
        })
    }
}

fn say(plan: &BuildPlan, world: &World) {
    for note in &plan.notes {
        world.console.note(note);
    }
    let form = match plan.mode {
        DistributionMode::Split => "with split device code",
        DistributionMode::Legacy => "with fat libraries",
    };
    let packages = many(plan.packages.len(), "package");
    let (version, platform) = (&plan.version, plan.platform);
    let facts = format!("{packages} of ROCm {version} for {platform}, {form}");
    world.console.status("Planned", facts);
}

/// Something that a plan lacks, and the `--without` argument that accepts that.
struct Missing {
    what: String,
    /// The artifact that should have it.
    artifact: Option<String>,
    /// The name of this artifact, in all its components.
    project: Option<String>,
    without: String,
}

impl Missing {
    fn file(file: RequiredFile, plan: &BuildPlan, package: &PackagePlan) -> Self {
        let scope = match &package.label.scope {
            Some(scope) if plan.mode == DistributionMode::Legacy => scope.to_string(),
            _ => "generic".to_owned(),
        };
        let artifact = file.artifact.as_ref();
        Self {
            what: file.to_string(),
            artifact: artifact.map(|part| format!("{part}_{scope}")),
            without: file.name().to_owned(),
            project: file.artifact.map(|part| part.name),
        }
    }

    /// Suggests the whole artifact for `--without`, but only if the set has nothing else of it: without the
    /// headers of HIP its runtime is of use.
    fn suggest_artifact(&mut self, of_kept: &BTreeSet<String>) {
        if let Some(project) = self.project.take_if(|it| !of_kept.contains(it)) {
            self.without = project;
        }
    }
}

/// The required files that a package has, and those that it lacks.
fn required_files(
    spec: &PackageSpec,
    plan: &BuildPlan,
    package: &PackagePlan,
) -> (Vec<RequiredFile>, Vec<RequiredFile>) {
    let paths = paths(package);
    let is_kept = |file: &RequiredFile| paths.iter().any(|path| file.pattern.matches(path));
    spec.required_files(plan.platform).into_iter().partition(is_kept)
}

/// Paths of a wheel's files, relative to the directory of the package, or to the root of the SDK
/// tree.
fn paths(package: &PackagePlan) -> Vec<&str> {
    let mut paths = Vec::new();
    for (path, member) in &package.members {
        match member {
            MemberSource::Sdk(tree, _) => {
                paths.extend(tree.ordered().iter().map(|(path, _)| path.as_str()));
            }
            _ => paths.extend(path.as_str().split_once('/').map(|(_, below)| below)),
        }
    }
    paths
}

/// Optional packages of the policy that the plan lacks.
fn packages(catalog: &Catalog, plan: &BuildPlan) -> Vec<Missing> {
    let has = |name: &str| plan.packages.iter().any(|it| it.label.package == name);
    let missing = catalog.packages().iter().filter(|package| {
        matches!(package.kind, PackageKind::Runtime | PackageKind::Devel)
            && package.is_made_for(plan.platform)
            && !has(&package.name)
    });
    let missing = missing.map(|package| Missing {
        what: format!("package `{}` (`{}`)", package.name, package.artifacts().join("`, `")),
        artifact: None,
        project: None,
        without: package.name.clone(),
    });
    missing.collect()
}

/// The error message: `` `a` and 2 more are missing: artifact `x` has them; … ``.
fn sentence(missing: &[Missing]) -> String {
    let mut by_artifact: BTreeMap<&Option<String>, Vec<&str>> = BTreeMap::new();
    for one in missing {
        let of_it = by_artifact.entry(&one.artifact).or_default();
        of_it.push(&one.what);
    }
    let clauses = by_artifact.into_iter().map(|(artifact, what)| {
        let (more, them) = match what.len() - 1 {
            0 => (" is".to_owned(), "it"),
            more => (format!(" and {more} more are"), "them"),
        };
        let artifact = artifact.as_ref();
        let artifact = artifact.map(|name| format!(": artifact `{name}` has {them}"));
        format!("{}{more} missing{}", what[0], artifact.unwrap_or_default())
    });
    clauses.collect::<Vec<_>>().join("; ")
}
