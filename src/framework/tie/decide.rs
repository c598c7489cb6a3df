//! Decides how wheels are tied: from facts to plans, without reading anything.

use std::collections::BTreeMap;

use super::{
    TieInput, TieOptions, VersionSuffix,
    binaries::{BinaryPlanner, PlannedBinaries},
    device,
    plan::{PlannedRequirement, TiePlan},
    record::TieRecord,
    requirements::{PlannedRequirements, RequirementPlanner},
    texts::{self, ModulePlanner, PlannedModule},
};
use crate::{
    error::{Context as _, Result},
    framework::{
        facts,
        metadata::{self, MetadataEdit},
        policy::Frameworks,
        providers::Providers,
        read::FrameworkWheel,
        refusal::{RefusalKind, WheelRefusal},
        rocm::RocmLibraries,
        version,
    },
    version::Version,
    wheel::{DistName, PackageFilename, Tag},
};

/// A plan for each wheel, or everything that is in the way.
pub fn decide(
    (wheels, inputs): (&[FrameworkWheel], &[TieInput]),
    providers: &Providers<'_>,
    rocm: &RocmLibraries,
    policy: &Frameworks,
    options: &TieOptions,
) -> Result<Result<Vec<TiePlan>, Vec<WheelRefusal>>> {
    let versions = wheels.iter().map(|wheel| {
        let (version, _) = texts::version_of(wheel, &options.suffix, Some(&rocm.version))?;
        Ok((wheel.name.name.clone(), version))
    });
    let group: BTreeMap<DistName, Version> = versions.collect::<Result<_>>()?;
    let mut plans: BTreeMap<usize, TiePlan> = BTreeMap::new();
    let mut refusals: Vec<WheelRefusal> = Vec::new();
    let hosts = wheels.iter().map(|wheel| device::host_of(wheel, wheels));
    let hosts: Vec<Option<&FrameworkWheel>> = hosts.collect();
    let numbered = || wheels.iter().zip(inputs).enumerate();
    // Device wheels get the version and the tag of their host wheels, which are planned before them.
    let (devices, others): (Vec<_>, Vec<_>) =
        numbered().partition(|(index, _)| hosts.get(*index).is_some_and(Option::is_some));
    for (index, (wheel, input)) in others.into_iter().chain(devices) {
        let host = hosts.get(index).copied().flatten();
        let host = host.and_then(|host| {
            let at = wheels.iter().position(|it| std::ptr::eq(it, host))?;
            Some((host, plans.get(&at)?))
        });
        let tie = OneTie {
            wheel,
            input,
            providers,
            rocm,
            policy,
            options,
            group: &group,
        };
        let context = || format!("failed to plan `{}`", wheel.name);
        let planned = match host {
            Some(host) => device::plan(wheel, host, &group, providers, rocm),
            None => tie.plan(),
        };
        let (plan, refused) = planned.with_context(context)?;
        let file = wheel.name.to_string();
        refusals.extend(refused.into_iter().map(|it| WheelRefusal {
            file: file.clone(),
            ..it
        }));
        if plans.values().any(|it| it.result == plan.result) {
            let message = format!("another wheel of the group becomes `{}` too", plan.result);
            let clash = WheelRefusal::new(
                RefusalKind::NameClash,
                message,
                "tie them one after the other into different directories",
            );
            refusals.push(WheelRefusal { file, ..clash });
        }
        plans.insert(index, plan);
    }
    Ok(if refusals.is_empty() {
        Ok(plans.into_values().collect())
    } else {
        Err(refusals)
    })
}

struct OneTie<'a> {
    wheel: &'a FrameworkWheel,
    input: &'a TieInput,
    providers: &'a Providers<'a>,
    rocm: &'a RocmLibraries,
    policy: &'a Frameworks,
    options: &'a TieOptions,
    group: &'a BTreeMap<DistName, Version>,
}

