//! A whole build, from artifacts to packages, for the commands `build`, `pipeline` and `check`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use itertools::Itertools as _;

use crate::{
    artifact::{ArtifactTree, ensure_fit, same_content},
    console::World,
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
use rocwheel_base::{
    error::{Result, anyhow, hinted},
    quantity::many,
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
    /// Plans the set, without writing anything. [`make`](Self::make) will write the archives of device code
    /// that it splits out of binaries below `dest`.
    pub fn plan(
        tree: &'a ArtifactTree,
        options: &'a BuildOptions,
        selection: &'a BuildSelection,
        dest: &Path,
        world: &World,
    ) -> Result<Self> {
        let staging = dest.join("kpack.part");
        let jobs = options.settings.jobs;
        let tree = SplitTree::new(tree, options.kpack, &staging, jobs, world)?;
        let mut request = options.request(&tree.tree.therock_manifest()?)?;
        if let BuildSelection::Subset(subset) = selection {
            request.subset = Some(subset.clone());
        }
        if request.mode == DistributionMode::Split {
            ensure_fit(&tree.tree.artifacts, jobs, &world.stop)?;
        }
        let mut plan = planner::plan(&tree.tree, &request, &same_content)?;
        print_summary(&plan, world);
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
        let catalog = &self.options.catalog;
        let plan = &self.plan;
        let mut missing = Vec::new();
        let mut present_artifacts = BTreeSet::new();
        for package in &plan.packages {
            let Some(spec) = catalog.get(&package.label.package) else {
                continue;
            };
            let required = RequiredFiles::find(spec, plan, package);
            present_artifacts
                .extend(required.present.into_iter().filter_map(|file| Some(file.artifact?.name)));
            let missing_files = required.missing.into_iter();
            missing.extend(missing_files.map(|file| MissingPart::of_file(file, plan, package)));
        }
        for part in &mut missing {
            part.suggest_artifact(&present_artifacts);
        }
        // A build of some packages leaves out the others on purpose.
        if matches!(self.selection, BuildSelection::All) {
            missing.extend(find_missing_packages(catalog, plan));
        }
        if missing.is_empty() {
            return Ok(());
        }
        let names: BTreeSet<_> = missing.iter().map(|part| &part.without).collect();
        let without = names.into_iter().join(",");
        Err(hinted(
            anyhow!("{}", describe_missing(&missing)),
            format!(
                "add the artifacts, or leave out on purpose what this run does not build: `--without {without}`"
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
        let foreign_run = foreign_code.as_ref().map(|code| code.run_id.clone());
        Ok(Identity {
            repository: foreign_code.as_ref().map(|code| code.repository.clone()),
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

/// Prints the notes of a plan, and how many packages it has.
fn print_summary(plan: &BuildPlan, world: &World) {
    world.console.first_notes(&plan.notes);
    let form = match plan.mode {
        DistributionMode::Split => "with split device code",
        DistributionMode::Legacy => "with fat libraries",
    };
    let packages = many(plan.packages.len(), "package");
    let BuildPlan { version, platform, .. } = plan;
    world.console.status("Planned", format!("{packages} of ROCm {version} for {platform}, {form}"));
}

/// A file or a package that a plan lacks.
struct MissingPart {
    /// What the error calls it.
    title: String,
    /// The artifact that should have it.
    artifact: Option<String>,
    /// The name of this artifact, in all its components.
    project: Option<String>,
    /// The argument of `--without` that accepts that it is missing.
    without: String,
}

impl MissingPart {
    fn of_file(file: RequiredFile, plan: &BuildPlan, package: &PackagePlan) -> Self {
        // In a legacy set, the artifacts of a family have the files of its packages.
        let scope = match &package.label.scope {
            Some(scope) if plan.mode == DistributionMode::Legacy => scope.to_string(),
            _ => "generic".to_owned(),
        };
        Self {
            title: file.to_string(),
            artifact: file.artifact.as_ref().map(|part| format!("{part}_{scope}")),
            without: file.name().to_owned(),
            project: file.artifact.map(|part| part.name),
        }
    }

    /// Suggests the whole artifact for `--without`, but only if the set has no other file of this artifact:
    /// without the headers of HIP its runtime is of use.
    fn suggest_artifact(&mut self, present_artifacts: &BTreeSet<String>) {
        if let Some(project) = self.project.take_if(|it| !present_artifacts.contains(it)) {
            self.without = project;
        }
    }
}

/// The files that the Python code of a package finds by name.
struct RequiredFiles {
    present: Vec<RequiredFile>,
    missing: Vec<RequiredFile>,
}

impl RequiredFiles {
    fn find(spec: &PackageSpec, plan: &BuildPlan, package: &PackagePlan) -> Self {
        let paths = list_paths(package);
        let is_present = |file: &RequiredFile| paths.iter().any(|path| file.pattern.matches(path));
        let (present, missing) =
            spec.required_files(plan.platform).into_iter().partition(is_present);
        Self { present, missing }
    }
}

/// Paths of a wheel's files, relative to the directory of the package, or to the root of the SDK
/// tree.
fn list_paths(package: &PackagePlan) -> Vec<&str> {
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

/// Finds optional packages of the policy that the plan lacks.
fn find_missing_packages(catalog: &Catalog, plan: &BuildPlan) -> Vec<MissingPart> {
    let is_planned = |name: &str| plan.packages.iter().any(|it| it.label.package == name);
    catalog
        .packages()
        .iter()
        .filter(|package| {
            matches!(package.kind, PackageKind::Runtime | PackageKind::Devel)
                && package.is_made_for(plan.platform)
                && !is_planned(&package.name)
        })
        .map(|package| MissingPart {
            title: format!("package `{}` (`{}`)", package.name, package.artifacts().join("`, `")),
            artifact: None,
            project: None,
            without: package.name.clone(),
        })
        .collect()
}

/// The error message: `` `a` and 2 more are missing: artifact `x` has them; … ``.
fn describe_missing(missing: &[MissingPart]) -> String {
    let mut titles_by_artifact: BTreeMap<&Option<String>, Vec<&str>> = BTreeMap::new();
    for part in missing {
        titles_by_artifact.entry(&part.artifact).or_default().push(&part.title);
    }
    let clauses = titles_by_artifact.into_iter().map(|(artifact, titles)| {
        let (are, them) = match titles.len() - 1 {
            0 => (" is".to_owned(), "it"),
            more => (format!(" and {more} more are"), "them"),
        };
        let source = match artifact {
            Some(name) => format!(": artifact `{name}` has {them}"),
            None => String::new(),
        };
        format!("{}{are} missing{source}", titles[0])
    });
    clauses.collect::<Vec<_>>().join("; ")
}
