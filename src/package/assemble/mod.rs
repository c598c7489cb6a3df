//! Turns a [`BuildPlan`] into files. Each source is read once and each package is written once,
//! into a staging directory beside `dist`. The finished set then replaces `dist` as a whole, if its
//! files may be replaced.

mod built;
mod content;
mod destination;
mod earlier;
mod memory;

use std::{
    io::{self, Seek as _},
    path::{Path, PathBuf},
    time::Instant,
};

use tempfile::NamedTempFile;

use crate::{
    console::{Progress, World},
    index::{Layout, PackageFile},
    package::plan::{BuildPlan, PackageForm, PackagePlan},
};
use rocwheel_base::{
    atomic::{self, StagedDir},
    digest::Sha256,
    error::{Context as _, Result, one_line},
    io::{FileIdentity, Tap, buffered},
    parallel,
    quantity::{few, many, size, took},
    relpath::RelPath,
    version::Version,
};
use rocwheel_wheel::{
    PackSettings, Record, SourceMember, WheelCompression,
    pack::{WheelContents, WheelDigest, WrittenWheel, write_contents},
    read_record,
};

pub use built::{BuiltMember, MadePackage, MadeSet, ReuseCount};

use content::{PlannedMember, pack_xz};
use destination::{ReplacedFiles, check_space, count_bytes};
use earlier::EarlierSet;
use memory::{BuildMemory, RecipeMember, WheelRecipe};

/// What may happen to an existing set, and what is used of it. The packages have the same bytes for
/// any of these.
#[derive(Clone, Debug, Default)]
pub struct Reuse {
    /// Whether all files that `dist` has at the beginning may be replaced. Otherwise a file that is not of
    /// the set is an error.
    pub clean: bool,
    /// An earlier set whose wheels are taken over if they would be the same.
    pub from: Option<PathBuf>,
    /// The file of this program. Without it, nothing is remembered of the sources.
    pub program: Option<PathBuf>,
}

/// Writes every package of `plan`, then replaces the directory `dist` with the finished set. If this
/// fails, `dist` keeps its previous contents.
pub fn assemble(
    plan: &BuildPlan,
    dist: &Path,
    reuse: &Reuse,
    settings: &PackSettings,
    world: &World,
) -> Result<MadeSet> {
    let began = Instant::now();
    if settings.compression == WheelCompression::Store {
        check_space(plan, dist)?;
    }
    let names: Vec<String> = plan.packages.iter().map(PackagePlan::path).collect();
    // An earlier build may have been killed between the two renames that replace `dist`.
    atomic::restore(dist)?;
    let replaced = ReplacedFiles::find(dist, &names, reuse.clean)?;
    let program = reuse.program.as_ref();
    let staged = StagedDir::beside(dist)?;
    let earlier = match &reuse.from {
        Some(place) => Some(EarlierSet::read(place, settings.jobs, program, world)?),
        None => None,
    };
    let root = dist.parent().unwrap_or(dist);
    let mut making = Making {
        version: &plan.version,
        settings,
        world,
        staging: staged.path(),
        earlier: earlier.as_ref(),
        memory: BuildMemory::new(root, program),
        reused: ReuseCount::default(),
        progress: world.console.progress_in_parts(
            "Packing",
            "packages",
            names.len(),
            count_bytes(plan.members().map(|(_, member)| member)),
        ),
    };
    let mut written = Vec::new();
    let mut packed_bytes = 0;
    for (package, path) in plan.packages.iter().zip(&names) {
        world.stop.check()?;
        making.progress.begin(path);
        let file = making
            .make_package(package, path)
            .with_context(|| format!("failed to make `{path}`"))?;
        written.push(file);
        packed_bytes += count_bytes(package.members.iter().map(|(_, member)| member));
        // The bytes of a wheel that was taken over from an earlier set were not counted yet.
        making.progress.reach(packed_bytes);
        making.progress.finish_part();
    }
    let Making { memory, reused, progress, .. } = making;
    let digests = parallel::map(&written, settings.jobs, &world.stop, WrittenFile::digest)?;
    drop(progress);
    let kept = staged.replace(|directory, name| replaced.has(directory, name))?;
    if !kept.is_empty() {
        let files = many(kept.len(), "file");
        let place = dist.display();
        let names = few(kept.iter().map(|name| format!("`{name}`")));
        world
            .console
            .warn(format!("kept {files} that came into `{place}` during the build: {names}"));
    }
    let packages: Vec<MadePackage> = written
        .into_iter()
        .zip(digests)
        .map(|(file, digest)| file.finish(digest, dist))
        .collect::<Result<_>>()?;
    if let Some(memory) = memory {
        remember_wheels(memory, &packages, world);
    }
    let bytes = size(packages.iter().map(|package| package.file.size).sum());
    let count = many(packages.len(), "package");
    let time = took(began.elapsed());
    world.console.status("Built", format!("{count}, {bytes}, in {time}"));
    if earlier.is_some() {
        world.console.status("Reused", reused);
    }
    Ok(MadeSet { packages, reused: earlier.map(|_| reused), _archives: None })
}

