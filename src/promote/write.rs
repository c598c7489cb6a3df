//! Makes the packages of a plan, and [`PromotionRecord`]: `promotion.json`, which says what they were made of.

use std::{cmp::Reverse, collections::BTreeMap, io::Seek as _, num::NonZeroUsize, path::Path};

use fs_err::{self as fs, File};
use itertools::Itertools as _;
use serde::Serialize;

use super::{
    decide::dist_info,
    frameworks::FrameworkTies,
    observe::{CandidateForm, CandidatePackage, CandidateSet},
    plan::{PlannedPromotion, PromotionPlan},
};
use crate::{
    archive::{self, SdistFiles},
    atomic::AtomicFile,
    console::{World, many, size},
    digest::Sha256,
    error::{Context as _, Result, Stop},
    index::{Identity, PackageFile},
    parallel,
    relpath::RelPath,
    target::Scope,
    version::Version,
    wheel::{Archive, ChangedFile, PackSettings, Record, Source, WheelCompression, WheelEdit},
};

/// Writes the packages of a plan into a directory, as a set with the layout of the old one.
pub fn write(
    set: &CandidateSet,
    ties: Option<&FrameworkTies<'_>>,
    plan: &PromotionPlan,
    directory: &Path,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<PromotionRecord> {
    let packages: BTreeMap<&str, &CandidatePackage> =
        set.packages.iter().map(|it| (it.file.path.as_str(), it)).collect();
    let writer = PromotionWriter { set, plan, directory, stop: &world.stop };
    let bytes: u64 = plan.packages.iter().map(|it| it.size).sum();
    // Several wheels are written at the same time, and have one progress bar together.
    let progress = world.console.progress("Promoting", directory.display(), bytes);
    let promote = |planned: &&PlannedPromotion| {
        let package = packages.get(planned.file.as_str());
        let package = package.context("a package that is not in the set")?;
        let written = writer.package(package, planned);
        let written = written.with_context(|| format!("failed to promote `{}`", planned.file))?;
        let (name, bytes) = (&planned.name, size(written.size));
        let edits = many(planned.edits.len(), "file");
        let facts = format!("{name}: {bytes}, {edits} edited");
        progress.inc(planned.size);
        world.console.status("Promoted", facts);
        Ok(written)
    };
    // The largest first: one that comes last is written alone.
    let largest = plan.packages.iter();
    let largest = largest.sorted_by_key(|it| Reverse(it.size)).collect_vec();
    let mut files = parallel::map(&largest, jobs, &world.stop, promote)?;
    for path in &plan.copied {
        files.push(writer.copy(path)?);
    }
    if let Some(ties) = ties {
        files.extend(ties.write(&plan.frameworks, directory, world)?);
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(PromotionRecord {
        schema: "rocwheel-promotion-v1",
        rocwheel: env!("CARGO_PKG_VERSION"),
        from: plan.from.clone(),
        to: plan.to.clone(),
        source: set.identity.clone(),
        dropped: plan.dropped.clone(),
        files,
    })
}

/// What a set was made of, and every digest before and after. It has no time, so that the same
/// promotion writes the same bytes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PromotionRecord {
    schema: &'static str,
    rocwheel: &'static str,
    from: Version,
    to: Version,
    /// The run that built and tested the set, as far as its `set.json` says.
    source: Identity,
    /// The targets that were left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<String>,
    pub files: Vec<PromotedFile>,
}

/// A file of the set, before and after.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PromotedFile {
    pub from: String,
    pub from_sha256: Sha256,
    /// Its path in the promoted set.
    pub path: String,
    pub size: u64,
    pub sha256: Sha256,
    /// The files in it that changed. All others have the same compressed bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edited: Vec<RelPath>,
}

impl PromotedFile {
    /// A file that was written where the set has the one that it was made of.
    pub(super) fn of(from: &PackageFile, written: &ChangedFile, edited: Vec<RelPath>) -> Self {
        let place = from.path.strip_suffix(from.name()).unwrap_or_default();
        Self {
            from: from.path.clone(),
            from_sha256: from.sha256,
            path: format!("{place}{}", written.file),
            size: written.size,
            sha256: written.sha256,
            edited,
        }
    }
}

impl PromotionRecord {
    /// The name of the document.
    pub const FILE: &str = "promotion.json";

