//! `framework tie`: binds wheels to one set of ROCm packages.
//!
//! [`decide`] makes a plan for each wheel or says all that is in the way, [`write`] writes them, and
//! [`verify`] reads them back. To tie a tied wheel to the same set changes nothing, and to another one is
//! what promotion needs: metadata and module change, and binaries do not if both sets have the same
//! directories.

mod binaries;
mod device;
mod module;
mod plan;
mod requirements;
mod verify;
mod version;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use derive_more::Display;

use self::module::TiedModule;
use super::{
    facts,
    policy::{FrameworkSpec, Frameworks, RocmDirectoryKey},
    providers::Providers,
    read::FrameworkWheel,
    refusal::{RefusalKind, WheelRefusal},
    rocm::RocmLibraries,
};
use crate::{
    error::{Context as _, Result},
    glob::Glob,
    version::Version,
    wheel::DistName,
};

pub use self::{
    plan::{TiePlan, TieRecord},
    verify::verify,
    write::{write, write_all},
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
    /// That of the set: `+rocm7.14.0`.
    Set,
    /// That of the set, if the version names ROCm.
    Named,
    Text(String),
}

impl std::str::FromStr for VersionSuffix {
    type Err = crate::error::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "keep" => Self::Keep,
            "none" => Self::None,
            "set" => Self::Set,
            text => {
                let version: crate::version::Version =
                    format!("1+{}", text.trim_start_matches('+')).parse()?;
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

/// Which platform tag a tied wheel gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TagChoice {
    /// The one that it has if its symbols prove it, else the one that they prove.
    #[default]
    Auto,
    Keep,
    Platform(String),
}

impl std::str::FromStr for TagChoice {
    type Err = crate::error::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "auto" => Self::Auto,
            "keep" => Self::Keep,
            text => {
                let tag: crate::wheel::Tag = format!("py3-none-{text}").parse()?;
                Self::Platform(tag.platform().to_owned())
            }
        })
    }
}

/// How to tie.
#[derive(Clone, Debug, Default)]
pub struct TieOptions {
    /// `None`: exact for sets that are no final release, minor for others.
    pub requires: Option<VersionPin>,
    /// Extras of `rocm` besides those that follow from the libraries.
    pub extras: Vec<String>,
    /// Whether the wheel offers the extras of `rocm` for device code.
    pub device_extras: bool,
    pub suffix: VersionSuffix,
    pub init: InitMode,
    /// The libraries that the module loads, by short names. `None` if the binaries say it.
    pub preload: Option<Vec<String>>,
    pub check_version: Option<VersionPin>,
    pub fail_on_version_mismatch: bool,
    pub keep_run_paths: bool,
    pub tag: TagChoice,
    /// Further libraries that every host is said to have.
    pub host: Vec<String>,
    /// Which binaries are tied. All if this is empty.
    pub only: Vec<Glob>,
}

/// One wheel on the way to its plan: what is known of it, and the plan as far as it is made.
struct Tie<'a> {
    wheel: &'a FrameworkWheel,
    row: Option<&'a FrameworkSpec>,
    rocm: &'a RocmLibraries,
    policy: &'a Frameworks,
    providers: &'a Providers<'a>,
    options: &'a TieOptions,
    /// The versions that the wheels of the group will have.
    group: &'a BTreeMap<DistName, Version>,
    module: TiedModule,
    /// What an earlier tie has left.
    earlier: Option<TieRecord>,
    needs: Needs,
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

/// A plan for each wheel, or an error with everything that is in the way.
pub fn decide(
    wheels: &[FrameworkWheel],
    rocm: &RocmLibraries,
    policy: &Frameworks,
    options: &TieOptions,
) -> Result<Vec<TiePlan>> {
    let providers = Providers::new(wheels, Some(rocm), policy, &options.host);
    let versions = wheels.iter().map(|wheel| {
        let (version, _) = version_of(wheel, &options.suffix, Some(&rocm.version))?;
        Ok((wheel.name.name.clone(), version))
    });
    let group: BTreeMap<DistName, Version> = versions.collect::<Result<_>>()?;
    let mut plans: BTreeMap<usize, TiePlan> = BTreeMap::new();
    let mut refusals: Vec<WheelRefusal> = Vec::new();
    let hosted = wheels.iter().map(|it| (it, device::host_of(it, wheels)));
    // Device wheels get the version and the tag of their host wheels, which are planned before them.
    let (devices, others): (Vec<_>, Vec<_>) = hosted
        .enumerate()
        .partition(|(_, (_, host))| host.is_some());
    for (index, (wheel, host)) in others.into_iter().chain(devices) {
        let tied = host.and_then(|host| {
            let at = wheels.iter().position(|it| std::ptr::eq(it, host))?;
            Some((host, plans.get(&at)?))
        });
        let planned = match tied {
            Some((host, tied)) => device::plan(wheel, host, tied, &providers, rocm),
            None => Tie::new(wheel, rocm, policy, &providers, options, &group).and_then(Tie::plan),
        };
        let (plan, mut refused) =
            planned.with_context(|| format!("failed to plan `{}`", wheel.name))?;
        if plans.values().any(|it| it.result == plan.result) {
            refused.push(WheelRefusal::new(
                RefusalKind::NameClash,
                format!("another wheel of the group becomes `{}` too", plan.result),
                "tie them one after the other into different directories",
            ));
        }
        refusals.extend(refused.into_iter().map(|it| it.in_wheel(wheel)));
        plans.insert(index, plan);
    }
    if refusals.is_empty() {
        Ok(plans.into_values().collect())
    } else {
        Err(WheelRefusal::all("tied", &refusals))
    }
}

