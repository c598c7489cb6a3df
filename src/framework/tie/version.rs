//! The version and the platform tag of a tied wheel.

use std::collections::BTreeMap;

use super::{TagChoice, Tie, VersionSuffix, plan::PlannedTag};
use crate::{
    error::{Context as _, Hint as _, Result},
    framework::{
        facts,
        read::FrameworkWheel,
        refusal::{RefusalKind, WheelRefusal},
        tags::Manylinux,
        version,
    },
    version::Version,
    wheel::{PackageFilename, Tag},
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
    from: &Version,
    to: &Version,
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

impl Tie<'_> {
    /// The tag of the tied wheel. Nothing proves a tag for Windows.
    pub(super) fn tag(&mut self) -> Result<Tag> {
        let tag = self.wheel.name.tag.as_ref();
        let tag = tag.context("a wheel without a tag")?.clone();
        if self.wheel.is_for_windows() {
            return Ok(tag);
        }
        let proved = facts::proved_tag(self.wheel, self.providers);
        self.plan.record.proved_tag = Some(proved.policy.clone());
        let (now, table) = (tag.platform(), Manylinux::builtin());
        let is_proved = |platform: &str| {
            let parts = platform.split('.');
            let proofs = parts.map(|it| table.is_proved(it, &proved));
            proofs.collect::<Option<Vec<bool>>>()
        };
        let to = match &self.options.tag {
            TagChoice::Keep => now.to_owned(),
            TagChoice::Platform(platform) => {
                if is_proved(platform).is_none_or(|it| it.contains(&false)) {
                    let because = proved.because.as_ref();
                    let because = because.map(|(file, needs)| format!(": `{file}` needs {needs}"));
                    self.refuse(
                        RefusalKind::UnprovableTag,
                        format!(
                            "its symbols do not prove `{platform}`, but `{}_x86_64`{}",
                            proved.policy,
                            because.unwrap_or_default()
                        ),
                        "pass `--tag auto`",
                    );
                }
                platform.clone()
            }
            TagChoice::Auto => match is_proved(now) {
                Some(all) if !all.contains(&false) => now.to_owned(),
                None if now != "any" => now.to_owned(),
                _ => format!("{}_x86_64", proved.policy),
            },
        };
        if to == now {
            return Ok(tag);
        }
        self.plan.tag = Some(PlannedTag::new(now, &to, &proved));
        let text = tag.to_string();
        format!("{}{to}", text.strip_suffix(now).unwrap_or_default()).parse()
    }
}
