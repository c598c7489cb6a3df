//! Turns a [`BuildPlan`] into files. Each source is read once and each package is written once,
//! into a staging directory beside `dist`. The finished set then replaces `dist` as a whole, if that
//! is allowed and has space.

mod built;
mod content;
mod destination;
mod earlier;
mod edit;
mod memory;
pub mod pipeline;

use std::{
    io::{self, Seek as _},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Instant,
};

use tempfile::NamedTempFile;

use crate::{
    archive,
    atomic::{self, StagedDir},
    console::{Progress, World, few, many, size, took},
    digest::Sha256,
    error::{Context as _, Result, one_line},
    io::{FileIdentity, Tap},
    package::plan::{BuildPlan, MemberSource, PackageForm, PackagePlan, SdkTreePacking},
    parallel,
    relpath::RelPath,
    version::Version,
    wheel::{Record, WheelCompression, WheelMember},
};

pub use built::{BuiltMember, MadePackage, MadeSet};
pub use content::{BuiltContent, SdkArchive, SourceBytes};
pub use earlier::{ReuseCount, TakenMember};
pub use edit::{ChangedFile, EditedContent, WheelEdit};

use content::{MemberContent, XZ, pack_xz};
use destination::{ReplacedFiles, bytes, check_space};
use earlier::EarlierSet;
use memory::{BuildMemory, ContentKey, WheelRecipe};
use pipeline::{WheelWork, WrittenWheel};

/// How to write the packages: timestamp, compression, number of threads.
#[derive(Clone, Copy, Debug)]
pub struct AssembleSettings {
    /// The timestamp of every member, in seconds since 1970.
    pub time: u64,
    pub compression: WheelCompression,
    /// How many threads compress. The packages have the same bytes for any number.
    pub jobs: NonZeroUsize,
    /// Members longer than this are compressed in blocks. The bytes of a wheel depend on it.
    pub block: NonZeroUsize,
}

/// What may happen to an existing set, and what is used of it. The packages have the same bytes for
/// any of these.
#[derive(Clone, Debug, Default)]
pub struct Reuse {
    /// Whether all files that `dist` has at the beginning may be replaced. Otherwise one that is not of the
    /// set is an error.
    pub clean: bool,
    /// An earlier set whose compressed members are taken over.
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
    settings: &AssembleSettings,
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
    let earlier = reuse.from.as_ref();
    let earlier = earlier.map(|place| EarlierSet::read(place, settings, program, world));
    let earlier = earlier.transpose()?;
    let root = dist.parent().unwrap_or(dist);
    let mut making = Making {
        version: &plan.version,
        settings,
        world,
        staging: staged.path(),
        earlier: earlier.as_ref(),
        memory: BuildMemory::read(root, program),
        reused: ReuseCount::default(),
        progress: world.console.progress_in_parts(
            "Packing",
            "packages",
            names.len(),
            bytes(plan.members().map(|(_, member)| member)),
        ),
    };
    let (mut written, mut packed) = (Vec::new(), 0);
    for (package, path) in plan.packages.iter().zip(&names) {
        world.stop.check()?;
        making.progress.begin(path);
        let made =
            making.package(package, path).with_context(|| format!("failed to make `{path}`"))?;
        written.push(made);
        packed += bytes(package.members.values());
        // What was taken over from an earlier set was not counted yet.
        making.progress.reach(packed);
        making.progress.finish_part();
    }
    let Making { memory, reused, progress, .. } = making;
    let digests = parallel::map(&written, settings.jobs, &world.stop, WrittenFile::digest)?;
    drop(progress);
    let kept = staged.replace(|name| replaced.has(name))?;
    if !kept.is_empty() {
        let (place, names) = (dist.display(), few(kept.iter().map(|it| format!("`{it}`"))));
        let came = many(kept.len(), "file");
        let text = format!("kept {came} that came into `{place}` during the build: {names}");
        world.console.warn(text);
    }
    let packages: Vec<MadePackage> = written
        .into_iter()
        .zip(digests)
        .map(|(file, sha256)| file.finished(sha256, dist))
        .collect();
    let wheels = packages.iter().filter_map(|it| Some((it.sha256, it.recipe?)));
    if let Err(error) = memory.write(root, wheels) {
        let why = one_line(&error);
        let text = format!("the next build cannot reuse this one quickly: {why}");
        world.console.warn(text);
    }
    let bytes = size(packages.iter().map(|made| made.size).sum());
    let (count, time) = (many(packages.len(), "package"), took(began.elapsed()));
    world.console.status("Built", format!("{count}, {bytes}, in {time}"));
    let reused = earlier.map(|_| reused);
    if let Some(count) = reused {
        world.console.status("Reused", count);
    }
    Ok(MadeSet { packages, reused, _archives: None })
}

