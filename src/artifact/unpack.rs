//! Unpacks an archive into a directory. The archive is untrusted: sizes and names have limits, and
//! nothing is written outside of the directory. The directory gets its final name only when it is
//! complete.

mod system;

use std::{
    collections::HashMap,
    error::Error as StdError,
    io::{self, BufWriter, Read, Write as _},
    path::{Path, PathBuf},
};

use fs_err::OpenOptions;

use self::system::{fold, mode_of, set_mode, symlink, windows_allows};
use crate::artifact::{ArchiveName, ArtifactManifest, local_path};
use rocwheel_base::{
    atomic::StagedDir,
    error::{Context as _, Error, Hint as _, Result, Stop, anyhow, bail, ensure},
    io::Tap,
    parallel::ahead,
    relpath::{
        RelPath,
        links::{Node, ResolvedLink, resolve},
    },
};
use rocwheel_wheel::tar::{Decompressor, TarEntry, TarKind, TarReader};

/// The size of the buffer for writing a file.
const STEP: usize = 64 << 10;

/// Limits for archives. No real artifact comes near the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Bytes of the uncompressed tar. Default: 256 GiB.
    pub bytes: u64,
    /// Number of files, directories and links. Default: 4 million.
    pub members: u64,
    /// Bytes of one path component. Default: 255, as in most file systems.
    pub name: usize,
    /// Bytes of all paths together, which are kept in memory. Default: 1 GiB.
    pub paths: u64,
    /// Whether names must differ in more than case or Unicode normalization. `share/terminfo/E` and
    /// `share/terminfo/e` are two directories on Linux, but one on Windows and macOS, where this is
    /// the default.
    pub ignores_case: bool,
}

/// An unpacked archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    pub directory: PathBuf,
    /// Number of regular files, including hard links.
    pub files: u64,
    /// Total length of all files in bytes.
    pub bytes: u64,
    /// Whether the archive contains a checksum, which was verified.
    pub has_checksum: bool,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self {
            bytes: 256 << 30,
            members: 4_000_000,
            name: 255,
            paths: 1 << 30,
            ignores_case: cfg!(any(windows, target_vendor = "apple")),
        }
    }
}

/// An unpacked artifact without its final name. Dropping it deletes it.
pub struct Staged {
    staging: StagedDir,
    /// Whether its final name was free when the archive was opened.
    is_new: bool,
    /// What was unpacked. `directory` is the final name already.
    pub unpacked: Unpacked,
}

impl Staged {
    /// Where the artifact is before it gets its final name.
    pub fn path(&self) -> &Path {
        self.staging.path()
    }

    /// Renames the artifact to its final name. Replaces an artifact that had this name when the archive was
    /// opened. Fails if the name was free then and another program has taken it since.
    pub fn commit(self) -> Result<Unpacked> {
        if self.is_new {
            self.staging.claim()?;
        } else {
            self.staging.replace(|_, _| true)?;
        }
        Ok(self.unpacked)
    }
}

/// Unpacks into a temporary directory beside `{destination}/{stem}`. The caller can verify more and
/// then call [`Staged::commit`]; dropping the result deletes the directory.
///
/// The archive is read to its end, even if the tar ends earlier. `progress` is called with the
/// number of bytes of the tar after each read.
pub fn stage(
    archive: impl Read + Send,
    name: &ArchiveName,
    destination: &Path,
    limits: &UnpackLimits,
    stop: &Stop,
    progress: &dyn Fn(u64),
) -> Result<Staged> {
    let target = destination.join(name.artifact.file_name());
    let attempt = || -> Result<Staged> {
        // Only directories and symlinks are replaced.
        if fs_err::symlink_metadata(&target).is_ok_and(|metadata| metadata.is_file()) {
            return Err(anyhow!("a file has this name already: `{}`", target.display()))
                .hint("remove it, or unpack to another directory");
        }
        let staging = StagedDir::beside(&target)?;
        // Asked after `StagedDir::beside`, which puts an artifact back that a killed process had moved away.
        let is_new = fs_err::symlink_metadata(&target).is_err();
        let mut decompressor = Decompressor::new(name.format, archive)?;
        let mut unpacking = Unpacking::new(staging.path(), limits)?;
        ahead(&mut decompressor, |source| {
            let mut tar = TarReader::new(Tap::new(source, stop, progress), limits.bytes);
            while let Some(entry) = tar.next_entry()? {
                unpacking.unpack_member(entry, &mut tar)?;
            }
            unpacking.finish(stop)
        })?;
        let unpacked = Unpacked {
            directory: target.clone(),
            has_checksum: decompressor.has_checksum(),
            ..unpacking.done
        };
        Ok(Staged { staging, is_new, unpacked })
    };
    attempt().or_else(|error| {
        // `Tap` reports a stop as an I/O error. Report the stop itself, not a damaged archive.
        stop.check()?;
        let is_damaged = error.chain().any(is_damage);
        let failure = Err(error).with_context(|| format!("failed to unpack `{name}`"));
        if !is_damaged {
            return failure;
        }
        failure.hint("download the archive again; if that does not help, rebuild it in its run")
    })
}

