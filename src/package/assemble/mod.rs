//! Turns a [`BuildPlan`] into files. Each source is read once and each package is written once,
//! into a staging directory beside `dist`. The finished set then replaces `dist` as a whole, if that
//! is allowed and has space.

mod content;
pub mod pipeline;

use std::{
    collections::BTreeSet,
    io::{self, Seek as _},
    num::NonZeroUsize,
    path::Path,
    time::Instant,
};

use serde::Serialize;
use tempfile::NamedTempFile;
use walkdir::WalkDir;

use crate::{
    archive,
    atomic::{self, StagedDir},
    console::{World, many, size, took},
    digest::Sha256,
    error::{Context as _, Error, Result, anyhow, hinted},
    package::plan::{BuildPlan, MemberSource, PackageForm, PackagePlan, SdkEntry, SdkTreePacking},
    relpath::RelPath,
    version::Version,
    wheel::{WheelCompression, WheelMember},
};

use content::{CountedReader, MemberContent, pack_xz};
use pipeline::{WheelWork, WrittenWheel};

/// How to write the packages: timestamp, compression, number of threads.
#[derive(Clone, Copy, Debug)]
pub struct AssembleSettings {
    /// The timestamp of every member, in seconds since 1970.
    pub time: u64,
    pub compression: WheelCompression,
    /// How many threads compress. The packages have the same bytes for any number.
    pub jobs: NonZeroUsize,
    /// Members longer than this are compressed in blocks. The bytes of a wheel depend on it.
    pub block: NonZeroUsize,
}

/// A finished package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MadePackage {
    /// Its path below `dist/`.
    pub path: String,
    pub size: u64,
    pub sha256: Sha256,
    #[serde(skip)]
    pub members: usize,
}

/// Writes every package of `plan`, then replaces the directory `dist` with the finished set.
///
/// With `clean` it replaces all files in `dist`; otherwise a file there that is not of this set is an
/// error. If this fails, `dist` keeps its previous contents.
pub fn assemble(
    plan: &BuildPlan,
    dist: &Path,
    clean: bool,
    settings: &AssembleSettings,
    world: &World,
) -> Result<Vec<MadePackage>> {
    let began = Instant::now();
    check_space(plan, settings.compression, dist, world)?;
    let names: Vec<String> = plan.packages.iter().map(PackagePlan::path).collect();
    // An earlier build may have been killed between the two renames that replace `dist`.
    atomic::restore(dist)?;
    if !clean {
        check_existing(dist, &names)?;
    }
    let staged = StagedDir::beside(dist)?;
    let making = Making {
        version: &plan.version,
        settings,
        world,
        staging: staged.path(),
    };
    let mut all = Vec::new();
    for (package, path) in plan.packages.iter().zip(names) {
        world.stop.check()?;
        let made = making
            .package(package, &path)
            .with_context(|| format!("failed to make `{path}`"))
            .map_err(|error| advise(error, dist))?;
        let (members, bytes) = (many(made.members, "member"), size(made.size));
        let facts = format!("{path}: {members}, {bytes}");
        world.console.status("Packed", facts);
        all.push(made);
    }
    staged.replace()?;
    let bytes = size(all.iter().map(|made| made.size).sum());
    let (packages, time) = (many(all.len(), "package"), took(began.elapsed()));
    let facts = format!("{packages}, {bytes}, in {time}");
    world.console.status("Built", facts);
    Ok(all)
}

/// What all packages of one build share while they are written.
struct Making<'a> {
    version: &'a Version,
    settings: &'a AssembleSettings,
    world: &'a World,
    /// The staging directory that replaces `dist` at the end.
    staging: &'a Path,
}

impl Making<'_> {
    fn package(&self, package: &PackagePlan, path: &str) -> Result<MadePackage> {
        let file = self.staging.join(path);
        if let Some(directory) = file.parent() {
            fs_err::create_dir_all(directory)?;
        }
        // Readable, because the finished package is read back for its hash.
        let mut options = fs_err::OpenOptions::new();
        let options = options.read(true).write(true).create_new(true);
        let mut out = options.open(file)?;
        let (size, sha256, members) = match &package.form {
            PackageForm::Wheel(record) => {
                let written = self.wheel(package, record, path, &mut out)?;
                (written.len, written.sha256, written.record.rows().len())
            }
            PackageForm::Sdist(top) => {
                archive::write_sdist(&mut out, top, &package.texts, self.settings.time)?;
                out.rewind()?;
                let (sha256, size) = Sha256::of_reader(out)?;
                (size, sha256, package.texts.len())
            }
        };
        Ok(MadePackage {
            path: path.to_owned(),
            size,
            sha256,
            members,
        })
    }

    /// The content of a member.
    ///
    /// A local zip header has the length of its member, and the length of an xz stream is known
    /// only at its end. So `_devel.tar.xz` is packed into a temporary file first.
    fn content(&self, source: &MemberSource, path: &RelPath) -> Result<MemberContent> {
        let content = MemberContent::of(source, self.version, self.settings.time)?;
        if !matches!(source, MemberSource::Sdk(_, SdkTreePacking::TarXz)) {
            return Ok(content);
        }
        let (console, stop) = (&self.world.console, &self.world.stop);
        let progress = console.progress("Packing", path, Some(content.len));
        let source = CountedReader {
            source: content.open()?,
            stop,
            progress: &|bytes| progress.inc(bytes),
        };
        let mut file = NamedTempFile::new_in(self.staging)?;
        pack_xz(source, &mut file, self.settings.jobs)
            .map_err(|error| stop.check().map_or_else(Into::into, |()| error))?;
        MemberContent::packed(file.into_temp_path())
    }

    fn wheel(
        &self,
        package: &PackagePlan,
        record: &RelPath,
        path: &str,
        out: &mut fs_err::File,
    ) -> Result<WrittenWheel> {
        let (mut members, mut contents) = (Vec::new(), Vec::new());
        for (path, source) in package.members.iter() {
            let content = self
                .content(source, path)
                .with_context(|| format!("failed to prepare `{path}`"))?;
            members.push(WheelMember {
                path: path.clone(),
                executable: source.is_executable(),
                len: content.len,
            });
            contents.push(content);
        }
        let bytes = members.iter().map(|member| member.len).sum();
        let progress = self.world.console.progress("Packing", path, Some(bytes));
        let work = WheelWork {
            members: &members,
            open: &|index| contents[index].open(),
            texts: &package.texts,
            record,
            settings: self.settings,
            stop: &self.world.stop,
            progress: &|bytes| progress.inc(bytes),
        };
        pipeline::write_wheel(out, &work)
    }
}

