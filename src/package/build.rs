//! A whole build, from artifacts to packages, for the commands `build`, `pipeline` and `check`.

use std::{num::NonZeroUsize, path::Path};

use crate::{
    artifact::{ArtifactTree, TherockManifest, ensure_fit, same_content},
    console::{World, many},
    error::{Context as _, Hint as _, Result},
    package::{
        Catalog, DistributionMode, ImportSuffix, OnCollision, PublicationName, Request,
        SdkTreePacking, Subset,
        assemble::{self, AssembleSettings, Existing, MadePackage},
        complete::{self, PlanExtent},
        plan::BuildPlan,
        planner,
        split_tree::{Kpack, SplitTree},
    },
    run::Platform,
    target::Target,
    version::Version,
    wheel::{Tag, WheelCompression},
};

/// 1980-01-01 in seconds since 1970: the earliest timestamp of the ZIP format (APPNOTE 6.3, MS-DOS
/// date).
pub const FIRST_DAY: u64 = 315_532_800;

/// How to build a set, independent of its artifacts.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    pub catalog: Catalog,
    /// `None` for the version in the build's manifest.
    pub version: Option<Version>,
    pub suffix: ImportSuffix,
    pub platform: Platform,
    /// The targets whose extras `rocm` offers on Linux; `None` if they were not given.
    pub linux: Option<Vec<Target>>,
    /// The targets whose extras `rocm` offers on Windows; `None` if they were not given.
    pub windows: Option<Vec<Target>>,
    /// The tag of the wheels: `py3-none-linux_x86_64`.
    pub tag: Tag,
    pub on_collision: OnCollision,
    pub kpack: Kpack,
    pub devel_packing: SdkTreePacking,
    pub settings: AssembleSettings,
}

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

impl BuildOptions {
    /// The defaults.
    pub fn new(platform: Platform, jobs: NonZeroUsize) -> Result<Self> {
        Ok(Self {
            catalog: Catalog::built_in()?,
            version: None,
            suffix: ImportSuffix::default(),
            platform,
            linux: None,
            windows: None,
            tag: format!("py3-none-{}", platform.wheel_tag()).parse()?,
            on_collision: OnCollision::default(),
            kpack: Kpack::default(),
            devel_packing: SdkTreePacking::default(),
            settings: AssembleSettings {
                time: FIRST_DAY,
                compression: WheelCompression::default(),
                jobs,
            },
        })
    }

    /// The request for a plan. What the options do not say comes from the build's manifest.
    pub fn request(&self, manifest: &TherockManifest) -> Result<Request> {
        let version = match self.version.clone() {
            Some(version) => version,
            None => version_of(manifest)?,
        };
        Ok(Request {
            release: PublicationName {
                version,
                suffix: self.suffix.clone(),
            },
            mode: if manifest.kpack_split || self.kpack == Kpack::Split {
                DistributionMode::Split
            } else {
                DistributionMode::Legacy
            },
            platform: self.platform,
            linux: self.linux.clone(),
            windows: self.windows.clone(),
            tag: self.tag.clone(),
            on_collision: self.on_collision,
            devel_packing: self.devel_packing,
            subset: None,
        })
    }
}

fn version_of(manifest: &TherockManifest) -> Result<Version> {
    let text = manifest.package_version.as_deref();
    let version = text
        .context("no artifact says the version: `rocm_package_version` in `therock_manifest.json`")
        .hint("pass `--version`")?;
    version
        .parse()
        .with_context(|| format!("failed to read the version of the build: {version}"))
        .hint("pass `--version`")
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
        let mut plan = planner::plan(&options.catalog, &tree.tree, &request, &same_content)?;
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
    let packages = many(plan.wheels.len() + plan.sdists.len(), "package");
    let (version, platform) = (&plan.version, plan.platform);
    let facts = format!("{packages} of ROCm {version} for {platform}, {form}");
    world.console.status("Planned", facts);
}
