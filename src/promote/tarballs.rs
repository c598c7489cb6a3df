//! SDK tarballs that are published with a set, under the names of its new version.
//!
//! A tarball is one stream of gzip: to change a file in it is to compress all of it again. So it keeps
//! its bytes, unless its texts name another version than its new name does. Then it is refused, or
//! written again if that is asked for.

use std::{
    collections::BTreeMap,
    io::{self, BufReader, BufWriter, Read},
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use flate2::{Compression, GzBuilder};
use fs_err::File;
use itertools::Itertools as _;
use serde_json::Value;
use tempfile::TempDir;

use super::{
    places::ReleasePlaces,
    plan::{PlannedTarball, PromotionPlan},
    policy::VersionTexts,
    record::PromotedFile,
    texts::VersionChange,
};
use crate::{
    archive::{ArchiveFormat, Decompressor, TarEntry, TarKind, TarReader, replace_texts},
    artifact::UnpackLimits,
    console::{World, many},
    digest::{HashedReader, Sha256},
    error::{Context as _, Hint as _, No, Result, Stop, anyhow, ensure},
    package::assemble::CountedReader,
    parallel,
    relpath::RelPath,
    run::{Platform, TarballName},
    set::{AttachedFile, PackageFile, SetPlace},
    store::CopySource,
    version::Version,
};

/// The longest text that is read.
const LONGEST: u64 = 1 << 20;

/// What becomes of tarballs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TarballMeans {
    /// They are not published
    Skip,
    /// They get the name of the new version, and keep their bytes; one whose texts name another version
    /// is refused
    #[default]
    Rename,
    /// Their texts get the new version too, so that they are compressed again
    Rewrite,
}

/// The tarballs of the version that is promoted, on this disk.
#[derive(Debug)]
pub struct CandidateTarballs {
    files: Vec<CandidateTarball>,
    /// For copies of remote tarballs, and those that are written again.
    scratch: TempDir,
}

#[derive(Debug)]
struct CandidateTarball {
    name: TarballName,
    path: PathBuf,
    size: u64,
    sha256: Sha256,
    /// The texts that may name the version.
    texts: BTreeMap<RelPath, String>,
    /// The object that it is a copy of, if a server can copy that.
    copy: Option<CopySource>,
}

