//! What one artifact has in an install tree, kept beside it: who has a path is not guessed.

use std::{collections::BTreeMap, io, path::Path};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::{
    artifact::{Artifact, Content, TreeFile},
    error::{Context as _, Result},
    relpath::RelPath,
};

/// Each path with what stands there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing(pub(super) BTreeMap<RelPath, Thing>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Thing {
    Directory,
    File { size: u64, executable: bool },
    Link(String),
}

impl Listing {
    pub(super) fn of(artifact: &Artifact) -> Self {
        let files = artifact.files.iter();
        Self(
            files
                .map(|file| (file.path.clone(), Thing::of(file)))
                .collect(),
        )
    }

    /// Nothing, where nothing is or nothing that can be understood.
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let things: Option<BTreeMap<String, Thing>> = serde_json::from_str(&text).ok();
        let Some(things) = things else {
            return Ok(None);
        };
        let parsed = things.into_iter().map(|(path, thing)| {
            let path: RelPath = path.parse()?;
            Ok((path, thing))
        });
        Ok(parsed.collect::<Result<_>>().ok().map(Self))
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let things: BTreeMap<&str, &Thing> = self
            .0
            .iter()
            .map(|(path, thing)| (path.as_str(), thing))
            .collect();
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let mut text = serde_json::to_string(&things)?;
        text.push('\n');
        fs::write(&part, text)
            .and_then(|()| fs::rename(&part, path))
            .context("record what is merged")
    }

    /// Whether all of it is there as it was.
    pub(super) fn stands_in(&self, root: &Path) -> Result<bool> {
        for (path, thing) in &self.0 {
            if Thing::at(&root.join(path.as_str()))?.as_ref() != Some(thing) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Thing {
    pub(super) fn of(file: &TreeFile) -> Self {
        match &file.content {
            Content::Directory => Self::Directory,
            Content::Link { text, .. } => Self::Link(text.clone()),
            Content::File(facts) => Self::File {
                size: facts.len,
                // Elsewhere no file on disk says so.
                executable: cfg!(unix) && facts.mode.executable,
            },
        }
    }

    /// What stands at a path; nothing, where nothing or something else is.
    pub(super) fn at(path: &Path) -> Result<Option<Self>> {
        let found = match fs::symlink_metadata(path) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            found => found?,
        };
        Ok(if found.is_dir() {
            Some(Self::Directory)
        } else if found.is_symlink() {
            let text = fs::read_link(path)?;
            Some(Self::Link(text.to_string_lossy().replace('\\', "/")))
        } else if found.is_file() {
            #[cfg(unix)]
            let executable = std::os::unix::fs::MetadataExt::mode(&found) & 0o111 != 0;
            #[cfg(not(unix))]
            let executable = false;
            Some(Self::File {
                size: found.len(),
                executable,
            })
        } else {
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing() -> Listing {
        let thing = |path: &str, thing| (path.parse().unwrap(), thing);
        Listing(BTreeMap::from([
            thing("lib", Thing::Directory),
            thing("lib/y", Thing::Link("x".to_owned())),
            thing(
                "lib/x",
                Thing::File {
                    size: 3,
                    executable: false,
                },
            ),
        ]))
    }

    #[test]
    fn a_listing_comes_back_and_damage_is_no_listing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        assert_eq!(Listing::read(&path).unwrap(), None);
        listing().write(&path).unwrap();
        assert_eq!(Listing::read(&path).unwrap(), Some(listing()));
        for text in ["", "[]", r#"{"../x": "directory"}"#, r#"{"x": "door"}"#] {
            fs::write(&path, text).unwrap();
            assert_eq!(Listing::read(&path).unwrap(), None, "{text}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_listing_stands_until_anything_changes() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let make = || {
            let _ = fs::remove_dir_all(root.join("lib"));
            fs::create_dir(root.join("lib")).unwrap();
            fs::write(root.join("lib/x"), "abc").unwrap();
            fs_err::os::unix::fs::symlink("x", root.join("lib/y")).unwrap();
        };
        make();
        assert!(listing().stands_in(root).unwrap());
        let changes: [fn(&Path); 4] = [
            |root| fs::write(root.join("lib/x"), "ab").unwrap(),
            |root| {
                let mut mode = fs::metadata(root.join("lib/x")).unwrap().permissions();
                mode.set_mode(0o755);
                fs::set_permissions(root.join("lib/x"), mode).unwrap();
            },
            |root| fs::remove_file(root.join("lib/y")).unwrap(),
            |root| fs::remove_dir_all(root.join("lib")).unwrap(),
        ];
        for change in changes {
            make();
            change(root);
            assert!(!listing().stands_in(root).unwrap());
        }
    }
}
