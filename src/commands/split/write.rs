//! Writes what an artifact becomes. Each directory gets its name once all of them are whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;

use super::{
    Args, Written,
    observe::{Fate, Splitting, scope},
    staging::Staging,
};
use crate::{
    artifact::{Content, FileAt, TreeFile, in_parallel},
    commands::World,
    error::{Context as _, Result, ensure},
    kpack::{
        CodeTarget, Fat,
        archive::{ArchiveWriter, CodeOrigin, Packed, Scheme, key},
        bundle,
        host::{self, SplitReader},
        split::{Binary, archive_path},
    },
    relpath::RelPath,
    target::Scope,
};

/// An archive being written: by its name without the target, and by its target without features.
type Open = BTreeMap<(String, CodeTarget), ArchiveWriter<io::BufWriter<fs::File>>>;

/// The directories that are being filled, and what is in them.
struct Output<'a> {
    splitting: &'a Splitting<'a>,
    staging: Staging,
    counts: BTreeMap<Scope, (usize, u64)>,
    prefixes: BTreeMap<Scope, BTreeSet<RelPath>>,
    archives: Open,
}

pub(super) fn write(splitting: &Splitting<'_>, args: &Args, world: &World) -> Result<Vec<Written>> {
    let staging = args.output_dir.join(format!("{}.part", splitting.source));
    let mut output = Output {
        splitting,
        staging: Staging::new(staging)?,
        counts: BTreeMap::new(),
        prefixes: BTreeMap::new(),
        archives: Open::new(),
    };
    let total = splitting
        .files
        .iter()
        .map(|(file, _)| len(file))
        .sum::<u64>();
    let progress = world
        .console
        .progress("Splitting", &splitting.source, total);
    output.counts.insert(Scope::Generic, (0, 0));
    for (file, fate) in &splitting.files {
        world.stop.check()?;
        match fate {
            Fate::Stays => output.copy(&Scope::Generic, file)?,
            Fate::Moves(target) => output.copy(&Scope::Target(target.clone()), file)?,
            Fate::Loses(loses) => {
                let (fat, binary) = &**loses;
                output
                    .binary(file, fat, binary, args, world)
                    .with_context(|| format!("split `{}`", file.source.display()))?;
            }
        }
        progress.inc(len(file));
    }
    output.finish(&args.output_dir)
}

fn len(file: &TreeFile) -> u64 {
    match &file.content {
        Content::File(facts) => facts.len,
        _ => 0,
    }
}

