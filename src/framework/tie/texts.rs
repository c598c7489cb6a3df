//! The texts of a tied wheel: its version, its init module, its tag.

use std::collections::BTreeMap;

use super::{
    InitMode, TagChoice, TieInput, TieOptions, VersionPin, VersionSuffix,
    binaries::PlannedBinaries,
    plan::{PlannedInit, PlannedTag},
};
use crate::{
    error::{Context as _, Hint as _, Result},
    framework::{
        init_module::{self, InitCall, InitModule},
        policy::FrameworkSpec,
        read::FrameworkWheel,
        refusal::{RefusalKind, WheelRefusal},
        rocm::RocmLibraries,
        tags::{Manylinux, ProvenTag},
        version,
    },
    version::Version,
    wheel::Tag,
};

/// The version of a tied wheel, and the part of it that names ROCm.
pub(in crate::framework) fn version_of(
    wheel: &FrameworkWheel,
    suffix: &VersionSuffix,
    rocm: Option<&Version>,
) -> Result<(Version, Option<String>)> {
    let now = &wheel.name.version;
    let base = version::without_rocm(now);
    let suffix = match suffix {
        VersionSuffix::Keep => return Ok((now.clone(), version::rocm_part(now))),
        VersionSuffix::Named if version::rocm_part(now).is_none() => {
            return Ok((now.clone(), None));
        }
        VersionSuffix::None => None,
        VersionSuffix::Text(text) => Some(text.clone()),
        VersionSuffix::Set | VersionSuffix::Named => {
            let rocm = rocm.context("no set whose version would be the suffix");
            Some(version::suffix(rocm.hint("pass `--set`")?))
        }
    };
    let Some(suffix) = suffix else {
        return Ok((base, None));
    };
    let version = version::with_suffix(&base, &suffix)?;
    let suffix = version.to_string();
    Ok((
        version,
        suffix.split_once('+').map(|(_, local)| local.to_owned()),
    ))
}

/// The files that name the version, with the new one. A file that does not have the old version
/// once is a refusal: to replace text that is not understood could change anything.
pub(in crate::framework) fn version_files(
    files: &BTreeMap<String, Option<String>>,
    (from, to): (&Version, &Version),
    refusals: &mut Vec<WheelRefusal>,
) -> Vec<(String, String)> {
    let (from, to) = (from.to_string(), to.to_string());
    let mut changed = Vec::new();
    if from == to {
        return changed;
    }
    for (path, text) in files {
        match text {
            Some(text) if text.matches(&from).count() == 1 => {
                changed.push((path.clone(), text.replace(&from, &to)));
            }
            Some(_) => refusals.push(WheelRefusal::new(
                RefusalKind::VersionText,
                format!("`{path}` does not hold the version {from} once"),
                "pass `--version-suffix keep`",
            )),
            None => {}
        }
    }
    changed
}

/// The init module of a tied wheel, and the members with it.
#[derive(Debug, Default)]
pub(super) struct PlannedModule {
    pub init: Option<PlannedInit>,
    pub members: Vec<(String, String)>,
    pub warnings: Vec<String>,
    pub refusals: Vec<WheelRefusal>,
}

pub(super) struct ModulePlanner<'a> {
    pub wheel: &'a FrameworkWheel,
    pub input: &'a TieInput,
    pub rocm: &'a RocmLibraries,
    pub row: Option<&'a FrameworkSpec>,
    pub options: &'a TieOptions,
}

