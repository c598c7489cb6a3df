//! The parts of a split artifact: whether they belong together, and the inverse of the split, which
//! puts device code from `.kpack` archives back into the binaries.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Seek as _, SeekFrom, Write as _},
    num::NonZeroUsize,
    path::Path,
};

use fs_err as fs;
use itertools::Itertools as _;
use serde::Serialize;

use crate::{
    artifact::{
        Artifact, ArtifactName, ArtifactOutput, Component, FileAt, TreeContent, TreeFile, TreeForm,
    },
    console::{many, size as format_size},
    elf::PatchedReader,
    error::{Context as _, Hint as _, Result, Stop, anyhow, bail, ensure},
    kpack::{
        archive::{KpackArchive, StoredCode},
        bundle,
        host::{self, FatFileKind, WrapperReference},
        loader::{SplitBinary, lost_code},
    },
    parallel,
    relpath::RelPath,
    target::{Family, Scope},
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
    for (name, parts) in by_name_and_component(artifacts) {
        let files: Vec<&TreeFile> = parts.iter().flat_map(|part| &part.files).collect();
        let archives = archives(&files)?.into_iter();
        // The runtime skips archives that it cannot read, and `check` reports them.
        let archives = archives.filter_map(|(path, archive)| Some((path, archive.ok()?)));
        let archives: Vec<_> = archives.collect();
        if !archives.is_empty() {
            binaries(name, &files, &archives, jobs, stop)?;
        }
    }
    Ok(())
}

/// An archive with its path in the install tree, or why it cannot be read.
type FoundArchive<'a> = (&'a RelPath, Result<KpackArchive<FileAt>>);

fn archives<'a>(files: &[&'a TreeFile]) -> Result<Vec<FoundArchive<'a>>> {
    let archives = files.iter().filter(|file| {
        let is_whole = matches!(&file.content, TreeContent::File(it) if it.form == TreeForm::Whole);
        is_whole && is_archive(&file.path)
    });
    let archives = archives.map(|file| {
        let archive = KpackArchive::open(FileAt::open(&file.source)?);
        let shown = || format!("failed to read `{}`", file.source.display());
        Ok((&file.path, archive.with_context(shown)))
    });
    archives.collect()
}

/// Whether a path in an install tree is a `.kpack` archive.
fn is_archive(path: &RelPath) -> bool {
    let in_directory = path.components().next() == Some(".kpack") && path.depth() > 1;
    let ending = path.file_name().rsplit_once('.').map(|(_, it)| it);
    in_directory && ending == Some("kpack")
}

/// The split binaries among the files of an artifact; `None` for each other file. Fails if one of
/// them would not find its code in the archives.
fn binaries(
    (name, component): (&str, Component),
    files: &[&TreeFile],
    archives: &[(&RelPath, KpackArchive<FileAt>)],
    jobs: NonZeroUsize,
    stop: &Stop,
) -> Result<Vec<Option<SplitBinary>>> {
    let binaries = parallel::map(files, jobs, stop, |file| split_binary(file))?;
    let split: Vec<&SplitBinary> = binaries.iter().flatten().collect();
    let archives = archives.iter();
    let archives = archives.map(|(path, archive)| ((*path).clone(), archive));
    if let Some(first) = lost_code(&split, &archives.collect()) {
        return Err(anyhow!(
            "the parts of artifact `{name}_{component}` do not fit together: {first}"
        ))
        .hint(
            "take all parts from one build, or split the fat artifacts of each family again with \
             `rocwheel split`",
        );
    }
    Ok(binaries)
}

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

/// A recombined artifact, with its statistics.
#[derive(Clone, Debug, derive_more::Display, Serialize)]
#[display(
    "{name}: {}, {}, {}",
    many(*binaries, "binary"),
    many(*code_objects, "code object"),
    format_size(*size)
)]
pub struct RecombinedArtifact {
    pub name: String,
    pub binaries: usize,
    pub code_objects: usize,
    pub size: u64,
}

/// The code of one binary: by ordinal of the bundle, then by name of the entry in the bundle.
pub type BinaryCode<'a> =
    BTreeMap<usize, BTreeMap<String, (&'a KpackArchive<FileAt>, &'a StoredCode)>>;

/// Groups artifacts by name and component, with the name of the artifact that each group becomes.
/// It is generic if all parts are, and otherwise one of the family.
pub fn parts_by_name<'a>(
    artifacts: &'a [Artifact],
    family: &Family,
) -> Vec<(ArtifactName, Vec<&'a Artifact>)> {
    let parts = by_name_and_component(artifacts);
    let named = parts.into_values().filter_map(|parts| {
        let is_generic = parts.iter().all(|it| it.name.scope == Scope::Generic);
        let scope = if is_generic {
            Scope::Generic
        } else {
            Scope::Family(family.clone())
        };
        let first = parts.first()?.name.clone();
        Some((ArtifactName { scope, ..first }, parts))
    });
    named.collect()
}

