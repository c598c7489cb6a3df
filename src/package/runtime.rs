//! Plans the files of runtime and device packages.
//!
//! [Wheels](https://packaging.python.org/en/latest/specifications/binary-distribution-format/)
//! cannot have symlinks. So a library ships only under its SONAME, the name that the dynamic loader
//! asks for, and a launcher replaces a symlink to a program. Reads and writes no files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    artifact::{FileFacts, FileKind, LinkEnd, Owned, TreeContent},
    elf::{ElfFacts, Machine},
    error::{Error, Result, anyhow, hinted},
    glob::Glob,
    package::{
        catalog::{PackageKind, PackageSpec},
        plan::{MemberSource, Members, WheelMemberPlan},
        sdk_tree::{BuildOrigin, way},
        search,
    },
    relpath::RelPath,
    run::Platform,
    target::Scope,
    wheel::FileMode,
};

/// The merged files of several artifacts, by path.
pub(super) type Files<'a> = BTreeMap<&'a RelPath, Owned<'a>>;

/// The files of one runtime or device package, with their paths in the artifacts.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    pub(super) spec: &'a PackageSpec,
    /// The target or family that the package is built for.
    pub(super) scope: Option<Scope>,
    /// The import name of the directory with its files: `_rocm_sdk_core`.
    pub(super) directory: String,
    pub(super) members: Members,
    /// Names of libraries that do not ship because they are not the SONAME, each with the path that
    /// ships: `lib/libx.so` with `lib/libx.so.1`.
    pub(super) aliases: BTreeMap<RelPath, RelPath>,
    /// The names of the artifacts that were selected for it, even if its globs accept no file.
    pub(super) artifacts: BTreeSet<String>,
    pub(super) notes: Vec<String>,
}

/// All claims, in the order in which the packages were planned.
#[derive(Debug, Default)]
pub(super) struct Claims<'a>(pub(super) Vec<Claim<'a>>);

impl Claim<'_> {
    /// Whether the devel tree for `scope` links to the files of this package.
    ///
    /// The tree of one family ignores packages of other families, which may ship the same path. All
    /// trees ignore device packages: users install and uninstall them later, and their files are
    /// linked into the tree then.
    fn is_seen(&self, scope: Option<&Scope>) -> bool {
        let is_of_another = scope.is_some() && self.scope.is_some() && scope != self.scope.as_ref();
        !is_of_another && self.spec.kind == PackageKind::Runtime
    }

    /// Adds an empty `__init__.py`, which makes the directory a Python package, unless the
    /// artifacts have one.
    pub(super) fn add_empty_module(&mut self) -> Result<()> {
        let path: RelPath = "__init__.py".parse()?;
        if self.members.contains_key(&path) {
            return Ok(());
        }
        let empty = MemberSource::Text(String::new());
        self.members.insert(path, WheelMemberPlan::regular(empty))
    }
}

impl Claims<'_> {
    /// Finds what ships for a path, for the devel tree of `scope`: the index of the claim, and the
    /// path in it. That is another path if the first one is an alias.
    pub(super) fn find<'b>(
        &'b self,
        path: &'b RelPath,
        scope: Option<&Scope>,
    ) -> Option<(usize, &'b RelPath)> {
        let mut seen = self.0.iter().filter(|claim| claim.is_seen(scope));
        let alias = seen.find_map(|claim| claim.aliases.get(path));
        let shipped = alias.unwrap_or(path);
        Some((self.owner(shipped, scope)?, shipped))
    }

    /// The index of the claim that ships a path, for the devel tree of `scope`.
    pub(super) fn owner(&self, path: &RelPath, scope: Option<&Scope>) -> Option<usize> {
        let is_owner = |claim: &Claim<'_>| claim.is_seen(scope) && claim.members.contains_key(path);
        self.0.iter().position(is_owner)
    }
}

