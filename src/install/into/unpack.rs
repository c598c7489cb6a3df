//! Unpacks wheels beside each other.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use fs_err::{self as fs, File, OpenOptions};

use crate::{
    atomic,
    console::World,
    digest::{Hasher, Sha256},
    error::{Context as _, Error, Hint as _, No, Result, anyhow, bail, ensure},
    io::Tap,
    parallel,
    quantity::{size, sum},
    relpath::RelPath,
    wheel::{Archive, InstalledPlace, Record, installed_place},
};

/// The longest RECORD that is read.
const RECORD_LIMIT: u64 = 256 << 20;

/// The files and links below a directory.
#[derive(Debug, Default)]
pub(super) struct UnpackedTree {
    pub(super) files: BTreeMap<RelPath, UnpackedFile>,
    /// With their texts.
    pub(super) links: BTreeMap<RelPath, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnpackedFile {
    pub(super) sha256: Sha256,
    pub(super) len: u64,
    /// Whether it is another name of a file, which takes no space.
    pub(super) is_second_name: bool,
}

impl UnpackedTree {
    /// The bytes on the disk.
    pub(super) fn bytes(&self) -> u64 {
        let files = self.files.values().filter(|file| !file.is_second_name);
        sum(files.map(|file| file.len))
    }

    /// **Contract:** called before anything is made at a path, because a file that is written through a link is outside of
    /// the directory.
    pub(super) fn ensure_below_no_link(&self, path: &RelPath) -> Result<()> {
        for above in path.ancestors() {
            ensure!(!self.links.contains_key(&above), "`{path}` lies below a link, `{above}`");
        }
        Ok(())
    }
}

/// A wheel that is about to be unpacked.
struct OpenWheel<'a> {
    path: &'a Path,
    archive: Archive,
    record: Record,
}

impl<'a> OpenWheel<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let open = || -> Result<Self> {
            let mut file = File::open(path)?;
            let archive = Archive::read(&mut file)?;
            let record = archive.dist_info.join(&"RECORD".parse()?);
            let record = archive.bytes(&mut file, &record, RECORD_LIMIT)?.context("no RECORD")?;
            Ok(Self { path, archive, record: Record::parse(&record)? })
        };
        open().with_context(|| format!("failed to read `{}`", path.display()))
    }

    fn bytes(&self) -> u64 {
        sum(self.archive.members.values().map(|member| member.len))
    }
}

/// Whether a file could not be made because its path is taken.
fn is_there_already(error: &Error) -> bool {
    let kind = error.downcast_ref().map(io::Error::kind);
    kind == Some(io::ErrorKind::AlreadyExists)
}

/// Unpacks wheels into an empty directory. Fails if two of them have different files of one path.
pub(super) fn unpack_wheels(
    wheels: &[PathBuf],
    root: &Path,
    world: &World,
) -> Result<UnpackedTree> {
    let wheels: Vec<OpenWheel<'_>> =
        wheels.iter().map(|path| OpenWheel::open(path)).collect::<Result<_>>()?;
    let total = sum(wheels.iter().map(OpenWheel::bytes));
    if let Some(free) = atomic::free_space(root)
        && free < total
    {
        let refusal = anyhow!("the files take {}, and {} are free", size(total), size(free));
        return Err(refusal).hint("free disk space, or name a directory of another disk");
    }
    let progress = world.console.progress("Unpacking", root.display(), total);
    let tree = Mutex::new(UnpackedTree::default());
    let unpack = |wheel: &OpenWheel<'_>| -> Result<()> {
        let failed = || format!("failed to unpack `{}`", wheel.path.display());
        for row in wheel.record.rows() {
            world.stop.check()?;
            let Some(member) = wheel.archive.members.get(&row.path) else {
                bail!("`{}` is in RECORD, and not in `{}`", row.path, wheel.path.display());
            };
            let path: RelPath = match installed_place(row.path.as_str()) {
                InstalledPlace::Packages(path) => path.parse()?,
                InstalledPlace::Scripts(name) => format!("bin/{name}").parse()?,
                InstalledPlace::Elsewhere => continue,
            };
            let content = member.content(File::open(wheel.path)?).with_context(failed)?;
            // One byte more than the archive says, so that a longer member is seen.
            let content = content.take(member.len.saturating_add(1));
            let mut content = Tap::new(content, &world.stop, |bytes| progress.inc(bytes));
            let written = write_file(root, &path, member.executable, &mut content);
            let mut tree = tree.lock().unwrap_or_else(PoisonError::into_inner);
            let file = match written {
                // Two packages may have the same file.
                Err(error) if is_there_already(&error) => {
                    let earlier = tree.files.get(&path).copied();
                    earlier.with_context(|| format!("two packages have another `{path}`"))?
                }
                written => written.with_context(failed)?,
            };
            // RECORD has no digest of itself.
            if !wheel.archive.is_record(&row.path)
                && let Some(mismatch) = row.mismatch(file.sha256, file.len)
            {
                return Err(anyhow!(No(format!("`{path}` {mismatch}")))).with_context(failed);
            }
            tree.files.insert(path, file);
        }
        Ok(())
    };
    parallel::map(&wheels, World::jobs(), &world.stop, unpack)?;
    Ok(tree.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Writes a new file.
///
/// **Contract:** no directory above it is a link.
pub(super) fn write_file(
    root: &Path,
    path: &RelPath,
    executable: bool,
    content: &mut impl Read,
) -> Result<UnpackedFile> {
    let file = root.join(path.as_str());
    fs::create_dir_all(file.parent().unwrap_or(root))?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use fs_err::os::unix::fs::OpenOptionsExt as _;
        options.mode(if executable { 0o777 } else { 0o666 });
    }
    #[cfg(not(unix))]
    let _ = executable;
    let mut out = options.open(&file)?;
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; 128 << 10];
    loop {
        let count = content.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        out.write_all(&buffer[..count])?;
    }
    let (sha256, len) = hasher.finish();
    Ok(UnpackedFile { sha256, len, is_second_name: false })
}

/// Gives a file below a directory a second name.
pub(super) fn link_file(
    tree: &mut UnpackedTree,
    root: &Path,
    from: &RelPath,
    to: RelPath,
) -> Result<()> {
    let file = *tree.files.get(from).with_context(|| format!("no file `{from}`"))?;
    tree.ensure_below_no_link(&to)?;
    let place = root.join(to.as_str());
    fs::create_dir_all(place.parent().unwrap_or(root))?;
    match fs::remove_file(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    fs::hard_link(root.join(from.as_str()), &place)?;
    tree.links.remove(&to);
    tree.files.insert(to, UnpackedFile { is_second_name: true, ..file });
    Ok(())
}
