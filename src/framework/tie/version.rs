//! The version and the platform tag of a tied wheel.

use itertools::Itertools as _;

use super::{Tie, VersionSuffix, plan::PlannedTag};
use crate::{
    error::{Context as _, Hint as _, Result},
    framework::{
        facts,
        policy::FrameworkSpec,
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
    let text = version.to_string();
    let local = text.split_once('+').map(|(_, local)| local.to_owned());
    Ok((version, local))
}

/// The files that policy says have the version, with the new one. A file that does not have the old
/// version once is a refusal: to replace text that is not understood could change anything.
pub(in crate::framework) fn version_files(
    wheel: &FrameworkWheel,
    row: Option<&FrameworkSpec>,
    to: &Version,
    refusals: &mut Vec<WheelRefusal>,
) -> Result<Vec<(String, String)>> {
    let (from, to) = (wheel.name.version.to_string(), to.to_string());
    let mut changed = Vec::new();
    for path in row.iter().flat_map(|row| &row.version_files) {
        match wheel.text(path.as_str())? {
            _ if from == to => {}
            Some(text) if text.matches(&from).count() == 1 => {
                changed.push((path.to_string(), text.replace(&from, &to)));
            }
            Some(_) => refusals.push(WheelRefusal::new(
                RefusalKind::VersionText,
                format!("`{path}` does not hold the version {from} once"),
                "pass `--version-suffix keep`",
            )),
            None => {}
        }
    }
    Ok(changed)
}

/// The file name of a tied wheel. Its build number stays.
pub(in crate::framework) fn result(
    wheel: &FrameworkWheel,
    version: &Version,
    tag: &Tag,
) -> PackageFilename {
    if *version == wheel.name.version && wheel.name.tag.as_ref() == Some(tag) {
        return wheel.name.clone();
    }
    let (old, name) = (wheel.name.to_string(), &wheel.name.name);
    let numbered = match old.split('-').collect::<Vec<_>>()[..] {
        [_, _, build, _, _, _] => {
            let (name, version) = (name.filename_form(), version.filename_form());
            format!("{name}-{version}-{build}-{tag}.whl").parse().ok()
        }
        _ => None,
    };
    numbered.unwrap_or_else(|| PackageFilename::new(name.clone(), version, Some(tag)))
}

impl Tie<'_> {
    /// The tag of the tied wheel. Nothing proves a tag for Windows.
    pub(super) fn tag(&mut self) -> Result<Tag> {
        let tag = self.wheel.tag()?.clone();
        if self.wheel.is_for_windows() {
            return Ok(tag);
        }
        let proved = facts::proved_tag(self.wheel, self.group.providers);
        self.plan.record.proved_tag = Some(proved.policy.clone());
        let now = tag.platform();
        let is_proved = |platform: &str| {
            let parts = platform.split('.');
            let mut proofs = parts.map(|it| Manylinux::builtin().is_proved(it, &proved));
            proofs.fold_options(true, |all, one| all && one)
        };
        let to = match is_proved(now) {
            Some(true) => now.to_owned(),
            None if now != "any" => now.to_owned(),
            _ => format!("{}_x86_64", proved.policy),
        };
        if to == now {
            return Ok(tag);
        }
        let because = proved.because.is_some().then(|| proved.reason(""));
        self.plan.tag = Some(PlannedTag { from: now.to_owned(), to: to.clone(), because });
        let text = tag.to_string();
        format!("{}{to}", text.strip_suffix(now).unwrap_or_default()).parse()
    }
}
