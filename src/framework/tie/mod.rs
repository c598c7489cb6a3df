//! `framework tie`: binds wheels to one set of ROCm packages.
//!
//! [`decide`] makes a plan for each wheel, or refuses and lists every reason; [`write`] writes the wheels, and
//! [`verify`] reads them back. A wheel that is tied to the same set again does not change. Promotion ties
//! wheels to another set: then metadata and module change, and binaries do not if both sets have the same
//! directories.

mod binaries;
mod bundle;
mod device;
mod module;
mod plan;
mod requirements;
mod version;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr,
};

use derive_more::Display;
use itertools::Itertools as _;

use super::{
    facts::{self, NotForSet},
    policy::{FrameworkSpec, Frameworks, RocmDirectoryKey},
    providers::Providers,
    read::FrameworkWheel,
    refusal::{RefusalKind, WheelRefusal},
    rocm::RocmLibraries,
};
use rocwheel_base::{
    error::{Context as _, Error, Result},
    quantity::many,
    version::Version,
};
use rocwheel_wheel::DistName;

use self::binaries::UnmetNeeds;
pub use self::{
    bundle::{BundleRequest, RocmBundle},
    plan::{TiePlan, TieRecord},
    write::{verify, write},
};
pub(super) use self::{
    version::{result, version_files, version_of},
    write::change_binary,
};

/// How a requirement names the version of ROCm.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, clap::ValueEnum)]
#[display(rename_all = "lowercase")]
pub enum VersionPin {
    /// `==7.14.0`
    Exact,
    /// `==7.14.*`
    Minor,
    /// Nothing
    None,
}

/// What happens to the version of a wheel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VersionSuffix {
    #[default]
    Keep,
    None,
    /// The suffix of the set: `+rocm7.14.0`.
    Set,
    /// The suffix of the set, if the version of the wheel names ROCm.
    Named,
    /// This suffix.
    Text(String),
}

impl FromStr for VersionSuffix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "keep" => Self::Keep,
            "none" => Self::None,
            "set" => Self::Set,
            text => {
                let version: Version = format!("1+{}", text.trim_start_matches('+')).parse()?;
                Self::Text(version.to_string().trim_start_matches("1+").to_owned())
            }
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum InitMode {
    /// Write the module where a hook imports it
    #[default]
    Auto,
    /// Also add the hook
    Add,
    /// Leave Python alone
    None,
}

/// How to tie.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TieOptions {
    /// Which ROCm to require: this version, its patch releases, or none [default: minor for final
    /// releases, else exact]. Another version warns when the framework is imported
    #[arg(long, value_name = "PIN", help_heading = "Requirement options")]
    pub requires: Option<VersionPin>,
    /// Extras of `rocm` to require besides `libraries`, which follows from the binaries
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Requirement options")]
    pub extras: Vec<String>,
    /// Whether to write `_rocm_init.py` and the hook in `__init__.py` that calls it
    #[arg(long, value_name = "MODE", default_value = "auto", help_heading = "Init module options")]
    pub init: InitMode,
    /// Further libraries that every host has, by file name, comma-separated
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Binary options")]
    pub host_provides: Vec<String>,
    /// What happens to the version.
    #[arg(skip)]
    pub suffix: VersionSuffix,
}

/// Wheels that are tied together, and the set that they are tied to.
struct Group<'a> {
    wheels: &'a [FrameworkWheel],
    rocm: &'a RocmLibraries,
    providers: &'a Providers<'a>,
    options: &'a TieOptions,
    /// The versions that the wheels will have.
    versions: BTreeMap<DistName, Version>,
    /// The ROCm packages that join the wheels of one project.
    bundle: Option<RocmBundle>,
}

/// One wheel on the way to its plan: what is known of it, and the plan as far as it is made.
struct Tie<'a> {
    group: &'a Group<'a>,
    wheel: &'a FrameworkWheel,
    row: Option<&'a FrameworkSpec>,
    /// What an earlier tie has left.
    earlier: Option<TieRecord>,
    needs: Needs,
    unmet: UnmetNeeds,
    plan: TiePlan,
    refusals: Vec<WheelRefusal>,
}

/// What the binaries of a wheel need.
#[derive(Debug, Default)]
struct Needs {
    libraries: BTreeSet<String>,
    /// The directories of the set with these libraries.
    directories: BTreeSet<RocmDirectoryKey>,
    /// The libraries of the set that are opened by name.
    opened: BTreeSet<String>,
    /// The other frameworks whose libraries are needed.
    neighbours: BTreeSet<DistName>,
}

