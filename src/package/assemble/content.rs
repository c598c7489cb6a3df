//! The content of one member: its length, which is known before it is read, a reader of its bytes
//! for packing, and random access to them for `check`.

use std::{
    io::{self, BufReader, Cursor, Read, Write},
    num::NonZeroUsize,
    path::PathBuf,
    sync::Arc,
};

use tempfile::TempPath;
use xz2::{
    bufread::XzEncoder,
    stream::{Check, Filters, LzmaOptions, MtStreamBuilder},
};

use super::memory::ContentKey;
use crate::{
    archive::{TarEntry, TarKind, TarPlan},
    artifact::{FileAt, TreeForm},
    elf::{self, Patch, PatchedReader, ReadAt, Rpath},
    error::{Context as _, Result},
    io::{FileState, Unchanged},
    package::{
        devel_manifest,
        plan::{BuildOrigin, MemberSource, SdkEntry, SdkTree, SdkTreePacking},
    },
    relpath::RelPath,
    version::Version,
};

/// The content of a member: its length, and how to read it.
pub(super) struct MemberContent {
    /// Of an SDK tree that is still to be packed as xz: the length of its tar.
    pub(super) len: u64,
    /// What it is made of, if that can be remembered.
    pub(super) key: Option<ContentKey>,
    /// What is still known of it after packing.
    pub(super) built: BuiltContent,
    packing: TreePacking,
}

/// Whether the content is packed as xz before it becomes a member.
enum TreePacking {
    Never,
    ToCome,
    /// The xz stream, in a temporary file.
    Done(TempPath),
}

impl MemberContent {
    /// Reads only as much of the source as the length of the content depends on.
    pub(super) fn of(source: &MemberSource, version: &Version, mtime: u64) -> Result<Self> {
        Ok(match source {
            MemberSource::File(origin, rpath) => {
                let (bytes, key) = SourceFile::of(origin, rpath.as_ref())?;
                Self { key, ..Self::plain(bytes) }
            }
            MemberSource::Launcher(target) => {
                Self::plain(SourceBytes::made(elf::launcher(target.as_bytes())?))
            }
            MemberSource::Text(text) => Self::plain(SourceBytes::made(text.as_bytes())),
            MemberSource::Sdk(tree, packing) => {
                let (mut entries, mut files, mut keys) = (Vec::new(), Vec::new(), Vec::new());
                for (path, kind, file) in members(tree)? {
                    let path = tree.top.join(path);
                    entries.push(TarEntry { path, kind });
                    let (bytes, key) = file.unzip();
                    files.push(bytes);
                    keys.extend(key);
                }
                let (xz, packing) = match packing {
                    SdkTreePacking::Tar => ("", TreePacking::Never),
                    SdkTreePacking::TarXz => (XZ, TreePacking::ToCome),
                };
                let how = format!("{entries:?} {mtime} {xz}");
                let keys: Option<Vec<ContentKey>> = keys.into_iter().collect();
                let tar = TarPlan::new(entries, mtime)?;
                Self {
                    len: tar.len,
                    key: keys.and_then(|keys| ContentKey::derived(&how, &keys)),
                    built: BuiltContent::Sdk(Arc::new(SdkArchive { tar, files })),
                    packing,
                }
            }
            MemberSource::SdkManifest(tree) => {
                let members = members(tree)?;
                let members = members.iter().map(|(path, kind, _)| (*path, kind));
                let text = devel_manifest::render(&version.to_string(), members);
                Self::plain(SourceBytes::made(text.into_bytes()))
            }
        })
    }

    fn plain(bytes: SourceBytes) -> Self {
        let packing = TreePacking::Never;
        Self { len: bytes.len(), key: None, built: BuiltContent::Plain(bytes), packing }
    }

    /// Whether [`pack_xz`] must pack what [`open`](Self::open) reads, before it can be a member.
    pub(super) fn is_to_pack(&self) -> bool {
        matches!(self.packing, TreePacking::ToCome)
    }

    /// From now on the content is what was packed: this file, of this length.
    pub(super) fn set_packed(&mut self, file: TempPath, len: u64) {
        self.len = len;
        self.packing = TreePacking::Done(file);
    }

    pub(super) fn open(&self) -> Result<Box<dyn Read + Send>> {
        if let TreePacking::Done(file) = &self.packing {
            return Ok(Box::new(fs_err::File::open(file)?));
        }
        Ok(match &self.built {
            BuiltContent::Plain(bytes) => bytes.open()?,
            BuiltContent::Sdk(archive) => {
                let (tar, archive) = (archive.tar.clone(), Arc::clone(archive));
                Box::new(tar.stream(move |index| match archive.files.get(index) {
                    Some(Some(bytes)) => bytes.open(),
                    _ => Ok(Box::new(io::empty())),
                }))
            }
        })
    }
}

