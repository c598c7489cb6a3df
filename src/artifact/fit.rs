//! Whether the parts of a split artifact belong together.

use std::{collections::BTreeMap, num::NonZeroUsize};

use itertools::Itertools as _;

use crate::{
    artifact::{Artifact, Component, TreeContent, TreeFile, TreeForm},
    error::{Context as _, Hint as _, Result, Stop, anyhow},
    io::FileAt,
    kpack::{
        archive::KpackArchive,
        host::{self, FatFileKind},
        loader::{SplitBinary, lost_code},
    },
    parallel,
    relpath::RelPath,
};

/// Fails if a split binary would not find its code in the archives beside it, because the parts
/// come from different builds.
///
/// Artifacts that are still to be split are skipped: their parts fit by construction.
pub fn ensure_fit<'a>(
    artifacts: impl IntoIterator<Item = &'a Artifact>,
    jobs: NonZeroUsize,
    stop: &Stop,
) -> Result<()> {
    for ((name, component), parts) in by_name_and_component(artifacts) {
        let files: Vec<&TreeFile> = parts.iter().flat_map(|part| &part.files).collect();
        let archives = archives(&files)?;
        if archives.is_empty() {
            continue;
        }
        let binaries = parallel::map(&files, jobs, stop, |file| split_binary(file))?;
        let split: Vec<&SplitBinary> = binaries.iter().flatten().collect();
        let archives = archives.iter().map(|(path, it)| ((*path).clone(), it));
        if let Some(first) = lost_code(&split, &archives.collect()) {
            return Err(anyhow!(
                "the parts of artifact `{name}_{component}` do not fit together: {first}"
            ))
            .hint(
                "take all parts from one build, or split the fat artifacts of each family again \
                 with `rocwheel split`",
            );
        }
    }
    Ok(())
}

/// The archives among the files, with their paths in the install tree. The runtime skips archives
/// that it cannot read, and `check` reports them.
fn archives<'a>(files: &[&'a TreeFile]) -> Result<Vec<(&'a RelPath, KpackArchive<FileAt>)>> {
    let mut archives = Vec::new();
    for file in files {
        let is_whole = matches!(&file.content, TreeContent::File(it) if it.form == TreeForm::Whole);
        if is_whole && is_archive(&file.path) {
            let archive = KpackArchive::open(FileAt::open(&file.source)?);
            archives.extend(archive.ok().map(|archive| (&file.path, archive)));
        }
    }
    Ok(archives)
}

/// Whether a path in an install tree is a `.kpack` archive.
fn is_archive(path: &RelPath) -> bool {
    let in_directory = path.components().next() == Some(".kpack") && path.depth() > 1;
    let ending = path.file_name().rsplit_once('.').map(|(_, it)| it);
    in_directory && ending == Some("kpack")
}

/// What a split binary asks the archives for; `None` for each other file.
fn split_binary(file: &TreeFile) -> Result<Option<SplitBinary>> {
    match &file.content {
        TreeContent::File(facts) if facts.elf.is_some() && facts.form == TreeForm::Whole => {}
        _ => return Ok(None),
    }
    let source = FileAt::open(&file.source)?;
    let read = || -> Result<_> {
        Ok(match host::look(&source)? {
            FatFileKind::Split => Some((file.path.clone(), host::references(&source)?)),
            _ => None,
        })
    };
    read().with_context(|| format!("failed to read `{}`", file.source.display()))
}

/// The parts of each artifact.
fn by_name_and_component<'a>(
    artifacts: impl IntoIterator<Item = &'a Artifact>,
) -> BTreeMap<(&'a str, Component), Vec<&'a Artifact>> {
    let key = |part: &&'a Artifact| (part.name.name.as_str(), part.name.component);
    let parts = artifacts.into_iter().map(|part| (key(&part), part));
    parts.into_group_map().into_iter().collect()
}