/// Whether an error tells that the bytes of an archive are wrong.
fn is_damage(cause: &(dyn StdError + 'static)) -> bool {
    let kind = cause.downcast_ref().map(io::Error::kind);
    matches!(kind, Some(io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof))
}

/// An artifact that is being unpacked.
struct Unpacking<'a> {
    root: &'a Path,
    /// The bits that a new file may have: the umask, or the default ACL of the directory, removes
    /// the others.
    mask: u32,
    limits: &'a UnpackLimits,
    /// `None` until it is read. Members that come before it are checked then.
    manifest: Option<ArtifactManifest>,
    /// Every path so far, including the directories above each path.
    seen: HashMap<RelPath, Node>,
    /// The same paths, by a form that is the same for all names that Windows or macOS regard as one name.
    /// Empty unless [`UnpackLimits::ignores_case`].
    folded: HashMap<String, RelPath>,
    /// Total length of all paths and link texts, in bytes.
    paths: u64,
    /// Symlinks are created last. If they existed earlier, a later member could be written through
    /// one of them, to any place on the disk: absolute targets are allowed.
    links: Vec<RelPath>,
    done: Unpacked,
}

impl<'a> Unpacking<'a> {
    /// `root` was just created, with all rights.
    fn new(root: &'a Path, limits: &'a UnpackLimits) -> Result<Self> {
        Ok(Self {
            root,
            mask: mode_of(root)?,
            limits,
            manifest: None,
            seen: HashMap::new(),
            folded: HashMap::new(),
            paths: 0,
            links: Vec::new(),
            done: Unpacked::default(),
        })
    }

    /// Unpacks a member. A symlink is only remembered.
    fn unpack_member(&mut self, entry: TarEntry, content: &mut impl Read) -> Result<()> {
        let TarEntry { path, kind } = entry;
        if path.as_str() == ArtifactManifest::FILE_NAME {
            return self.unpack_manifest(&path, &kind, content);
        }
        self.check_path(&path, &kind)?;
        self.make_parents(&path)?;
        match kind {
            TarKind::Directory => self.make_directory(&path),
            TarKind::File { len, executable } => {
                self.add_path(&path, Node::File)?;
                self.done.files += 1;
                self.done.bytes += len;
                let mode = if executable { 0o755 } else { 0o644 };
                self.write_file(&path, mode, content)
                    .with_context(|| format!("failed to unpack `{path}`"))
            }
            TarKind::Symlink(text) => self.remember_symlink(path, text),
            TarKind::Hardlink(target) => self.make_hardlink(&path, &target),
        }
    }

    /// Reads the manifest. CI writes it as the first member, but with `tar -C DIR .` it may come
    /// anywhere, so members unpacked before it are checked now.
    fn unpack_manifest(
        &mut self,
        path: &RelPath,
        kind: &TarKind,
        content: &mut impl Read,
    ) -> Result<()> {
        ensure!(matches!(kind, TarKind::File { .. }), "`{path}` is not a regular file");
        ensure!(!self.seen.contains_key(path.as_str()), "two members are called `{path}`");
        let mut bytes = Vec::new();
        // One byte more than allowed, so that `parse` sees that it is too long.
        content.take(ArtifactManifest::MAX_LEN as u64 + 1).read_to_end(&mut bytes)?;
        let manifest =
            ArtifactManifest::parse(&bytes).with_context(|| format!("failed to read `{path}`"))?;
        let strays = self.seen.iter().filter(|(path, kind)| !is_listed(&manifest, path, kind));
        // The error names the first path, and not a path by chance, because a map has no order.
        if let Some(stray) = strays.map(|(path, _)| path).min() {
            return Err(stray_member(stray));
        }
        self.manifest = Some(manifest);
        self.add_path(path, Node::File)?;
        self.write_file(path, 0o644, &mut bytes.as_slice())
    }

    /// Writes a new file. Fails if the path exists, even as a symlink.
    fn write_file(&self, path: &RelPath, mode: u32, content: &mut impl Read) -> Result<()> {
        let local = self.local(path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use fs_err::os::unix::fs::OpenOptionsExt as _;
            options.mode(mode);
        }
        let mut file = BufWriter::with_capacity(STEP, options.open(&local)?);
        io::copy(content, &mut file)?;
        file.flush()?;
        // The file has the mode already, unless the umask has removed bits. A call less for each of many files.
        if mode & self.mask == mode {
            return Ok(());
        }
        set_mode(&local, mode)
    }

