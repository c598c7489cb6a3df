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
    package::plan::{BuildOrigin, MemberSource, Members, relative_path},
    policy::catalog::{PackageKind, PackageSpec},
    run::Platform,
};
use rocwheel_base::{
    error::{Context as _, Error, Result, anyhow, hinted},
    glob::Glob,
    relpath::RelPath,
    target::Scope,
};
use rocwheel_elf::{ElfFacts, Rpath};

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
    /// The merged files of its artifacts. The package may take only some of them.
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

/// The file that ships for a path of the devel tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shipped<'a> {
    /// The index of the claim that ships it.
    pub(super) claim: usize,
    /// Its path in that claim: another path, if the path of the tree is an alias.
    pub(super) path: &'a RelPath,
}

/// The file of an artifact that an entry stands for: the entry itself, or the end of a symlink.
struct EntryFile<'a> {
    path: &'a RelPath,
    facts: &'a FileFacts,
    origin: BuildOrigin,
}

/// A symlink to a program, which becomes a launcher if the program ships too.
struct ProgramLink<'a> {
    path: &'a RelPath,
    program: &'a RelPath,
    /// The copy of the program that ships instead if the program does not.
    copy: MemberSource,
}

/// A name of a library that is not its SONAME.
struct LibraryName<'a> {
    name: &'a RelPath,
    /// The path of the library itself. The name may be a symlink to it.
    file: &'a RelPath,
    soname: RelPath,
    library: MemberSource,
}