    /// The files of the promoted set.
    pub fn package_files(&self) -> Result<Vec<PackageFile>> {
        let files = self.files.iter();
        files.map(|it| PackageFile::named(it.path.clone(), it.size, it.sha256)).collect()
    }

    /// What the promoted set is: of the same run, under the new version.
    pub fn identity(&self, plan: &PromotionPlan) -> Identity {
        let is_kept = |scope: &Scope| match scope.base() {
            Scope::Target(target) => !plan.change.targets.dropped.contains(&target),
            _ => true,
        };
        let targets = self.source.targets.iter();
        Identity {
            version: Some(self.to.clone()),
            targets: targets.filter(|it| is_kept(it)).cloned().collect(),
            promoted_from: (self.from != self.to).then(|| self.from.clone()),
            ..self.source.clone()
        }
    }

    pub fn render(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self).context("failed to write JSON")?;
        Ok(text + "\n")
    }
}

struct PromotionWriter<'a> {
    set: &'a CandidateSet,
    plan: &'a PromotionPlan,
    directory: &'a Path,
    stop: &'a Stop,
}

impl PromotionWriter<'_> {
    fn package(
        &self,
        package: &CandidatePackage,
        planned: &PlannedPromotion,
    ) -> Result<PromotedFile> {
        let target = self.directory.join(&planned.becomes);
        let parent = target.parent().unwrap_or(self.directory);
        fs::create_dir_all(parent)?;
        let written = match &package.form {
            CandidateForm::Sdist(sdist) => write_sdist(sdist, planned, &target)?,
            CandidateForm::Wheel { archive, record, generator } => {
                let compression = WheelCompression::of_generator(generator).unwrap_or_default();
                // Several wheels are written at the same time.
                let jobs = NonZeroUsize::MIN;
                let settings =
                    PackSettings { time: archive.time, ..PackSettings::new(compression, jobs) };
                let wheel = self.wheel(package, planned, archive, record)?;
                wheel.write(parent, &settings, self.stop, &|_| {})?
            }
        };
        let edited = planned.edits.clone();
        Ok(PromotedFile::of(&package.file, &written, edited))
    }

    fn wheel(
        &self,
        package: &CandidatePackage,
        planned: &PlannedPromotion,
        archive: &Archive,
        record: &Record,
    ) -> Result<WheelEdit> {
        let source = self.set.root.join(&package.file.path);
        let rows = record.rows().iter();
        let rows: BTreeMap<&RelPath, _> = rows.map(|it| (&it.path, it)).collect();
        let dist_info = dist_info(archive, &self.plan.change)?;
        let digest = |path: &RelPath| rows.get(path).and_then(|row| row.digest);
        let name = planned.name.clone();
        let mut wheel = WheelEdit::of(&source, archive, name, dist_info, digest)?;
        for (path, text) in &planned.texts {
            wheel.replace(path, Source::text(text))?;
        }
        Ok(wheel)
    }

    /// A file that stays as it is: another name of it, or a copy.
    fn copy(&self, path: &str) -> Result<PromotedFile> {
        let (from, to) = (self.set.root.join(path), self.directory.join(path));
        fs::create_dir_all(to.parent().unwrap_or(self.directory))?;
        if fs::hard_link(&from, &to).is_err() {
            fs::copy(&from, &to)?;
        }
        let (sha256, size) = Sha256::of_reader(File::open(&to)?)?;
        Ok(PromotedFile {
            from: path.to_owned(),
            from_sha256: sha256,
            path: path.to_owned(),
            size,
            sha256,
            edited: Vec::new(),
        })
    }
}

fn write_sdist(
    sdist: &SdistFiles,
    planned: &PlannedPromotion,
    target: &Path,
) -> Result<ChangedFile> {
    let files = sdist.files.iter().map(|(path, bytes)| {
        let text = planned.texts.get(path).map(String::as_bytes);
        (path.clone(), text.unwrap_or(bytes))
    });
    let files: Vec<(RelPath, &[u8])> = files.collect();
    let mut out = AtomicFile::beside(target)?;
    let top = planned.name.top().parse()?;
    archive::write_sdist(out.file(), &top, &files, sdist.time)?;
    out.file().rewind()?;
    let (sha256, size) = Sha256::of_reader(out.file())?;
    out.replace(target)?;
    Ok(ChangedFile { file: planned.name.to_string(), size, sha256 })
}
