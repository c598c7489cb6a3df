//! The content of one member: its length, which is known before it is read, and a reader of its
//! bytes.

use std::{
    io::{self, Cursor, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use tempfile::TempPath;

use crate::{
    archive::{TarEntry, TarKind, TarPlan},
    artifact::TreeForm,
    elf::{self, EditPlan, PatchedReader, Rpath},
    error::{Context as _, Result},
    package::{
        devel_manifest,
        plan::MemberSource,
        sdk_tree::{BuildOrigin, SdkEntry, SdkTree},
    },
    relpath::RelPath,
    version::Version,
    wheel::FileMode,
};

pub(super) enum MemberContent {
    Bytes(Arc<[u8]>),
    File {
        path: PathBuf,
        form: TreeForm,
        /// The edit that gives it a new run path. It is small, even for a file of gigabytes.
        edit: Option<EditPlan>,
        len: u64,
        stamp: FileStamp,
    },
    /// A temporary file, which is deleted when this is dropped, and its length.
    Packed(TempPath, u64),
    Tar(TarPlan, Arc<[Option<MemberContent>]>),
}

impl MemberContent {
    /// Reads only as much of the source as the length of the content depends on.
    pub(super) fn of(source: &MemberSource, version: &Version, mtime: u64) -> Result<Self> {
        Ok(match source {
            MemberSource::Copy(origin) => Self::file(origin, None)?,
            MemberSource::Relink(origin, rpath) => Self::file(origin, Some(rpath))?,
            MemberSource::Launcher(target) => Self::Bytes(elf::launcher(target.as_bytes())?.into()),
            MemberSource::Text(text) => Self::Bytes(text.as_bytes().into()),
            MemberSource::Sdk(tree, _) => {
                let (mut entries, mut files) = (Vec::new(), Vec::new());
                for (path, kind, content) in members(tree)? {
                    let path = tree.top.join(path);
                    entries.push(TarEntry { path, kind });
                    files.push(content);
                }
                Self::Tar(TarPlan::new(entries, mtime)?, files.into())
            }
            MemberSource::SdkManifest(tree) => {
                let members = members(tree)?;
                let members = members.iter().map(|(path, kind, _)| (*path, kind));
                let manifest = devel_manifest::render(&version.to_string(), members);
                Self::Bytes(manifest.into_bytes().into())
            }
        })
    }

    pub(super) fn packed(file: TempPath) -> Result<Self> {
        let len = fs_err::metadata(&file)?.len();
        Ok(Self::Packed(file, len))
    }

    fn file(origin: &BuildOrigin, rpath: Option<&Rpath>) -> Result<Self> {
        let (path, stamp) = (&origin.path, FileStamp::of(&origin.path)?);
        let edit = |rpath| -> Result<EditPlan> {
            let plan = elf::plan_rpath(&origin.form.open(path)?, rpath);
            plan.with_context(|| format!("failed to plan a new run path for `{}`", path.display()))
        };
        let edit = rpath
            .map(edit)
            .transpose()?
            .filter(|edit| !edit.is_nothing());
        let len = match (&edit, &origin.form) {
            (Some(edit), _) => edit.total_len(),
            (None, TreeForm::ToCome) => stamp.len,
            (None, TreeForm::Whole | TreeForm::WithoutCode(_)) => origin.len,
        };
        Ok(Self::File {
            path: path.clone(),
            form: origin.form.clone(),
            edit,
            len,
            stamp,
        })
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { len, .. } | Self::Packed(_, len) => *len,
            Self::Tar(plan, _) => plan.len(),
        }
    }

    pub(super) fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Bytes(bytes) => Box::new(Cursor::new(Arc::clone(bytes))),
            Self::Packed(file, _) => Box::new(fs_err::File::open(file)?),
            Self::File {
                path,
                form,
                edit,
                len,
                stamp,
            } => {
                let file = form.open(path)?;
                let reader: Box<dyn Read + Send> = match edit {
                    Some(edit) => Box::new(PatchedReader::new(file, edit.clone())),
                    None => Box::new(file),
                };
                Box::new(Unchanged {
                    reader,
                    path: path.clone(),
                    stamp: *stamp,
                    left: *len,
                })
            }
            Self::Tar(plan, files) => {
                let files = Arc::clone(files);
                Box::new(plan.stream(move |index| match files.get(index) {
                    Some(Some(content)) => content.open(),
                    _ => Ok(Box::new(io::empty()) as Box<dyn Read + Send>),
                }))
            }
        })
    }
}