/// Adds the wheels to the memory of the build, and writes it. A next build without it takes longer, so a
/// failure is a warning.
fn remember_wheels(mut memory: BuildMemory, packages: &[MadePackage], world: &World) {
    for MadePackage { file, recipe, .. } in packages {
        if let Some(recipe) = recipe {
            memory.insert_wheel(file.below(), file.sha256, *recipe);
        }
    }
    if let Err(error) = memory.write() {
        let why = one_line(&error);
        world.console.warn(format!("the next build cannot reuse this one quickly: {why}"));
    }
}

/// The file of a package in the staging directory.
struct WrittenFile {
    path: String,
    size: u64,
    members: Vec<BuiltMember>,
    /// The identity of the handle that was written, taken before its bytes were read for their digest.
    identity: FileIdentity,
    recipe: Option<WheelRecipe>,
    /// Whether the file also belongs to the earlier set, which may be deleted once this one is finished.
    is_shared: bool,
    digest: FileDigest,
}

enum FileDigest {
    Known(Sha256),
    /// The file must be read for it. All wheels are read together at the end, on all cores.
    ToRead(fs_err::File, WrittenWheel),
}

impl WrittenFile {
    fn digest(&self) -> Result<WheelDigest> {
        match &self.digest {
            FileDigest::Known(sha256) => Ok(WheelDigest { sha256: *sha256, start: None }),
            FileDigest::ToRead(file, wheel) => {
                wheel.digest(file, None).with_context(|| format!("failed to make `{}`", self.path))
            }
        }
    }

    /// Looks for the file under its final name. Replacing an earlier set takes seconds, and another
    /// program may write to the file meanwhile.
    fn finish(self, digest: WheelDigest, dist: &Path) -> Result<MadePackage> {
        let WheelDigest { sha256, start } = digest;
        // Deleting another name of a file changes its `ctime`.
        let written = if self.is_shared { self.identity.but_for_links() } else { self.identity };
        let current = FileIdentity::of(&dist.join(&self.path)).ok();
        let path = format!("{}{}", Layout::Dist.files(), self.path);
        Ok(MadePackage {
            file: PackageFile::named(path, self.size, sha256)?,
            members: self.members,
            identity: current.filter(|current| written.is_same_as(current)),
            start,
            recipe: self.recipe,
        })
    }
}

/// What all packages of one build share while they are written.
struct Making<'a> {
    version: &'a Version,
    settings: &'a PackSettings,
    world: &'a World,
    /// The staging directory that replaces `dist` at the end.
    staging: &'a Path,
    earlier: Option<&'a EarlierSet>,
    /// `None` if the next build could not trust it.
    memory: Option<BuildMemory>,
    reused: ReuseCount,
    /// The progress of all packages together.
    progress: Progress,
}

