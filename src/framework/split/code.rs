//! Writes the archives of a split.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err::File;

use super::{ToSplit, plan::SplitWheelPlan};
use crate::{
    console::World,
    error::{Context as _, Result},
    kpack::{
        CodeTarget,
        archive::{self, ArchiveWriter, CodeSource},
    },
    package::assemble::AssembleSettings,
    relpath::RelPath,
};

/// An archive in a temporary file.
#[derive(Clone, Debug)]
pub(super) struct WrittenArchive {
    pub file: PathBuf,
    pub len: u64,
}

/// Writes the archives of a plan into a directory. Returns them by their installed paths.
pub(super) fn write(
    split: ToSplit<'_>,
    plan: &SplitWheelPlan,
    directory: &Path,
    settings: &AssembleSettings,
    world: &World,
) -> Result<BTreeMap<RelPath, WrittenArchive>> {
    let (name, code) = (&split.wheel.name, split.code);
    let bar = world.console.progress("Packing", name, code.size());
    let group = name.name.filename_form();
    let (mut files, mut writers) = (BTreeMap::new(), BTreeMap::new());
    for (number, (path, archive)) in plan.archives.iter().enumerate() {
        let file = directory.join(format!("{number}.kpack"));
        let out = io::BufWriter::new(File::create(&file)?);
        let writer = ArchiveWriter::new(out, &group, archive.base.as_str())?;
        files.insert(path.clone(), file);
        writers.insert(path.clone(), writer);
    }
    let binaries = code.fat.iter().zip(&plan.placed);
    let sources = binaries.map(|(member, placed)| CodeSource {
        name: member.installed.to_string(),
        fat: &member.fat,
        binary: &placed.binary,
        open: Box::new(|| Ok(Box::new(Arc::clone(&member.bytes)))),
        // The rows of RECORD were verified when the wheel was read.
        is_verified: true,
    });
    let sources: Vec<CodeSource<'_>> = sources.collect();
    let archive_of = |index: usize, ordinal: usize, target: &CodeTarget| -> Result<_> {
        let placed = plan.placed.get(index).context("no such binary")?;
        let path = placed.archive(ordinal, target)?;
        Ok(Some(path).filter(|it| plan.archives.contains_key(it)))
    };
    let (jobs, stop) = (settings.jobs, &world.stop);
    let progress = &|bytes| bar.inc(bytes);
    archive::write_archives(&mut writers, &sources, &archive_of, jobs, stop, progress)?;
    let written = writers.into_iter().map(|(path, writer)| {
        let (mut out, len) = writer.finish()?;
        let file = files.remove(&path).context("no file of an archive")?;
        out.flush()?;
        Ok((path, WrittenArchive { file, len }))
    });
    written.collect()
}
