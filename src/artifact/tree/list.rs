//! Finds the artifacts in a directory and reads their manifests.

use std::path::{Path, PathBuf};

use crate::{
    archive::ArchiveFormat,
    artifact::{
        ArchiveName, ArtifactManifest, ArtifactName,
        tree::{Skipped, below},
    },
    error::{Context, Hint, Result, bail, ensure},
    relpath::RelPath,
};

/// An artifact whose files have not been listed yet.
pub(super) struct ListedArtifact {
    pub(super) name: ArtifactName,
    pub(super) directory: PathBuf,
    /// The base directories of the manifest that exist.
    pub(super) basedirs: Vec<RelPath>,
}

/// The artifacts in a directory, sorted by name, and everything else with the reason to skip it.
pub(super) fn list(directory: &Path) -> Result<(Vec<ListedArtifact>, Vec<Skipped>)> {
    let (mut artifacts, mut skipped) = (Vec::new(), Vec::new());
    for child in fs_err::read_dir(directory)? {
        let child = child?;
        let name = child.file_name().to_string_lossy().into_owned();
        match artifact_name(&name, &child.path())? {
            Ok(artifact) => artifacts
                .push(read_artifact(artifact, child.path()).hint(format!("fetch `{name}` again"))?),
            Err(reason) => skipped.push(Skipped { name, reason }),
        }
    }
    artifacts.sort_by_cached_key(|artifact| artifact.name.to_string());
    skipped.sort_by(|one, other| one.name.cmp(&other.name));
    Ok((artifacts, skipped))
}

/// The name of the artifact at a path, or the reason why it is none.
fn artifact_name(name: &str, path: &Path) -> Result<Result<ArtifactName, String>> {
    // `metadata` follows symlinks: one to a directory is accepted, a dangling one is not.
    let is_directory = fs_err::metadata(path).is_ok_and(|found| found.is_dir());
    let reason = match ArtifactName::of_file(name) {
        _ if ArchiveFormat::from_file_name(name).is_some() => match ArchiveName::of_file(name) {
            Ok(_) => "an archive that is not unpacked".to_owned(),
            Err(invalid) => invalid.to_string(),
        },
        _ if name.strip_suffix(".part").is_some() => "an artifact that is not whole".to_owned(),
        Err(invalid) => invalid.to_string(),
        Ok(_) if !is_directory => "not a directory".to_owned(),
        Ok(name) => {
            let manifest = path.join(ArtifactManifest::FILE_NAME);
            match fs_err::symlink_metadata(manifest) {
                Ok(_) => return Ok(Ok(name)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    format!("it has no `{}`", ArtifactManifest::FILE_NAME)
                }
                Err(error) => return Err(error.into()),
            }
        }
    };
    Ok(Err(reason))
}

fn read_artifact(name: ArtifactName, directory: PathBuf) -> Result<ListedArtifact> {
    let manifest = read_manifest(&directory.join(ArtifactManifest::FILE_NAME))?;
    let mut basedirs = Vec::new();
    for basedir in manifest.basedirs() {
        if is_there(&directory, basedir)? {
            basedirs.push(basedir.clone());
        }
    }
    Ok(ListedArtifact {
        name,
        directory,
        basedirs,
    })
}

fn read_manifest(path: &Path) -> Result<ArtifactManifest> {
    let found = fs_err::symlink_metadata(path)?;
    ensure!(found.is_file(), "not a regular file: `{}`", path.display());
    // `parse` has the same limit, but the file would be in memory by then.
    ensure!(
        found.len() <= ArtifactManifest::MAX_LEN as u64,
        "more than {} bytes: `{}`",
        ArtifactManifest::MAX_LEN,
        path.display()
    );
    ArtifactManifest::parse(&fs_err::read(path)?)
        .with_context(|| format!("failed to read `{}`", path.display()))
}

/// Whether a base directory exists. It must not be reached through a symlink, which could lead
/// anywhere.
fn is_there(directory: &Path, basedir: &RelPath) -> Result<bool> {
    for step in basedir.ancestors().chain([basedir.clone()]) {
        let path = below(directory, &step);
        match fs_err::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => {}
            Ok(found) if found.is_symlink() => {
                bail!("a link in place of a base directory: `{}`", path.display())
            }
            Ok(_) => bail!("not a directory: `{}`", path.display()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}