/// A file, found directly or through a symlink.
#[derive(Clone, Copy)]
pub(super) struct RuntimeFile<'a> {
    /// The entry in the install tree.
    pub(super) owned: &'a Owned<'a>,
    /// The path in the install tree, on disk, and the facts of the file that has the bytes.
    pub(super) at: &'a RelPath,
    pub(super) source: &'a Path,
    pub(super) facts: &'a FileFacts,
}

/// How the files of all packages are placed.
#[derive(Clone, Copy)]
pub(super) struct Placing<'a> {
    pub(super) platform: Platform,
    /// The import name of the directory with the files of the core package: `_rocm_sdk_core`.
    pub(super) core: &'a str,
}

impl Placing<'_> {
    /// Plans all files of a package: adds them to its claim.
    pub(super) fn claim(&self, files: &Files<'_>, claim: &mut Claim<'_>) -> Result<()> {
        let (spec, filter) = (claim.spec, claim.spec.filter());
        let mut accepted = files.clone();
        accepted.retain(|path, owned| {
            filter.accepts(path.as_str()) && spec.takes_file(&owned.artifact.name, path)
        });
        self.place(&accepted, claim)?;
        for pattern in &spec.also_without_version {
            add_shorter_names(pattern, claim)?;
        }
        // Launchers for commands whose program has another name.
        for (command, target) in &spec.also_as {
            let content = accepted.get(target).map(|owned| &owned.file.content);
            if let Some(TreeContent::File(facts)) = content
                && self.is_run(facts)
                && !claim.members.contains_key(command)
            {
                let launcher = launcher(command, target);
                claim.members.insert(command.clone(), launcher)?;
            }
        }
        Ok(())
    }

    fn place(&self, files: &Files<'_>, claim: &mut Claim<'_>) -> Result<()> {
        // Launchers and library names are decided after all other paths: they depend on what ships.
        let (mut launchers, mut names) = (Vec::new(), Vec::new());
        for (path, owned) in files {
            let path = *path;
            let Some(found) = find(claim.spec.kind, path, owned)? else {
                continue;
            };
            if found.at != path && is_for_programs(path) && self.is_run(found.facts) {
                launchers.push((path, found.at.clone(), self.member(claim, path, found)?));
                continue;
            }
            match self.soname(found.facts) {
                Some(soname) if soname.as_str() != path.file_name() => {
                    let library = self.member(claim, found.at, found)?;
                    names.push((path, found.at.clone(), soname, library));
                }
                _ => {
                    let member = self.member(claim, path, found)?;
                    claim.members.insert(path.clone(), member)?;
                }
            }
        }
        for (path, at, mut member) in launchers {
            if claim.members.contains_key(&at) {
                member = launcher(path, &at);
            }
            claim.members.insert(path.clone(), member)?;
        }
        for (path, at, soname, library) in names {
            settle(path.clone(), &at, &soname, library, claim)?;
        }
        self.remark(files, claim);
        Ok(())
    }

    /// The kind of the file on Linux. On Windows no ELF file is loaded, so all are `Other`.
    fn kind(&self, facts: &FileFacts) -> FileKind {
        match self.platform {
            Platform::Linux => facts.kind,
            Platform::Windows => FileKind::Other,
        }
    }

    /// The SONAME of a library. The loader searches directories only for names without a slash. A
    /// SONAME with one, or an empty one, is ignored.
    fn soname(&self, facts: &FileFacts) -> Option<RelPath> {
        let elf = facts.elf.as_ref();
        let library = elf.filter(|_| self.kind(facts) == FileKind::SharedObject)?;
        let soname: Option<RelPath> = library.soname.as_deref()?.parse().ok();
        soname.filter(|soname| soname.depth() == 1)
    }

    /// Whether the file is a program, so that a launcher can replace a symlink to it.
    ///
    /// Scripts get launchers as well: a copy of a script would look for its neighbours in the wrong
    /// directory.
    fn is_run(&self, facts: &FileFacts) -> bool {
        facts.mode.executable && matches!(self.kind(facts), FileKind::Executable | FileKind::Script)
    }

    /// The member for a file: unchanged, or with the run path for its path in the package.
    fn member(
        &self,
        claim: &Claim<'_>,
        path: &RelPath,
        found: RuntimeFile<'_>,
    ) -> Result<WheelMemberPlan> {
        let linux = self.platform == Platform::Linux;
        if let Some(damage) = found.facts.damage.as_ref().filter(|_| linux) {
            return Err(hinted(
                anyhow!(
                    "`{path}` of artifact `{}`: {damage}",
                    found.owned.artifact.name
                ),
                "fetch the artifact again; if it was built like this, leave the file out with \
                 `exclude` in a `--packages-file`",
            ));
        }
        let searched = found.loaded();
        let searched = searched.filter(|elf| linux && search::is_searched(elf));
        let source = match searched {
            Some(elf) => {
                let rpath = search::extend(self.core, &claim.spec.rpath, path, elf)?;
                MemberSource::Relink(found.origin(), rpath)
            }
            None => MemberSource::Copy(found.origin()),
        };
        let mode = found.mode();
        Ok(WheelMemberPlan { mode, source })
    }

    /// Adds notes about files for other machines and about setuid programs.
    fn remark(&self, files: &Files<'_>, claim: &mut Claim<'_>) {
        let mut note = |is_it: &dyn Fn(&FileFacts) -> bool, what: &str| {
            let paths = files.iter().filter_map(|(path, owned)| {
                matches!(&owned.file.content, TreeContent::File(facts) if is_it(facts))
                    .then_some(path)
            });
            let paths: BTreeSet<_> = paths.collect();
            let Some(first) = paths.first() else { return };
            let more = match paths.len() {
                1 => String::new(),
                several => format!("; so it is with {} more", several - 1),
            };
            claim.notes.push(format!("`{first}` {what}{more}"));
        };
        let is_foreign = |facts: &FileFacts| {
            let machine = facts.elf.as_ref().map(|elf| elf.machine);
            self.kind(facts).is_loaded() && matches!(machine, Some(Machine::Other(_)))
        };
        note(
            &is_foreign,
            "is for another machine than x86-64, and ships as it is",
        );
        note(
            &|facts| facts.mode.setuid,
            "ran as its owner or group, and will run as its user",
        );
    }
}