/// Compressed packages of ROCm have a quarter to a half of the size of their contents.
const AT_MOST: u64 = 2;

/// Fails if `dist` has files that are not of this set.
fn check_existing(dist: &Path, names: &[String]) -> Result<()> {
    if !dist.exists() {
        return Ok(());
    }
    let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut stale = Vec::new();
    for entry in WalkDir::new(dist).min_depth(1).sort_by_file_name() {
        let entry = entry?;
        let name = entry.path().strip_prefix(dist).unwrap_or(dist);
        let name = name.to_string_lossy().replace('\\', "/");
        // `index` writes a `.metadata` file (PEP 658) beside each wheel, and the page for
        // `--find-links` beside the packages. They belong to those packages and may be replaced with
        // them.
        let package = name.strip_suffix(".metadata").unwrap_or(&name);
        let is_page = entry.file_name() == "index.html";
        if !entry.file_type().is_dir() && !is_page && !wanted.contains(package) {
            stale.push(name);
        }
    }
    let Some(first) = stale.first() else {
        return Ok(());
    };
    let (dist, count) = (dist.display(), stale.len());
    Err(hinted(
        anyhow!("`{dist}` holds {count} files that are not of this set, first `{first}`"),
        "pass `--clean` to replace all files there, or choose another `--dest-dir`",
    ))
}

/// Adds a hint if the cause of `error` is a full disk, a quota or a limit on file sizes.
fn advise(error: Error, dist: &Path) -> Error {
    let is_full = error.chain().any(|cause| {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let kind = cause.downcast_ref().map(io::Error::kind);
        matches!(kind, Some(StorageFull | QuotaExceeded | FileTooLarge))
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

/// Checks the free disk space before anything is packed. Fails if packages that are not compressed
/// would not fit. The size of compressed packages is not known beforehand.
fn check_space(
    plan: &BuildPlan,
    compression: WheelCompression,
    dist: &Path,
    world: &World,
) -> Result<()> {
    // If the system does not report the free space, start anyway. A full disk stops the build
    // with a hint of its own.
    let Some(free) = atomic::free_space(dist) else {
        return Ok(());
    };
    let (place, bytes) = (dist.display(), bytes(plan));
    let (needs, has) = (size(bytes), size(free));
    match compression {
        WheelCompression::Store if bytes > free => Err(hinted(
            anyhow!("not enough space for `{place}`: needs {needs}, has {has}"),
            "free disk space, choose another `--dest-dir`, or leave out `--compression store`",
        )),
        WheelCompression::Deflate(_) if bytes / AT_MOST > free => {
            world.console.warn(format!(
                "`{place}` may be too small: {needs} are to be compressed, has {has}"
            ));
            Ok(())
        }
        WheelCompression::Store | WheelCompression::Deflate(_) => Ok(()),
    }
}

/// The total size of the files that the packages contain.
fn bytes(plan: &BuildPlan) -> u64 {
    let members = plan.members().map(|(_, member)| match member {
        MemberSource::File(origin, _) => origin.len,
        MemberSource::Sdk(tree, _) => {
            let entries = tree.ordered().into_iter();
            let lengths = entries.map(|(_, entry)| match entry {
                SdkEntry::File(origin, _) => origin.len,
                _ => 0,
            });
            lengths.sum()
        }
        // Small enough to ignore.
        MemberSource::Launcher(_) | MemberSource::Text(_) | MemberSource::SdkManifest(_) => 0,
    });
    members.sum()
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
        check_existing(&dist, &names).unwrap();
        write(&dist.join("gfx/b.whl"), "b");
        check_existing(&dist, &names).unwrap();
        write(&dist.join("old-1.0.whl"), "o");
        let refused = check_existing(&dist, &names).unwrap_err().to_string();
        assert!(refused.ends_with("holds 1 files that are not of this set, first `old-1.0.whl`"));
        fs_err::remove_file(dist.join("old-1.0.whl")).unwrap();
        write(&dist.join("gfx/b.whl.metadata"), "b");
        write(&dist.join("index.html"), "a.whl");
        check_existing(&dist, &names).unwrap();
        #[cfg(unix)]
        {
            let link = directory.path().join("link");
            std::os::unix::fs::symlink(&dist, &link).unwrap();
            check_existing(&link, &names).unwrap();
        }
        write(&dist.join("old-1.0.whl.metadata"), "o");
        assert!(check_existing(&dist, &names).is_err());
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
