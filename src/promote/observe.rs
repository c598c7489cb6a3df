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
    archive::{SdistFiles, read_sdist},
    console::World,
    error::{Context as _, Hint as _, No, Result, anyhow},
    framework::version,
    index::{Identity, PackageFile, is_ours},
    parallel,
    place::LocalSet,
    relpath::RelPath,
    version::Version,
    wheel::{Archive, Metadata, PackageFilename, Record, dist_info::WheelFacts, read_metadata},
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
    /// Wheels of frameworks that are for this version of ROCm.
    pub frameworks: Vec<PackageFile>,
    /// Packages of other projects that are for any.
    pub others: Vec<PackageFile>,
}

/// A package of the set.
#[derive(Debug)]
pub struct CandidatePackage {
    pub file: PackageFile,
    pub name: PackageFilename,
    pub form: CandidateForm,
    /// The texts that name the version, by their paths.
    pub texts: BTreeMap<RelPath, String>,
    /// Other files that name it, and should not.
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
        let files = set.document.files.iter().cloned();
        let (ours, others): (Vec<_>, Vec<_>) = files.partition(|file| is_ours(&file.project));
        let version = one_version(&ours)?;
        let change = VersionChange {
            from: version.clone(),
            to: version.clone(),
            targets: TargetChange::default(),
        };
        let read = |file: &PackageFile| {
            let package = CandidatePackage::read(set, file, &change);
            package.with_context(|| format!("failed to read `{}`", file.path))
        };
        let packages = parallel::map(&ours, jobs, &world.stop, read)?;
        let (mut frameworks, mut others_of_any) = (Vec::new(), Vec::new());
        for file in others {
            let is_bound = is_bound(&set.root, &file, &change);
            if is_bound.with_context(|| format!("failed to read `{}`", file.path))? {
                frameworks.push(file);
            } else {
                others_of_any.push(file);
            }
        }
        Ok(Self {
            root: set.root.clone(),
            identity: set.document.identity.clone(),
            version,
            packages,
            frameworks,
            others: others_of_any,
        })
    }
}

/// Whether a package of others is for this version of ROCm: its version names it, or it requires one
/// of our packages.
fn is_bound(root: &Path, file: &PackageFile, change: &VersionChange) -> Result<bool> {
    let named = version::suffix(&change.from).replace('-', ".");
    if version::rocm_part(&file.version).is_some_and(|it| it == named) {
        return Ok(true);
    }
    let name: PackageFilename = file.name().parse()?;
    if name.tag.is_none() {
        return Ok(false);
    }
    let source = BufReader::new(File::open(root.join(&file.path))?);
    let metadata = Metadata::parse(&read_metadata(source, LONGEST_TEXT)?)?;
    // It requires one of our packages in this version.
    Ok(metadata.requirements().any(|it| {
        is_ours(&it.name) && !it.specifier().is_empty() && it.allows(&change.from) == Some(true)
    }))
}

/// The version that all packages have.
fn one_version(files: &[PackageFile]) -> Result<Version> {
    let first = files.first().context("no ROCm packages in the set");
    let first = first.hint("pass the directory that `rocwheel build` wrote to, or an index")?;
    if let Some(other) = files.iter().find(|it| it.version != first.version) {
        let (one, two) = (first.name(), other.name());
        let error =
            anyhow!(No(format!("packages of several versions, such as `{one}` and `{two}`")));
        return Err(error).hint("promote one set; name its own directory, not that of a stream");
    }
    Ok(first.version.clone())
}

impl CandidatePackage {
    fn read(set: &LocalSet, file: &PackageFile, change: &VersionChange) -> Result<Self> {
        let name: PackageFilename = file.name().parse()?;
        let source = File::open(set.root.join(&file.path))?;
        let (mut texts, mut leftovers) = (BTreeMap::new(), Vec::new());
        // Keeps a text that names the version, and notes one that should not.
        let mut look = |path: &RelPath, len: u64, bytes: &dyn Fn() -> Result<Vec<u8>>| {
            let policy = VersionTexts::builtin();
            if policy.form(path.as_str()).is_some() {
                let text = String::from_utf8(bytes()?);
                let text = text.map_err(|_| anyhow!("`{path}` is not UTF-8"))?;
                texts.insert(path.clone(), text);
            } else if policy.is_searched(path.as_str(), len) && change.is_left_in(&bytes()?) {
                leftovers.push(path.clone());
            }
            Result::<()>::Ok(())
        };
        let form = if name.tag.is_none() {
            let sdist = read_sdist(BufReader::new(source), &name.top().parse()?)?;
            for (path, bytes) in &sdist.files {
                look(path, bytes.len() as u64, &|| Ok(bytes.clone()))?;
            }
            CandidateForm::Sdist(sdist)
        } else {
            let archive = Archive::read(BufReader::new(&source))?;
            let bytes = |path: &RelPath, most: u64| {
                let bytes = archive.bytes(&source, path, most)?;
                bytes.with_context(|| format!("no `{path}`"))
            };
            for (path, member) in &archive.members {
                look(path, member.len, &|| bytes(path, LONGEST_TEXT))
                    .with_context(|| format!("failed to read `{path}`"))?;
            }
            let metadata = |name: &str, most| bytes(&archive.dist_info.join(&name.parse()?), most);
            let record = Record::parse(&metadata("RECORD", LONGEST_RECORD)?)?;
            let wheel = metadata("WHEEL", LONGEST_TEXT)?;
            let wheel: WheelFacts = String::from_utf8_lossy(&wheel).parse()?;
            CandidateForm::Wheel { archive: Box::new(archive), record, generator: wheel.generator }
        };
        Ok(Self { file: file.clone(), name, form, texts, leftovers })
    }
}