/// Recombines the parts of one artifact.
pub fn recombine(
    name: &ArtifactName,
    parts: &[&Artifact],
    output: &ArtifactOutput,
    jobs: NonZeroUsize,
    stop: &Stop,
) -> Result<RecombinedArtifact> {
    let files = merged(parts)?;
    let archives = archives(&files)?.into_iter();
    let archives = archives.map(|(path, archive)| Ok((path, archive?)));
    let archives: Vec<_> = archives.collect::<Result<_>>()?;
    let binaries = binaries((&name.name, name.component), &files, &archives, jobs, stop)?;
    let mut code = code_by_binary(&archives)?;
    let mut made = RecombinedArtifact {
        name: name.to_string(),
        binaries: 0,
        code_objects: 0,
        size: 0,
    };
    for (file, binary) in files.iter().zip(&binaries) {
        stop.check()?;
        if is_archive(&file.path) {
            continue;
        }
        let Some((to, _)) = output.add(&made.name, file)? else {
            continue;
        };
        if let Some((_, references)) = binary {
            ensure!(
                !archives.is_empty(),
                "a binary has no code, and no archive has it: `{}`",
                file.path
            );
            let name = file.basedir.join(&file.path).to_string();
            let bundles = code.remove(&name).unwrap_or_default();
            let count = restore_code(&file.source, references, &bundles, &to)
                .with_context(|| format!("failed to recombine `{}`", file.source.display()))?;
            made.code_objects += count;
            made.binaries += 1;
        } else {
            fs::copy(&file.source, &to)?;
        }
        made.size += fs::metadata(&to)?.len();
    }
    if let Some(name) = code.keys().next() {
        return Err(anyhow!("no binary for the code of `{name}`")).hint(
            "put all artifacts of one `split` into `--artifact-dir`, the generic one too; Windows binaries cannot be recombined",
        );
    }
    let basedirs = parts.iter().flat_map(|part| &part.basedirs).unique();
    output.describe(&made.name, basedirs.map(|basedir| &**basedir))?;
    Ok(made)
}

/// All files of all parts, by base directory and path. Only directories may be in several parts.
fn merged<'a>(parts: &[&'a Artifact]) -> Result<Vec<&'a TreeFile>> {
    let mut files: BTreeMap<(&RelPath, &RelPath), &TreeFile> = BTreeMap::new();
    for file in parts.iter().flat_map(|part| &part.files) {
        if let Some(before) = files.insert((&*file.basedir, &file.path), file) {
            let both = [before, file].map(|it| it.content == TreeContent::Directory);
            ensure!(both == [true; 2], "two parts have `{}`", file.path);
        }
    }
    let files: Vec<&TreeFile> = files.into_values().collect();
    ensure_not_below_links(&files)?;
    Ok(files)
}

/// Refuses a file of one part that is below a symlink of another part: it would be written to the
/// target of that symlink, which may be anywhere.
fn ensure_not_below_links(files: &[&TreeFile]) -> Result<()> {
    let place = |file: &&TreeFile| file.basedir.join(&file.path);
    let links = files.iter();
    let links = links.filter(|file| matches!(file.content, TreeContent::Link { .. }));
    let links: BTreeSet<RelPath> = links.map(place).collect();
    for path in files.iter().map(place) {
        if let Some(link) = path.ancestors().find(|above| links.contains(above)) {
            bail!("`{path}` lies below `{link}`, which is a symlink of another part");
        }
    }
    Ok(())
}

/// The code in the archives, by the name of the binary. Keys are `{path}#{ordinal of the bundle}`.
pub fn code_by_binary<'a>(
    archives: &'a [(&RelPath, KpackArchive<FileAt>)],
) -> Result<BTreeMap<String, BinaryCode<'a>>> {
    let mut index: BTreeMap<String, BinaryCode<'_>> = BTreeMap::new();
    for (_, archive) in archives {
        for code in archive.codes() {
            let key = code.key.rsplit_once('#');
            let (name, ordinal) = key.context("a key without a number")?;
            let ordinal: usize = ordinal
                .parse()
                .with_context(|| format!("failed to read the key `{}`", code.key))?;
            ensure!(ordinal < bundle::MOST, "bundle {ordinal} of `{name}`");
            let bundles = index.entry(name.to_owned()).or_default();
            let codes = bundles.entry(ordinal).or_default();
            ensure!(
                codes.insert(entry_name(code), (archive, code)).is_none(),
                "two archives have `{}` for `{}`",
                code.key,
                code.target
            );
        }
    }
    Ok(index)
}