/// The parts of a plan.
struct TieParts {
    binaries: PlannedBinaries,
    requirements: PlannedRequirements,
    module: PlannedModule,
}

impl OneTie<'_> {
    fn plan(&self) -> Result<(TiePlan, Vec<WheelRefusal>)> {
        let Self {
            wheel,
            input,
            rocm,
            options,
            ..
        } = *self;
        let row = self.policy.of(&wheel.name.name);
        let mut refusals = WheelRefusal::of_damage(wheel);
        let planner = BinaryPlanner {
            wheel,
            input,
            providers: self.providers,
            rocm,
            policy: self.policy,
            options,
        };
        let mut binaries = planner.plan()?;
        refusals.append(&mut binaries.refusals);
        let runs_rocm = row.is_some_and(|row| row.runs_rocm || !row.extras.is_empty());
        if binaries.tied.is_empty()
            && options.extras.is_empty()
            && !runs_rocm
            && refusals.is_empty()
        {
            refusals.push(WheelRefusal::new(
                RefusalKind::NothingToTie,
                format!(
                    "none of its {} binaries needs a library of the set",
                    binaries.count
                ),
                "pass `--extras` if it uses ROCm nevertheless, or check that it is the right wheel",
            ));
        }
        let planner = RequirementPlanner {
            wheel,
            input,
            rocm,
            row,
            options,
            group: self.group,
        };
        let mut requirements = planner.plan(&binaries)?;
        refusals.append(&mut requirements.refusals);
        let planner = ModulePlanner {
            wheel,
            input,
            rocm,
            row,
            options,
        };
        let mut module = planner.plan(&binaries, requirements.requirement.as_deref())?;
        refusals.append(&mut module.refusals);
        let parts = TieParts {
            binaries,
            requirements,
            module,
        };
        let plan = self.put_together(parts, &mut refusals)?;
        Ok((plan, refusals))
    }

    fn put_together(&self, parts: TieParts, refusals: &mut Vec<WheelRefusal>) -> Result<TiePlan> {
        let Self {
            wheel,
            input,
            rocm,
            options,
            ..
        } = *self;
        let (version, suffix) = texts::version_of(wheel, &options.suffix, Some(&rocm.version))?;
        let files = texts::version_files(
            &input.version_files,
            (&wheel.name.version, &version),
            refusals,
        );
        let old = wheel.name.tag.as_ref().context("a wheel without a tag")?;
        let proved = facts::proved_tag(wheel, self.providers);
        let (tag, planned_tag) = if wheel.is_for_windows() {
            (old.clone(), None)
        } else {
            texts::tag(old, &proved, &options.tag, refusals)?
        };
        let TieParts {
            binaries,
            requirements,
            module,
        } = parts;
        let mut record = TieRecord::new(&rocm.version);
        record.requirement.clone_from(&requirements.requirement);
        record.requires = requirements
            .requires
            .iter()
            .map(|it| it.line.clone())
            .collect();
        record.extras.clone_from(&requirements.extras);
        record.init = module.init.as_ref().map(|it| it.module.clone());
        record.preload = module
            .init
            .as_ref()
            .map(|it| it.preload.clone())
            .unwrap_or_default();
        record.run_paths.clone_from(&binaries.tied);
        record.version_suffix = suffix;
        record.proved_tag = (!wheel.is_for_windows()).then_some(proved.policy);
        record.untied = binaries
            .untied
            .iter()
            .map(|it| (it.path.clone(), it.why.clone()))
            .collect();
        let mut plan = TiePlan {
            file: wheel.name.to_string(),
            result: result(wheel, &version, &tag),
            set: rocm.version.to_string(),
            follows: None,
            tied: binaries.tied.len(),
            binaries: binaries.count,
            run_paths: binaries.changes,
            untied: binaries.untied,
            removed_extras: requirements.removed_extras.iter().cloned().collect(),
            extras: requirements.extras,
            removed: requirements.removed,
            requires: requirements.requires,
            init: module.init,
            tag: planned_tag,
            selector: requirements.selector,
            warnings: [
                self.warnings(),
                binaries.warnings,
                requirements.warnings,
                module.warnings,
            ]
            .concat(),
            texts: files.into_iter().chain(module.members).collect(),
            record,
        };
        self.metadata(&mut plan, &tag)?;
        plan.settle();
        Ok(plan)
    }

    /// The changed METADATA and WHEEL, and the record of the tie.
    fn metadata(&self, plan: &mut TiePlan, tag: &Tag) -> Result<()> {
        let version = &plan.result.version;
        let edit = MetadataEdit {
            requires: plan.requires.iter().map(|it| it.line.clone()).collect(),
            extras: plan.extras.clone(),
            removed: plan.removed.clone(),
            removed_extras: plan
                .removed_extras
                .iter()
                .chain(&plan.extras)
                .cloned()
                .collect(),
            version: (*version != self.wheel.name.version).then(|| version.clone()),
        };
        let top = plan.dist_info(self.wheel);
        let mut texts = BTreeMap::new();
        texts.insert(
            format!("{top}/METADATA"),
            edit.apply(&self.wheel.metadata_text),
        );
        texts.insert(
            format!("{top}/WHEEL"),
            metadata::wheel_text(&self.wheel.wheel_text, tag)?,
        );
        texts.insert(format!("{top}/{}", TieRecord::FILE), plan.record.render()?);
        plan.texts.append(&mut texts);
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.wheel.without_digest > 0 {
            warnings.push(format!(
                "RECORD has no digest of {} of its members, so that damage cannot be seen",
                self.wheel.without_digest
            ));
        }
        let signed = self.wheel.facts.members.iter();
        let signed = signed.filter(|it| {
            it.path.ends_with(".dist-info/RECORD.jws") || it.path.ends_with(".dist-info/RECORD.p7s")
        });
        warnings.extend(
            signed.map(|it| format!("`{}` is dropped, since it signs what changes", it.path)),
        );
        if self.options.suffix == VersionSuffix::Keep
            && self.wheel.name.version.to_string().contains("rocm")
        {
            let named = version::rocm_part(&self.wheel.name.version);
            let own = version::suffix(&self.rocm.version).replace('-', ".");
            if named.is_some_and(|named| named != own) {
                warnings
                    .push("its version names another ROCm: pass `--version-suffix set`".to_owned());
            }
        }
        warnings
    }
}