/// What a member of a finished package was made of.
#[derive(Clone, Debug)]
pub enum BuiltContent {
    Plain(SourceBytes),
    /// The archive of the SDK tree, whether it is packed or not.
    Sdk(Arc<SdkArchive>),
}

/// The archive of the SDK tree.
#[derive(Debug)]
pub struct SdkArchive {
    tar: TarPlan,
    /// The contents of the files, by the index of their entry. An empty file may have none.
    files: Vec<Option<SourceBytes>>,
}

impl SdkArchive {
    /// The entries of the tar, in its order. Those that are not files, and some empty files, have no
    /// bytes.
    pub fn entries(&self) -> impl Iterator<Item = (&TarEntry, Option<&SourceBytes>)> {
        let files = self.files.iter().map(Option::as_ref);
        self.tar.entries().iter().zip(files)
    }
}

/// The bytes of a file as a package has them. They are not in memory, except for texts and
/// launchers.
#[derive(Clone, Debug)]
pub enum SourceBytes {
    Made(Arc<[u8]>),
    File(Arc<SourceFile>),
}

/// A file on disk, and the changes that it gets on its way into a package.
#[derive(Debug)]
pub struct SourceFile {
    path: PathBuf,
    state: FileState,
    form: TreeForm,
    /// The new run path. It comes after the change that `form` stands for.
    edit: Patch,
}

#[expect(clippy::len_without_is_empty, reason = "no caller asks whether it is empty")]
impl SourceBytes {
    pub(super) fn made(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self::Made(bytes.into())
    }

    pub fn len(&self) -> u64 {
        match self {
            Self::Made(bytes) => bytes.len(),
            Self::File(file) => file.edit.total_len(),
        }
    }

    /// The bytes of a text or a launcher, which are in memory.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Made(bytes) => Some(bytes),
            Self::File(_) => None,
        }
    }

    /// Gives the bytes to a function, which may read at any offset. Fails if they are not those that
    /// were packed, because the file has changed since then or meanwhile.
    pub fn examine<T>(&self, look: impl FnOnce(&dyn ReadAt) -> T) -> Result<T> {
        let file = match self {
            Self::Made(bytes) => return Ok(look(bytes)),
            Self::File(file) => file,
        };
        file.ensure_unchanged("after it was packed")?;
        let seen = look(&file.open()?);
        file.ensure_unchanged("after it was packed")?;
        Ok(seen)
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Made(bytes) => Box::new(Cursor::new(Arc::clone(bytes))),
            Self::File(file) => Box::new(Unchanged {
                reader: file.open()?,
                path: file.path.clone(),
                state: file.state,
                left: self.len(),
            }),
        })
    }
}

impl SourceFile {
    fn of(
        origin: &BuildOrigin,
        rpath: Option<&Rpath>,
    ) -> Result<(SourceBytes, Option<ContentKey>)> {
        let (path, form) = (origin.path.clone(), origin.form.clone());
        // Before anything of the file is read: if it changes from here on, the key is not that of
        // the next build.
        let found = fs_err::metadata(&path)?;
        let state = FileState::from_metadata(&found);
        if let Some(scanned) = &origin.state {
            // What is planned for it follows from its headers, which were read when it was scanned.
            scanned.ensure_same(&state, &path, "after it was scanned")?;
        }
        let key = match form {
            TreeForm::Whole => ContentKey::of_file(&path, &found, rpath),
            TreeForm::WithoutCode(_) | TreeForm::ToCome => None,
        };
        let edit = match rpath {
            // The edit is small, even for a file of gigabytes.
            Some(rpath) => elf::plan_rpath(&form.open(&path)?, rpath)
                .with_context(|| format!("failed to plan a new run path for `{}`", path.display()))?
                .into(),
            None if form == TreeForm::ToCome => Patch::nothing(state.stamp.len),
            None => Patch::nothing(origin.len),
        };
        let file = Self { path, state, form, edit };
        Ok((SourceBytes::File(Arc::new(file)), key))
    }

    fn open(&self) -> io::Result<PatchedReader<PatchedReader<FileAt>>> {
        let file = self.form.open(&self.path)?;
        Ok(PatchedReader::new(file, self.edit.clone()))
    }

    fn ensure_unchanged(&self, since: &str) -> io::Result<()> {
        self.state.ensure(&self.path, since)
    }
}

/// The bytes of a file of the SDK tree, and its key.
type TreeFileBytes = (SourceBytes, Option<ContentKey>);

