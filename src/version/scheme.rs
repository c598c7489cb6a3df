//! The version of a build, from what is being released: for wheels, Debian and RPM packages.

use std::fmt;

use crate::error::{Hint, Result, anyhow, ensure};
use crate::version::{BaseVersion, Date, GitSha, ReleaseType, Version};

/// What follows the base version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionScheme {
    /// What the release type says.
    Type(ReleaseType),
    /// This text, the same for every kind of package.
    Suffix(String),
}

/// What a version is made of. No clock and no repository is asked.
#[derive(Clone, Debug)]
pub struct VersionInputs {
    pub base: BaseVersion,
    pub today: Date,
    /// The day that a `*-bkc` release is based on.
    pub base_date: Option<Date>,
    pub git_sha: Option<GitSha>,
    /// Which release candidate it is.
    pub prerelease: Option<u64>,
}

/// One build's version, as each package manager orders it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageVersions {
    pub wheel: Version,
    pub deb: String,
    pub rpm: String,
}

/// The version of a build.
///
/// For one base: dev, then nightly-bkc, then nightly of a later day, then prerelease, then release.
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

/// What follows the base version of a wheel, a Debian and an RPM package.
fn suffixes(kind: ReleaseType, inputs: &VersionInputs) -> Result<(String, String, String)> {
    let today = &inputs.today;
    Ok(match kind {
        ReleaseType::Release => Default::default(),
        ReleaseType::Prerelease => {
            let number = inputs
                .prerelease
                .ok_or_else(|| anyhow!("a prerelease without a number"))
                .hint("pass `--prerelease-version`")?;
            (
                format!("rc{number}"),
                format!("~pre{number}"),
                format!("~rc{number}"),
            )
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

fn development(kind: ReleaseType, inputs: &VersionInputs) -> Result<(String, String, String)> {
    let today = &inputs.today;
    let sha = inputs
        .git_sha
        .as_ref()
        .ok_or_else(|| anyhow!("a `{kind}` version without a commit"))
        .hint("pass `--override-git-sha`")?;
    Ok((
        format!(".dev0+{sha}"),
        format!("~dev{today}"),
        format!("~{today}g{}", sha.short()),
    ))
}

fn base_date(kind: ReleaseType, inputs: &VersionInputs) -> Result<Date> {
    inputs
        .base_date
        .ok_or_else(|| anyhow!("a `{kind}` version without `release-metadata.base-date`"))
        .hint("set `release-metadata.base-date` in `version.json`")
}

fn check_prerelease(scheme: &VersionScheme, inputs: &VersionInputs) -> Result<()> {
    if inputs.prerelease.is_none() || *scheme == VersionScheme::Type(ReleaseType::Prerelease) {
        return Ok(());
    }
    Err(anyhow!(
        "the number of a prerelease for something else: {scheme}"
    ))
    .hint("pass `--prerelease-version` with `--release-type prerelease` only")
}

/// Other characters mean something else to `dpkg` or `rpm`.
fn check_suffix(suffix: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+');
    ensure!(!suffix.is_empty(), "an empty version suffix");
    ensure!(
        suffix.chars().all(fits),
        "a version suffix with other characters than letters, digits, `.` and `+`: {suffix:?}"
    );
    Ok(())
}

impl fmt::Display for VersionScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(kind) => write!(f, "release type `{kind}`"),
            Self::Suffix(suffix) => write!(f, "suffix `{suffix}`"),
        }
    }
}

#[cfg(test)]
mod tests;
