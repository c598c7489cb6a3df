//! Computes the version of a build, for wheels, Debian packages and RPM packages.

use crate::error::{Hint, Result, anyhow, bail, ensure};
use crate::version::{BaseVersion, Date, GitSha, ReleaseType, Version};

/// The part of a version after the base version.
#[derive(Clone, Debug, derive_more::Display, PartialEq, Eq)]
pub enum VersionScheme {
    /// Determined by the release type.
    #[display("release type `{_0}`")]
    Type(ReleaseType),
    /// A given text, used for all package formats.
    #[display("suffix `{_0}`")]
    Suffix(String),
}

impl VersionScheme {
    /// Whether the version has the commit of the build.
    pub fn has_commit(&self) -> bool {
        use ReleaseType::{Ci, Dev, DevBkc};
        matches!(self, Self::Type(Ci | Dev | DevBkc))
    }

    /// Whether the version needs the date on which the release is based.
    pub fn needs_base_date(&self) -> bool {
        matches!(self, Self::Type(ReleaseType::DevBkc | ReleaseType::NightlyBkc))
    }
}

/// The inputs of [`compute`]. It uses neither the clock nor the repository.
#[derive(Clone, Debug)]
pub struct VersionInputs {
    /// The version that the source names, such as `7.14.0`.
    pub base: BaseVersion,
    /// The day of the build, for versions that contain a date.
    pub today: Date,
    /// The date on which a `*-bkc` release is based.
    pub base_date: Option<Date>,
    /// The commit that is built, for versions that contain it.
    pub git_sha: Option<GitSha>,
    /// The number of the release candidate.
    pub prerelease: Option<u64>,
}

/// The version of a build in each package format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageVersions {
    /// As Python orders it: `7.14.0a20260822` for a nightly.
    pub wheel: Version,
    /// As dpkg orders it, for which `~` sorts before the end: `7.14.0~20260822`.
    pub deb: String,
    /// As rpm orders it, for which `~` sorts before the end: `7.14.0~20260822`.
    pub rpm: String,
}

/// Computes the version of a build.
///
/// For the same base version, the results sort in this order: dev, nightly-bkc, nightly of a later
/// day, prerelease, release.
pub fn compute(scheme: &VersionScheme, inputs: &VersionInputs) -> Result<PackageVersions> {
    check_prerelease(scheme, inputs)?;
    let (wheel, deb, rpm) = match scheme {
        VersionScheme::Suffix(suffix) => {
            check_suffix(suffix)?;
            (suffix.clone(), suffix.clone(), suffix.clone())
        }
        VersionScheme::Type(kind) => suffixes(*kind, inputs)?,
    };
    let base = &inputs.base;
    Ok(PackageVersions {
        wheel: format!("{base}{wheel}").parse()?,
        deb: format!("{base}{deb}"),
        rpm: format!("{base}{rpm}"),
    })
}

/// The suffixes of the base version for a wheel, a Debian package and an RPM package.
fn suffixes(kind: ReleaseType, inputs: &VersionInputs) -> Result<(String, String, String)> {
    let today = &inputs.today;
    Ok(match kind {
        ReleaseType::Release => Default::default(),
        ReleaseType::Prerelease => {
            let number = inputs
                .prerelease
                .ok_or_else(|| anyhow!("a prerelease without a number"))
                .hint("pass `--rc`")?;
            (format!("rc{number}"), format!("~pre{number}"), format!("~rc{number}"))
        }
        ReleaseType::Nightly => {
            let native = format!("~{today}");
            (format!("a{today}"), native.clone(), native)
        }
        ReleaseType::NightlyBkc => {
            let base_date = base_date(kind, inputs)?;
            let native = format!("~{base_date}.bkc.{today}");
            (format!("a{base_date}+bkc.{today}"), native.clone(), native)
        }
        ReleaseType::DevBkc => {
            base_date(kind, inputs)?;
            development(kind, inputs)?
        }
        ReleaseType::Ci | ReleaseType::Dev => development(kind, inputs)?,
    })
}

/// The suffixes of development builds. The wheel has the commit as a local version label.
fn development(kind: ReleaseType, inputs: &VersionInputs) -> Result<(String, String, String)> {
    let today = &inputs.today;
    let sha = inputs
        .git_sha
        .as_ref()
        .ok_or_else(|| anyhow!("a `{kind}` version without a commit"))
        .hint("pass `--git-sha`")?;
    Ok((format!(".dev0+{sha}"), format!("~dev{today}"), format!("~{today}g{}", sha.short())))
}

/// The wheel version of a build, if all that is known is its base version, and perhaps its commit.
pub fn undated(kind: ReleaseType, base: &BaseVersion, commit: Option<&GitSha>) -> Result<Version> {
    let text = match (kind, commit) {
        (ReleaseType::Release, _) => base.to_string(),
        (ReleaseType::Ci | ReleaseType::Dev | ReleaseType::DevBkc, Some(commit)) => {
            format!("{base}.dev0+{commit}")
        }
        (ReleaseType::Ci | ReleaseType::Dev | ReleaseType::DevBkc, None) => format!("{base}.dev0"),
        (ReleaseType::Prerelease, _) => {
            bail!("versions of the release type `{kind}` have a number")
        }
        (ReleaseType::Nightly | ReleaseType::NightlyBkc, _) => {
            bail!("versions of the release type `{kind}` have a day")
        }
    };
    Ok(text.parse()?)
}

fn base_date(kind: ReleaseType, inputs: &VersionInputs) -> Result<Date> {
    inputs
        .base_date
        .ok_or_else(|| anyhow!("a `{kind}` version without `release-metadata.base-date`"))
        .hint("set it in `version.json`, or pass `--base-date`")
}

fn check_prerelease(scheme: &VersionScheme, inputs: &VersionInputs) -> Result<()> {
    if inputs.prerelease.is_none() || *scheme == VersionScheme::Type(ReleaseType::Prerelease) {
        return Ok(());
    }
    Err(anyhow!("the number of a prerelease for something else: {scheme}"))
        .hint("pass `--rc` with `--release-type prerelease` only")
}

/// Other characters have special meanings for `dpkg` or `rpm`.
fn check_suffix(suffix: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+');
    ensure!(!suffix.is_empty(), "an empty version suffix");
    ensure!(
        suffix.chars().all(fits),
        "a version suffix with other characters than letters, digits, `.` and `+`: {suffix:?}"
    );
    Ok(())
}

#[cfg(test)]
mod tests;
