//! Writes the members of a wheel where an installer would, and checks them against RECORD.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write as _},
    num::NonZeroUsize,
    path::Path,
};

use fs_err::{self as fs, File};

use super::archive::{self, create};
use crate::{
    console::World,
    digest::{Hasher, Sha256},
    error::{Context as _, Result, bail},
    framework::{packages::Tee, read::installed_path},
    parallel,
    relpath::RelPath,
    wheel::{Record, RecordRow, StoredMember, stored_members},
};

/// What `INSTALLER` says, as PEP 376 wants it.
const INSTALLER: &str = "rocwheel\n";

/// A wheel whose members are in the directory.
#[derive(Debug)]
pub(super) struct InstalledWheel {
    dist_info: RelPath,
    record: Record,
    /// The links of its development files, if it has any: where they are, and their texts.
    pub links: Vec<(RelPath, String)>,
    /// The installed paths of its members.
    pub members: Vec<RelPath>,
}

struct Member<'a> {
    path: RelPath,
    stored: &'a StoredMember,
    row: &'a RecordRow,
}

impl InstalledWheel {
    /// Writes the members of a wheel into a directory. The archive of development files is
    /// unpacked, and is not written itself.
    pub(super) fn write(
        file: &Path,
        root: &Path,
        (jobs, world): (NonZeroUsize, &World),
    ) -> Result<Self> {
        let members = stored_members(File::open(file)?)?;
        let is_record = |path: &&RelPath| {
            let parent = path.parent();
            let is_top =
                parent.is_some_and(|it| it.depth() == 1 && it.as_str().ends_with(".dist-info"));
            is_top && path.file_name() == "RECORD"
        };
        let record_path = members.keys().find(is_record).context("no RECORD")?;
        let dist_info = record_path
            .parent()
            .context("a RECORD without a directory")?;
        let mut text = Vec::new();
        let stored = members.get(record_path).context("no RECORD")?;
        stored.content(File::open(file)?)?.read_to_end(&mut text)?;
        let listed = Record::parse(&text)?;
        let rows: BTreeMap<&RelPath, &RecordRow> =
            listed.rows().iter().map(|row| (&row.path, row)).collect();
        let mut work = Vec::new();
        for (path, stored) in members.iter().filter(|(path, _)| *path != record_path) {
            let row = *rows
                .get(path)
                .with_context(|| format!("`{path}` is not in RECORD"))?;
            if let Some(installed) = installed_path(path.as_str()) {
                let path = installed.parse()?;
                work.push(Member { path, stored, row });
            }
        }
        let total = work.iter().map(|it| it.stored.len).sum::<u64>();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let size = fs::metadata(file)?.len();
        let progress = world.console.progress("Unpacking", name, size);
        // In bytes of the wheel, which are known before any of several wheels is opened.
        let inc = |bytes: u64| {
            let packed = u128::from(bytes) * u128::from(size) / u128::from(total.max(1));
            progress.inc(u64::try_from(packed).unwrap_or(bytes));
        };
        let links = parallel::map(&work, jobs, &world.stop, |member| {
            member
                .write(file, root, &inc)
                .with_context(|| format!("failed to write `{}`", member.path))
        })?;
        let mut record = Record::default();
        let kept = work.iter().filter(|it| !archive::is_archive(&it.path));
        for member in kept.clone() {
            let content = member.row.digest.zip(member.row.len);
            record.push(member.path.clone(), content);
        }
        Ok(Self {
            dist_info,
            record,
            links: links.into_iter().flatten().collect(),
            members: kept.map(|it| it.path.clone()).collect(),
        })
    }

    /// Adds a file to the list of those that belong to the package.
    pub(super) fn add(&mut self, path: RelPath) {
        self.record.push(path, None);
    }

    /// Writes RECORD and INSTALLER.
    pub(super) fn finish(&self, root: &Path) -> Result<()> {
        let mut record = self.record.clone();
        let installer = self.dist_info.join(&"INSTALLER".parse()?);
        let bytes = INSTALLER.as_bytes();
        fs::write(root.join(installer.as_str()), bytes)?;
        record.push(installer, Some((Sha256::of(bytes), bytes.len() as u64)));
        let own = self.dist_info.join(&"RECORD".parse()?);
        let to = root.join(own.as_str());
        record.push(own, None);
        Ok(fs::write(to, record.to_string())?)
    }
}

impl Member<'_> {
    /// Writes the member. Of the archive of development files, everything but links is written, and
    /// these are returned.
    fn write(
        &self,
        wheel: &Path,
        root: &Path,
        progress: &dyn Fn(u64),
    ) -> Result<Vec<(RelPath, String)>> {
        let content = self.stored.content(File::open(wheel)?)?;
        if archive::is_archive(&self.path) {
            let mut content = Hashed {
                content,
                hasher: Hasher::default(),
                progress,
            };
            let links = archive::unpack(&self.path, &mut content, root)?;
            io::copy(&mut content, &mut io::sink())?;
            self.check(content.hasher.finish())?;
            return Ok(links);
        }
        let file = create(root, &self.path, self.stored.executable)?;
        let mut to = Tee {
            file,
            hasher: Hasher::default(),
            progress,
        };
        io::copy(&mut { content }, &mut to)?;
        to.flush()?;
        self.check(to.hasher.finish())?;
        Ok(Vec::new())
    }

    fn check(&self, (digest, len): (Sha256, u64)) -> Result<()> {
        match self.row.mismatch(digest, len) {
            Some(why) => bail!("it {why}: the package is damaged"),
            None => Ok(()),
        }
    }
}

/// Hashes what is read.
struct Hashed<'a, R> {
    content: R,
    hasher: Hasher,
    progress: &'a dyn Fn(u64),
}

impl<R: Read> Read for Hashed<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buf)?;
        self.hasher.write_all(buf.get(..read).unwrap_or_default())?;
        (self.progress)(read as u64);
        Ok(read)
    }
}