impl Making<'_> {
    fn make_package(&mut self, package: &PackagePlan, path: &str) -> Result<WrittenFile> {
        let file = self.staging.join(path);
        if let Some(directory) = file.parent() {
            fs_err::create_dir_all(directory)?;
        }
        let record = match &package.form {
            PackageForm::Wheel(record) => record,
            PackageForm::Sdist(top) => return self.write_sdist(package, top, path, &file),
        };
        let members = package
            .members
            .ordered()
            .into_iter()
            .map(|(path, source)| {
                PlannedMember::new(path, source, self.version, self.settings.time)
                    .with_context(|| format!("failed to prepare `{path}`"))
            })
            .collect::<Result<_>>()?;
        let mut wheel = PlannedWheel { members, texts: &package.texts, record };
        let earlier = self.link_earlier(&wheel, path, &file)?;
        let is_taken = earlier.is_some();
        let written = match earlier {
            Some(written) => written,
            None => self.write_wheel(&mut wheel, path, &file)?,
        };
        self.reused.add(written.size, is_taken);
        Ok(written)
    }

    fn write_sdist(
        &self,
        package: &PackagePlan,
        top: &RelPath,
        path: &str,
        file: &Path,
    ) -> Result<WrittenFile> {
        let mut out = create_file(file)?;
        rocwheel_wheel::tar::write_sdist(&mut out, top, &package.texts, self.settings.time)?;
        out.rewind()?;
        let (sha256, size) = Sha256::of_reader(&mut out)?;
        let members: Vec<BuiltMember> =
            package.texts.iter().map(|(path, text)| BuiltMember::text(path, text)).collect();
        self.print_packed(path, &members, size);
        Ok(WrittenFile {
            path: path.to_owned(),
            size,
            members,
            identity: FileIdentity::from_metadata(&out.metadata()?),
            recipe: None,
            is_shared: false,
            digest: FileDigest::Known(sha256),
        })
    }

    fn print_packed(&self, path: &str, members: &[BuiltMember], len: u64) {
        let facts = format!("{path}: {}, {}", many(members.len(), "member"), size(len));
        self.world.console.item("Packed", facts);
    }

    /// Takes over the wheel of the earlier set that has the same bytes, if it has one.
    fn link_earlier(
        &mut self,
        wheel: &PlannedWheel,
        path: &str,
        file: &Path,
    ) -> Result<Option<WrittenFile>> {
        let Some(earlier) = self.earlier else {
            return Ok(None);
        };
        // Another version or platform has another file name. Without this question, the sources of a wheel
        // that cannot be taken over would be read twice: for their digests, and to pack them.
        let candidates = earlier.wheels_named(path);
        if candidates.is_empty() {
            return Ok(None);
        }
        let Some(digests) = self.source_digests(wheel, earlier, path)? else {
            return Ok(None);
        };
        let recipe = wheel.recipe(&digests, self.settings);
        let Some(same) = candidates.into_iter().find(|candidate| candidate.recipe == recipe) else {
            return Ok(None);
        };
        // The wheel gets a second name, because nothing of ours writes into a finished file in place.
        // On another disk, or where the system forbids it, it is copied.
        let is_shared = fs_err::hard_link(&same.path, file).is_ok();
        let identity = if is_shared {
            FileIdentity::of(file)?
        } else {
            let out = create_file(file)?;
            // Between two files of the system, some file systems share the blocks.
            io::copy(&mut fs_err::File::open(&same.path)?.file(), &mut out.file())?;
            FileIdentity::from_metadata(&out.metadata()?)
        };
        let record = read_record(fs_err::File::open(file)?)?;
        // The digest belongs to the wheel that was hashed, so it must not have changed since.
        same.identity.ensure_at(&same.path, "while it was read")?;
        let len = same.identity.len;
        self.world.console.item("Reused", format!("{path}: {}", size(len)));
        self.remember_sources(wheel, &digests);
        Ok(Some(WrittenFile {
            path: path.to_owned(),
            size: len,
            members: wheel.built_members(&record),
            identity,
            recipe: Some(recipe),
            is_shared,
            digest: FileDigest::Known(same.sha256),
        }))
    }

    /// The digests of the files of a wheel in their order. A digest that is not remembered is computed: the
    /// file is read now. `None` if a file would have to be packed first.
    fn source_digests(
        &self,
        wheel: &PlannedWheel,
        earlier: &EarlierSet,
        path: &str,
    ) -> Result<Option<Vec<Sha256>>> {
        let members: Vec<_> =
            wheel.members.iter().map(|member| (member, earlier.content(member))).collect();
        if members.iter().any(|(member, sha256)| sha256.is_none() && member.is_to_pack) {
            return Ok(None);
        }
        let bytes = members.iter().map(|(member, _)| member.packed.source.member_len()).sum();
        let progress = self.world.console.progress("Comparing", path, Some(bytes));
        let jobs = self.settings.jobs;
        let stop = &self.world.stop;
        let digests = parallel::map(&members, jobs, stop, |(member, sha256)| {
            let source = &member.packed.source;
            let len = source.member_len();
            if let Some(sha256) = sha256 {
                progress.inc(len);
                return Ok(*sha256);
            }
            let reader = Tap::new(source.open()?, stop, |bytes| progress.inc(bytes));
            let (sha256, _) = Sha256::of_reader(buffered(reader, len, READ))?;
            Ok(sha256)
        });
        digests.map(Some)
    }

    /// Packs a member that is a development tree as xz.
    ///
    /// A local zip header has the length of its member, and the length of an xz stream is known
    /// only at its end. So `_devel.tar.xz` is packed into a temporary file first.
    fn pack_tree(&self, member: &mut PlannedMember) -> Result<()> {
        let progress = &self.progress;
        let stop = &self.world.stop;
        progress.begin(&member.packed.path);
        let tar = Tap::new(member.packed.source.open()?, stop, |bytes| progress.inc(bytes));
        let mut xz = NamedTempFile::new_in(self.staging)?;
        // An interrupt makes the reader fail, and xz hides the reason. So ask for the interrupt first.
        pack_xz(tar, &mut xz, self.settings.jobs)
            .map_err(|error| stop.check().map_or_else(Into::into, |()| error))?;
        member.set_packed(xz.into_temp_path())
    }

    fn write_wheel(
        &mut self,
        wheel: &mut PlannedWheel,
        path: &str,
        file: &Path,
    ) -> Result<WrittenFile> {
        for member in wheel.members.iter_mut().filter(|member| member.is_to_pack) {
            self.pack_tree(member)
                .with_context(|| format!("failed to prepare `{}`", member.packed.path))?;
        }
        let members: Vec<SourceMember> =
            wheel.members.iter().map(|member| member.packed.clone()).collect();
        let contents =
            WheelContents { members: &members, texts: wheel.texts, record: wheel.record };
        let progress = |bytes| self.progress.inc(bytes);
        let mut out = create_file(file)?;
        let written =
            write_contents(&mut out, &contents, self.settings, &self.world.stop, &progress)?;
        // RECORD begins with the files.
        let digests: Vec<Sha256> =
            written.record.rows().iter().filter_map(|row| row.digest).collect();
        self.remember_sources(wheel, &digests);
        let members = wheel.built_members(&written.record);
        self.print_packed(path, &members, written.len);
        Ok(WrittenFile {
            path: path.to_owned(),
            size: written.len,
            members,
            identity: FileIdentity::from_metadata(&out.metadata()?),
            recipe: Some(wheel.recipe(&digests, self.settings)),
            is_shared: false,
            digest: FileDigest::ToRead(out, written),
        })
    }

    /// Remembers the digests of the sources. `digests` begins with the digests of the files, in their order.
    fn remember_sources(&mut self, wheel: &PlannedWheel, digests: &[Sha256]) {
        let Some(memory) = &mut self.memory else { return };
        for (member, sha256) in wheel.members.iter().zip(digests) {
            if let Some(key) = &member.key {
                memory.insert_content(key, *sha256);
            }
        }
    }
}