impl<'a> Tie<'a> {
    fn new(
        wheel: &'a FrameworkWheel,
        rocm: &'a RocmLibraries,
        policy: &'a Frameworks,
        providers: &'a Providers<'a>,
        options: &'a TieOptions,
        group: &'a BTreeMap<DistName, Version>,
    ) -> Result<Self> {
        let row = policy.of(&wheel.name.name);
        Ok(Self {
            wheel,
            row,
            rocm,
            policy,
            providers,
            options,
            group,
            module: TiedModule::read(wheel, policy)?,
            earlier: TieRecord::read(wheel)?,
            needs: Needs::default(),
            plan: TiePlan::new(wheel, rocm),
            refusals: WheelRefusal::of_damage(wheel),
        })
    }

    fn plan(mut self) -> Result<(TiePlan, Vec<WheelRefusal>)> {
        self.look_at_record();
        self.binaries()?;
        let row = self.row;
        let runs_rocm = row.is_some_and(|row| row.runs_rocm || !row.extras.is_empty());
        let is_used = !self.plan.record.run_paths.is_empty() || runs_rocm;
        if !is_used && self.options.extras.is_empty() && self.refusals.is_empty() {
            let nothing = self.nothing();
            self.refusals.push(nothing);
        }
        self.requirements()?;
        self.init_module()?;
        let (version, suffix) =
            version_of(self.wheel, &self.options.suffix, Some(&self.rocm.version))?;
        let files = facts::version_files(self.wheel, row)?;
        let was = &self.wheel.name.version;
        let files = version_files(&files, was, &version, &mut self.refusals);
        self.plan.texts.extend(files);
        let tag = self.tag()?;
        let plan = &mut self.plan;
        plan.result = result(self.wheel, &version, &tag);
        let requires = plan.requires.iter().map(|it| it.line.clone());
        plan.record.requires = requires.collect();
        plan.record.version_suffix = suffix;
        plan.finish(self.wheel, &tag)?;
        let path = format!("{}/{}", plan.dist_info(self.wheel), TieRecord::FILE);
        plan.texts.insert(path, plan.record.render()?);
        Ok((self.plan, self.refusals))
    }

    fn refuse(&mut self, kind: RefusalKind, message: String, hint: &'static str) {
        self.refusals.push(WheelRefusal::new(kind, message, hint));
    }

    /// Why there is nothing to tie. What cannot be loaded beside the set is no better off with an extra of
    /// `rocm`.
    fn nothing(&self) -> WheelRefusal {
        let count = self.plan.binaries;
        let what = match count {
            0 => "it has no binary for the set".to_owned(),
            1 => "its only binary needs no library of the set".to_owned(),
            count => format!("none of its {count} binaries needs a library of the set"),
        };
        let (why, hint) = match facts::not_for_set(self.wheel, self.providers, self.rocm) {
            Some(why) => (
                format!("{what}: {why}"),
                "build it against this set, or tie it to the set that it was built with",
            ),
            None if count == 0 => (
                "it has no binaries".to_owned(),
                "pass `--extras` if its Python uses ROCm, or check that it is the right wheel",
            ),
            None => (
                what,
                "pass `--extras` if its Python uses ROCm, or check that it is the right wheel",
            ),
        };
        WheelRefusal::new(RefusalKind::NothingToTie, why, hint)
    }

    /// Warns of what is strange about the wheel as it is.
    fn look_at_record(&mut self) {
        let (wheel, warnings) = (self.wheel, &mut self.plan.warnings);
        if wheel.without_digest > 0 {
            warnings.push(format!(
                "RECORD has no digest of {} of its members, so that damage cannot be seen",
                wheel.without_digest
            ));
        }
        let signed = wheel.facts.members.iter().map(|it| &it.path);
        let signed = signed.filter(|it| {
            it.ends_with(".dist-info/RECORD.jws") || it.ends_with(".dist-info/RECORD.p7s")
        });
        warnings.extend(signed.map(|it| format!("`{it}` is dropped, since it signs what changes")));
        let version = &wheel.name.version;
        if self.options.suffix == VersionSuffix::Keep && version.to_string().contains("rocm") {
            let own = super::version::suffix(&self.rocm.version).replace('-', ".");
            if super::version::rocm_part(version).is_some_and(|named| named != own) {
                warnings
                    .push("its version names another ROCm: pass `--version-suffix set`".to_owned());
            }
        }
    }
}
