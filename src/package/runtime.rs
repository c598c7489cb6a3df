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
    elf::{ElfFacts, Rpath},
    error::{Context as _, Error, Result, anyhow, hinted},
    glob::Glob,
    package::plan::{BuildOrigin, MemberSource, Members, relative_path},
    policy::catalog::{PackageKind, PackageSpec},
    relpath::RelPath,
    run::Platform,
    target::Scope,
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
    /// The merged files of its artifacts, of which it may not take all.
    pub(super) files: Files<'a>,
    pub(super) members: Members,
    /// Names of libraries that do not ship because they are not the SONAME, each with the path that
    /// ships: `lib/libx.so` with `lib/libx.so.1`.
    pub(super) aliases: BTreeMap<RelPath, RelPath>,
    /// The names of the artifacts that were selected for it, even if its globs accept no file.
    pub(super) artifacts: BTreeSet<String>,
    pub(super) notes: Vec<String>,
    pub(super) platform: Platform,
    /// The import name of the directory with the files of the core package: `_rocm_sdk_core`.
    pub(super) core: &'a str,
    /// The directories of the core package that are added to run paths.
    pub(super) searched: Vec<RelPath>,
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
        if self.members.contains(&path) {
            return Ok(());
        }
        self.members.insert(path, MemberSource::Text(String::new()))
    }

    /// Plans all files of the package.
    pub(super) fn place_all(&mut self) -> Result<()> {
        let (spec, filter) = (self.spec, self.spec.filter());
        let mut accepted = self.files.clone();
        accepted.retain(|path, owned| {
            filter.accepts(path.as_str()) && spec.takes_file(&owned.artifact.name, path)
        });
        self.place(&accepted)?;
        for pattern in &spec.also_without_version {
            self.add_shorter_names(pattern)?;
        }
        // Launchers for commands whose program has another name.
        for (command, target) in &spec.also_as {
            let content = accepted.get(target).map(|owned| &owned.file.content);
            if let Some(TreeContent::File(facts)) = content
                && self.is_run(facts)
                && !self.members.contains(command)
            {
                let launcher = MemberSource::Launcher(relative_path(command, target));
                self.members.insert(command.clone(), launcher)?;
            }
        }
        Ok(())
    }

    fn place(&mut self, files: &Files<'_>) -> Result<()> {
        // Launchers and library names are decided after all other paths: they depend on what ships.
        let (mut launchers, mut names) = (Vec::new(), Vec::new());
        for (path, owned) in files {
            let path = *path;
            let Some((at, facts, origin)) = find(self.spec.kind, path, owned)? else {
                continue;
            };
            if at != path && is_for_programs(path) && self.is_run(facts) {
                launchers.push((path, at, self.member(path, facts, origin)?));
                continue;
            }
            match self.soname(facts) {
                Some(soname) if soname.as_str() != path.file_name() => {
                    let library = self.member(at, facts, origin)?;
                    names.push((path, at, soname, library));
                }
                _ => {
                    let member = self.member(path, facts, origin)?;
                    self.members.insert(path.clone(), member)?;
                }
            }
        }
        for (path, at, mut member) in launchers {
            if self.members.contains(at) {
                member = MemberSource::Launcher(relative_path(path, at));
            }
            self.members.insert(path.clone(), member)?;
        }
        for (path, at, soname, library) in names {
            self.settle(path.clone(), at, &soname, library)?;
        }
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
        facts.executable && matches!(self.kind(facts), FileKind::Executable | FileKind::Script)
    }

    /// The member for a file: unchanged, or with the run path for its path in the package.
    fn member(
        &self,
        path: &RelPath,
        facts: &FileFacts,
        origin: BuildOrigin,
    ) -> Result<MemberSource> {
        if self.platform != Platform::Linux {
            return Ok(MemberSource::File(origin, None));
        }
        if let Some(damage) = &facts.damage {
            return Err(hinted(
                anyhow!("`{path}` of artifact `{}`: {damage}", origin.artifact),
                "fetch the artifact again; if it was built like this, build it again",
            ));
        }
        let searched = loaded(facts).filter(|elf| elf.is_searched());
        let rpath = searched.map(|elf| extended(self.core, &self.searched, path, elf));
        Ok(MemberSource::File(origin, rpath.transpose()?))
    }

    /// Records a name of the library at `at` as an alias of its SONAME. Ships the library if it is not
    /// in the package yet.
    ///
    /// That happens if a build installs `libx.so.1.2` without the symlink `libx.so.1`. Programs look
    /// for the SONAME `libx.so.1`, so the library ships under that name.
    fn settle(
        &mut self,
        path: RelPath,
        at: &RelPath,
        soname: &RelPath,
        library: MemberSource,
    ) -> Result<()> {
        let beside = |path: &RelPath| match path.parent() {
            Some(directory) => directory.join(soname),
            None => soname.clone(),
        };
        let mut shipped = beside(&path);
        if !self.members.contains(&shipped) {
            shipped = beside(at);
        }
        if !self.members.contains(&shipped) {
            self.notes.push(format!(
                "`{at}` calls itself `{soname}`, and nothing else does: it ships as `{shipped}`"
            ));
            self.members.insert(shipped.clone(), library)?;
        }
        if shipped != path {
            self.aliases.insert(path, shipped);
        }
        Ok(())
    }

    /// Ships `librocprof-sys.so.1.2` also as `librocprof-sys.so.1` and `librocprof-sys.so`, unless the
    /// package has files of these names.
    fn add_shorter_names(&mut self, pattern: &Glob) -> Result<()> {
        let members = self.members.iter();
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
            if !self.members.contains(&path) {
                self.aliases.remove(&path);
                self.members.insert(path, member)?;
            }
        }
        Ok(())
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
        let is_owner = |claim: &Claim<'_>| claim.is_seen(scope) && claim.members.contains(path);
        self.0.iter().position(is_owner)
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
    owned: &Owned<'a>,
) -> Result<Option<(&'a RelPath, &'a FileFacts, BuildOrigin)>> {
    let (text, end) = match &owned.file.content {
        TreeContent::Directory => return Ok(None),
        TreeContent::File(facts) => {
            let origin = origin(owned, &owned.file.source, facts);
            return Ok(Some((path, facts, origin)));
        }
        TreeContent::Link { text, end } => (text, end),
    };
    let to = match end {
        LinkEnd::File { path, source, facts } => {
            return Ok(Some((path, facts, origin(owned, source, facts))));
        }
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

/// The run path for a file: its own entries, then one entry for each of `directories` of the core
/// package, whose import name is `core`.
///
/// The new entries go up to `site-packages` and down into the core package, even for files of the
/// core package itself. So they are also right for the same path below `_rocm_sdk_devel`.
fn extended(
    core: &str,
    directories: &[RelPath],
    path: &RelPath,
    facts: &ElfFacts,
) -> Result<Rpath> {
    let up = "../".repeat(path.depth());
    let added = directories.iter();
    let added = added.map(|directory| format!("$ORIGIN/{up}{core}/{directory}"));
    let added: Rpath = added.collect::<Vec<_>>().join(":").parse()?;
    Ok(own_rpath(path, facts)?.join(&added))
}

/// The run path that the file has in the artifact.
pub(super) fn own_rpath(path: &RelPath, facts: &ElfFacts) -> Result<Rpath> {
    let text = facts.run_path().unwrap_or_default();
    text.parse().with_context(|| format!("failed to read the run path of `{path}`"))
}

/// The ELF facts of a file that the dynamic loader may load; `None` for other files.
pub(super) fn loaded(facts: &FileFacts) -> Option<&ElfFacts> {
    facts.elf.as_deref().filter(|_| facts.kind.is_loaded())
}

/// The file on disk that has the bytes of an entry, which may be a symlink to it.
pub(super) fn origin(owned: &Owned<'_>, source: &Path, facts: &FileFacts) -> BuildOrigin {
    BuildOrigin {
        artifact: owned.artifact.name.clone(),
        path: source.to_owned(),
        len: facts.len,
        is_library: facts.kind == FileKind::SharedObject,
        executable: facts.executable,
        form: facts.form.clone(),
        scanned: facts.identity.map(Box::new),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::{self, write::SharedObject};

    fn run_path(path: &str, library: &SharedObject) -> String {
        let directories = ["lib", "lib/rocm_sysdeps/lib"].map(|it| it.parse().unwrap());
        let facts = elf::read(&library.build()).unwrap().unwrap();
        let rpath = extended("_rocm_sdk_core", &directories, &path.parse().unwrap(), &facts);
        rpath.unwrap().to_string()
    }

    #[test]
    fn the_way_to_the_core_package_starts_at_the_depth_of_the_file() {
        let library = || SharedObject::new("libx.so.1").runpath("$ORIGIN");
        insta::assert_snapshot!(
            run_path("lib/libx.so.1", &library()),
            @"$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib"
        );
        insta::assert_snapshot!(
            run_path("libx.so.1", &library()),
            @"$ORIGIN:$ORIGIN/../_rocm_sdk_core/lib:$ORIGIN/../_rocm_sdk_core/lib/rocm_sysdeps/lib"
        );
    }

    #[test]
    fn what_is_listed_already_is_not_added_twice() {
        let library = SharedObject::new("libx.so.1").rpath("$ORIGIN/../../_rocm_sdk_core/lib:/b");
        insta::assert_snapshot!(
            run_path("lib/libx.so.1", &library),
            @"$ORIGIN/../../_rocm_sdk_core/lib:/b:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib"
        );
    }
}