impl Claim<'_> {
    /// Whether the devel tree for `scope` links to the files of this package.
    ///
    /// The tree of one family ignores packages of other families, which may ship the same path. All
    /// trees ignore device packages: users install and uninstall them later, and their files are
    /// linked into the tree then.
    fn is_seen(&self, scope: Option<&Scope>) -> bool {
        let is_for_another_family =
            scope.is_some() && self.scope.is_some() && scope != self.scope.as_ref();
        !is_for_another_family && self.spec.kind == PackageKind::Runtime
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
    pub(super) fn add_members(&mut self) -> Result<()> {
        let spec = self.spec;
        let filter = spec.filter();
        let mut accepted = self.files.clone();
        accepted.retain(|path, owned| {
            filter.accepts(path.as_str()) && spec.takes_file(&owned.artifact.name, path)
        });
        self.add_files(&accepted)?;
        for pattern in &spec.also_without_version {
            self.add_shorter_names(pattern)?;
        }
        // Launchers for commands whose program has another name.
        for (command, target) in &spec.also_as {
            let content = accepted.get(target).map(|owned| &owned.file.content);
            if let Some(TreeContent::File(facts)) = content
                && self.is_program(facts)
                && !self.members.contains(command)
            {
                let launcher = MemberSource::Launcher(relative_path(command, target));
                self.members.insert(command.clone(), launcher)?;
            }
        }
        Ok(())
    }

    fn add_files(&mut self, files: &Files<'_>) -> Result<()> {
        // Launchers and library names are decided after all other paths: they depend on what ships.
        let mut program_links = Vec::new();
        let mut library_names = Vec::new();
        for (&path, owned) in files {
            let Some(file) = find_file(self.spec.kind, path, owned)? else {
                continue;
            };
            let facts = file.facts;
            if file.path != path && is_for_programs(path) && self.is_program(facts) {
                let copy = self.plan_member(path, facts, file.origin)?;
                program_links.push(ProgramLink { path, program: file.path, copy });
                continue;
            }
            match self.soname(facts) {
                Some(soname) if soname.as_str() != path.file_name() => {
                    // If it is this name that makes the library ship, it ships beside its file, so its
                    // run path is planned for that directory.
                    let library = self.plan_member(file.path, facts, file.origin)?;
                    library_names.push(LibraryName {
                        name: path,
                        file: file.path,
                        soname,
                        library,
                    });
                }
                _ => {
                    let member = self.plan_member(path, facts, file.origin)?;
                    self.members.insert(path.clone(), member)?;
                }
            }
        }
        for ProgramLink { path, program, copy } in program_links {
            let member = if self.members.contains(program) {
                MemberSource::Launcher(relative_path(path, program))
            } else {
                copy
            };
            self.members.insert(path.clone(), member)?;
        }
        for library_name in library_names {
            self.add_library_name(library_name)?;
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

    /// The SONAME of a library. The loader searches directories only for names without a slash, so a
    /// SONAME with a slash is ignored, and so is an empty SONAME.
    fn soname(&self, facts: &FileFacts) -> Option<RelPath> {
        if self.kind(facts) != FileKind::SharedObject {
            return None;
        }
        let soname: RelPath = facts.elf.as_ref()?.soname.as_deref()?.parse().ok()?;
        (soname.depth() == 1).then_some(soname)
    }

    /// Whether the file is a program, so that a launcher can replace a symlink to it.
    ///
    /// Scripts get launchers as well: a copy of a script would look for its neighbours in the wrong
    /// directory.
    fn is_program(&self, facts: &FileFacts) -> bool {
        facts.executable && matches!(self.kind(facts), FileKind::Executable | FileKind::Script)
    }

    /// The member for a file: unchanged, or with the run path for its path in the package.
    fn plan_member(
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
        let rpath = loadable_elf(facts)
            .filter(|elf| elf.uses_run_path())
            .map(|elf| extend_rpath(self.core, &self.searched, path, elf))
            .transpose()?;
        Ok(MemberSource::File(origin, rpath))
    }

    /// Records a name of a library as an alias of its SONAME. Ships the library if it is not in the
    /// package yet.
    ///
    /// That happens if a build installs `libx.so.1.2` without the symlink `libx.so.1`. Programs look
    /// for the SONAME `libx.so.1`, so the library ships under that name.
    fn add_library_name(&mut self, library_name: LibraryName<'_>) -> Result<()> {
        let LibraryName { name, file, soname, library } = library_name;
        let soname_beside = |path: &RelPath| match path.parent() {
            Some(directory) => directory.join(&soname),
            None => soname.clone(),
        };
        // Where a build installs symlinks to the library, the SONAME ships beside this name too.
        // Otherwise it is beside the library.
        let beside_name = soname_beside(name);
        let shipped =
            if self.members.contains(&beside_name) { beside_name } else { soname_beside(file) };
        if !self.members.contains(&shipped) {
            self.notes.push(format!(
                "`{file}` calls itself `{soname}`, and nothing else does: it ships as `{shipped}`"
            ));
            self.members.insert(shipped.clone(), library)?;
        }
        if shipped != *name {
            self.aliases.insert(name.clone(), shipped);
        }
        Ok(())
    }

    /// Ships `librocprof-sys.so.1.2` also as `librocprof-sys.so.1` and `librocprof-sys.so`, unless the
    /// package has files of these names.
    fn add_shorter_names(&mut self, pattern: &Glob) -> Result<()> {
        let mut shorter_names = BTreeMap::new();
        for (path, member) in &self.members {
            if !pattern.matches(path.as_str()) {
                continue;
            }
            let mut name = path.as_str();
            while let Some((rest, _)) = name.rsplit_once('.').filter(|(_, last)| *last != "so") {
                let entry = shorter_names.entry(rest.parse::<RelPath>()?);
                entry.or_insert_with(|| member.clone());
                name = rest;
            }
        }
        for (path, member) in shorter_names {
            if !self.members.contains(&path) {
                // A name that ships is not left out, so it is no alias.
                self.aliases.remove(&path);
                self.members.insert(path, member)?;
            }
        }
        Ok(())
    }
}

impl Claims<'_> {
    /// Finds what ships for a path of the devel tree of `scope`.
    pub(super) fn find_shipped<'b>(
        &'b self,
        path: &'b RelPath,
        scope: Option<&Scope>,
    ) -> Option<Shipped<'b>> {
        let path = self
            .0
            .iter()
            .filter(|claim| claim.is_seen(scope))
            .find_map(|claim| claim.aliases.get(path))
            .unwrap_or(path);
        Some(Shipped { claim: self.owner(path, scope)?, path })
    }

    /// The index of the claim that ships a path, for the devel tree of `scope`.
    pub(super) fn owner(&self, path: &RelPath, scope: Option<&Scope>) -> Option<usize> {
        let is_owner = |claim: &Claim<'_>| claim.is_seen(scope) && claim.members.contains(path);
        self.0.iter().position(is_owner)
    }
}

