//! Checks that the parts of a split artifact belong together.

use std::{collections::BTreeMap, num::NonZeroUsize, sync::Arc};

use crate::{
    artifact::{Artifact, Component, FileAt, TreeContent, TreeFile, TreeForm},
    elf::ReadAt,
    error::{Context as _, Hint as _, Result, Stop, anyhow},
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
    let mut parts: BTreeMap<(&str, Component), Vec<&TreeFile>> = BTreeMap::new();
    for artifact in artifacts {
        let key = (artifact.name.name.as_str(), artifact.name.component);
        parts.entry(key).or_default().extend(&artifact.files);
    }
    for ((name, component), files) in parts {
        let archives = archives(&files)?;
        if archives.is_empty() {
            continue;
        }
        let binaries = parallel::map(&files, jobs, stop, |file| split_binary(file))?;
        let binaries: Vec<SplitBinary> = binaries.into_iter().flatten().collect();
        if let Some(first) = lost_code(&binaries, &archives)? {
            let component = component.as_str();
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

/// The archives on disk, by their path in the install tree.
fn archives(files: &[&TreeFile]) -> Result<BTreeMap<RelPath, Arc<dyn ReadAt>>> {
    let mut archives: BTreeMap<RelPath, Arc<dyn ReadAt>> = BTreeMap::new();
    for file in files {
        if let TreeContent::File(facts) = &file.content
            && facts.form == TreeForm::Whole
            && is_archive(&file.path)
        {
            let archive: Arc<dyn ReadAt> = Arc::new(FileAt::open(&file.source)?);
            // The runtime skips archives that it cannot read, and `check` reports them.
            if KpackArchive::open(Arc::clone(&archive)).is_ok() {
                archives.insert(file.path.clone(), archive);
            }
        }
    }
    Ok(archives)
}

/// Whether a path in an install tree is a `.kpack` archive.
pub fn is_archive(path: &RelPath) -> bool {
    let in_directory = path.components().next() == Some(".kpack") && path.depth() > 1;
    let ending = path.file_name().rsplit_once('.').map(|(_, it)| it);
    in_directory && ending == Some("kpack")
}

fn split_binary(file: &TreeFile) -> Result<Option<SplitBinary>> {
    match &file.content {
        TreeContent::File(facts) if facts.elf.is_some() && facts.form == TreeForm::Whole => {}
        _ => return Ok(None),
    }
    let source = FileAt::open(&file.source)?;
    let look = || -> Result<_> {
        Ok(match host::look(&source)? {
            FatFileKind::Split => Some((file.path.clone(), host::references(&source)?)),
            _ => None,
        })
    };
    look().with_context(|| format!("failed to read `{}`", file.source.display()))
}