/// Makes a plan for each wheel, or refuses and lists every reason. With `bundle`, the first wheel gets the files of ROCm.
pub fn decide(
    wheels: &[FrameworkWheel],
    rocm: &RocmLibraries,
    policy: &Frameworks,
    options: &TieOptions,
    bundle: Option<BundleRequest<'_>>,
) -> Result<Vec<TiePlan>> {
    ensure_without_rocm(wheels)?;
    let mut versions = BTreeMap::new();
    for wheel in wheels {
        let (version, _) =
            version_of(wheel, policy.of(&wheel.name.name), &options.suffix, Some(&rocm.version))?;
        versions.insert(wheel.name.name.clone(), version);
    }
    let mut group = Group {
        versions,
        bundle: None,
        providers: &Providers::new(wheels, Some(rocm), policy, &options.host_provides),
        wheels,
        rocm,
        options,
    };
    group.bundle = bundle.map(|request| group.choose_bundle(request)).transpose()?;
    let group = group;
    // Device wheels get the version and the tag of their host wheels, which are planned before them.
    let (devices, others): (Vec<_>, Vec<_>) = (0..wheels.len())
        .map(|index| (index, group.host_of(&wheels[index])))
        .partition(|(_, host)| host.is_some());
    // By the index of the wheel, so that the plans have the order of the wheels.
    let mut plans: BTreeMap<usize, TiePlan> = BTreeMap::new();
    let mut refusals = Vec::new();
    for (index, host) in others.into_iter().chain(devices) {
        let wheel = &wheels[index];
        let host_with_plan = host.and_then(|host| Some((&wheels[host], plans.get(&host)?)));
        let planned = match host_with_plan {
            Some((host, host_plan)) => group.plan_device_wheel(wheel, host, host_plan),
            None => Tie::new(&group, wheel).and_then(Tie::plan),
        };
        let (plan, mut refused) =
            planned.with_context(|| format!("failed to plan `{}`", wheel.name))?;
        // Each wheel of the group is installed beside the files, not only the wheel that they join.
        if let Some(conflict) = group.bundle.as_ref().and_then(|bundle| bundle.conflict(wheel)) {
            let hint = "build the wheel without files of ROCm";
            refused.push(WheelRefusal::new(RefusalKind::Grafted, conflict, hint));
        }
        if plans.values().any(|other| other.result == plan.result) {
            refused.push(WheelRefusal::new(
                RefusalKind::NameClash,
                format!("another wheel of the group becomes `{}` too", plan.result),
                "tie them one after the other into different directories",
            ));
        }
        refusals.extend(refused.into_iter().map(|refusal| refusal.in_wheel(wheel)));
        plans.insert(index, plan);
    }
    WheelRefusal::ensure_none("tied", &refusals)?;
    Ok(plans.into_values().collect())
}

/// Refuses wheels that have ROCm in them already. What they were made from can be tied.
fn ensure_without_rocm(wheels: &[FrameworkWheel]) -> Result<()> {
    let mut refusals = Vec::new();
    for wheel in wheels {
        let bundles = TieRecord::read(wheel)?.map(|record| record.bundles).unwrap_or_default();
        if bundles.is_empty() {
            continue;
        }
        let packages = many(bundles.len(), "package");
        let refusal = WheelRefusal::new(
            RefusalKind::Bundled,
            format!("it has {packages} of ROCm in it already"),
            "name the wheel that it was made from",
        );
        refusals.push(refusal.in_wheel(wheel));
    }
    WheelRefusal::ensure_none("tied", &refusals)
}

impl<'a> Tie<'a> {
    fn new(group: &'a Group<'a>, wheel: &'a FrameworkWheel) -> Result<Self> {
        Ok(Self {
            row: group.providers.policy.of(&wheel.name.name),
            earlier: TieRecord::read(wheel)?,
            needs: Needs::default(),
            unmet: UnmetNeeds::default(),
            plan: TiePlan::new(wheel, group.rocm),
            refusals: WheelRefusal::of_damage(wheel),
            group,
            wheel,
        })
    }

