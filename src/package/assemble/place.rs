//! The destination directory of a set: what may be replaced there, and how package files are
//! created.

use std::{collections::BTreeSet, error::Error as StdError, io, path::Path};

use crate::{
    error::{Error, Result, anyhow, hinted},
    package::assemble::Existing,
};

/// Fails if `dist` has files that are not of this set and `existing` does not allow that.
pub(super) fn check(dist: &Path, names: &[String], existing: Existing) -> Result<()> {
    if existing == Existing::Replace || !dist.exists() {
        return Ok(());
    }
    let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let stale: Vec<String> = files(dist, "")?
        .into_iter()
        // `index` writes a `.metadata` file (PEP 658) beside each wheel. It belongs to that wheel
        // and may be replaced with it.
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

/// Paths of all files below `directory`, relative to it and sorted.
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

/// Adds a hint if the cause of `error` is a full disk, a quota or a limit on file sizes.
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
        "free disk space at `{}`, or pass another `--dest-dir`; nothing of the new set was left",
        dist.display()
    );
    hinted(error, hint)
}

/// Creates the file of a package, and its directory if that is missing.
pub(super) fn create(staging: &Path, package: &str) -> Result<fs_err::File> {
    let path = staging.join(package);
    if let Some(directory) = path.parent() {
        fs_err::create_dir_all(directory)?;
    }
    // Readable, because the finished package is read back for its hash.
    let mut options = fs_err::OpenOptions::new();
    Ok(options.read(true).write(true).create_new(true).open(path)?)
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
    fn a_full_disk_has_a_way_out_and_other_errors_are_left_alone() {
        let advised = |kind| {
            let error = anyhow!(io::Error::from(kind)).context("failed to write `a.whl`");
            crate::error::render(&advise(error, Path::new("out/dist")))
        };
        insta::assert_snapshot!(advised(io::ErrorKind::StorageFull), @"
        error: failed to write `a.whl`
          caused by: no storage space

        hint: free disk space at `out/dist`, or pass another `--dest-dir`; nothing of the new set was left
        ");
        assert!(!advised(io::ErrorKind::PermissionDenied).contains("hint"));
    }
}
