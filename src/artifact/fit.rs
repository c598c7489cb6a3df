//! Whether the parts of a split artifact belong together.

use std::{collections::BTreeMap, num::NonZeroUsize};

use itertools::Itertools as _;

use crate::artifact::{Artifact, Component, TreeContent, TreeFile, TreeForm};
use rocwheel_base::{
    error::{Context as _, Hint as _, Result, Stop, anyhow},
    io::FileAt,
    parallel,
    relpath::RelPath,
};
use rocwheel_kpack::{
    archive::KpackArchive,
    host::{self, FatFileKind},
    loader::{SplitBinary, lost_code},
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
    for ((name, component), parts) in group_parts(artifacts) {
        let files: Vec<&TreeFile> = parts.iter().flat_map(|part| &part.files).collect();
        let archives = open_archives(&files)?;
        // Without archives, no device code was split off.
        if archives.is_empty() {
            continue;
        }
        let binaries = parallel::map(&files, jobs, stop, |file| read_split_binary(file))?;
        let split: Vec<&SplitBinary> = binaries.iter().flatten().collect();
        let archives_by_path =
            archives.iter().map(|(path, archive)| ((*path).clone(), archive)).collect();
        if let Some(first) = lost_code(&split, &archives_by_path) {
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

/// Opens the archives among the files. Each has its path in the install tree.
fn open_archives<'a>(files: &[&'a TreeFile]) -> Result<Vec<(&'a RelPath, KpackArchive<FileAt>)>> {
    let mut archives = Vec::new();
    for file in files {
        let is_whole =
            matches!(&file.content, TreeContent::File(facts) if facts.form == TreeForm::Whole);
        if is_whole && is_archive(&file.path) {
            // The runtime skips an archive that it cannot read, and `check` reports it.
            if let Ok(archive) = KpackArchive::open(FileAt::open(&file.source)?) {
                archives.push((&file.path, archive));
            }
        }
    }
    Ok(archives)
}

/// Whether a path in an install tree is a `.kpack` archive.
fn is_archive(path: &RelPath) -> bool {
    let is_in_directory = path.components().next() == Some(".kpack") && path.depth() > 1;
    let suffix = path.file_name().rsplit_once('.').map(|(_, suffix)| suffix);
    is_in_directory && suffix == Some("kpack")
}

/// Reads what a split binary asks the archives for; `None` for each other file.
fn read_split_binary(file: &TreeFile) -> Result<Option<SplitBinary>> {
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

/// Groups the parts of each artifact, by its name and component.
fn group_parts<'a>(
    artifacts: impl IntoIterator<Item = &'a Artifact>,
) -> BTreeMap<(&'a str, Component), Vec<&'a Artifact>> {
    let key = |part: &&'a Artifact| (part.name.name.as_str(), part.name.component);
    artifacts.into_iter().map(|part| (key(&part), part)).into_group_map().into_iter().collect()
}