impl CandidateTarballs {
    /// Reads the tarballs of one version in a directory. Other files are ignored.
    pub fn read(
        place: &SetPlace,
        (version, platform): (&Version, Option<Platform>),
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<Self> {
        let mut found = Vec::new();
        for file in place.files_of_any_kind()? {
            let name = file.name.parse::<TarballName>().ok();
            let is_wanted = |it: &TarballName| {
                it.version == *version && platform.is_none_or(|platform| it.platform == platform)
            };
            found.extend(name.filter(is_wanted).map(|name| (name, file)));
        }
        if found.is_empty() {
            let error = anyhow!(No(format!("no tarball of {version} in `{place}`")));
            return Err(error)
                .hint("name the directory with the tarballs of the run that built the set");
        }
        let scratch = tempfile::tempdir()?;
        let local = place.local();
        let bytes: u64 = found.iter().map(|(_, file)| file.size).sum();
        let verb = local.map_or("Fetching", |_| "Reading");
        let progress = world.console.progress(verb, place, bytes);
        let read = |(name, file): &(TarballName, PackageFile)| {
            let count = |bytes| progress.inc(bytes);
            // Before its bytes are read: a later object is not copied.
            let copy = file.copy_source()?;
            let (path, count): (_, &dyn Fn(u64)) = match local {
                Some(root) => (root.join(&file.name), &count),
                None => (scratch.path().join(&file.name), &|_| {}),
            };
            if local.is_none() {
                file.save(&path, &world.stop, &|bytes| progress.inc(bytes))?;
            }
            let tarball = CandidateTarball::read(name, path, copy, (&world.stop, count));
            tarball.with_context(|| format!("failed to read `{name}`"))
        };
        let files = parallel::map(&found, jobs, &world.stop, read)?;
        Ok(Self { files, scratch })
    }

    /// Adds what happens to them to a plan, or says what is in the way.
    pub fn decide(&self, plan: &mut PromotionPlan, means: TarballMeans) -> Result<()> {
        let (mut planned, mut refusals, mut is_mendable) = (Vec::new(), Vec::new(), true);
        for tarball in &self.files {
            let mended = changed(&tarball.texts, &plan.change);
            let texts = match means {
                TarballMeans::Rewrite => mended.clone(),
                TarballMeans::Rename | TarballMeans::Skip => BTreeMap::new(),
            };
            is_mendable &= contradiction(&tarball.texts, &mended, &plan.change).is_none();
            let other = contradiction(&tarball.texts, &texts, &plan.change);
            refusals.extend(other.map(|it| format!("`{}`: {it}", tarball.name)));
            planned.push(tarball.planned(texts, &plan.to));
        }
        if refusals.is_empty() {
            plan.tarballs = planned;
            return Ok(());
        }
        let count = many(refusals.len(), "tarball");
        let title = format!("{count} would not be of the version {}", plan.to);
        let text = [title].into_iter().chain(refusals).join("\n  ");
        let hint = if is_mendable {
            "pass `--tarballs rewrite` to compress them again, or pack the artifacts under the new version"
        } else {
            "name the directory with the tarballs of the run that built the set"
        };
        Err(anyhow!(No(text))).hint(hint)
    }

    /// The files to publish, and what the record of the promotion says of them.
    pub fn write(
        &self,
        plan: &PromotionPlan,
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<Vec<(AttachedFile, PromotedFile)>> {
        let both = self.files.iter().zip(&plan.tarballs).collect_vec();
        let packed = plan.tarballs.iter().filter(|it| !it.edits.is_empty());
        let bytes: u64 = packed.map(|it| it.size).sum();
        let progress = (bytes > 0).then(|| {
            let count = many(self.files.len(), "tarball");
            world.console.progress("Promoting", count, bytes)
        });
        let count = |bytes| {
            if let Some(progress) = &progress {
                progress.inc(bytes);
            }
        };
        let write = |(tarball, planned): &(&CandidateTarball, &PlannedTarball)| {
            let written = tarball.write(planned, self.scratch.path(), (&world.stop, &count));
            written.with_context(|| format!("failed to write `{}`", tarball.name))
        };
        parallel::map(&both, jobs, &world.stop, write)
    }
}

/// Where an interruption is seen, and where bytes that were read are counted.
type Watch<'a> = (&'a Stop, &'a dyn Fn(u64));

impl CandidateTarball {
    /// Reads a tarball on this disk.
    fn read(
        name: &TarballName,
        path: PathBuf,
        copy: Option<CopySource>,
        watch: Watch<'_>,
    ) -> Result<Self> {
        let mut source = HashedReader::new(opened(&path, watch)?);
        let texts = texts(&mut source)?;
        io::copy(&mut source, &mut io::sink())?;
        let (sha256, size) = source.finish();
        Ok(Self {
            name: name.clone(),
            path,
            size,
            sha256,
            texts,
            copy,
        })
    }

    fn planned(&self, texts: BTreeMap<RelPath, String>, to: &Version) -> PlannedTarball {
        let becomes = TarballName {
            version: to.clone(),
            ..self.name.clone()
        };
        PlannedTarball {
            file: self.name.to_string(),
            becomes: format!("{}/{becomes}", ReleasePlaces::builtin().tarballs),
            size: self.size,
            edits: texts.keys().cloned().collect(),
            texts,
        }
    }

    fn write(
        &self,
        planned: &PlannedTarball,
        scratch: &Path,
        watch: Watch<'_>,
    ) -> Result<(AttachedFile, PromotedFile)> {
        let mut file = AttachedFile {
            path: planned.becomes.clone(),
            on_disk: self.path.clone(),
            size: self.size,
            sha256: self.sha256,
            copy: self.copy.clone(),
        };
        if !planned.texts.is_empty() {
            let (_, name) = planned.becomes.rsplit_once('/').unwrap_or_default();
            file.on_disk = scratch.join(format!("new-{name}"));
            file.copy = None;
            self.rewrite(&planned.texts, &file.on_disk, watch)?;
            let written = BufReader::new(File::open(&file.on_disk)?);
            (file.sha256, file.size) = Sha256::of_reader(written)?;
        }
        let promoted = PromotedFile {
            from: planned.file.clone(),
            from_sha256: self.sha256,
            path: planned.becomes.clone(),
            size: file.size,
            sha256: file.sha256,
            edited: planned.edits.clone(),
        };
        Ok((file, promoted))
    }

    /// Writes it with other texts. The gzip header has no time, so that the same texts give the same
    /// bytes.
    fn rewrite(
        &self,
        texts: &BTreeMap<RelPath, String>,
        to: &Path,
        watch: Watch<'_>,
    ) -> Result<()> {
        let plain = Decompressor::new(ArchiveFormat::TarGz, opened(&self.path, watch)?)?;
        let out = BufWriter::new(File::create(to)?);
        let gzip = GzBuilder::new().mtime(0).operating_system(255);
        let mut gzip = gzip.write(out, Compression::default());
        let most = UnpackLimits::default().bytes;
        replace_texts(BufReader::new(plain), &mut gzip, texts, most)?;
        let out = gzip.finish()?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(())
    }
}

fn opened<'a>(path: &Path, (stop, progress): Watch<'a>) -> Result<CountedReader<'a, File>> {
    let source = File::open(path)?;
    Ok(CountedReader {
        source,
        stop,
        progress,
    })
}

