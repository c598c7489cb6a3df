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
    console::{Progress, World, many, size, took},
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
use destination::{advise, bytes, check_existing, check_space};
use earlier::EarlierSet;
use memory::{BuildMemory, ContentKey, WheelRecipe};
use pipeline::WheelWork;

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
    /// Whether all files of `dist` may be replaced. Otherwise one that is not of the set is an
    /// error.
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
    check_space(plan, settings.compression, dist, world)?;
    let names: Vec<String> = plan.packages.iter().map(PackagePlan::path).collect();
    // An earlier build may have been killed between the two renames that replace `dist`.
    atomic::restore(dist)?;
    if !reuse.clean {
        check_existing(dist, &names)?;
    }
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
        dist,
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
    let (mut all, mut packed) = (Vec::new(), 0);
    for (package, path) in plan.packages.iter().zip(&names) {
        world.stop.check()?;
        making.progress.begin(path);
        let made = making
            .package(package, path)
            .with_context(|| format!("failed to make `{path}`"))
            .map_err(|error| advise(error, dist))?;
        all.push(made);
        packed += bytes(package.members.values());
        // What was taken over from an earlier set was not counted yet.
        making.progress.reach(packed);
        making.progress.finish_part();
    }
    let Making {
        memory,
        reused,
        progress,
        ..
    } = making;
    drop(progress);
    staged.replace()?;
    for made in &mut all {
        made.settle(dist);
    }
    let wheels = all.iter().filter_map(|it| Some((it.sha256, it.recipe?)));
    if let Err(error) = memory.write(root, wheels) {
        let why = one_line(&error);
        let text = format!("the next build cannot reuse this one quickly: {why}");
        world.console.warn(text);
    }
    let bytes = size(all.iter().map(|made| made.size).sum());
    let (packages, time) = (many(all.len(), "package"), took(began.elapsed()));
    let facts = format!("{packages}, {bytes}, in {time}");
    world.console.status("Built", facts);
    let reused = earlier.map(|_| reused);
    if let Some(count) = reused {
        world.console.status("Reused", count);
    }
    Ok(MadeSet {
        packages: all,
        reused,
        _archives: None,
    })
}

/// What all packages of one build share while they are written.
struct Making<'a> {
    version: &'a Version,
    settings: &'a AssembleSettings,
    world: &'a World,
    /// The staging directory that replaces `dist` at the end.
    staging: &'a Path,
    dist: &'a Path,
    earlier: Option<&'a EarlierSet>,
    memory: BuildMemory,
    reused: ReuseCount,
    /// Of all packages together.
    progress: Progress,
}

impl Making<'_> {
    fn package(&mut self, package: &PackagePlan, path: &str) -> Result<MadePackage> {
        let file = self.staging.join(path);
        if let Some(directory) = file.parent() {
            fs_err::create_dir_all(directory)?;
        }
        let record = match &package.form {
            PackageForm::Wheel(record) => record,
            PackageForm::Sdist(top) => {
                let mut out = created(&file)?;
                archive::write_sdist(&mut out, top, &package.texts, self.settings.time)?;
                out.rewind()?;
                let (sha256, size) = Sha256::of_reader(&mut out)?;
                let members = package.texts.iter();
                let members = members.map(|(path, text)| BuiltMember::text(path, text));
                let made = MadePackage {
                    path: path.to_owned(),
                    size,
                    sha256,
                    members: members.collect(),
                    identity: FileIdentity::from_metadata(&out.metadata()?),
                    recipe: None,
                    is_shared: false,
                };
                self.tell_packed(path, &made.members, size);
                return Ok(made);
            }
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
        let work = Wheel {
            members,
            contents,
            taken,
            texts: &package.texts,
            record,
        };
        match self.linked(&work, path, &file)? {
            Some(made) => Ok(made),
            None => self.written(&work, path, &file),
        }
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
            return content.taken(taken.packed.len);
        }
        let (progress, stop) = (&self.progress, &self.world.stop);
        progress.begin(path);
        let source = Tap::new(content.open()?, stop, |bytes| progress.inc(bytes));
        let mut file = NamedTempFile::new_in(self.staging)?;
        pack_xz(source, &mut file, self.settings.jobs)
            .map_err(|error| stop.check().map_or_else(Into::into, |()| error))?;
        content.packed(file.into_temp_path())
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
    fn linked(&mut self, work: &Wheel, path: &str, file: &Path) -> Result<Option<MadePackage>> {
        let Some(record) = work.taken_record() else {
            return Ok(None);
        };
        let recipe = WheelRecipe::new(&record, &work.members, self.settings);
        let whole = self.earlier.and_then(|earlier| earlier.whole(recipe));
        let Some((whole, state, sha256)) = whole else {
            return Ok(None);
        };
        // The old `dist` is deleted at the end, so its wheel can get a second name until then. A
        // file elsewhere is copied: a change there must not change this set.
        let is_shared = is_below(whole, self.dist) && fs_err::hard_link(whole, file).is_ok();
        let identity = if is_shared {
            FileIdentity::of(file)?
        } else {
            let mut out = created(file)?;
            if atomic::share_blocks(whole, &out).is_err() {
                io::copy(&mut fs_err::File::open(whole)?, &mut out)?;
            }
            FileIdentity::from_metadata(&out.metadata()?)
        };
        state.ensure(whole, "while it was read")?;
        let len = state.stamp.len;
        let facts = format!("{path}: the whole wheel, {}", size(len));
        self.world.console.item("Reused", facts);
        self.learn(work, &record);
        Ok(Some(MadePackage {
            path: path.to_owned(),
            size: len,
            sha256,
            members: work.built(&record),
            identity,
            recipe: Some(recipe),
            is_shared,
        }))
    }

    fn written(&mut self, work: &Wheel, path: &str, file: &Path) -> Result<MadePackage> {
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
        Ok(MadePackage {
            path: path.to_owned(),
            size: written.len,
            sha256: written.sha256,
            members,
            identity: FileIdentity::from_metadata(&out.metadata()?),
            recipe: Some(WheelRecipe::new(
                &written.record,
                &work.members,
                self.settings,
            )),
            is_shared: false,
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
                content: content.built(),
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

/// Creates a file, which is readable too: what is written last is read back for its hash.
fn created(file: &Path) -> io::Result<fs_err::File> {
    let mut options = fs_err::OpenOptions::new();
    options.read(true).write(true).create_new(true).open(file)
}

/// Whether a file is in a directory, with any symlinks in their paths.
fn is_below(file: &Path, directory: &Path) -> bool {
    let real = (fs_err::canonicalize(file), fs_err::canonicalize(directory));
    matches!(real, (Ok(file), Ok(directory)) if file.starts_with(&directory))
}