/// The members of the SDK tree as a tar has them, and the contents of its files.
fn members(tree: &SdkTree) -> Result<Vec<(&RelPath, TarKind, Option<TreeFileBytes>)>> {
    let member = |(path, entry)| {
        let (kind, file) = match entry {
            &SdkEntry::Directory => (TarKind::Directory, None),
            SdkEntry::Shipped(text) | SdkEntry::Link(text) => {
                (TarKind::Symlink(text.clone()), None)
            }
            SdkEntry::File(origin, rpath) => {
                let file = SourceFile::of(origin, rpath.as_ref())?;
                let (len, executable) = (file.0.len(), origin.executable);
                (TarKind::File { len, executable }, Some(file))
            }
            SdkEntry::Empty => {
                let (len, executable) = (0, false);
                (TarKind::File { len, executable }, None)
            }
        };
        Ok((path, kind, file))
    };
    tree.ordered().into_iter().map(member).collect()
}

/// How [`pack_xz`] packs. What an earlier build packed in another way is another content.
const XZ: &str = "xz preset 6, window 4 MiB, blocks of 8 MiB";
/// The input of one xz block, which one thread packs. The output depends on it.
const XZ_BLOCK: u64 = 8 << 20;
/// The preset that TheRock uses for its packages. `WINDOW` is half of the preset's window, because
/// the memory of a thread grows with it.
const PRESET: u32 = 6;
const WINDOW: u32 = 4 << 20;
/// The size of the read buffer.
const READ: usize = 1 << 20;

/// Packs a tar as xz, on several threads with about 60 MiB each. The input is cut into blocks of a
/// fixed size, so the output has the same bytes for any number of threads.
pub(super) fn pack_xz(source: impl Read, out: &mut impl Write, jobs: NonZeroUsize) -> Result<()> {
    let mut options = LzmaOptions::new_preset(PRESET).context("failed to set xz up")?;
    options.dict_size(WINDOW);
    let mut filters = Filters::new();
    filters.lzma2(&options);
    let encoder = MtStreamBuilder::new()
        .threads(u32::try_from(jobs.get()).unwrap_or(u32::MAX))
        .block_size(XZ_BLOCK)
        .filters(filters)
        .check(Check::Crc64)
        .encoder()
        .with_context(|| format!("failed to set xz up for {jobs} threads"))?;
    let source = BufReader::with_capacity(READ, source);
    io::copy(&mut XzEncoder::new_stream(source, encoder), out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::specimen::{noise, prose};

    #[test]
    fn it_unpacks_to_its_source_and_is_the_same_for_any_number_of_jobs() {
        let source = [prose(1_000_000, 1), noise(200_000, 2), vec![0; 9_000_000]].concat();
        let pack = |jobs| {
            let mut out = Vec::new();
            pack_xz(&source[..], &mut out, NonZeroUsize::new(jobs).unwrap()).unwrap();
            out
        };
        let packed = pack(1);
        assert!(packed.len() < source.len() / 2);
        for jobs in [2, 5] {
            assert!(pack(jobs) == packed, "{jobs} jobs");
        }
        let mut plain = Vec::new();
        let mut decoder = xz2::read::XzDecoder::new(&packed[..]);
        decoder.read_to_end(&mut plain).unwrap();
        assert!(plain == source);
    }

    #[test]
    fn the_content_of_a_member_fails_if_its_file_changed_since_the_plan() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libx.so");
        fs_err::write(&path, "the first build").unwrap();
        let origin = BuildOrigin {
            artifact: "base_lib_generic".parse().unwrap(),
            path: path.clone(),
            len: 15,
            is_library: true,
            executable: false,
            form: TreeForm::Whole,
            state: Some(Box::new(FileState::of(&path).unwrap())),
        };
        let source = MemberSource::File(origin, None);
        let content = MemberContent::of(&source, &"1".parse().unwrap(), 0).unwrap();
        let read = || content.open().unwrap().read_to_end(&mut Vec::new());
        assert_eq!(read().unwrap(), 15);
        let other = path.with_extension("new");
        fs_err::write(&other, "the other build").unwrap();
        fs_err::rename(other, &path).unwrap();
        let said = read().unwrap_err().to_string();
        assert!(said.ends_with("libx.so` changed while it was packed"), "{said}");
        // Its headers were read when it was scanned, and are those of another file now.
        let said = MemberContent::of(&source, &"1".parse().unwrap(), 0).err();
        let said = said.unwrap().to_string();
        assert!(said.ends_with("libx.so` changed after it was scanned"), "{said}");
    }
}