/// The buffer for sources that are only hashed.
const READ: usize = 256 << 10;

/// What a wheel is made of.
struct PlannedWheel<'a> {
    members: Vec<PlannedMember>,
    texts: &'a [(RelPath, String)],
    record: &'a RelPath,
}

impl PlannedWheel<'_> {
    /// The members of the finished wheel. The rows of its RECORD have the same order.
    fn built_members(&self, record: &Record) -> Vec<BuiltMember> {
        let files = self.members.iter().zip(record.rows()).filter_map(|(member, row)| {
            Some(BuiltMember {
                path: member.packed.path.clone(),
                executable: member.packed.executable,
                len: row.len?,
                sha256: row.digest?,
                source: member.packed.source.clone(),
                tree: member.tree.clone(),
            })
        });
        let texts = self.texts.iter().map(|(path, text)| BuiltMember::text(path, text));
        let record = BuiltMember::text(self.record, &record.to_string());
        files.chain(texts).chain([record]).collect()
    }

    /// `digests` begins with the digests of the files, in their order.
    fn recipe(&self, digests: &[Sha256], settings: &PackSettings) -> WheelRecipe {
        let files = self.members.iter().zip(digests).map(|(member, sha256)| RecipeMember {
            path: &member.packed.path,
            executable: member.packed.executable,
            sha256: *sha256,
        });
        let texts = self.texts.iter().map(|(path, text)| RecipeMember {
            path,
            executable: false,
            sha256: Sha256::of(text.as_bytes()),
        });
        WheelRecipe::new(files.chain(texts), settings)
    }
}