/// The file of a package in the staging directory.
struct WrittenFile {
    path: String,
    size: u64,
    members: Vec<BuiltMember>,
    /// Of the handle that was written, before its bytes were read for their digest.
    identity: Option<FileIdentity>,
    recipe: Option<WheelRecipe>,
    /// Whether the file also belongs to the earlier set, which may be deleted once this one is finished.
    is_shared: bool,
    digest: FileDigest,
}

enum FileDigest {
    Known(Sha256),
    Of(fs_err::File, WrittenWheel),
}

impl WrittenFile {
    fn digest(&self) -> Result<Sha256> {
        match &self.digest {
            FileDigest::Known(sha256) => Ok(*sha256),
            FileDigest::Of(file, wheel) => {
                wheel.digest(file).with_context(|| format!("failed to make `{}`", self.path))
            }
        }
    }

    /// Looks for the file under its final name. Replacing an earlier set takes seconds, and another
    /// program may write to the file meanwhile.
    fn finished(self, sha256: Sha256, dist: &Path) -> MadePackage {
        let found = FileIdentity::of(&dist.join(&self.path)).ok().flatten();
        // Deleting another name of a file changes its `ctime`.
        let is_same = |old: FileIdentity, new: FileIdentity| {
            old == new || self.is_shared && new.is_but_for_ctime(old)
        };
        let both = self.identity.zip(found);
        MadePackage {
            path: self.path,
            size: self.size,
            sha256,
            members: self.members,
            identity: both.and_then(|(old, new)| is_same(old, new).then_some(new)),
            recipe: self.recipe,
        }
    }
}

/// What all packages of one build share while they are written.
struct Making<'a> {
    version: &'a Version,
    settings: &'a AssembleSettings,
    world: &'a World,
    /// The staging directory that replaces `dist` at the end.
    staging: &'a Path,
    earlier: Option<&'a EarlierSet>,
    memory: BuildMemory,
    reused: ReuseCount,
    /// Of all packages together.
    progress: Progress,
}

