//! The version and the platform tag of a tied wheel.

use itertools::Itertools as _;

use super::{Tie, VersionSuffix, plan::PlannedTag};
use crate::framework::{
    facts,
    policy::FrameworkSpec,
    read::FrameworkWheel,
    refusal::{RefusalKind, WheelRefusal},
    tags::Manylinux,
    version,
};
use rocwheel_base::{
    error::{Context as _, Hint as _, Result},
    version::Version,
};
use rocwheel_wheel::{PackageFilename, Tag};

/// The version of a tied wheel, and the part of it that names ROCm.
pub(in crate::framework) fn version_of(
    wheel: &FrameworkWheel,
    row: Option<&FrameworkSpec>,
    suffix: &VersionSuffix,
    rocm: Option<&Version>,
) -> Result<(Version, Option<String>)> {
    let old = &wheel.name.version;
    let base = version::without_rocm(old);
    let suffix = match suffix {
        VersionSuffix::Keep => return Ok((old.clone(), version::rocm_part(old))),
        VersionSuffix::Named if version::rocm_part(old).is_none() => {
            return Ok((old.clone(), None));
        }
        VersionSuffix::None => return Ok((base, None)),
        VersionSuffix::Text(text) => text.clone(),
        VersionSuffix::Set | VersionSuffix::Named => {
            let rocm =
                rocm.context("no set whose version would be the suffix").hint("pass `--set`")?;
            version::suffix(rocm, row)
        }
    };
    let version = version::with_suffix(&base, &suffix)?;
    // A version is normalized: the suffix may be written in another form in it.
    let local = version.to_string().split_once('+').map(|(_, local)| local.to_owned());
    Ok((version, local))
}

/// The new texts of the files that, by policy, name the version. Refuses the wheel if a file names the old version not
/// exactly once: another occurrence may mean something else.
pub(in crate::framework) fn version_files(
    wheel: &FrameworkWheel,
    row: Option<&FrameworkSpec>,
    to: &Version,
    refusals: &mut Vec<WheelRefusal>,
) -> Result<Vec<(String, String)>> {
    let from = wheel.name.version.to_string();
    let to = to.to_string();
    let mut changed = Vec::new();
    for path in row.iter().flat_map(|row| &row.version_files) {
        match wheel.text(path.as_str())? {
            // Without a change, a file may name the version in any way.
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
    let name = &wheel.name.name;
    let old_filename = wheel.name.to_string();
    let with_build_number = match old_filename.split('-').collect_vec()[..] {
        [_, _, build, _, _, _] => {
            let stem = format!("{}-{}", name.filename_form(), version.filename_form());
            format!("{stem}-{build}-{tag}.whl").parse().ok()
        }
        _ => None,
    };
    with_build_number.unwrap_or_else(|| PackageFilename::new(name.clone(), version, Some(tag)))
}

impl Tie<'_> {
    /// Chooses the tag of the tied wheel. It stays if nothing proves another one: a wheel for Windows and a wheel
    /// without binaries have no symbols.
    pub(super) fn choose_tag(&mut self) -> Result<Tag> {
        let tag = self.wheel.tag()?.clone();
        let group = self.group;
        let joining = group.joining_files(self.wheel);
        let Some(proved) = facts::proved_tag_with(self.wheel, group.providers, joining) else {
            // A wheel of Python only would promise that the libraries that join it run everywhere.
            let joins_pure = group.bundle_of(self.wheel).is_some() && tag.platform() == "any";
            return if joins_pure {
                self.with_platform(&tag, "win_amd64".to_owned(), None)
            } else {
                Ok(tag)
            };
        };
        self.plan.record.proved_tag = Some(proved.policy.clone());
        let from = tag.platform();
        // `None` if a part of the tag is about something else than glibc.
        let is_proved = from
            .split('.')
            .map(|platform| Manylinux::builtin().is_proved(platform, &proved))
            .fold_options(true, |all, is_proved| all && is_proved);
        let to = match is_proved {
            Some(true) => return Ok(tag),
            // Another kind of tag stays. `any` would promise that the binaries run everywhere.
            None if from != "any" => return Ok(tag),
            _ => format!("{}_x86_64", proved.policy),
        };
        if to == from {
            return Ok(tag);
        }
        let because = proved.because.is_some().then(|| proved.reason(""));
        self.with_platform(&tag, to, because)
    }

    fn with_platform(&mut self, tag: &Tag, to: String, because: Option<String>) -> Result<Tag> {
        let from = tag.platform();
        let unproved = tag.to_string();
        let proved = format!("{}{to}", unproved.strip_suffix(from).unwrap_or_default()).parse();
        self.plan.tag = Some(PlannedTag { from: from.to_owned(), to, because });
        proved
    }
}
