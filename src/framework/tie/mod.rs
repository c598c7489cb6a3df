//! `framework tie`: binds wheels to one set of ROCm packages.
//!
//! [`observe`](TieInput::read) reads the texts that may change, [`decide`] makes a plan for each wheel
//! or says all that is in the way, [`write`] writes them, and [`verify`] reads them back. To tie a tied
//! wheel to the same set changes nothing, and to another one is what promotion needs: metadata and
//! module change, and binaries do not if both sets have the same directories.

mod binaries;
mod decide;
mod device;
mod plan;
mod record;
mod requirements;
mod texts;
mod verify;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use derive_more::Display;

use super::{
    facts::{self, FoundInit},
    policy::Frameworks,
    read::FrameworkWheel,
};
use crate::{
    error::{Context as _, Result},
    glob::Glob,
    kpack::host,
    spool::Spool,
};

pub use self::{
    decide::decide,
    plan::TiePlan,
    record::TieRecord,
    verify::verify,
    write::{write, write_all},
};
pub(super) use self::{
    decide::result,
    texts::{version_files, version_of},
    write::{changed, patched},
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

/// The texts of a wheel that the plan needs besides its metadata.
#[derive(Debug)]
pub struct TieInput {
    /// The init module and the hook, if there are any.
    pub(super) init: Option<FoundInit>,
    /// The `__init__.py` that gets a hook: the path of the member and its source.
    pub(super) package: Option<(String, String)>,
    /// The files that policy says have the version. `None` for one that is not there.
    pub(super) version_files: BTreeMap<String, Option<String>>,
    /// The libraries that files for Windows import, by installed paths, or why they cannot be read.
    pub(super) imports: BTreeMap<String, Result<BTreeSet<String>, String>>,
    /// What an earlier tie has left.
    pub(super) record: Option<TieRecord>,
}

impl TieInput {
    pub fn read(wheel: &FrameworkWheel, policy: &Frameworks) -> Result<Self> {
        let row = policy.of(&wheel.name.name);
        let init = facts::init(wheel, policy)?;
        let known = row
            .and_then(|row| row.root.as_ref())
            .map(ToString::to_string);
        let mut roots = init
            .iter()
            .map(|it| it.root.clone())
            .chain(known)
            .chain(facts::roots(wheel));
        let package = roots.find_map(|root| {
            let path = wheel.member(&format!("{root}/__init__.py"))?;
            let source = wheel.text(path).transpose()?;
            Some(source.map(|source| (path.to_owned(), source)))
        });
        let record = wheel.text(&format!("{}/{}", wheel.dist_info, TieRecord::FILE))?;
        let record = record.map(|text| TieRecord::parse(&text));
        Ok(Self {
            imports: imports(wheel)?,
            init,
            package: package.transpose()?,
            version_files: facts::version_files(wheel, row)?,
            record: record.transpose().with_context(|| {
                format!("failed to read `{}` of `{}`", TieRecord::FILE, wheel.name)
            })?,
        })
    }
}

/// How much of a file for Windows is held in memory while its tables are read.
const IN_MEMORY: usize = 16 << 20;

/// The libraries that the binaries of a wheel for Windows import.
fn imports(wheel: &FrameworkWheel) -> Result<BTreeMap<String, Result<BTreeSet<String>, String>>> {
    let mut imports = BTreeMap::new();
    if !wheel.is_for_windows() {
        return Ok(imports);
    }
    for (path, member) in wheel.windows_files() {
        let mut bytes = Spool::new(IN_MEMORY);
        wheel.copy_to(&member.path, &mut bytes)?;
        let found = host::imports(&bytes).map_err(|error| format!("{error:#}"));
        imports.insert(path.to_owned(), found);
    }
    Ok(imports)
}
