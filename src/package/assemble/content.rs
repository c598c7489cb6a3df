//! The content of one member: its length, which is known before it is read, and a reader of its
//! bytes.

use std::{
    io::{self, Cursor, Read},
    path::PathBuf,
    sync::Arc,
};

use tempfile::TempPath;

use crate::{
    archive::{TarEntry, TarKind, TarPlan},
    artifact::TreeForm,
    elf::{self, EditPlan, PatchedReader, Rpath},
    error::{Context as _, Result},
    package::{
        assemble::unchanged::{FileStamp, Unchanged},
        devel_manifest,
        origin::BuildOrigin,
        plan::MemberSource,
        sdk_tree::{SdkEntry, SdkTree},
    },
    version::Version,
};

pub(super) enum MemberContent {
    Bytes(Arc<[u8]>),
    File {
        path: PathBuf,
        len: u64,
        form: TreeForm,
        stamp: FileStamp,
    },
    /// A file with a new run path. The patch plan is small, even for a file of gigabytes.
    Patched {
        path: PathBuf,
        form: TreeForm,
        plan: EditPlan,
        stamp: FileStamp,
    },
    /// A temporary file, which is deleted when this is dropped, and its length.
    Packed(TempPath, u64),
    Tar {
        plan: TarPlan,
        files: Arc<[Option<MemberContent>]>,
    },
}

impl MemberContent {
    /// Reads only as much of the source as the length of the content depends on.
    pub(super) fn of(source: &MemberSource, version: &Version, mtime: u64) -> Result<Self> {
        Ok(match source {
            MemberSource::Copy(origin) => Self::file(origin)?,
            MemberSource::Relink(origin, rpath) => Self::patched(origin, rpath)?,
            MemberSource::Launcher(target) => Self::Bytes(elf::launcher(target.as_bytes())?.into()),
            MemberSource::Text(text) => Self::Bytes(text.as_bytes().into()),
            MemberSource::Sdk(tree, _) => Self::tar(tree, mtime)?,
            MemberSource::SdkManifest(tree) => {
                Self::Bytes(manifest(tree, version)?.into_bytes().into())
            }
        })
    }

    pub(super) fn packed(file: TempPath) -> Result<Self> {
        let len = fs_err::metadata(&file)?.len();
        Ok(Self::Packed(file, len))
    }

    fn file(origin: &BuildOrigin) -> Result<Self> {
        let stamp = FileStamp::of(&origin.path)?;
        let len = match origin.form {
            TreeForm::ToCome => stamp.len,
            TreeForm::Whole | TreeForm::WithoutCode(_) => origin.len,
        };
        Ok(Self::File {
            path: origin.path.clone(),
            len,
            form: origin.form.clone(),
            stamp,
        })
    }

    fn patched(origin: &BuildOrigin, rpath: &Rpath) -> Result<Self> {
        let stamp = FileStamp::of(&origin.path)?;
        let file = origin.form.open(&origin.path)?;
        let plan = elf::plan_rpath(&file, rpath).with_context(|| {
            format!(
                "failed to plan a new run path for `{}`",
                origin.path.display()
            )
        })?;
        if plan.is_noop() {
            return Self::file(origin);
        }
        Ok(Self::Patched {
            path: origin.path.clone(),
            form: origin.form.clone(),
            plan,
            stamp,
        })
    }

    fn tar(tree: &SdkTree, mtime: u64) -> Result<Self> {
        let (mut entries, mut files) = (Vec::new(), Vec::new());
        for (path, entry) in tree.ordered() {
            let content = sdk_content(entry)?;
            entries.push(TarEntry {
                path: tree.top.join(path),
                kind: tar_kind(entry, content.as_ref()),
            });
            files.push(content);
        }
        Ok(Self::Tar {
            plan: TarPlan::new(entries, mtime)?,
            files: files.into(),
        })
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { len, .. } | Self::Packed(_, len) => *len,
            Self::Patched { plan, .. } => plan.total_len(),
            Self::Tar { plan, .. } => plan.len(),
        }
    }

    pub(super) fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Bytes(bytes) => Box::new(Cursor::new(Arc::clone(bytes))),
            Self::Packed(file, _) => Box::new(fs_err::File::open(file)?),
            Self::File {
                path,
                form: form @ TreeForm::WithoutCode(_),
                stamp,
                ..
            } => Box::new(Unchanged::new(form.open(path)?, path, *stamp, self.len())),
            Self::File { path, stamp, .. } => {
                let file = fs_err::File::open(path)?;
                Box::new(Unchanged::new(file, path, *stamp, self.len()))
            }
            Self::Patched {
                path,
                form,
                plan,
                stamp,
            } => {
                let reader = PatchedReader::new(form.open(path)?, plan.clone());
                Box::new(Unchanged::new(reader, path, *stamp, self.len()))
            }
            Self::Tar { plan, files } => {
                let files = Arc::clone(files);
                Box::new(plan.stream(move |index| match files.get(index) {
                    Some(Some(content)) => content.open(),
                    _ => Ok(Box::new(io::empty()) as Box<dyn Read + Send>),
                }))
            }
        })
    }
}

/// The content of a file of the SDK tree; `None` for links and other entries without content.
fn sdk_content(entry: &SdkEntry) -> Result<Option<MemberContent>> {
    Ok(match entry {
        SdkEntry::File {
            origin,
            rpath: Some(rpath),
            ..
        } => Some(MemberContent::patched(origin, rpath)?),
        SdkEntry::File {
            origin,
            rpath: None,
            ..
        } => Some(MemberContent::file(origin)?),
        SdkEntry::Empty => Some(MemberContent::Bytes(Arc::from([]))),
        SdkEntry::Directory | SdkEntry::Shipped(_) | SdkEntry::Link(_) => None,
    })
}

fn tar_kind(entry: &SdkEntry, content: Option<&MemberContent>) -> TarKind {
    match entry {
        SdkEntry::Directory => TarKind::Directory,
        SdkEntry::Shipped(text) | SdkEntry::Link(text) => TarKind::Symlink(text.clone()),
        SdkEntry::File { mode, .. } => TarKind::File {
            len: content.map_or(0, MemberContent::len),
            executable: *mode == crate::wheel::FileMode::Executable,
        },
        SdkEntry::Empty => TarKind::File {
            len: 0,
            executable: false,
        },
    }
}

fn manifest(tree: &SdkTree, version: &Version) -> Result<String> {
    let mut members = Vec::new();
    for (path, entry) in tree.ordered() {
        members.push((path, tar_kind(entry, sdk_content(entry)?.as_ref())));
    }
    let members = members.iter().map(|(path, kind)| (*path, kind));
    Ok(devel_manifest::render(&version.to_string(), members))
}
