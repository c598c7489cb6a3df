//! Whether a set may be written to a directory, and whether it fits there.

use std::{collections::BTreeSet, path::Path};

use walkdir::WalkDir;

use crate::{
    index::pages::is_index_page,
    package::plan::{BuildPlan, MemberSource, SdkEntry},
};
use rocwheel_base::{
    atomic,
    error::{Result, anyhow, hinted},
    io::read_text,
    quantity::{many, size},
};

/// The files of `dist` that a build may replace.
pub(super) struct ReplacedFiles {
    /// The paths of the packages of the set.
    names: BTreeSet<String>,
    /// With `--clean`, also every file that was there when the build began.
    cleaned: BTreeSet<String>,
}

impl ReplacedFiles {
    /// Looks into `dist`. Without `--clean`, fails if it has files that are not of this set.
    pub(super) fn find(dist: &Path, names: &[String], clean: bool) -> Result<Self> {
        let mut replaced =
            Self { names: names.iter().cloned().collect(), cleaned: BTreeSet::new() };
        if !dist.exists() {
            return Ok(replaced);
        }
        let mut others = Vec::new();
        for entry in WalkDir::new(dist).min_depth(1).sort_by_file_name() {
            let entry = entry?;
            let path = entry.path().strip_prefix(dist).unwrap_or(dist);
            let name = path.to_string_lossy().replace('\\', "/");
            if !entry.file_type().is_dir() && !replaced.has(dist, &name) {
                others.push(name);
            }
        }
        if clean {
            replaced.cleaned.extend(others);
            return Ok(replaced);
        }
        let Some(first) = others.first() else {
            return Ok(replaced);
        };
        let dist = dist.display();
        let files = many(others.len(), "file");
        Err(hinted(
            anyhow!("`{dist}` holds {files} that this set does not have, first `{first}`"),
            "pass `--clean` to replace all files there, or choose another `--output-dir`",
        ))
    }

    /// Whether the file at this path below a directory, which is or was `dist`, may be replaced.
    pub(super) fn has(&self, directory: &Path, name: &str) -> bool {
        // `index` writes a `.metadata` file (PEP 658) beside each wheel. It belongs to the wheel, and may be
        // replaced with it.
        let package = name.strip_suffix(".metadata").unwrap_or(name);
        self.names.contains(package) || self.cleaned.contains(name) || self.is_page(directory, name)
    }

    /// Whether a file is one of the pages for `--find-links` that `index` writes beside the packages. A page
    /// that somebody else wrote is not, wherever it is.
    fn is_page(&self, directory: &Path, name: &str) -> bool {
        let is_family = |name: &str| {
            let directory = format!("{name}/");
            self.names.iter().any(|package| package.starts_with(&directory))
        };
        // `index.html`, and of the family `gfx94X-dcgpu`, `gfx94X-dcgpu/index.html` and `gfx94X-dcgpu.html`.
        let is_path = match name.strip_suffix("index.html") {
            Some("") => true,
            Some(parent) => parent.strip_suffix('/').is_some_and(is_family),
            None => name.strip_suffix(".html").is_some_and(is_family),
        };
        is_path && read_text(&directory.join(name)).is_ok_and(|text| is_index_page(name, &text))
    }
}

/// Fails before anything is packed if packages that are not compressed would not fit on the disk. The size
/// of compressed packages is not known beforehand.
pub(super) fn check_space(plan: &BuildPlan, dist: &Path) -> Result<()> {
    // If the system does not report the free space, start anyway.
    let Some(free) = atomic::free_space(dist) else {
        return Ok(());
    };
    let bytes = count_bytes(plan.members().map(|(_, member)| member));
    if bytes <= free {
        return Ok(());
    }
    Err(hinted(
        anyhow!(
            "not enough space for `{}`: needs {}, has {}",
            dist.display(),
            size(bytes),
            size(free)
        ),
        "free disk space, choose another `--output-dir`, or leave out `--compression store`",
    ))
}

/// The total size of the files that packages contain.
pub(super) fn count_bytes<'a>(members: impl Iterator<Item = &'a MemberSource>) -> u64 {
    let sizes = members.map(|member| match member {
        MemberSource::File(origin, _) => origin.len,
        MemberSource::Sdk(tree, _) => {
            let sizes = tree.ordered().into_iter().map(|(_, entry)| match entry {
                SdkEntry::File(origin, _) => origin.len,
                _ => 0,
            });
            sizes.sum()
        }
        // Small enough to ignore.
        MemberSource::Launcher(_) | MemberSource::Text(_) | MemberSource::SdkManifest(_) => 0,
    });
    sizes.sum()
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
        let check_existing =
            |dist: &Path, names: &[String]| ReplacedFiles::find(dist, names, false);
        check_existing(&dist, &names).unwrap();
        write(&dist.join("gfx/b.whl"), "b");
        check_existing(&dist, &names).unwrap();
        write(&dist.join("old-1.0.whl"), "o");
        let cleaned = ReplacedFiles::find(&dist, &names, true).unwrap();
        assert!(cleaned.has(&dist, "old-1.0.whl") && !cleaned.has(&dist, "came-later.whl"));
        let refused = check_existing(&dist, &names).err().unwrap().to_string();
        assert!(refused.ends_with("holds 1 file that this set does not have, first `old-1.0.whl`"));
        fs_err::remove_file(dist.join("old-1.0.whl")).unwrap();
        write(&dist.join("gfx/b.whl.metadata"), "b");
        let page = "<meta name=\"generator\" content=\"rocwheel\">";
        for path in ["index.html", "gfx.html", "gfx/index.html"] {
            write(&dist.join(path), page);
        }
        check_existing(&dist, &names).unwrap();
        for (path, text) in
            [("index.html", "mine"), ("gfx.html", "mine"), ("docs/index.html", page)]
        {
            write(&dist.join(path), text);
            assert!(check_existing(&dist, &names).is_err(), "{path}");
            fs_err::remove_file(dist.join(path)).unwrap();
        }
        #[cfg(unix)]
        {
            let link = directory.path().join("link");
            std::os::unix::fs::symlink(&dist, &link).unwrap();
            check_existing(&link, &names).unwrap();
        }
        write(&dist.join("old-1.0.whl.metadata"), "o");
        assert!(check_existing(&dist, &names).is_err());
    }
}
