//! [`PlannedMember`]: the source of each member of a wheel, as the plan wants it.

use std::{
    io::{self, BufReader, Read, Write},
    num::NonZeroUsize,
    sync::Arc,
};

use tempfile::TempPath;
use xz2::{
    bufread::XzEncoder,
    stream::{Check, Filters, LzmaOptions, MtStreamBuilder},
};

use super::memory::ContentKey;
use crate::{
    artifact::TreeForm,
    package::plan::{BuildOrigin, MemberSource, SdkEntry, SdkTree, SdkTreePacking},
    policy::devel_manifest,
};
use rocwheel_base::{
    error::{Context as _, Result},
    io::FileIdentity,
    relpath::RelPath,
    version::Version,
};
use rocwheel_elf::{Patch, Rpath};
use rocwheel_wheel::{
    FileSource, MadeBytes, MemberReader, Source, SourceMember,
    tar::{TarEntry, TarKind, TarPlan},
};

/// A member of a wheel that is planned: its source, and what is known of it.
pub(super) struct PlannedMember {
    pub(super) packed: SourceMember,
    /// What it is made of, if that can be remembered.
    pub(super) key: Option<ContentKey>,
    /// The development tree, if the member is its archive, whether as tar or as xz.
    pub(super) tree: Option<Arc<SdkArchive>>,
    /// Whether [`pack_xz`] must pack the source first. Until then the member has the length of the tar.
    pub(super) is_to_pack: bool,
    /// The packed source, if there is one. Dropping it removes the file.
    xz: Option<TempPath>,
}

impl PlannedMember {
    /// Reads only as much of the sources as the length of the member depends on.
    pub(super) fn new(
        path: &RelPath,
        planned: &MemberSource,
        version: &Version,
        mtime: u64,
    ) -> Result<Self> {
        let executable = planned.is_executable();
        let plain = |source, key| Self {
            packed: SourceMember { path: path.clone(), executable, source },
            key,
            tree: None,
            is_to_pack: false,
            xz: None,
        };
        Ok(match planned {
            MemberSource::File(origin, rpath) => {
                let KeyedFile { file, key } = KeyedFile::plan(origin, rpath.as_ref())?;
                plain(Source::File(Arc::new(file)), key)
            }
            MemberSource::Launcher(target) => {
                plain(Source::Bytes(rocwheel_elf::launcher(target.as_bytes())?.into()), None)
            }
            MemberSource::Text(text) => plain(Source::text(text), None),
            MemberSource::SdkManifest(tree) => {
                let entries = plan_entries(tree)?;
                let members = entries.iter().map(|entry| (entry.path, &entry.kind));
                let manifest = devel_manifest::render(&version.to_string(), members);
                plain(Source::text(&manifest), None)
            }
            MemberSource::Sdk(tree, packing) => {
                let entries = plan_entries(tree)?;
                // If one file cannot be remembered, the archive cannot.
                let keys: Option<Vec<ContentKey>> = entries
                    .iter()
                    .filter_map(|entry| entry.file.as_ref())
                    .map(|keyed| keyed.key.clone())
                    .collect();
                let archive = Arc::new(SdkArchive::new(&tree.top, entries, mtime)?);
                let (compression, is_to_pack) = match packing {
                    SdkTreePacking::Tar => ("", false),
                    SdkTreePacking::TarXz => (XZ, true),
                };
                let how = format!("{:?} {mtime} {compression}", archive.tar.entries());
                let key = keys.and_then(|keys| ContentKey::derived(&how, &keys));
                let source = Source::Made(Arc::<SdkArchive>::clone(&archive));
                Self { tree: Some(archive), is_to_pack, ..plain(source, key) }
            }
        })
    }

    /// Takes the packed file as the source from now on.
    pub(super) fn set_packed(&mut self, xz: TempPath) -> Result<()> {
        self.packed.source = Source::file(&xz)?;
        self.xz = Some(xz);
        self.is_to_pack = false;
        Ok(())
    }
}

/// The archive of the SDK tree, as a tar.
#[derive(Debug)]
pub struct SdkArchive {
    tar: TarPlan,
    /// The files, by the index of their entry. An empty file may have none.
    files: Vec<Option<FileSource>>,
}

impl SdkArchive {
    fn new(top: &RelPath, planned: Vec<PlannedEntry<'_>>, mtime: u64) -> Result<Self> {
        let mut entries = Vec::new();
        let mut files = Vec::new();
        for PlannedEntry { path, kind, file } in planned {
            entries.push(TarEntry { path: top.join(path), kind });
            files.push(file.map(|keyed| keyed.file));
        }
        let tar = TarPlan::new(entries, mtime)?;
        Ok(Self { tar, files })
    }