/// Finds the file that ships for a path. `None` for a directory, and for a symlink that leads to no
/// file of the artifact: another package may have what the symlink leads to, and the devel tree keeps
/// the symlink.
///
/// In a device package such a symlink is an error: without it, a program would fail only at run
/// time.
fn find_file<'a>(
    kind: PackageKind,
    path: &'a RelPath,
    owned: &Owned<'a>,
) -> Result<Option<EntryFile<'a>>> {
    let (text, end) = match &owned.file.content {
        TreeContent::Directory => return Ok(None),
        TreeContent::File(facts) => {
            let origin = BuildOrigin::of(owned, &owned.file.source, facts);
            return Ok(Some(EntryFile { path, facts, origin }));
        }
        TreeContent::Link { text, end } => (text, end),
    };
    let to = match end {
        LinkEnd::File { path, source, facts } => {
            let origin = BuildOrigin::of(owned, source, facts);
            return Ok(Some(EntryFile { path, facts, origin }));
        }
        LinkEnd::Escapes => return Err(refuse_escaping_link(path, text, owned)),
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

/// The run path for a file: the entries that it has, then an entry for each of `directories` of the
/// core package, whose import name is `core`.
///
/// The new entries go up to `site-packages` and down into the core package, even for files of the
/// core package itself. So they are also right for the same path below `_rocm_sdk_devel`.
fn extend_rpath(
    core: &str,
    directories: &[RelPath],
    path: &RelPath,
    facts: &ElfFacts,
) -> Result<Rpath> {
    let up = "../".repeat(path.depth());
    let entries: Vec<String> =
        directories.iter().map(|directory| format!("$ORIGIN/{up}{core}/{directory}")).collect();
    let added: Rpath = entries.join(":").parse()?;
    Ok(parse_rpath(path, facts)?.join(&added))
}

/// Parses the run path that the file has in the artifact.
pub(super) fn parse_rpath(path: &RelPath, facts: &ElfFacts) -> Result<Rpath> {
    let rpath = facts.run_path().unwrap_or_default();
    rpath.parse().with_context(|| format!("failed to read the run path of `{path}`"))
}

/// The ELF facts of a file that the dynamic loader may load; `None` for other files.
pub(super) fn loadable_elf(facts: &FileFacts) -> Option<&ElfFacts> {
    facts.elf.as_deref().filter(|_| facts.kind.is_loaded())
}

impl BuildOrigin {
    /// The file on disk that has the bytes of an entry. The entry may be a symlink to it.
    pub(super) fn of(owned: &Owned<'_>, source: &Path, facts: &FileFacts) -> Self {
        Self {
            artifact: owned.artifact.name.clone(),
            path: source.to_owned(),
            len: facts.len,
            is_library: facts.kind == FileKind::SharedObject,
            executable: facts.executable,
            form: facts.form.clone(),
            scanned: facts.identity.map(Box::new),
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
    let has_program_directory = path.parent().is_some_and(|directory| {
        directory.file_name() == "bin" || directory.components().any(|step| step == "libexec")
    });
    let suffix = path.file_name().rsplit_once('.').map(|(_, suffix)| suffix);
    has_program_directory && !suffix.is_some_and(|suffix| NOT_RUN.contains(&suffix))
}

/// Suffixes of modules, script libraries and data.
const NOT_RUN: [&str; 14] = [
    "py", "pyc", "pm", "rb", "lua", "tcl", "sh", "bash", "csh", "fish", "zsh", "cmake", "json",
    "txt",
];

/// The error about a symlink that leads out of its artifact.
pub(super) fn refuse_escaping_link(path: &RelPath, text: &str, owned: &Owned<'_>) -> Error {
    let artifact = &owned.artifact.name;
    hinted(
        anyhow!("link `{path}` of artifact `{artifact}` leads out of it: `{text}`"),
        "make it relative and point it at a file of the same artifact",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_test_files::linker::SharedObject;

    fn run_path(path: &str, library: &SharedObject) -> String {
        let directories = ["lib", "lib/rocm_sysdeps/lib"].map(|it| it.parse().unwrap());
        let facts = rocwheel_elf::read(&library.build()).unwrap().unwrap();
        let rpath = extend_rpath("_rocm_sdk_core", &directories, &path.parse().unwrap(), &facts);
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
