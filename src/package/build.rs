//! A whole build, from artifacts to packages, for the commands `build`, `pipeline` and `check`.

use std::path::Path;

use crate::{
    artifact::{ArtifactTree, TherockManifest, ensure_fit, same_content},
    console::{World, many},
    error::Result,
    package::{
        DistributionMode, Subset,
        assemble::{self, Existing, MadePackage},
        complete::{self, PlanExtent},
        options::BuildOptions,
        plan::BuildPlan,
        planner,
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

    /// Fails if the plan lacks a file that the Python code of its packages finds by name.
    pub fn ensure_complete(&self) -> Result<()> {
        let extent = match self.selection {
            BuildSelection::All => PlanExtent::Whole,
            BuildSelection::Named(_) | BuildSelection::Subset(_) => PlanExtent::Part,
        };
        complete::check(&self.options.catalog, &self.plan, extent)
    }

    /// Writes the packages to `{dest}/dist`.
    pub fn make(&self, dest: &Path, existing: Existing, world: &World) -> Result<Vec<MadePackage>> {
        let settings = &self.options.settings;
        // Dropping this removes the archives.
        let _archives = self.tree.write(settings.jobs, world)?;
        assemble::assemble(&self.plan, &dest.join("dist"), existing, settings, world)
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
