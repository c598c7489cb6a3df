//! Writes what an artifact becomes. Each directory gets its name once all of them are whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err as fs;

use super::{
    Args, Written,
    observe::{Fate, Splitting},
    staging::Staging,
    work::{Code, Piece, Writing, carry_out},
};
use crate::{
    artifact::{Content, TreeFile},
    commands::World,
    error::Result,
    relpath::RelPath,
    target::Scope,
};

/// The directories that are being filled, and what is in them.
struct Output<'a> {
    splitting: &'a Splitting<'a>,
    staging: Staging,
    counts: BTreeMap<Scope, (usize, u64)>,
    prefixes: BTreeMap<Scope, BTreeSet<RelPath>>,
}

pub(super) fn write(splitting: &Splitting<'_>, args: &Args, world: &World) -> Result<Vec<Written>> {
    let mut output = Output {
        splitting,
        staging: Staging::new(args.output_dir.join(splitting.staging()))?,
        counts: BTreeMap::from([(Scope::Generic, (0, 0))]),
        prefixes: BTreeMap::new(),
    };
    let mut pieces = Vec::new();
    for (file, fate) in &splitting.files {
        world.stop.check()?;
        match fate {
            Fate::Stays => pieces.extend(output.copy(&Scope::Generic, file)?),
            Fate::Moves(target) => {
                pieces.extend(output.copy(&Scope::Target(target.clone()), file)?);
            }
            Fate::Loses(loss) => {
                let to = output.place(&Scope::Generic, &file.basedir, &file.path)?;
                output.count(&Scope::Generic, loss.plan.total_len());
                pieces.push(Piece::Host {
                    from: &file.source,
                    plan: Arc::clone(&loss.plan),
                    to,
                });
                pieces.extend(Code::of(file, loss).map(Piece::Code));
            }
        }
    }
    let total = splitting
        .files
        .iter()
        .map(|(file, _)| len(file))
        .sum::<u64>();
    let progress = world
        .console
        .progress("Splitting", &splitting.source, total);
    let places = splitting.places()?;
    let mut archives = Writing::new(splitting, |_, at| {
        output.place(&at.scope, &at.basedir, &at.path)
    })?;
    let inc = |bytes| progress.inc(bytes);
    carry_out(&pieces, &mut archives, args.jobs.count(), &world.stop, &inc)?;
    for (id, written) in archives.finish()? {
        if let Some(place) = places.get(&id) {
            output.count(&place.scope, written.len);
        }
    }
    output.finish(&args.output_dir)
}

fn len(file: &TreeFile) -> u64 {
    match &file.content {
        Content::File(facts) => facts.len,
        Content::Directory | Content::Link { .. } => 0,
    }
}

impl Output<'_> {
    /// Where a file of an artifact goes; the directories above it are made.
    fn place(&mut self, scope: &Scope, basedir: &RelPath, path: &RelPath) -> Result<PathBuf> {
        let prefixes = self.prefixes.entry(scope.clone()).or_default();
        prefixes.insert(basedir.clone());
        let directory = self
            .staging
            .path()
            .join(self.splitting.name(scope).to_string());
        let place = directory.join(basedir.join(path).as_str());
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(place)
    }

    fn count(&mut self, scope: &Scope, len: u64) {
        let count = self.counts.entry(scope.clone()).or_default();
        *count = (count.0 + 1, count.1 + len);
    }

    /// Makes what is made at once; what has bytes is left to do.
    fn copy<'f>(&mut self, scope: &Scope, file: &'f TreeFile) -> Result<Option<Piece<'f>>> {
        let to = self.place(scope, &file.basedir, &file.path)?;
        match &file.content {
            Content::Directory => fs::create_dir_all(&to)?,
            Content::File(facts) => {
                self.count(scope, facts.len);
                let from = &file.source;
                return Ok(Some(Piece::Copy { from, to }));
            }
            Content::Link { text, .. } => {
                super::link(text, &to)?;
                self.count(scope, 0);
            }
        }
        Ok(None)
    }

    /// Finishes the manifests, and gives every directory its name.
    fn finish(self, output: &Path) -> Result<Vec<Written>> {
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
