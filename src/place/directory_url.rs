//! The address of a directory on this machine.

use std::path::{Component, Path, PathBuf, Prefix};

use fs_err as fs;

use crate::index::Urls;
use rocwheel_base::error::{Context as _, Result, bail};
use rocwheel_store::location::percent_encode;

/// The `file://` URLs of a set in a local directory, which need not exist yet.
pub fn urls_of_directory(directory: &Path) -> Result<Urls> {
    let absolute = std::path::absolute(directory)
        .with_context(|| format!("failed to find `{}`", directory.display()))?;
    Ok(file_url(&resolved(&absolute))?.parse()?)
}

/// Resolves symlinks and `..` in the longest part of the path that exists.
fn resolved(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(above), Ok(below)) = (fs::canonicalize(above), path.strip_prefix(above)) {
            return above.join(below);
        }
    }
    path.to_owned()
}

/// The URL of an absolute path: `file:///tmp/a%20b/`.
fn file_url(path: &Path) -> Result<String> {
    let mut url = String::from("file://");
    for component in path.components() {
        match component {
            Component::Prefix(prefix) => match prefix.kind() {
                Prefix::Disk(letter) | Prefix::VerbatimDisk(letter) => {
                    url.extend(["/", &char::from(letter).to_string(), ":"]);
                }
                _ => bail!("a network path has no address: `{}`", path.display()),
            },
            Component::RootDir => {}
            Component::Normal(name) => {
                let name =
                    name.to_str().with_context(|| format!("not Unicode: `{}`", path.display()))?;
                url.extend(["/", &percent_encode(name)]);
            }
            Component::CurDir | Component::ParentDir => {
                bail!("not a direct path: `{}`", path.display());
            }
        }
    }
    Ok(url + "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn any_path_becomes_an_address() {
        let url = file_url(Path::new("/tmp/a b+c%41/é'\"<x>#?/python")).unwrap();
        insta::assert_snapshot!(url, @"file:///tmp/a%20b%2Bc%2541/%C3%A9%27%22%3Cx%3E%23%3F/python/");
        assert!(url.parse::<Urls>().is_ok());
        assert_eq!(file_url(Path::new("/")).unwrap(), "file:///");
        assert!(file_url(Path::new("/a/../b")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_is_not_there_yet_has_an_address() {
        let here = fs::canonicalize(".").unwrap();
        let expected = file_url(&here).unwrap() + "not/yet%20there/";
        for path in ["not/yet there", "./src/../not/yet there/"] {
            let urls = urls_of_directory(Path::new(path)).unwrap();
            assert_eq!(urls.to_string(), expected);
        }
    }
}