/// Creates a file, which is readable too: it is read back for its digest.
fn create_file(file: &Path) -> io::Result<fs_err::File> {
    let mut options = fs_err::OpenOptions::new();
    options.read(true).write(true).create_new(true).open(file)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::{thread::sleep, time::Duration};

    use super::*;

    /// Whether a wheel is still the one that was written after something happened to its file.
    fn is_it(is_shared: bool, happens: impl Fn(&Path)) -> bool {
        let dist = tempfile::tempdir().unwrap();
        let file = dist.path().join("a-1-py3-none-any.whl");
        fs_err::write(&file, "a wheel").unwrap();
        let sha256 = Sha256::of(b"a wheel");
        let written = WrittenFile {
            path: "a-1-py3-none-any.whl".to_owned(),
            size: 7,
            members: Vec::new(),
            identity: FileIdentity::of(&file).unwrap(),
            recipe: None,
            is_shared,
            digest: FileDigest::Known(sha256),
        };
        // Let the clock of the file system go on.
        sleep(Duration::from_millis(30));
        happens(&file);
        let digest = written.digest().unwrap();
        let made = written.finish(digest, dist.path()).unwrap();
        assert!(made.identity.is_none() || made.identity == FileIdentity::of(&file).ok());
        made.identity.is_some()
    }

    #[test]
    fn a_package_is_the_one_that_was_written_until_its_file_changes() {
        assert!(is_it(false, |_| {}));
        // As when the earlier set is deleted that has the same wheel.
        let unlink = |file: &Path| {
            let other = file.with_extension("old");
            fs_err::hard_link(file, &other).unwrap();
            fs_err::remove_file(other).unwrap();
        };
        assert!(is_it(true, unlink));
        assert!(!is_it(false, unlink));
        let replace = |file: &Path| {
            let other = file.with_extension("new");
            fs_err::write(&other, "a whale").unwrap();
            fs_err::rename(other, file).unwrap();
        };
        let damage = |file: &Path| {
            let time = fs_err::metadata(file).unwrap().modified().unwrap();
            fs_err::write(file, "a whale").unwrap();
            let file = fs_err::OpenOptions::new().write(true).open(file).unwrap();
            file.file().set_modified(time).unwrap();
        };
        for is_shared in [false, true] {
            assert!(!is_it(is_shared, |file| fs_err::write(file, "a whale").unwrap()));
            assert!(!is_it(is_shared, |file| fs_err::remove_file(file).unwrap()));
            assert!(!is_it(is_shared, replace));
        }
        assert!(!is_it(false, damage));
    }
}