/// The texts of a tarball that may name its version.
fn texts(source: impl Read) -> Result<BTreeMap<RelPath, String>> {
    let policy = VersionTexts::builtin().tarballs();
    let plain = Decompressor::new(ArchiveFormat::TarGz, source)?;
    let mut tar = TarReader::new(BufReader::new(plain), UnpackLimits::default().bytes);
    let mut found = BTreeMap::new();
    while let Some(TarEntry { path, kind }) = tar.next_entry()? {
        let TarKind::File { len, .. } = kind else {
            continue;
        };
        if policy.has(path.as_str()) {
            ensure!(
                len <= LONGEST,
                "`{path}` has {len} bytes, but at most {LONGEST} are read"
            );
            let mut text = String::new();
            let read = tar.read_to_string(&mut text);
            read.with_context(|| format!("failed to read `{path}`"))?;
            found.insert(path, text);
        }
    }
    Ok(found)
}

/// The texts under the new version, as far as they change.
fn changed(texts: &BTreeMap<RelPath, String>, change: &VersionChange) -> BTreeMap<RelPath, String> {
    let changed = texts
        .iter()
        .map(|(path, text)| (path.clone(), change.renamed(text)));
    changed
        .filter(|(path, text)| texts.get(path) != Some(text))
        .collect()
}

/// What in a tarball is not of the version in its new name.
fn contradiction(
    before: &BTreeMap<RelPath, String>,
    changed: &BTreeMap<RelPath, String>,
    change: &VersionChange,
) -> Option<String> {
    let manifest = &VersionTexts::builtin().tarballs().manifest;
    before.iter().find_map(|(path, old)| {
        let text = changed.get(path).unwrap_or(old);
        if change.from != change.to && change.is_left_in(text.as_bytes()) {
            return Some(format!("`{path}` names {}", change.from));
        }
        if path.as_str() != manifest {
            return None;
        }
        let document: Value = serde_json::from_str(text).ok()?;
        let own = document["rocm_package_version"].as_str()?;
        let is_same = own.parse::<Version>().is_ok_and(|it| it == change.to);
        (!is_same).then(|| format!("`{path}` says {own}"))
    })
}
