//! `version`: computes the version of a build, for each kind of package.

use std::{
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::json;

use super::{
    World,
    args::{StepOutputs, Variables, checked_out_commit},
};
use rocwheel_base::{
    error::{Context as _, Hint as _, Result, anyhow},
    io::{read_text, resolved_path},
    version::{
        BaseVersion, Date, GitSha, ReleaseType, VersionFile, VersionInputs, VersionScheme, compute,
    },
};

/// Compute the version of a build for wheels, Debian packages and RPM packages
///
/// A version is a base version, such as `10.1.0` in ROCm's `version.json`, and a suffix, which is your
/// own, or follows from the release type with the day or the commit.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel version --release-type nightly
  rocwheel version --release-type prerelease --rc 2 --format json
  rocwheel version --suffix .dev0 --base-version 7.13.0")]
pub struct VersionArgs {
    /// Release type of the build, which decides the suffix [default: `RELEASE_TYPE`]
    #[arg(long, value_name = "TYPE", conflicts_with = "suffix")]
    release_type: Option<ReleaseType>,
    // The release type of the job, which any flag replaces.
    #[arg(skip)]
    own_release_type: Option<ReleaseType>,
    /// Use this suffix for all kinds of packages: `.dev0`
    #[arg(
        long,
        value_name = "TEXT",
        aliases = ["custom-version-suffix", "version-suffix"],
        allow_hyphen_values = true
    )]
    suffix: Option<String>,
    /// Number of the release candidate, for the release type `prerelease`
    #[arg(long, value_name = "N", alias = "prerelease-version")]
    rc: Option<u64>,
    /// Base version [default: rocm-version in version.json]
    #[arg(long, value_name = "X.Y.Z", alias = "override-base-version")]
    base_version: Option<BaseVersion>,
    /// ROCm's `version.json` [default: in this directory or the nearest one above that has it]
    #[arg(long, value_name = "FILE")]
    version_file: Option<PathBuf>,
    /// Commit of the build, for development versions [default: HEAD of the git repository]
    ///
    /// [env: `GITHUB_SHA`]
    #[arg(
        long,
        value_name = "SHA",
        aliases = ["override-git-sha", "commit"],
    )]
    git_sha: Option<GitSha>,
    /// Day of the build in UTC [default: the day of `SOURCE_DATE_EPOCH`, else today]
    #[arg(long, value_name = "YYYYMMDD")]
    date: Option<Date>,
    #[arg(long, hide = true)]
    source_date_epoch: Option<u64>,
    /// Day on which a `bkc` release is based [default: release-metadata.base-date in
    /// version.json]
    #[arg(long, value_name = "YYYYMMDD")]
    base_date: Option<Date>,
    #[command(flatten)]
    outputs: StepOutputs,
}

pub fn run(args: &VersionArgs, world: &World) -> Result<()> {
    let scheme = args.scheme()?;
    let inputs = args.inputs(&scheme, world)?;
    let versions = compute(&scheme, &inputs)?;
    let wheel = versions.wheel.to_string();
    let deb = versions.deb;
    let rpm = versions.rpm;
    // Our names, then the names of TheRock's script.
    args.outputs.append(&[
        ("version", wheel.clone()),
        ("deb-version", deb.clone()),
        ("rpm-version", rpm.clone()),
        ("rocm_package_version", wheel.clone()),
        ("rocm_deb_package_version", deb.clone()),
        ("rocm_rpm_package_version", rpm.clone()),
    ])?;
    let (release_type, suffix) = match &scheme {
        VersionScheme::Type(kind) => (Some(kind.to_string()), None),
        VersionScheme::Suffix(suffix) => (None, Some(suffix)),
    };
    let facts = json!({
        "wheel": wheel,
        "deb": deb,
        "rpm": rpm,
        "release-type": release_type,
        "suffix": suffix,
        "base-version": inputs.base.to_string(),
        "date": inputs.today.to_string(),
        "base-date": inputs.base_date.map(|date| date.to_string()),
        "commit": inputs.git_sha.map(|commit| commit.to_string()),
    });
    let answer = format!("wheel: {wheel}\ndeb:   {deb}\nrpm:   {rpm}");
    world.console.report("version", &facts, answer)
}

