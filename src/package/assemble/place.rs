//! `dist.part` until the set is whole, then `dist`.

use std::{
    collections::BTreeSet,
    error::Error as StdError,
    io,
    path::{Path, PathBuf},
};

use crate::{
    error::{Context as _, Error, Result, anyhow, hinted},
    package::assemble::Existing,
};

/// A directory that goes when this goes, unless it was put in its place.
pub(super) struct Part {
    path: PathBuf,
    target: PathBuf,
    put: bool,
}

/// Refuses to replace files that are not of this set.
pub(super) fn check(dist: &Path, names: &[String], existing: Existing) -> Result<()> {
    if existing == Existing::Replace || !dist.exists() {
        return Ok(());
    }
    let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let stale: Vec<String> = files(dist, "")?
        .into_iter()
        // What `index` wrote beside a package goes with it.
        .filter(|name| !wanted.contains(name.strip_suffix(".metadata").unwrap_or(name)))
        .collect();
    match stale.first() {
        None => Ok(()),
        Some(first) => Err(hinted(
            anyhow!(
                "`{}` holds {} files that are not of this set, first `{first}`",
                dist.display(),
                stale.len()
            ),
            "pass `--clean` to replace what is there, or choose another `--dest-dir`",
        )),
    }
}

/// Every file below a directory, by its path seen from there, sorted.
fn files(directory: &Path, prefix: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(directory)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path(), &format!("{name}/"))?);
        } else {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// Puts a set back that a build took out of its place before it was killed.
pub(super) fn restore(dist: &Path) -> Result<()> {
    let old = beside(dist, "old")?;
    if old.exists() && !dist.exists() {
        fs_err::rename(&old, dist)?;
    }
    Ok(())
}

/// What to do about a disk that takes no more.
pub(super) fn advise(error: Error, dist: &Path) -> Error {
    let kind = |cause: &(dyn StdError + 'static)| cause.downcast_ref().map(io::Error::kind);
    let is_full = error.chain().any(|cause| {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(
            kind(cause),
            Some(StorageFull | QuotaExceeded | FileTooLarge)
        )
    });
    if !is_full {
        return error;
    }
    let hint = format!(
        "make room where `{}` is, or pass another `--dest-dir`; nothing of the new set was left",
        dist.display()
    );
    hinted(error, hint)
}

impl Part {
    /// Begins anew, whatever an earlier attempt left.
    pub(super) fn create(target: &Path) -> Result<Self> {
        let part = Self {
            path: beside(target, "part")?,
            target: target.to_owned(),
            put: false,
        };
        clear(&part.path)?;
        fs_err::create_dir_all(&part.path)?;
        Ok(part)
    }

    pub(super) fn create_file(&self, path: &str) -> Result<fs_err::File> {
        let path = self.path.join(path);
        if let Some(directory) = path.parent() {
            fs_err::create_dir_all(directory)?;
        }
        // Readable too: a finished archive is hashed from the page cache.
        Ok(fs_err::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?)
    }

    /// Gives the set its final name; what was there goes only when the new set is in its place.
    pub(super) fn put(mut self) -> Result<()> {
        let old = beside(&self.target, "old")?;
        clear(&old)?;
        let replaces = self.target.exists();
        if replaces {
            fs_err::rename(&self.target, &old)?;
        }
        if let Err(error) = fs_err::rename(&self.path, &self.target) {
            if replaces {
                fs_err::rename(&old, &self.target)?;
            }
            return Err(error.into());
        }
        self.put = true;
        clear(&old)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.put {
            // There is another error to report already.
            let _ = clear(&self.path);
        }
    }
}

fn beside(target: &Path, suffix: &str) -> Result<PathBuf> {
    let name = target
        .file_name()
        .context("a directory for the packages that has a name")?;
    let mut name = name.to_owned();
    name.push(format!(".{suffix}"));
    Ok(target.with_file_name(name))
}

fn clear(path: &Path) -> Result<()> {
    match fs_err::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    #[test]
    fn a_set_of_other_files_is_refused_and_the_same_files_are_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let dist = directory.path().join("dist");
        let names = ["a.whl".to_owned(), "gfx/b.whl".to_owned()];
        check(&dist, &names, Existing::RefuseOthers).unwrap();
        write(&dist.join("gfx/b.whl"), "b");
        check(&dist, &names, Existing::RefuseOthers).unwrap();
        write(&dist.join("old-1.0.whl"), "o");
        let refused = check(&dist, &names, Existing::RefuseOthers)
            .unwrap_err()
            .to_string();
        assert!(refused.ends_with("holds 1 files that are not of this set, first `old-1.0.whl`"));
        fs_err::remove_file(dist.join("old-1.0.whl")).unwrap();
        write(&dist.join("gfx/b.whl.metadata"), "b");
        check(&dist, &names, Existing::RefuseOthers).unwrap();
        write(&dist.join("old-1.0.whl.metadata"), "o");
        assert!(check(&dist, &names, Existing::RefuseOthers).is_err());
        check(&dist, &names, Existing::Replace).unwrap();
    }

    #[test]
    fn nothing_is_left_of_a_set_that_was_not_finished() {
        let directory = tempfile::tempdir().unwrap();
        let dist = directory.path().join("dist");
        write(&dist.join("old.whl"), "o");
        let part = Part::create(&dist).unwrap();
        part.create_file("a/new.whl").unwrap();
        drop(part);
        assert_eq!(files(directory.path(), "").unwrap(), ["dist/old.whl"]);
    }

    #[test]
    fn a_set_that_was_out_of_its_place_is_put_back() {
        let directory = tempfile::tempdir().unwrap();
        let dist = directory.path().join("dist");
        write(&directory.path().join("dist.old/old.whl"), "o");
        restore(&dist).unwrap();
        assert_eq!(files(directory.path(), "").unwrap(), ["dist/old.whl"]);
    }

    #[test]
    fn a_full_disk_has_a_way_out_and_other_errors_are_left_alone() {
        let advised = |kind| {
            let error = anyhow!(io::Error::from(kind)).context("write `a.whl`");
            crate::error::render(&advise(error, Path::new("out/dist")))
        };
        insta::assert_snapshot!(advised(io::ErrorKind::StorageFull), @"
        error: write `a.whl`
          caused by: no storage space

        hint: make room where `out/dist` is, or pass another `--dest-dir`; nothing of the new set was left
        ");
        assert!(!advised(io::ErrorKind::PermissionDenied).contains("hint"));
    }

    #[test]
    fn a_finished_set_replaces_the_old_one_whole() {
        let directory = tempfile::tempdir().unwrap();
        let dist = directory.path().join("dist");
        write(&dist.join("old.whl"), "o");
        write(&directory.path().join("dist.part/stale.whl"), "s");
        let part = Part::create(&dist).unwrap();
        part.create_file("new.whl").unwrap();
        part.put().unwrap();
        assert_eq!(files(directory.path(), "").unwrap(), ["dist/new.whl"]);
    }
}