    fn plan(mut self) -> Result<(TiePlan, Vec<WheelRefusal>)> {
        let wheel = self.wheel;
        let row = self.row;
        let options = self.group.options;
        // `--extras` says that a wheel uses ROCm, and no flag says that it runs on another platform. Any further
        // refusal would have a hint that does not help.
        if let Some(mismatch) = facts::other_platform(wheel, self.group.rocm) {
            self.refuse(RefusalKind::OtherPlatform, mismatch.reason, mismatch.remedy);
            return Ok((self.plan, self.refusals));
        }
        self.warn_of_other_rocm();
        self.plan_binaries()?;
        let runs_rocm = row.is_some_and(|row| row.runs_rocm || !row.extras.is_empty());
        let is_used = !self.plan.record.run_paths.is_empty() || runs_rocm;
        // With another refusal the user already knows why nothing is tied.
        if !is_used && self.refusals.is_empty() {
            let group = self.group;
            let mismatch = facts::not_for_set(wheel, group.providers, group.rocm)
                .or_else(|| facts::other_build(wheel, group.providers.policy, group.rocm));
            // `--extras` says that Python uses ROCm, and no flag says that a build for something else does.
            if options.extras.is_empty() || mismatch.is_some() {
                self.refuse_nothing_to_tie(mismatch);
            }
        }
        self.plan_requirements()?;
        self.plan_init_module()?;
        self.plan_bundle()?;
        let rocm_version = &self.group.rocm.version;
        let (version, suffix) = version_of(wheel, row, &options.suffix, Some(rocm_version))?;
        let files = version_files(wheel, row, &version, &mut self.refusals)?;
        let tag = self.choose_tag()?;
        let plan = &mut self.plan;
        plan.texts.extend(files.into_iter().map(|(path, text)| (path, text.into_bytes())));
        plan.result = result(wheel, &version, &tag);
        plan.record.requires = plan.requires.iter().map(|it| it.line.clone()).collect();
        plan.record.version_suffix = suffix;
        plan.finish(wheel, &tag)?;
        let path = format!("{}/{}", plan.dist_info(wheel), TieRecord::FILE);
        plan.texts.insert(path, plan.record.render()?.into());
        Ok((self.plan, self.refusals))
    }

    /// Plans that the files of ROCm join the wheel.
    fn plan_bundle(&mut self) -> Result<()> {
        let Some(bundle) = self.group.bundle_of(self.wheel) else {
            return Ok(());
        };
        let packages = bundle.packages.iter().map(|package| package.file.clone());
        self.plan.record.bundles = packages.collect();
        self.plan.record.bundled_files = Some(bundle.digest()?);
        self.plan.notes.extend(bundle.note_for_pypi(self.wheel));
        self.plan.bundle = Some(bundle.clone());
        Ok(())
    }

    fn refuse(&mut self, kind: RefusalKind, message: String, hint: &'static str) {
        self.refusals.push(WheelRefusal::new(kind, message, hint));
    }

    fn warn(&mut self, warning: impl Into<String>) {
        self.plan.warnings.push(warning.into());
    }

    /// Refuses a wheel with nothing to tie. `--extras` is proposed only if nothing in the wheel says that it is for
    /// something else.
    fn refuse_nothing_to_tie(&mut self, mismatch: Option<NotForSet>) {
        let targets = facts::device_files(self.wheel).into_keys().join(", ");
        let what = match self.plan.binaries {
            0 if targets.is_empty() => "it has no binaries".to_owned(),
            0 => format!("it has device code only ({targets}), and no library"),
            1 => "its only binary needs no library of the set".to_owned(),
            count => format!("none of its {count} binaries needs a library of the set"),
        };
        let (why, hint) = match mismatch {
            Some(mismatch) => (format!("{what}: {}", mismatch.reason), mismatch.remedy),
            None => (
                what,
                "pass `--extras` if its Python uses ROCm, or check that it is the right wheel",
            ),
        };
        self.refuse(RefusalKind::NothingToTie, why, hint);
    }

    /// Warns of a version that names another ROCm and is kept.
    fn warn_of_other_rocm(&mut self) {
        if self.group.options.suffix != VersionSuffix::Keep {
            return;
        }
        let set = super::version::suffix(&self.group.rocm.version, self.row).replace('-', ".");
        let wheel = super::version::rocm_part(&self.wheel.name.version);
        if wheel.is_some_and(|wheel| wheel != set) {
            self.warn("its version names another ROCm: pass `--version-suffix set`");
        }
    }
}