impl VersionArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill(&mut self.own_release_type, "RELEASE_TYPE")?;
        variables.fill(&mut self.git_sha, "GITHUB_SHA")?;
        variables.fill(&mut self.source_date_epoch, "SOURCE_DATE_EPOCH")?;
        self.outputs.read_variables(variables);
        Ok(())
    }

    fn scheme(&self) -> Result<VersionScheme> {
        match (&self.suffix, self.release_type.or(self.own_release_type)) {
            (Some(suffix), _) => Ok(VersionScheme::Suffix(suffix.clone())),
            (None, Some(kind)) => Ok(VersionScheme::Type(kind)),
            (None, None) => Err(anyhow!("no release type was given, so the suffix is unknown"))
                .hint("pass `--release-type`, or `--suffix` for one of your own"),
        }
    }

    /// Completes the arguments from `version.json`, git and the clock, each of which is read only
    /// if this version needs it.
    fn inputs(&self, scheme: &VersionScheme, world: &World) -> Result<VersionInputs> {
        let lacks_base_date = scheme.needs_base_date() && self.base_date.is_none();
        let file = if self.base_version.is_none() || lacks_base_date {
            self.version_file()?
        } else {
            None
        };
        let base_date = match &file {
            Some((path, file)) if lacks_base_date => {
                file.base_date().with_context(|| reading(path))?
            }
            _ => self.base_date.filter(|_| scheme.needs_base_date()),
        };
        let git_sha = if scheme.has_commit() {
            self.commit(file.as_ref().map(|(path, _)| path.as_path()), world)?
        } else {
            None
        };
        Ok(VersionInputs {
            base: self.base(file.as_ref(), world)?,
            today: self.today()?,
            base_date,
            git_sha,
            prerelease: self.rc,
        })
    }

    fn base(&self, file: Option<&(PathBuf, VersionFile)>, world: &World) -> Result<BaseVersion> {
        if let Some(base) = &self.base_version {
            return Ok(base.clone());
        }
        let (path, file) = file
            .context("no `version.json` in this directory or above")
            .hint("pass `--base-version`, or the file as `--version-file`")?;
        let base = file.rocm_version().with_context(|| reading(path))?;
        let facts = format!("version {base} from `{}`", path.display());
        world.console.status("Read", facts);
        Ok(base)
    }

    /// The commit, if there is one: by default HEAD of the repository with `version.json`.
    fn commit(&self, version_file: Option<&Path>, world: &World) -> Result<Option<GitSha>> {
        if let Some(commit) = &self.git_sha {
            return Ok(Some(commit.clone()));
        }
        let directory = match version_file.and_then(Path::parent) {
            Some(directory) => directory.to_owned(),
            None => here()?,
        };
        let head = checked_out_commit(&directory);
        if let Some(commit) = &head {
            let facts = format!("commit {commit} from git in `{}`", directory.display());
            world.console.status("Read", facts);
        }
        Ok(head)
    }

    /// Reads the `version.json` that was given, or else the nearest one.
    fn version_file(&self) -> Result<Option<(PathBuf, VersionFile)>> {
        let path = if let Some(given) = &self.version_file {
            Some(resolved_path(given)?)
        } else {
            let directory = here()?;
            let mut files = directory.ancestors().map(|above| above.join("version.json"));
            files.find(|file| file.is_file())
        };
        let Some(path) = path else {
            return Ok(None);
        };
        let document = read_text(&path)?;
        let file = VersionFile::parse(&document).with_context(|| reading(&path))?;
        Ok(Some((path, file)))
    }

    fn today(&self) -> Result<Date> {
        if let Some(date) = self.date {
            return Ok(date);
        }
        let now = || SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = match self.source_date_epoch {
            Some(seconds) => seconds,
            None => now().context("the clock is before 1970")?.as_secs(),
        };
        Date::of_seconds(seconds)
            .with_context(|| format!("no day since 1970: {seconds} seconds"))
            .hint("pass `--date`")
    }
}

fn here() -> Result<PathBuf> {
    Ok(resolved_path(".".as_ref())?)
}

fn reading(path: &Path) -> String {
    format!("failed to read `{}`", path.display())
}