/// The file that ships for a path. `None` for a directory, and for a symlink that leads to no file
/// of the artifact: another package may have what it leads to, and the devel tree keeps it.
///
/// In a device package such a symlink is an error: without it, a program would fail only at run
/// time.
fn find<'a>(
    kind: PackageKind,
    path: &'a RelPath,
    owned: &'a Owned<'a>,
) -> Result<Option<RuntimeFile<'a>>> {
    let found = |at, source, facts| {
        Ok(Some(RuntimeFile {
            owned,
            at,
            source,
            facts,
        }))
    };
    let (text, end) = match &owned.file.content {
        TreeContent::Directory => return Ok(None),
        TreeContent::File(facts) => return found(path, &owned.file.source, facts),
        TreeContent::Link { text, end } => (text, end),
    };
    let to = match end {
        LinkEnd::File {
            path,
            source,
            facts,
        } => return found(path, source, facts),
        LinkEnd::Escapes => return Err(escaping_link(path, text, owned)),
        _ if kind != PackageKind::Device => return Ok(None),
        LinkEnd::Dangling => "to nothing",
        LinkEnd::Directory => "to a directory",
    };
    let artifact = &owned.artifact.name;
    Err(hinted(
        anyhow!("link `{path}` of artifact `{artifact}` leads {to}: `{text}`"),
        "a device package holds files only: ship the file itself, or leave the link out",
    ))
}

impl<'a> RuntimeFile<'a> {
    /// The ELF facts of a file that the dynamic loader may load; `None` for other files.
    pub(super) fn loaded(&self) -> Option<&'a ElfFacts> {
        let elf = self.facts.elf.as_deref();
        elf.filter(|_| self.facts.kind.is_loaded())
    }

    pub(super) fn origin(&self) -> BuildOrigin {
        BuildOrigin {
            artifact: self.owned.artifact.name.clone(),
            path: self.source.to_owned(),
            len: self.facts.len,
            form: self.facts.form.clone(),
        }
    }

    /// The mode in the wheel. Installers keep only whether a file is executable.
    pub(super) fn mode(&self) -> FileMode {
        if self.facts.mode.executable {
            FileMode::Executable
        } else {
            FileMode::Regular
        }
    }
}

