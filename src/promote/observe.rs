//! Reads the packages of a set that is promoted: where their members are, and the texts that name the
//! version.

use std::{
    collections::BTreeMap,
    io::BufReader,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use fs_err::File;

use super::texts::{TargetChange, VersionChange, VersionTexts};
use crate::{
    console::World,
    framework::{Frameworks, version},
    index::{Identity, PackageFile, is_ours},
    place::LocalSet,
};
use rocwheel_base::{
    digest::HashedStart,
    error::{Context as _, Hint as _, No, Result, anyhow},
    io::FileIdentity,
    parallel,
    relpath::RelPath,
    version::Version,
};
use rocwheel_wheel::{
    Archive, Metadata, PackageFilename, Record,
    dist_info::WheelFacts,
    read_metadata,
    tar::{SdistFiles, read_sdist},
};

/// The longest text that is edited. The links of a device package may have some MiB.
const LONGEST_TEXT: u64 = 64 << 20;
/// RECORD has about 150 bytes for each file.
const LONGEST_RECORD: u64 = 256 << 20;

/// A set that is promoted.
#[derive(Debug)]
pub struct CandidateSet {
    pub root: PathBuf,
    pub identity: Identity,
    /// The version of all our packages.
    pub version: Version,
    /// Our packages.
    pub packages: Vec<CandidatePackage>,
    /// Packages of frameworks that are for this version of ROCm only.
    pub frameworks: Vec<PackageFile>,
    /// Packages of other projects that are for any version of ROCm.
    pub others: Vec<PackageFile>,
}

/// A package of the set.
#[derive(Debug)]
pub struct CandidatePackage {
    pub file: PackageFile,
    pub name: PackageFilename,
    pub form: CandidateForm,
    /// The beginning of the file, and which file begins so, if `build` remembers it.
    pub start: Option<(FileIdentity, HashedStart)>,
    /// The texts that name the version and are edited, by their paths.
    pub texts: BTreeMap<RelPath, String>,
    /// Other files that name the version, and should not.
    pub leftovers: Vec<RelPath>,
}

#[derive(Debug)]
pub enum CandidateForm {
    Wheel {
        archive: Box<Archive>,
        record: Record,
        /// The program that made it, as WHEEL says.
        generator: String,
    },
    Sdist(SdistFiles),
}

impl CandidateSet {
    /// Reads the packages of a set on this disk. It is an error if they do not have one version.
    pub fn read(set: &LocalSet, jobs: NonZeroUsize, world: &World) -> Result<Self> {
        let (ours, foreign): (Vec<_>, Vec<_>) =
            set.document.files.iter().cloned().partition(|file| is_ours(&file.project));
        let version = common_version(&ours)?;
        let read = |file: &PackageFile| {
            CandidatePackage::read(set, file, &version)
                .with_context(|| format!("failed to read `{}`", file.path))
        };
        let packages = parallel::map(&ours, jobs, &world.stop, read)?;
        let mut frameworks = Vec::new();
        let mut others = Vec::new();
        for file in foreign {
            let is_bound = is_bound_to(&version, &file, &set.root)
                .with_context(|| format!("failed to read `{}`", file.path))?;
            if is_bound { frameworks.push(file) } else { others.push(file) }
        }
        Ok(Self {
            root: set.root.clone(),
            identity: set.document.identity.clone(),
            version,
            packages,
            frameworks,
            others,
        })
    }
}

/// Whether a package of another project is for this version of ROCm only: its version names ROCm's, or it
/// requires one of our packages in this version.
fn is_bound_to(rocm: &Version, file: &PackageFile, root: &Path) -> Result<bool> {
    let row = Frameworks::builtin().of(&file.project);
    let local_version = version::suffix(rocm, row).replace('-', ".");
    if version::rocm_part(&file.version).is_some_and(|part| part == local_version) {
        return Ok(true);
    }
    let name: PackageFilename = file.name().parse()?;
    // Only wheels are read: an sdist need not know its requirements before it is built.
    if name.tag.is_none() {
        return Ok(false);
    }
    let source = BufReader::new(File::open(root.join(&file.path))?);
    let metadata = Metadata::parse(&read_metadata(source, LONGEST_TEXT)?)?;
    Ok(metadata.requirements().any(|requirement| {
        is_ours(&requirement.name)
            && !requirement.specifier().is_empty()
            && requirement.allows(rocm) == Some(true)
    }))
}

/// The version that all packages have.
fn common_version(files: &[PackageFile]) -> Result<Version> {
    let first = files
        .first()
        .context("no ROCm packages in the set")
        .hint("pass the directory that `rocwheel build` wrote to, or an index")?;
    if let Some(other) = files.iter().find(|file| file.version != first.version) {
        let error = anyhow!(No(format!(
            "packages of several versions, such as `{}` and `{}`",
            first.name(),
            other.name()
        )));
        return Err(error)
            .hint("promote one set; name its own directory, not the directory of a stream");
    }
    Ok(first.version.clone())
}

impl CandidatePackage {
    fn read(set: &LocalSet, file: &PackageFile, version: &Version) -> Result<Self> {
        let name: PackageFilename = file.name().parse()?;
        let source = File::open(set.root.join(&file.path))?;
        let mut search = VersionSearch::of(version);
        let form = if name.tag.is_none() {
            let sdist = read_sdist(BufReader::new(source), &name.top().parse()?)?;
            for (path, bytes) in &sdist.files {
                search.read_file(path, bytes.len() as u64, || Ok(bytes.clone()))?;
            }
            CandidateForm::Sdist(sdist)
        } else {
            let archive = Archive::read(BufReader::new(&source))?;
            let read_member = |path: &RelPath, longest: u64| {
                archive.bytes(&source, path, longest)?.with_context(|| format!("no `{path}`"))
            };
            for (path, member) in &archive.members {
                search
                    .read_file(path, member.len, || read_member(path, LONGEST_TEXT))
                    .with_context(|| format!("failed to read `{path}`"))?;
            }
            let record_path = archive.dist_info.join(&"RECORD".parse()?);
            let record = Record::parse(&read_member(&record_path, LONGEST_RECORD)?)?;
            let wheel_path = archive.dist_info.join(&"WHEEL".parse()?);
            let wheel_text = read_member(&wheel_path, LONGEST_TEXT)?;
            let wheel: WheelFacts = String::from_utf8_lossy(&wheel_text).parse()?;
            CandidateForm::Wheel { archive: Box::new(archive), record, generator: wheel.generator }
        };
        let VersionSearch { texts, leftovers, .. } = search;
        let start = set.start_of(&file.path).map(|(identity, start)| (identity, start.clone()));
        Ok(Self { file: file.clone(), name, form, start, texts, leftovers })
    }
}

/// Which files of a package name its version.
struct VersionSearch {
    /// The version without a change: only whether a text names it is asked.
    change: VersionChange,
    texts: BTreeMap<RelPath, String>,
    leftovers: Vec<RelPath>,
}

impl VersionSearch {
    fn of(version: &Version) -> Self {
        let change = VersionChange {
            from: version.clone(),
            to: version.clone(),
            targets: TargetChange::default(),
        };
        Self { change, texts: BTreeMap::new(), leftovers: Vec::new() }
    }

    /// Keeps a text that `promote.toml` says is edited, and notes another file that names the version. Most
    /// files are neither, and are not read.
    fn read_file(
        &mut self,
        path: &RelPath,
        len: u64,
        read: impl Fn() -> Result<Vec<u8>>,
    ) -> Result<()> {
        let policy = VersionTexts::builtin();
        if policy.form(path.as_str()).is_some() {
            let contents =
                String::from_utf8(read()?).map_err(|_| anyhow!("`{path}` is not UTF-8"))?;
            self.texts.insert(path.clone(), contents);
        } else if policy.is_searched(path.as_str(), len) && self.change.is_left_in(&read()?) {
            self.leftovers.push(path.clone());
        }
        Ok(())
    }
}