impl Making<'_> {
    fn package(&mut self, package: &PackagePlan, path: &str) -> Result<WrittenFile> {
        let file = self.staging.join(path);
        if let Some(directory) = file.parent() {
            fs_err::create_dir_all(directory)?;
        }
        let record = match &package.form {
            PackageForm::Wheel(record) => record,
            PackageForm::Sdist(top) => return self.sdist(package, top, path, &file),
        };
        let (mut members, mut contents) = (Vec::new(), Vec::new());
        for (path, source) in package.members.ordered() {
            let content = self
                .content(source, path)
                .with_context(|| format!("failed to prepare `{path}`"))?;
            members.push(WheelMember {
                path: path.clone(),
                executable: source.is_executable(),
                len: content.len,
            });
            contents.push(content);
        }
        let taken = self.taken(&contents, path)?;
        for (at, member) in members.iter().enumerate() {
            let is_taken = taken.get(at).is_some_and(Option::is_some);
            self.reused.add(member.len, is_taken);
        }
        let work = Wheel { members, contents, taken, texts: &package.texts, record };
        match self.linked(&work, path, &file)? {
            Some(made) => Ok(made),
            None => self.written(&work, path, &file),
        }
    }

    fn sdist(
        &self,
        package: &PackagePlan,
        top: &RelPath,
        path: &str,
        file: &Path,
    ) -> Result<WrittenFile> {
        let mut out = created(file)?;
        archive::write_sdist(&mut out, top, &package.texts, self.settings.time)?;
        out.rewind()?;
        let (sha256, size) = Sha256::of_reader(&mut out)?;
        let members: Vec<BuiltMember> =
            package.texts.iter().map(|(path, text)| BuiltMember::text(path, text)).collect();
        self.tell_packed(path, &members, size);
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

    fn tell_packed(&self, path: &str, members: &[BuiltMember], len: u64) {
        let facts = format!("{path}: {}, {}", many(members.len(), "member"), size(len));
        self.world.console.item("Packed", facts);
    }

    /// The content of a member.
    ///
    /// A local zip header has the length of its member, and the length of an xz stream is known
    /// only at its end. So `_devel.tar.xz` is packed into a temporary file first.
    fn content(&self, source: &MemberSource, path: &RelPath) -> Result<MemberContent> {
        let mut content = MemberContent::of(source, self.version, self.settings.time)?;
        if !matches!(source, MemberSource::Sdk(_, SdkTreePacking::TarXz)) {
            return Ok(content);
        }
        let key = content.key.take();
        content.key = key.and_then(|key| ContentKey::derived(XZ, &[key]));
        if let Some(taken) = self.earlier.and_then(|it| it.find_remembered(&content)) {
            return Ok(content.packed(None, taken.packed.len));
        }
        let (progress, stop) = (&self.progress, &self.world.stop);
        progress.begin(path);
        let source = Tap::new(content.open()?, stop, |bytes| progress.inc(bytes));
        let mut file = NamedTempFile::new_in(self.staging)?;
        pack_xz(source, &mut file, self.settings.jobs)
            .map_err(|error| stop.check().map_or_else(Into::into, |()| error))?;
        let len = file.as_file().metadata()?.len();
        Ok(content.packed(Some(file.into_temp_path()), len))
    }

    /// The members that can be taken over from an earlier set.
    fn taken(&self, contents: &[MemberContent], path: &str) -> Result<Vec<Option<TakenMember>>> {
        let Some(earlier) = self.earlier else {
            return Ok(Vec::new());
        };
        let bytes = contents.iter().map(|content| content.len).sum();
        let progress = (self.world.console).progress("Comparing", path, Some(bytes));
        let (jobs, stop) = (self.settings.jobs, &self.world.stop);
        parallel::map(contents, jobs, stop, |content| {
            earlier.find(content, &|bytes| progress.inc(bytes))
        })
    }

    /// Takes over a whole wheel, if an earlier build of this machine wrote one with the same bytes.
    fn linked(&mut self, work: &Wheel, path: &str, file: &Path) -> Result<Option<WrittenFile>> {
        let Some(record) = work.taken_record() else {
            return Ok(None);
        };
        let recipe = WheelRecipe::new(&record, &work.members, self.settings);
        let whole = self.earlier.and_then(|earlier| earlier.whole(recipe));
        let Some((whole, state, sha256)) = whole else {
            return Ok(None);
        };
        // The wheel gets a second name, because nothing of ours writes into a finished file in place.
        // On another disk, or where the system forbids it, it is copied.
        let is_shared = fs_err::hard_link(whole, file).is_ok();
        let identity = if is_shared {
            FileIdentity::of(file)?
        } else {
            let out = created(file)?;
            // Between two files of the system, some file systems share the blocks.
            io::copy(&mut fs_err::File::open(whole)?.file(), &mut out.file())?;
            FileIdentity::from_metadata(&out.metadata()?)
        };
        state.ensure(whole, "while it was read")?;
        let len = state.stamp.len;
        let facts = format!("{path}: the whole wheel, {}", size(len));
        self.world.console.item("Reused", facts);
        self.learn(work, &record);
        Ok(Some(WrittenFile {
            path: path.to_owned(),
            size: len,
            members: work.built(&record),
            identity,
            recipe: Some(recipe),
            is_shared,
            digest: FileDigest::Known(sha256),
        }))
    }

    fn written(&mut self, work: &Wheel, path: &str, file: &Path) -> Result<WrittenFile> {
        let mut out = created(file)?;
        let written = pipeline::write_wheel(
            &mut out,
            &WheelWork {
                members: &work.members,
                open: &|index| work.contents[index].open(),
                taken: &work.taken,
                texts: work.texts,
                record: work.record,
                settings: self.settings,
                stop: &self.world.stop,
                progress: &|bytes| self.progress.inc(bytes),
            },
        )?;
        self.learn(work, &written.record);
        let members = work.built(&written.record);
        self.tell_packed(path, &members, written.len);
        Ok(WrittenFile {
            path: path.to_owned(),
            size: written.len,
            members,
            identity: FileIdentity::from_metadata(&out.metadata()?),
            recipe: Some(WheelRecipe::new(&written.record, &work.members, self.settings)),
            is_shared: false,
            digest: FileDigest::Of(out, written),
        })
    }

    /// Remembers the digests of the sources. RECORD begins with them.
    fn learn(&mut self, work: &Wheel, record: &Record) {
        for (content, row) in work.contents.iter().zip(record.rows()) {
            if let (Some(key), Some(sha256)) = (&content.key, row.digest) {
                self.memory.learn(key, sha256);
            }
        }
    }
}