/// Whether a symlink at this path may become a launcher: in `bin`, or below `libexec`.
///
/// In other directories, a symlink to an executable file is mostly a module or a script library
/// that happens to have an execute bit. `dist-packages/rsmiBindings.py` of rocm-smi leads to such a
/// file, and Python could not import an ELF launcher in its place. For the same reason, names in
/// `bin` with the suffix of a module or of a script that shells source get no launcher.
fn is_for_programs(path: &RelPath) -> bool {
    let directory = path.parent();
    let is_there = directory.is_some_and(|directory| {
        directory.file_name() == "bin" || directory.components().any(|step| step == "libexec")
    });
    let suffix = path.file_name().rsplit_once('.').map(|(_, suffix)| suffix);
    is_there && !suffix.is_some_and(|suffix| NOT_RUN.contains(&suffix))
}

/// Suffixes of modules, script libraries and data.
const NOT_RUN: [&str; 14] = [
    "py", "pyc", "pm", "rb", "lua", "tcl", "sh", "bash", "csh", "fish", "zsh", "cmake", "json",
    "txt",
];

pub(super) fn escaping_link(path: &RelPath, text: &str, owned: &Owned<'_>) -> Error {
    let artifact = &owned.artifact.name;
    hinted(
        anyhow!("link `{path}` of artifact `{artifact}` leads out of it: `{text}`"),
        "make it relative and point it at a file of the same artifact",
    )
}

fn launcher(path: &RelPath, place: &RelPath) -> WheelMemberPlan {
    WheelMemberPlan {
        mode: FileMode::Executable,
        source: MemberSource::Launcher(way(path, place)),
    }
}

/// Records a name of the library at `at` as an alias of its SONAME. Ships the library if it is not
/// in the package yet.
///
/// That happens if a build installs `libx.so.1.2` without the symlink `libx.so.1`. Programs look
/// for the SONAME `libx.so.1`, so the library ships under that name.
fn settle(
    path: RelPath,
    at: &RelPath,
    soname: &RelPath,
    library: WheelMemberPlan,
    claim: &mut Claim<'_>,
) -> Result<()> {
    let beside = |path: &RelPath| match path.parent() {
        Some(directory) => directory.join(soname),
        None => soname.clone(),
    };
    let mut shipped = beside(&path);
    if !claim.members.contains_key(&shipped) {
        shipped = beside(at);
    }
    if !claim.members.contains_key(&shipped) {
        claim.notes.push(format!(
            "`{at}` calls itself `{soname}`, and nothing else does: it ships as `{shipped}`"
        ));
        claim.members.insert(shipped.clone(), library)?;
    }
    if shipped != path {
        claim.aliases.insert(path, shipped);
    }
    Ok(())
}

/// Ships `librocprof-sys.so.1.2` also as `librocprof-sys.so.1` and `librocprof-sys.so`, unless the
/// package has files of these names.
fn add_shorter_names(pattern: &Glob, claim: &mut Claim<'_>) -> Result<()> {
    let members = claim.members.iter();
    let mut shorter = BTreeMap::new();
    for (path, member) in members.filter(|(path, _)| pattern.matches(path.as_str())) {
        let mut name = path.as_str();
        while let Some((rest, _)) = name.rsplit_once('.').filter(|(_, last)| *last != "so") {
            let entry = shorter.entry(rest.parse::<RelPath>()?);
            entry.or_insert_with(|| member.clone());
            name = rest;
        }
    }
    for (path, member) in shorter {
        if !claim.members.contains_key(&path) {
            claim.aliases.remove(&path);
            claim.members.insert(path, member)?;
        }
    }
    Ok(())
}