/// The name of the entry in the bundle: as the compiler wrote it, if the archive has recorded it.
fn entry_name(code: &StoredCode) -> String {
    let said = code.origin.as_ref().map(|origin| &origin.target);
    let said = said.filter(|said| said.ends_with(code.target.as_str()));
    said.cloned()
        .unwrap_or_else(|| format!("hipv4-amdgcn-amd-amdhsa--{}", code.target))
}

/// Writes a binary with its device code and verifies the result. Returns the number of code
/// objects.
pub fn restore_code(
    from: &Path,
    references: &[WrapperReference],
    bundles: &BinaryCode<'_>,
    to: &Path,
) -> Result<usize> {
    let source = FileAt::open(from)?;
    let wanted: Vec<usize> = references.iter().map(|one| one.index).collect();
    // A bundle may have a wrapper but no code, or code but no wrapper. Both need a place, or the
    // ordinals of the bundles behind it would change.
    let led_to = wanted.iter().max().map_or(0, |last| last.saturating_add(1));
    ensure!(
        led_to <= bundle::MOST,
        "a wrapper that leads to bundle {}",
        led_to.saturating_sub(1)
    );
    let held = bundles.keys().next_back().map_or(0, |last| last + 1);
    let none = BTreeMap::new();
    let bundles: Vec<_> = (0..led_to.max(held))
        .map(|at| bundles.get(&at).unwrap_or(&none))
        .collect();
    let frames = bundles.iter().map(|codes| {
        let sizes = codes.iter().map(|(name, (_, code))| (name, code.size));
        bundle::frame(&sizes.collect::<Vec<_>>())
    });
    let frames: Vec<bundle::Frame> = frames.collect();
    let lens: Vec<u64> = frames.iter().map(|frame| frame.len).collect();
    let (plan, starts) = host::restore(&source, &lens)?;
    let mut out = fs::File::create(to)?;
    io::copy(&mut PatchedReader::new(&source, plan), &mut out)?;
    let mut written = 0;
    for ((codes, frame), start) in bundles.iter().zip(&frames).zip(&starts) {
        out.seek(SeekFrom::Start(*start))?;
        out.write_all(&frame.header)?;
        for ((archive, code), inside) in codes.values().zip(&frame.starts) {
            out.seek(SeekFrom::Start(start.saturating_add(*inside)))?;
            out.write_all(&archive.read(code)?)?;
            written += 1;
        }
    }
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    drop(out);
    accept(&FileAt::open(to)?, &wanted, &lens)?;
    Ok(written)
}

/// Reads the written binary again, as `split` would: it has to be fat, its wrappers have to point
/// to the same bundles as before, and the bundles must have the expected lengths.
fn accept(file: &FileAt, wanted: &[usize], lens: &[u64]) -> Result<()> {
    let FatFileKind::Fat(fat) = host::look(file)? else {
        bail!("the code is there, and is not found");
    };
    let found: Vec<usize> = fat.wrappers.iter().map(|one| one.bundle).collect();
    ensure!(
        found == wanted,
        "a wrapper leads to another bundle than it did"
    );
    let found: Vec<u64> = fat.bundles.iter().map(|bundle| bundle.len).collect();
    ensure!(found == lens, "the bundles are not those that were written");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::artifact::LinkEnd;

    fn part(name: &str, path: &str, content: TreeContent) -> Artifact {
        let basedir: Arc<RelPath> = Arc::new("stage".parse().unwrap());
        let file = TreeFile {
            path: path.parse().unwrap(),
            basedir: Arc::clone(&basedir),
            source: path.into(),
            content,
        };
        Artifact {
            name: ArtifactName::of_file(name).unwrap(),
            basedirs: vec![basedir],
            files: vec![file],
        }
    }

    #[test]
    fn nothing_is_written_through_a_symlink_of_another_part() {
        let text = "/etc".to_owned();
        let end = LinkEnd::Escapes;
        let link = part("x_lib_generic", "lib", TreeContent::Link { text, end });
        let below = part("x_lib_gfx942", "lib/y", TreeContent::Directory);
        let said = merged(&[&link, &below]).unwrap_err().to_string();
        let expected = "`stage/lib/y` lies below `stage/lib`, which is a symlink of another part";
        assert_eq!(said, expected);
        assert_eq!(merged(&[&link]).unwrap().len(), 1);
    }
}
