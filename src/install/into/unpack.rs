//! Unpacks wheels beside each other.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use fs_err::{self as fs, File, OpenOptions};

use crate::console::World;
use rocwheel_base::{
    atomic,
    digest::{Hasher, Sha256},
    error::{Context as _, Hint as _, No, Result, anyhow, bail, ensure},
    io::Tap,
    parallel,
    quantity::{size, sum},
    relpath::RelPath,
};
use rocwheel_wheel::{Archive, InstalledPlace, Record, RecordRow, StoredMember, installed_place};

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
        let read = || -> Result<Self> {
            let mut file = File::open(path)?;
            let archive = Archive::read(&mut file)?;
            let record_path = archive.dist_info.join(&"RECORD".parse()?);
            let bytes =
                archive.bytes(&mut file, &record_path, RECORD_LIMIT)?.context("no RECORD")?;
            Ok(Self { path, archive, record: Record::parse(&bytes)? })
        };
        read().with_context(|| format!("failed to read `{}`", path.display()))
    }
}

/// A file that is about to be unpacked.
struct PlannedFile<'a> {
    wheel: &'a OpenWheel<'a>,
    row: &'a RecordRow,
    member: &'a StoredMember,
    path: RelPath,
}

/// Decides which files there will be. Two packages may have the same file, which is unpacked once. Fails if they have
/// different files of one path.
fn plan_files<'a>(wheels: &'a [OpenWheel<'a>]) -> Result<Vec<PlannedFile<'a>>> {
    let mut planned: BTreeMap<RelPath, PlannedFile<'a>> = BTreeMap::new();
    for wheel in wheels {
        for row in wheel.record.rows() {
            let Some(member) = wheel.archive.members.get(&row.path) else {
                bail!("`{}` is in RECORD, and not in `{}`", row.path, wheel.path.display());
            };
            let path: RelPath = match installed_place(row.path.as_str()) {
                InstalledPlace::Packages(path) => path.parse()?,
                InstalledPlace::Scripts(name) => format!("bin/{name}").parse()?,
                InstalledPlace::Elsewhere => continue,
            };
            if let Some(earlier) = planned.get(&path) {
                let is_same = row.digest.is_some() && row.digest == earlier.row.digest;
                if !is_same {
                    let refusal = format!(
                        "`{}` and `{}` have different files called `{path}`",
                        earlier.wheel.path.display(),
                        wheel.path.display()
                    );
                    return Err(anyhow!(No(refusal)));
                }
                continue;
            }
            planned.insert(path.clone(), PlannedFile { wheel, row, member, path });
        }
    }
    Ok(planned.into_values().collect())
}

/// Unpacks wheels into an empty directory.
pub(super) fn unpack_wheels(
    wheels: &[PathBuf],
    root: &Path,
    world: &World,
) -> Result<UnpackedTree> {
    let opened: Vec<OpenWheel<'_>> =
        wheels.iter().map(|path| OpenWheel::open(path)).collect::<Result<_>>()?;
    let planned = plan_files(&opened)?;
    let total = sum(planned.iter().map(|file| file.member.len));
    if let Some(free) = atomic::free_space(root)
        && free < total
    {
        let refusal = anyhow!("the files take {}, and {} are free", size(total), size(free));
        return Err(refusal).hint("free disk space, or name a directory of another disk");
    }
    let progress = world.console.progress("Unpacking", root.display(), total);
    let unpack = |planned: &PlannedFile<'_>| {
        unpack_file(planned, root, world, &|bytes| progress.inc(bytes))
            .with_context(|| format!("failed to unpack `{}`", planned.wheel.path.display()))
    };
    let unpacked = parallel::map(&planned, World::jobs(), &world.stop, unpack)?;
    let paths = planned.into_iter().map(|planned| planned.path);
    Ok(UnpackedTree { files: paths.zip(unpacked).collect(), links: BTreeMap::new() })
}

/// Unpacks a file, and compares it with RECORD.
fn unpack_file(
    planned: &PlannedFile<'_>,
    root: &Path,
    world: &World,
    progress: &dyn Fn(u64),
) -> Result<UnpackedFile> {
    let PlannedFile { wheel, row, member, path } = planned;
    // One byte more than the archive says, so that a longer member is seen.
    let limit = member.len.saturating_add(1);
    let content = member.content(File::open(wheel.path)?)?.take(limit);
    let mut content = Tap::new(content, &world.stop, progress);
    let file = write_file(root, path, member.executable, &mut content)?;
    // RECORD has no digest of itself.
    if !wheel.archive.is_record(&row.path)
        && let Some(mismatch) = row.mismatch(file.sha256, file.len)
    {
        return Err(anyhow!(No(format!("`{path}` {mismatch}"))));
    }
    Ok(file)
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