    /// Checks the path of a member: it must be new and inside a base directory, and the names in it
    /// must be valid. Only directories may be repeated.
    fn check_path(&self, path: &RelPath, kind: &TarKind) -> Result<()> {
        // A link counts as a file here: `is_listed` asks only whether a path is a directory.
        let node = match kind {
            TarKind::Directory => Node::Directory,
            _ => Node::File,
        };
        let earlier = self.seen.get(path.as_str());
        let is_repeated = node == Node::Directory && earlier == Some(&node);
        ensure!(is_repeated || earlier.is_none(), "two members are called `{path}`");
        if let Some(manifest) = &self.manifest
            && !is_listed(manifest, path, &node)
        {
            return Err(stray_member(path));
        }
        if let Some(name) = path.components().find(|name| name.len() > self.limits.name) {
            bail!(
                "a name of {} bytes, but at most {} are allowed: `{path}`",
                name.len(),
                self.limits.name
            );
        }
        if cfg!(windows)
            && let Some(name) = path.components().find(|name| !windows_allows(name))
        {
            bail!("a name that Windows does not allow: `{name}` in `{path}`");
        }
        Ok(())
    }

    fn make_directory(&mut self, path: &RelPath) -> Result<()> {
        if self.seen.get(path.as_str()) == Some(&Node::Directory) {
            return Ok(());
        }
        self.add_path(path, Node::Directory)?;
        let local = self.local(path);
        fs_err::create_dir(&local)?;
        set_mode(&local, 0o755)
    }

    /// Creates the missing directories above a path. Fails if one of them is a file or a symlink.
    fn make_parents(&mut self, path: &RelPath) -> Result<()> {
        let parent = path.parent();
        if parent.is_none_or(|parent| self.seen.get(parent.as_str()) == Some(&Node::Directory)) {
            return Ok(());
        }
        for above in path.ancestors() {
            match self.seen.get(above.as_str()) {
                Some(Node::Directory) => {}
                None => self.make_directory(&above)?,
                Some(Node::File) => bail!("`{path}` lies below `{above}`, which is a file"),
                Some(Node::Link(_)) => {
                    bail!("`{path}` lies below `{above}`, which is a link")
                }
            }
        }
        Ok(())
    }

    fn remember_symlink(&mut self, path: RelPath, text: String) -> Result<()> {
        // Not all paths are known yet. So each component is taken for a directory, and only `..` is judged.
        ensure_inside(&path, &text, |_| Some(&Node::Directory))?;
        self.paths += text.len() as u64;
        self.add_path(&path, Node::Link(text.into()))?;
        self.links.push(path);
        Ok(())
    }

    fn make_hardlink(&mut self, path: &RelPath, target: &RelPath) -> Result<()> {
        ensure!(
            self.seen.get(target.as_str()) == Some(&Node::File),
            "hard link `{path}` leads to no file unpacked before it: `{target}`"
        );
        self.add_path(path, Node::File)?;
        self.done.files += 1;
        Ok(fs_err::hard_link(self.local(target), self.local(path))?)
    }

    /// Adds a new path, within the limits. A path is added before it is made on disk.
    fn add_path(&mut self, path: &RelPath, kind: Node) -> Result<()> {
        ensure!(
            (self.seen.len() as u64) < self.limits.members,
            "more than {} files, directories and links, from `{path}` on",
            self.limits.members
        );
        self.paths += path.as_str().len() as u64;
        ensure!(
            self.paths <= self.limits.paths,
            "more than {} bytes of names, from `{path}` on",
            self.limits.paths
        );
        if self.limits.ignores_case
            && let Some(other) = self.folded.insert(fold(path.as_str()), path.clone())
        {
            bail!("`{path}` and `{other}` differ only in case");
        }
        self.seen.insert(path.clone(), kind);
        Ok(())
    }

    /// Creates the symlinks. All paths are known now, so the end of each symlink can be checked.
    fn finish(&self, stop: &Stop) -> Result<()> {
        if self.manifest.is_none() {
            return Err(anyhow!("the archive has no `{}`", ArtifactManifest::FILE_NAME)).hint(
                "an artifact has a file of that name at its top, which lists its base directories",
            );
        }
        for path in &self.links {
            stop.check()?;
            let Some(Node::Link(text)) = self.seen.get(path.as_str()) else {
                continue;
            };
            let end = ensure_inside(path, text, |path| self.seen.get(path))?;
            symlink(&self.local(path), text, &end)?;
        }
        Ok(())
    }

    fn local(&self, path: &RelPath) -> PathBuf {
        local_path(self.root, path)
    }
}

/// Whether a path is in a base directory of the manifest, or is a directory above one.
fn is_listed(manifest: &ArtifactManifest, path: &RelPath, kind: &Node) -> bool {
    let is_above_basedir = *kind == Node::Directory && manifest.leads_to_basedir(path);
    is_above_basedir || manifest.has(path)
}

fn stray_member(path: &RelPath) -> Error {
    anyhow!("`{path}` lies in none of the directories that `{}` lists", ArtifactManifest::FILE_NAME)
}

/// Fails if a symlink leads out of the artifact through `..`. Absolute targets are accepted here:
/// only the planner sees all files, and knows whether the symlink can be left out.
fn ensure_inside<'a>(
    path: &RelPath,
    text: &'a str,
    node_at: impl Fn(&str) -> Option<&'a Node>,
) -> Result<ResolvedLink> {
    let end = resolve(path, text, node_at);
    ensure!(end != ResolvedLink::Outside, "link `{path}` leads out of the artifact: `{text}`");
    Ok(end)
}

#[cfg(test)]
mod tests;
