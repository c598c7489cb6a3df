//! A whole build, from artifacts to packages, for the commands `build`, `pipeline` and `check`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use itertools::Itertools as _;

use crate::{
    artifact::{ArtifactTree, TherockManifest, ensure_fit, same_content},
    console::{World, many},
    error::{Result, anyhow, hinted},
    package::{
        DistributionMode, Subset,
        assemble::{self, MadeSet, Reuse},
        catalog::{Catalog, PackageKind, PackageSpec},
        plan::{BuildPlan, MemberSource, PackagePlan},
        planner,
        request::BuildOptions,
        required_file::RequiredFile,
        split_tree::SplitTree,
    },
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
            BuildSelection::Subset(subset) => subset.keep(&mut plan)?,
        }
        Ok(Self {
            plan,
            options,
            selection,
            tree,
        })
    }

    /// Fails if the plan lacks a file that the Python code of its packages finds by name. The error
    /// names the artifacts that should have it.
    pub fn ensure_complete(&self) -> Result<()> {
        let (catalog, plan) = (&self.options.catalog, &self.plan);
        let mut missing = Vec::new();
        for package in &plan.packages {
            let spec = catalog.get(&package.label.package);
            missing.extend(
                spec.into_iter()
                    .flat_map(|spec| in_package(spec, plan, package)),
            );
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
        Ok(MadeSet {
            _archives: archives,
            ..made
        })
    }

    /// The manifest that the build of TheRock wrote.
    pub fn manifest(&self) -> Result<TherockManifest> {
        self.tree.tree.therock_manifest()
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
    without: String,
}

/// What a package lacks of its required files.
fn in_package(spec: &PackageSpec, plan: &BuildPlan, package: &PackagePlan) -> Vec<Missing> {
    let paths = paths(package);
    let is_kept = |file: &RequiredFile| paths.iter().any(|path| file.pattern.matches(path));
    let required_files = spec.required_files(plan.platform).into_iter();
    let (kept, broken): (Vec<_>, Vec<_>) = required_files.partition(is_kept);
    let of_kept: BTreeSet<&str> = kept
        .iter()
        .filter_map(|file| Some(&*file.artifact.as_ref()?.name))
        .collect();
    let scope = match &package.label.scope {
        Some(scope) if plan.mode == DistributionMode::Legacy => scope.to_string(),
        _ => "generic".to_owned(),
    };
    let missing = broken.into_iter().map(|file| {
        let artifact = file.artifact.as_ref();
        // Suggest the whole artifact for `--without` only if the wheel has nothing else of it.
        let whole = artifact.filter(|part| !of_kept.contains(&*part.name));
        Missing {
            what: file.to_string(),
            artifact: artifact.map(|part| format!("{part}_{scope}")),
            without: whole.map_or(file.name(), |part| &part.name).to_owned(),
        }
    });
    missing.collect()
}

/// Paths of a wheel's files, relative to the directory of the package, or to the root of the SDK
/// tree.
fn paths(package: &PackagePlan) -> Vec<&str> {
    let mut paths = Vec::new();
    for (path, member) in package.members.iter() {
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
        what: format!(
            "package `{}` (`{}`)",
            package.name,
            package.artifacts().join("`, `")
        ),
        artifact: None,
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