/// The members of the SDK tree as a tar has them, and the contents of its files.
fn members(tree: &SdkTree) -> Result<Vec<(&RelPath, TarKind, Option<MemberContent>)>> {
    let member = |(path, entry)| {
        let (kind, content) = match entry {
            &SdkEntry::Directory => (TarKind::Directory, None),
            SdkEntry::Shipped(text) | SdkEntry::Link(text) => {
                (TarKind::Symlink(text.clone()), None)
            }
            SdkEntry::File {
                origin,
                mode,
                rpath,
            } => {
                let content = MemberContent::file(origin, rpath.as_ref())?;
                let (len, executable) = (content.len(), *mode == FileMode::Executable);
                (TarKind::File { len, executable }, Some(content))
            }
            SdkEntry::Empty => {
                let (len, executable) = (0, false);
                (TarKind::File { len, executable }, None)
            }
        };
        Ok((path, kind, content))
    };
    tree.ordered().into_iter().map(member).collect()
}

/// Length, modification time and inode of a file. If another program writes or replaces the file,
/// at least one of them is expected to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    len: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

impl FileStamp {
    fn of(path: &Path) -> io::Result<Self> {
        let found = fs_err::metadata(path)?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&found);
        #[cfg(not(unix))]
        let inode = 0;
        Ok(Self {
            len: found.len(),
            modified: found.modified().ok(),
            inode,
        })
    }
}

/// A reader that fails at its last byte if the file is not the one that the plan was made for.
///
/// To compare only the length is not enough. If a build links a library again while it is packed,
/// the new library mostly has the same length. The wheel would then have the first half of the old
/// library and the second half of the new one.
struct Unchanged<R> {
    reader: R,
    path: PathBuf,
    stamp: FileStamp,
    /// Bytes not yet read. The stamp is compared when this becomes 0.
    left: u64,
}

impl<R: Read> Read for Unchanged<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.left = self.left.saturating_sub(read as u64);
        if self.left == 0 && FileStamp::of(&self.path)? != self.stamp {
            let path = self.path.display();
            return Err(io::Error::other(format!(
                "`{path}` changed while it was packed"
            )));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_that_is_written_while_it_is_read_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libx.so");
        let read = |change: &dyn Fn()| {
            fs_err::write(&path, "the first build").unwrap();
            let stamp = FileStamp::of(&path).unwrap();
            let file = fs_err::File::open(&path).unwrap();
            let mut reader = Unchanged {
                reader: file,
                path: path.clone(),
                stamp,
                left: stamp.len,
            };
            reader.read_exact(&mut [0; 7]).unwrap();
            change();
            reader.read_to_end(&mut Vec::new())
        };
        assert_eq!(read(&|| {}).unwrap(), 8);
        let later = || {
            fs_err::write(&path, "the other build").unwrap();
            let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
            let time = SystemTime::now() + Duration::from_secs(9);
            file.file().set_modified(time).unwrap();
        };
        let said = read(&later).unwrap_err().to_string();
        assert!(
            said.ends_with("libx.so` changed while it was packed"),
            "{said}"
        );
        let replaced = || {
            let other = path.with_extension("new");
            fs_err::copy(&path, &other).unwrap();
            fs_err::rename(other, &path).unwrap();
        };
        assert!(read(&replaced).is_err());
    }
}