    /// The entries of the tar, in its order, each with the source of its bytes. An entry that is not a
    /// file has no source, and an empty file may have none.
    pub fn entries(&self) -> impl Iterator<Item = (&TarEntry, Option<&FileSource>)> {
        self.tar.entries().iter().zip(self.files.iter().map(Option::as_ref))
    }
}

impl MadeBytes for SdkArchive {
    fn member_len(&self) -> u64 {
        self.tar.len
    }

    fn open(self: Arc<Self>) -> Result<MemberReader> {
        Ok(Box::new(self.tar.clone().stream(move |index| match self.files.get(index) {
            Some(Some(file)) => file.open(),
            _ => Ok(Box::new(io::empty())),
        })))
    }
}

/// A file of an artifact with its changes.
struct KeyedFile {
    file: FileSource,
    /// What it is made of, if that can be remembered.
    key: Option<ContentKey>,
}

impl KeyedFile {
    fn plan(origin: &BuildOrigin, rpath: Option<&Rpath>) -> Result<Self> {
        let path = origin.path.clone();
        let form = &origin.form;
        // The identity is taken before any byte of the file is read. If the file changes from here on, the
        // next build finds another identity, and does not take the content of this build for its content.
        let identity = FileIdentity::of(&path)?;
        if let Some(scanned) = &origin.scanned {
            // What is planned for the file follows from its headers, which were read when it was scanned.
            scanned.ensure_same(&identity, &path, "after it was scanned")?;
        }
        let (without_code, key) = match form {
            TreeForm::Whole => {
                (Patch::nothing(identity.len), Some(ContentKey::of_file(&path, identity, rpath)))
            }
            // An archive that this build wrote is a new file in each build, and a key does not say which
            // code is removed.
            TreeForm::ToCome => (Patch::nothing(identity.len), None),
            TreeForm::WithoutCode(removal) => ((**removal).clone(), None),
        };
        let run_path = match rpath {
            // The edit is small, even for a file of gigabytes.
            Some(rpath) => rocwheel_elf::plan_rpath(&form.open(&path)?, rpath)
                .with_context(|| format!("failed to plan a new run path for `{}`", path.display()))?
                .into(),
            None => Patch::nothing(without_code.total_len()),
        };
        let file = FileSource { path, identity, patches: [without_code, run_path] };
        Ok(Self { file, key })
    }
}

/// An entry of the SDK tree as a tar has it.
struct PlannedEntry<'a> {
    path: &'a RelPath,
    kind: TarKind,
    /// The source, if the entry is a file that is not empty.
    file: Option<KeyedFile>,
}

/// Plans the entries of the SDK tree, in the order of the archive.
fn plan_entries(tree: &SdkTree) -> Result<Vec<PlannedEntry<'_>>> {
    let plan_entry = |(path, entry)| {
        let (kind, file) = match entry {
            &SdkEntry::Directory => (TarKind::Directory, None),
            SdkEntry::Shipped(target) | SdkEntry::Link(target) => {
                (TarKind::Symlink(target.clone()), None)
            }
            SdkEntry::File(origin, rpath) => {
                let keyed = KeyedFile::plan(origin, rpath.as_ref())?;
                let len = keyed.file.member_len();
                (TarKind::File { len, executable: origin.executable }, Some(keyed))
            }
            SdkEntry::Empty => (TarKind::File { len: 0, executable: false }, None),
        };
        Ok(PlannedEntry { path, kind, file })
    };
    tree.ordered().into_iter().map(plan_entry).collect()
}

/// How [`pack_xz`] packs. It is part of the key of an archive: packed in another way, the same tree has other
/// bytes.
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
    use rocwheel_test_files::contents::{noise, prose};

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
            scanned: Some(Box::new(FileIdentity::of(&path).unwrap())),
        };
        let source = MemberSource::File(origin, None);
        let member = "libx.so".parse().unwrap();
        let version = "1".parse().unwrap();
        let planned = PlannedMember::new(&member, &source, &version, 0).unwrap();
        let read = || planned.packed.source.open().unwrap().read_to_end(&mut Vec::new());
        assert_eq!(read().unwrap(), 15);
        let other = path.with_extension("new");
        fs_err::write(&other, "the other build").unwrap();
        fs_err::rename(other, &path).unwrap();
        let said = read().unwrap_err().to_string();
        assert!(said.ends_with("libx.so` changed while it was packed"), "{said}");
        // Its headers were read when it was scanned, and are those of another file now.
        let said = PlannedMember::new(&member, &source, &version, 0).err();
        let said = said.unwrap().to_string();
        assert!(said.ends_with("libx.so` changed after it was scanned"), "{said}");
    }
}
