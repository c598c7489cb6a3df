//! Makes the packages of a plan, and [`PromotionRecord`]: `promotion.json`, which says what each package was
//! made from.

use std::{cmp::Reverse, collections::BTreeMap, io::Seek as _, num::NonZeroUsize, path::Path};

use fs_err::{self as fs, File};
use itertools::Itertools as _;
use serde::Serialize;

use super::{
    decide::renamed_dist_info,
    frameworks::FrameworkTies,
    observe::{CandidateForm, CandidatePackage, CandidateSet},
    plan::{PlannedPromotion, PromotionPlan},
};
use crate::{
    console::World,
    index::{Identity, PackageFile},
};
use rocwheel_base::{
    atomic::AtomicFile,
    digest::Sha256,
    error::{Context as _, Result, Stop},
    parallel,
    quantity::{many, size},
    relpath::RelPath,
    target::Scope,
    version::Version,
};
use rocwheel_wheel::{
    Archive, ChangedFile, PackSettings, Record, Source, WheelCompression, WheelEdit,
    tar::SdistFiles,
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
        set.packages.iter().map(|package| (package.file.path.as_str(), package)).collect();
    let writer = PromotionWriter { set, plan, directory, stop: &world.stop };
    let bytes: u64 = plan.packages.iter().map(|package| package.size).sum();
    // Several wheels are written at the same time, and have one progress bar together.
    let progress = world.console.progress("Promoting", directory.display(), bytes);
    let promote = |planned: &&PlannedPromotion| {
        let package =
            packages.get(planned.file.as_str()).context("a package that is not in the set")?;
        let promoted = writer
            .write_package(package, planned)
            .with_context(|| format!("failed to promote `{}`", planned.file))?;
        let bytes = size(promoted.size);
        let edits = many(planned.edits.len(), "file");
        progress.inc(planned.size);
        world.console.status("Promoted", format!("{}: {bytes}, {edits} edited", planned.name));
        Ok(promoted)
    };
    // The largest package first: if it came last, the other threads would wait for it.
    let largest_first = plan.packages.iter().sorted_by_key(|it| Reverse(it.size)).collect_vec();
    let mut files = parallel::map(&largest_first, jobs, &world.stop, promote)?;
    for path in &plan.copied {
        files.push(writer.copy_package(path)?);
    }
    if let Some(ties) = ties {
        files.extend(ties.write(&plan.frameworks, directory, world)?);
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(PromotionRecord {
        schema: "rocwheel-promotion-v1",
        from: plan.from.clone(),
        to: plan.to.clone(),
        source: set.identity.clone(),
        dropped: plan.dropped.clone(),
        files,
    })
}

/// What a promoted set was made from, with the digest of each file before and after. It has neither a time nor
/// the version of rocwheel: the same promotion writes the same bytes, so that another program can go on with one
/// that was interrupted.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PromotionRecord {
    schema: &'static str,
    from: Version,
    to: Version,
    /// The run that built and tested the set, as far as its `set.json` says.
    source: Identity,
    /// The device packages that were left out.
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
    /// A file that was written into the same directory of the promoted set as `from` has in the set.
    pub(super) fn of(from: &PackageFile, written: &ChangedFile, edited: Vec<RelPath>) -> Self {
        let family = from.path.strip_suffix(from.name()).unwrap_or_default();
        Self {
            from: from.path.clone(),
            from_sha256: from.sha256,
            path: format!("{family}{}", written.file),
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
        self.files
            .iter()
            .map(|file| PackageFile::named(file.path.clone(), file.size, file.sha256))
            .collect()
    }

    /// The identity of the promoted set: the same run, under the new version.
    pub fn identity(&self, plan: &PromotionPlan) -> Identity {
        let is_kept = |scope: &&Scope| match scope.packaged() {
            Scope::Target(target) => !plan.change.targets.dropped.contains(&target),
            _ => true,
        };
        Identity {
            version: Some(self.to.clone()),
            targets: self.source.targets.iter().filter(is_kept).cloned().collect(),
            promoted_from: (self.from != self.to).then(|| self.from.clone()),
            ..self.source.clone()
        }
    }

    pub fn render(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self).context("failed to write JSON")? + "\n")
    }
}

struct PromotionWriter<'a> {
    set: &'a CandidateSet,
    plan: &'a PromotionPlan,
    directory: &'a Path,
    stop: &'a Stop,
}

impl PromotionWriter<'_> {
    fn write_package(
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
                // The edited texts are compressed as the program that made the wheel compresses them.
                let compression = WheelCompression::of_generator(generator).unwrap_or_default();
                // Several wheels are written at the same time, each on one thread.
                let jobs = NonZeroUsize::MIN;
                let settings =
                    PackSettings { time: archive.time, ..PackSettings::new(compression, jobs) };
                let edit = self.edit_wheel(package, planned, archive, record)?;
                edit.write(parent, &settings, self.stop, &|_| {})?
            }
        };
        Ok(PromotedFile::of(&package.file, &written, planned.edits.clone()))
    }

    fn edit_wheel(
        &self,
        package: &CandidatePackage,
        planned: &PlannedPromotion,
        archive: &Archive,
        record: &Record,
    ) -> Result<WheelEdit> {
        let source = self.set.root.join(&package.file.path);
        let digests: BTreeMap<&RelPath, _> =
            record.rows().iter().map(|row| (&row.path, row.digest)).collect();
        let recorded_digest = |path: &RelPath| digests.get(path).copied().flatten();
        let dist_info = renamed_dist_info(archive, &self.plan.change)?;
        let name = planned.name.clone();
        let mut edit = WheelEdit::of(&source, archive, name, dist_info, recorded_digest)?;
        if let Some((identity, start)) = &package.start {
            edit.know_start(*identity, start.clone());
        }
        for (path, text) in &planned.texts {
            edit.replace(path, Source::text(text))?;
        }
        Ok(edit)
    }

    /// Takes a file over as it is: by a hard link, or by a copy on another file system.
    fn copy_package(&self, path: &str) -> Result<PromotedFile> {
        let from = self.set.root.join(path);
        let to = self.directory.join(path);
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
    let mut files: Vec<(RelPath, &[u8])> = Vec::new();
    for (path, bytes) in &sdist.files {
        let edited = planned.texts.get(path).map(String::as_bytes);
        files.push((path.clone(), edited.unwrap_or(bytes)));
    }
    let mut out = AtomicFile::beside(target)?;
    let top = planned.name.top().parse()?;
    rocwheel_wheel::tar::write_sdist(out.file(), &top, &files, sdist.time)?;
    out.file().rewind()?;
    let (sha256, size) = Sha256::of_reader(out.file())?;
    out.replace(target)?;
    Ok(ChangedFile { file: planned.name.to_string(), size, sha256 })
}