/// The file name of a tied wheel. Its build number stays.
pub(in crate::framework) fn result(
    wheel: &FrameworkWheel,
    version: &Version,
    tag: &Tag,
) -> PackageFilename {
    let old = wheel.name.to_string();
    let parts: Vec<&str> = old.split('-').collect();
    if *version == wheel.name.version && wheel.name.tag.as_ref() == Some(tag) {
        return wheel.name.clone();
    }
    let plain = PackageFilename::new(wheel.name.name.clone(), version, Some(tag));
    let build = if parts.len() == 6 { parts.get(2) } else { None };
    let numbered = build.and_then(|build| {
        let stem = format!(
            "{}-{}",
            wheel.name.name.filename_form(),
            version.filename_form()
        );
        format!("{stem}-{build}-{tag}.whl").parse().ok()
    });
    numbered.unwrap_or(plain)
}

impl TiePlan {
    /// The directory of the metadata of the tied wheel.
    pub fn dist_info(&self, wheel: &FrameworkWheel) -> String {
        wheel.dist_info_of(&self.result)
    }

    /// Leaves out of the shown plan what is removed only to be added again.
    pub(super) fn settle(&mut self) {
        let is_kept = |line: &String, requires: &[PlannedRequirement]| {
            requires.iter().any(|it| it.line == *line)
        };
        let again: Vec<String> = self
            .removed
            .iter()
            .filter(|it| is_kept(it, &self.requires))
            .cloned()
            .collect();
        self.removed.retain(|it| !again.contains(it));
    }
}