impl ModulePlanner<'_> {
    pub(super) fn plan(
        &self,
        binaries: &PlannedBinaries,
        requirement: Option<&str>,
    ) -> Result<PlannedModule> {
        let mut planned = PlannedModule::default();
        let found = self.input.init.as_ref();
        let has_hook = found.is_some_and(|it| it.hook.is_some());
        if self.options.init == InitMode::None {
            return Ok(planned);
        }
        if !has_hook && self.options.init == InitMode::Auto {
            self.without_hook(binaries, &mut planned);
            return Ok(planned);
        }
        if found.is_some_and(|it| it.module == Some(InitModule::Opaque)) {
            planned.refusals.push(WheelRefusal::new(
                RefusalKind::OpaqueInit,
                format!(
                    "its `{}` is of no form that rocwheel knows",
                    init_module::FILE
                ),
                "remove the module, or pass `--init none` to leave it alone",
            ));
            return Ok(planned);
        }
        let Some((package, source)) = &self.input.package else {
            planned.refusals.push(WheelRefusal::new(
                RefusalKind::NoHook,
                "it has no package with an `__init__.py` to hook into".to_owned(),
                "pass `--init none`, or `--framework` with a row that names its `root`",
            ));
            return Ok(planned);
        };
        let preload = self.preload(binaries, &mut planned);
        let pin = self.options.check_version.or(self.options.requires);
        let pin = pin.unwrap_or_else(|| VersionPin::usual(&self.rocm.version));
        let call = InitCall {
            preload: preload.clone(),
            check_version: pin.pattern(&self.rocm.version),
            fail_on_version_mismatch: self.options.fail_on_version_mismatch,
        };
        let directory = package.strip_suffix("__init__.py").unwrap_or_default();
        let module = format!("{directory}{}", init_module::FILE);
        let text = call.render(requirement.unwrap_or("rocm"));
        planned.members.push((module.clone(), text));
        if !has_hook {
            planned
                .members
                .push((package.clone(), init_module::with_hook(source)?));
        }
        planned.init = Some(PlannedInit {
            module,
            adds_hook: !has_hook,
            preload,
            check_version: call.check_version,
        });
        Ok(planned)
    }

    /// Without a hook there is no module. On Windows that is no tie at all.
    fn without_hook(&self, binaries: &PlannedBinaries, planned: &mut PlannedModule) {
        if self.wheel.is_for_windows() {
            planned.refusals.push(WheelRefusal::new(
                RefusalKind::NoHook,
                format!(
                    "no module imports `{}`, and Windows has no run paths",
                    init_module::FILE
                ),
                "pass `--init add`",
            ));
            return;
        }
        let opened: Vec<&str> = binaries.opened.iter().map(String::as_str).collect();
        if !opened.is_empty() {
            planned.warnings.push(format!(
                "it opens {} by name, and nothing loads them before: pass `--init add`",
                opened.join(", ")
            ));
        }
    }

    /// The libraries to load, in the order of the table of `rocm_sdk`.
    fn preload(&self, binaries: &PlannedBinaries, planned: &mut PlannedModule) -> Vec<String> {
        if let Some(names) = &self.options.preload {
            for name in names
                .iter()
                .filter(|name| self.rocm.of_short_name(name).is_none())
            {
                planned.refusals.push(WheelRefusal::new(
                    RefusalKind::UnknownPreload,
                    format!("the set has no library with the short name `{name}`"),
                    "leave it out of `--preload`",
                ));
            }
            return names.clone();
        }
        let needed = binaries.libraries.keys().map(String::as_str);
        let opened = binaries.opened.iter().map(String::as_str);
        let mut names = self.rocm.preload(needed.chain(opened));
        // What only policy asks for is left out if the set does not have it.
        let known = self.row.iter().flat_map(|row| &row.preload);
        names.extend(
            known
                .filter(|it| self.rocm.of_short_name(it).is_some())
                .cloned(),
        );
        self.rocm.in_order(&names.into_iter().collect())
    }
}

/// The tag of a tied wheel.
pub(super) fn tag(
    tag: &Tag,
    proved: &ProvenTag,
    choice: &TagChoice,
    refusals: &mut Vec<WheelRefusal>,
) -> Result<(Tag, Option<PlannedTag>)> {
    let table = Manylinux::builtin();
    let now = tag.platform();
    let is_proved = |platform: &str| {
        platform
            .split('.')
            .map(|it| table.is_proved(it, proved))
            .collect::<Option<Vec<bool>>>()
    };
    let with = |platform: &str| -> Result<Tag> {
        let text = tag.to_string();
        let rest = text.strip_suffix(now).unwrap_or_default();
        format!("{rest}{platform}").parse()
    };
    let to = match choice {
        TagChoice::Keep => now.to_owned(),
        TagChoice::Platform(platform) => {
            if is_proved(platform).is_none_or(|it| !it.into_iter().all(|it| it)) {
                let because = proved.because.as_ref();
                let because = because.map(|(file, needs)| format!(": `{file}` needs {needs}"));
                refusals.push(WheelRefusal::new(
                    RefusalKind::UnprovableTag,
                    format!(
                        "its symbols do not prove `{platform}`, but `{}_x86_64`{}",
                        proved.policy,
                        because.unwrap_or_default()
                    ),
                    "pass `--tag auto`",
                ));
            }
            platform.clone()
        }
        TagChoice::Auto => match is_proved(now) {
            Some(all) if all.iter().all(|it| *it) => now.to_owned(),
            None if now != "any" => now.to_owned(),
            _ => format!("{}_x86_64", proved.policy),
        },
    };
    if to == now {
        return Ok((tag.clone(), None));
    }
    Ok((with(&to)?, Some(PlannedTag::new(now, &to, proved))))
}