impl Output<'_> {
    /// The place of a file in an artifact, with the directories above it.
    fn place(&mut self, scope: &Scope, basedir: &RelPath, path: &RelPath) -> Result<PathBuf> {
        let prefixes = self.prefixes.entry(scope.clone()).or_default();
        prefixes.insert(basedir.clone());
        let name = self.splitting.name(scope).to_string();
        let place = self.staging.path().join(name);
        let place = place.join(basedir.as_str()).join(path.as_str());
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(place)
    }

    fn count(&mut self, scope: &Scope, len: u64) {
        let count = self.counts.entry(scope.clone()).or_default();
        *count = (count.0 + 1, count.1 + len);
    }

    fn copy(&mut self, scope: &Scope, file: &TreeFile) -> Result<()> {
        let place = self.place(scope, &file.basedir, &file.path)?;
        match &file.content {
            Content::Directory => fs::create_dir_all(&place)?,
            Content::File(_) => {
                let len = fs::copy(&file.source, &place)?;
                self.count(scope, len);
            }
            Content::Link { text, .. } => {
                link(text, &place)?;
                self.count(scope, 0);
            }
        }
        Ok(())
    }

    /// Writes a binary without its code, and its code into the archives.
    fn binary(
        &mut self,
        file: &TreeFile,
        fat: &Fat,
        binary: &Binary,
        args: &Args,
        world: &World,
    ) -> Result<()> {
        let source = FileAt::open(&file.source)?;
        let markers = binary.markers(&self.splitting.archives);
        let plan = host::plan(&source, fat, &markers)?;
        let len = plan.total_len();
        let place = self.place(&Scope::Generic, &file.basedir, &file.path)?;
        let mut out = fs::File::create(&place)?;
        let copied = io::copy(&mut SplitReader::new(&source, plan), &mut out)?;
        ensure!(copied == len, "{copied} bytes instead of {len}");
        fs::set_permissions(&place, fs::metadata(&file.source)?.permissions())?;
        self.count(&Scope::Generic, len);
        let section = fat.section(&source)?;
        for (ordinal, one) in fat.bundles.iter().enumerate() {
            world.stop.check()?;
            let opened =
                bundle::open(&section, one).with_context(|| format!("open bundle {ordinal}"))?;
            let code: Vec<_> = opened.code().collect();
            let packed = in_parallel(args.jobs.count(), &code, &world.stop, |(_, entry)| {
                Packed::new(&opened.read(entry)?, Scheme::Zstd)
            })?;
            for ((target, entry), packed) in code.iter().zip(&packed) {
                let origin = CodeOrigin {
                    target: entry.id.clone(),
                    source_prefix: binary.prefix.to_string(),
                };
                let set = binary.bundles.get(ordinal).context("a bundle came up")?;
                let name = self.splitting.archives.name(set).to_owned();
                self.archive(&name, target, &binary.prefix)?.add(
                    &key(&binary.kernel_name(), ordinal),
                    target,
                    packed,
                    Some(origin),
                )?;
            }
        }
        Ok(())
    }

    fn archive(
        &mut self,
        name: &str,
        target: &CodeTarget,
        basedir: &RelPath,
    ) -> Result<&mut ArchiveWriter<io::BufWriter<fs::File>>> {
        let id = (name.to_owned(), target.base());
        if !self.archives.contains_key(&id) {
            let scope = Scope::Target(scope(target)?);
            let place = self.place(&scope, basedir, &archive_path(name, target)?)?;
            let out = io::BufWriter::new(fs::File::create(place)?);
            let group = self.splitting.prefix();
            let family = target.base();
            let writer = ArchiveWriter::new(out, &group, family.as_str(), Scheme::Zstd)?;
            self.archives.insert(id.clone(), writer);
        }
        self.archives.get_mut(&id).context("no archive")
    }

    /// Finishes archives and manifests, and gives every directory its name.
    fn finish(mut self, output: &Path) -> Result<Vec<Written>> {
        for ((_, target), writer) in std::mem::take(&mut self.archives) {
            let (out, written) = writer.finish()?;
            out.into_inner().context("write an archive")?.sync_data()?;
            self.count(&Scope::Target(scope(&target)?), written.len);
        }
        for scope in self.counts.keys() {
            let name = self.splitting.name(scope).to_string();
            let place = self.staging.path().join(name);
            fs::create_dir_all(&place)?;
            let has = self.prefixes.get(scope);
            let basedirs = self.splitting.artifact.basedirs.iter();
            let lines = basedirs
                .filter(|basedir| has.is_some_and(|has| has.contains(&***basedir)))
                .map(|basedir| format!("{basedir}\n"));
            fs::write(
                place.join("artifact_manifest.txt"),
                lines.collect::<String>(),
            )?;
        }
        let mut written = Vec::new();
        for (scope, (files, size)) in &self.counts {
            let name = self.splitting.name(scope).to_string();
            fs::rename(self.staging.path().join(&name), output.join(&name))?;
            written.push(Written {
                name,
                files: *files,
                size: *size,
            });
        }
        Ok(written)
    }
}

#[cfg(unix)]
fn link(text: &str, place: &Path) -> Result<()> {
    Ok(fs::os::unix::fs::symlink(text, place)?)
}

#[cfg(not(unix))]
fn link(text: &str, place: &Path) -> Result<()> {
    crate::error::bail!(
        "links cannot be written here: `{}` to `{text}`",
        place.display()
    )
}