/// What a wheel is made of. Its members, contents and, if there is an earlier set, what is taken
/// over of it have the same order.
struct Wheel<'a> {
    members: Vec<WheelMember>,
    contents: Vec<MemberContent>,
    taken: Vec<Option<TakenMember>>,
    texts: &'a [(RelPath, String)],
    record: &'a RelPath,
}

impl Wheel<'_> {
    /// The members of the finished wheel. The rows of its RECORD have the same order.
    fn built(&self, record: &Record) -> Vec<BuiltMember> {
        let rows = record.rows().iter();
        let files = self.members.iter().zip(&self.contents).zip(rows);
        let files = files.filter_map(|((member, content), row)| {
            Some(BuiltMember {
                path: member.path.clone(),
                executable: member.executable,
                len: member.len,
                sha256: row.digest?,
                content: content.built.clone(),
            })
        });
        let texts = self.texts.iter();
        let texts = texts.map(|(path, text)| BuiltMember::text(path, text));
        let record = BuiltMember::text(self.record, &record.to_string());
        files.chain(texts).chain([record]).collect()
    }

    /// The RECORD of the wheel if every member is taken over.
    fn taken_record(&self) -> Option<Record> {
        if self.taken.len() < self.members.len() {
            return None;
        }
        let mut record = Record::default();
        for (member, taken) in self.members.iter().zip(&self.taken) {
            let packed = &taken.as_ref()?.packed;
            record.push(member.path.clone(), Some((packed.sha256, packed.len)));
        }
        for (path, text) in self.texts {
            let content = (Sha256::of(text.as_bytes()), text.len() as u64);
            record.push(path.clone(), Some(content));
        }
        record.push(self.record.clone(), None);
        Some(record)
    }
}

/// Creates a file, which is readable too: it is read back for its digest.
fn created(file: &Path) -> io::Result<fs_err::File> {
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
        let file = dist.path().join("a.whl");
        fs_err::write(&file, "a wheel").unwrap();
        let sha256 = Sha256::of(b"a wheel");
        let written = WrittenFile {
            path: "a.whl".to_owned(),
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
        let made = written.finished(sha256, dist.path());
        assert!(made.identity.is_none() || made.identity == FileIdentity::of(&file).unwrap());
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
