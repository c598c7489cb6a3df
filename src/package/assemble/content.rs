//! The content of one member: its length, which is known before it is read, and a reader of its
//! bytes.

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
    artifact::{FileStamp, TreeForm},
    elf::{self, EditPlan, PatchedReader, Rpath},
    error::{Context as _, Result, Stop, bail},
    package::{
        devel_manifest,
        plan::{BuildOrigin, MemberSource, SdkEntry, SdkTree},
    },
    relpath::RelPath,
    version::Version,
};

/// The length of a member, and a function that opens a reader of its bytes.
pub(super) struct MemberContent {
    pub(super) len: u64,
    /// What it is made of, if that can be remembered.
    pub(super) key: Option<ContentKey>,
    open: Box<dyn Fn() -> Result<Box<dyn Read + Send>> + Send + Sync>,
}

impl MemberContent {
    fn new<R: Read + Send + 'static>(
        len: u64,
        open: impl Fn() -> Result<R> + Send + Sync + 'static,
    ) -> Self {
        Self {
            len,
            key: None,
            open: Box::new(move || Ok(Box::new(open()?))),
        }
    }

    fn with_key(self, key: Option<ContentKey>) -> Self {
        Self { key, ..self }
    }

    /// A content that is not made, because an earlier wheel has it packed.
    pub(super) fn taken(len: u64, key: Option<ContentKey>) -> Self {
        let open = || -> Result<io::Empty> { bail!("it was taken over and is not made") };
        Self::new(len, open).with_key(key)
    }

    /// Reads only as much of the source as the length of the content depends on.
    pub(super) fn of(source: &MemberSource, version: &Version, mtime: u64) -> Result<Self> {
        Ok(match source {
            MemberSource::File(origin, rpath) => Self::file(origin, rpath.as_ref())?,
            MemberSource::Launcher(target) => Self::bytes(elf::launcher(target.as_bytes())?),
            MemberSource::Text(text) => Self::bytes(text.as_bytes()),
            MemberSource::Sdk(tree, _) => {
                let (mut entries, mut files) = (Vec::new(), Vec::new());
                for (path, kind, content) in members(tree)? {
                    let path = tree.top.join(path);
                    entries.push(TarEntry { path, kind });
                    files.push(content);
                }
                let keys = files.iter().flatten().map(|file| file.key.clone());
                let keys: Option<Vec<ContentKey>> = keys.collect();
                let how = format!("{entries:?} {mtime}");
                let key = keys.map(|keys| ContentKey::of_all(&how, &keys));
                let (plan, files) = (TarPlan::new(entries, mtime)?, Arc::new(files));
                let content = Self::new(plan.len, move || {
                    let files = Arc::clone(&files);
                    Ok(plan.stream(move |index| match files.get(index) {
                        Some(Some(content)) => content.open(),
                        _ => Ok(Box::new(io::empty())),
                    }))
                });
                content.with_key(key)
            }
            MemberSource::SdkManifest(tree) => {
                let members = members(tree)?;
                let members = members.iter().map(|(path, kind, _)| (*path, kind));
                Self::bytes(devel_manifest::render(&version.to_string(), members).into_bytes())
            }
        })
    }

    fn bytes(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self::new(bytes.len() as u64, move || {
            Ok(Cursor::new(Arc::clone(&bytes)))
        })
    }

    /// A temporary file, which is deleted when this is dropped.
    pub(super) fn packed(file: TempPath, key: Option<ContentKey>) -> Result<Self> {
        let len = fs_err::metadata(&file)?.len();
        let content = Self::new(len, move || Ok(fs_err::File::open(&file)?));
        Ok(content.with_key(key))
    }

    fn file(origin: &BuildOrigin, rpath: Option<&Rpath>) -> Result<Self> {
        let (path, form) = (origin.path.clone(), origin.form.clone());
        // Before anything of the file is read: if it changes from here on, the key is not that of
        // the next build.
        let key = match form {
            TreeForm::Whole => ContentKey::of_file(&path, rpath)?,
            TreeForm::WithoutCode(_) | TreeForm::ToCome => None,
        };
        let stamp = FileStamp::of(&path)?;
        // The edit is small, even for a file of gigabytes.
        let edit = |rpath| -> Result<EditPlan> {
            let plan = elf::plan_rpath(&form.open(&path)?, rpath);
            plan.with_context(|| format!("failed to plan a new run path for `{}`", path.display()))
        };
        let edit = rpath
            .map(edit)
            .transpose()?
            .filter(|edit| !edit.is_nothing());
        let len = match (&edit, &form) {
            (Some(edit), _) => edit.total_len(),
            (None, TreeForm::ToCome) => stamp.len,
            (None, TreeForm::Whole | TreeForm::WithoutCode(_)) => origin.len,
        };
        let content = Self::new(len, move || {
            let file = form.open(&path)?;
            let reader: Box<dyn Read + Send> = match &edit {
                Some(edit) => Box::new(PatchedReader::new(file, edit.clone())),
                None => Box::new(file),
            };
            Ok(Unchanged {
                reader,
                path: path.clone(),
                stamp,
                left: len,
            })
        });
        Ok(content.with_key(key))
    }

    pub(super) fn open(&self) -> Result<Box<dyn Read + Send>> {
        (self.open)()
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
            SdkEntry::File(origin, rpath) => {
                let content = MemberContent::file(origin, rpath.as_ref())?;
                let (len, executable) = (content.len, origin.executable);
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

/// A reader that fails at its last byte if the file is not the one that the plan was made for.
///
/// To compare only the length is not enough. If a build links a library again while it is packed,
/// the new library mostly has the same length. The wheel would then have the first half of the old
/// library and the second half of the new one.
pub(super) struct Unchanged<R> {
    pub(super) reader: R,
    pub(super) path: PathBuf,
    pub(super) stamp: FileStamp,
    /// Bytes not yet read. The stamp is compared when this becomes 0.
    pub(super) left: u64,
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

/// A reader that reports progress, and fails when the user stops the build.
pub(super) struct CountedReader<'a, R> {
    pub(super) source: R,
    pub(super) stop: &'a Stop,
    pub(super) progress: &'a dyn Fn(u64),
}

impl<R: Read> Read for CountedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check().map_err(io::Error::other)?;
        let read = self.source.read(buffer)?;
        (self.progress)(read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::wheel::specimen::{noise, prose};

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
        };
        let source = MemberSource::File(origin, None);
        let content = MemberContent::of(&source, &"1".parse().unwrap(), 0).unwrap();
        let read = || content.open().unwrap().read_to_end(&mut Vec::new());
        assert_eq!(read().unwrap(), 15);
        let other = path.with_extension("new");
        fs_err::write(&other, "the other build").unwrap();
        fs_err::rename(other, &path).unwrap();
        let said = read().unwrap_err().to_string();
        assert!(
            said.ends_with("libx.so` changed while it was packed"),
            "{said}"
        );
    }
}
