//! Plans the files of runtime packages.
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
    elf::Machine,
    error::{Error, Result, anyhow, hinted},
    glob::Glob,
    package::{
        catalog::PackageSpec,
        claims::Claim,
        origin::BuildOrigin,
        plan::{MemberSource, WheelMemberPlan},
        sdk_tree::way,
        search::{self, SearchPath},
    },
    relpath::RelPath,
    run::Platform,
    wheel,
};

/// The merged files of several artifacts, by path.
pub(super) type Files<'a> = BTreeMap<&'a RelPath, Owned<'a>>;

/// A file, found directly or through a symlink: the entry in the install tree, and the path and the
/// facts of the file that has the bytes.
#[derive(Clone, Copy)]
pub(super) struct RuntimeFile<'a> {
    pub(super) owned: &'a Owned<'a>,
    pub(super) source: &'a Path,
    pub(super) facts: &'a FileFacts,
}

/// How the files of a package are placed.
#[derive(Clone, Copy)]
pub(super) struct Placing<'a> {
    pub(super) platform: Platform,
    pub(super) search: &'a SearchPath,
    pub(super) links: LinkPolicy,
}

/// What to do with dangling symlinks and symlinks to directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkPolicy {
    /// Leave them out. Another package may have what they lead to, and the devel tree keeps them.
    Drop,
    /// Fail. Without them, a program would fail only at run time.
    Refuse,
}

/// What happens with one path.
enum Fate {
    /// It ships, as this member.
    Ships(WheelMemberPlan),
    /// It becomes a launcher for the program at `place`, or the member `instead` if nothing ships
    /// at `place`.
    Launches {
        place: RelPath,
        instead: WheelMemberPlan,
    },
    /// It is another name of the library at `place`, which ships under its SONAME.
    Names {
        soname: RelPath,
        place: RelPath,
        library: WheelMemberPlan,
    },
    /// It is left out: a directory, or a symlink that leads to no file of the artifact.
    Left,
}

/// Launchers and library names, which are decided after all other paths: they depend on what ships.
#[derive(Default)]
struct PendingLinks {
    launchers: Vec<(RelPath, RelPath, WheelMemberPlan)>,
    names: Vec<(RelPath, RelPath, RelPath, WheelMemberPlan)>,
}

/// Plans all files of a runtime package.
pub(super) fn claim(
    spec: &PackageSpec,
    placing: Placing<'_>,
    files: &Files<'_>,
    claim: &mut Claim,
) -> Result<()> {
    let filter = spec.filter();
    let accepted: Files<'_> = files
        .iter()
        .filter(|(path, owned)| {
            filter.accepts(path.as_str()) && spec.takes_file(&owned.artifact.name, path)
        })
        .map(|(path, owned)| (*path, *owned))
        .collect();
    placing.place(&accepted, claim)?;
    for pattern in &spec.also_without_version {
        add_shorter_names(pattern, claim)?;
    }
    placing.add_commands(&spec.also_as, &accepted, claim)
}

impl Placing<'_> {
    /// Adds all paths to the claim.
    pub(super) fn place(&self, files: &Files<'_>, claim: &mut Claim) -> Result<()> {
        let mut waiting = PendingLinks::default();
        for (path, owned) in files {
            let path = (*path).clone();
            match self.fate(&path, owned)? {
                Fate::Ships(member) => claim.members.insert(path, member)?,
                Fate::Launches { place, instead } => {
                    waiting.launchers.push((path, place, instead));
                }
                Fate::Names {
                    soname,
                    place,
                    library,
                } => waiting.names.push((path, soname, place, library)),
                Fate::Left => {}
            }
        }
        for (path, place, instead) in waiting.launchers {
            let member = if claim.members.contains(&place) {
                launcher(&path, &place)
            } else {
                instead
            };
            claim.members.insert(path, member)?;
        }
        for (path, soname, place, library) in waiting.names {
            settle(path, &soname, &place, library, claim)?;
        }
        self.remark(files, claim);
        Ok(())
    }

    fn fate(&self, path: &RelPath, owned: &Owned<'_>) -> Result<Fate> {
        let file = owned.file;
        match &file.content {
            TreeContent::Directory => Ok(Fate::Left),
            TreeContent::File(facts) => {
                let source = &file.source;
                self.fate_of_file(
                    path,
                    path,
                    RuntimeFile {
                        owned,
                        source,
                        facts,
                    },
                )
            }
            TreeContent::Link { text, end } => match end {
                LinkEnd::Escapes => Err(escaping_link(path, text, owned)),
                LinkEnd::Dangling if self.links == LinkPolicy::Refuse => {
                    Err(useless_link(path, text, owned, "to nothing"))
                }
                LinkEnd::Directory if self.links == LinkPolicy::Refuse => {
                    Err(useless_link(path, text, owned, "to a directory"))
                }
                LinkEnd::Dangling | LinkEnd::Directory => Ok(Fate::Left),
                LinkEnd::File {
                    path: place,
                    source,
                    facts,
                } => {
                    let found = RuntimeFile {
                        owned,
                        source,
                        facts,
                    };
                    if is_for_programs(path) && self.is_run(facts) {
                        return Ok(Fate::Launches {
                            place: place.clone(),
                            instead: self.member(path, found)?,
                        });
                    }
                    self.fate_of_file(path, place, found)
                }
            },
        }
    }

    /// `path` is in the install tree. `place` is the file that it leads to, or `path` itself.
    fn fate_of_file(
        &self,
        path: &RelPath,
        place: &RelPath,
        found: RuntimeFile<'_>,
    ) -> Result<Fate> {
        let elf = found.facts.elf.as_ref();
        let library = elf.filter(|_| self.kind(found.facts) == FileKind::SharedObject);
        let soname = library.and_then(|elf| elf.soname.as_deref());
        // The loader searches directories only for names without a slash. A SONAME with one, or an
        // empty one, is ignored.
        let soname = soname
            .and_then(|soname| soname.parse::<RelPath>().ok())
            .filter(|soname| soname.depth() == 1);
        match soname {
            Some(soname) if soname.as_str() != path.file_name() => Ok(Fate::Names {
                soname,
                place: place.clone(),
                library: self.member(place, found)?,
            }),
            _ => Ok(Fate::Ships(self.member(path, found)?)),
        }
    }

    /// The kind of the file on Linux. On Windows no ELF file is loaded, so all are `Other`.
    fn kind(&self, facts: &FileFacts) -> FileKind {
        match self.platform {
            Platform::Linux => facts.kind,
            Platform::Windows => FileKind::Other,
        }
    }

    /// Whether the file is a program, so that a launcher can replace a symlink to it.
    ///
    /// Scripts get launchers as well: a copy of a script would look for its neighbours in the wrong
    /// directory.
    fn is_run(&self, facts: &FileFacts) -> bool {
        facts.mode.executable && matches!(self.kind(facts), FileKind::Executable | FileKind::Script)
    }

    /// The member for a file: unchanged, or with the run path for its path in the package.
    fn member(&self, path: &RelPath, found: RuntimeFile<'_>) -> Result<WheelMemberPlan> {
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
        let source = match found
            .loaded()
            .filter(|elf| linux && search::is_searched(elf))
        {
            Some(elf) => MemberSource::Relink(found.origin(), self.search.extend(path, elf)?),
            None => MemberSource::Copy(found.origin()),
        };
        Ok(WheelMemberPlan {
            mode: found.mode(),
            source,
        })
    }

    /// Adds launchers for commands whose program has another name.
    fn add_commands(
        &self,
        commands: &BTreeMap<RelPath, RelPath>,
        files: &Files<'_>,
        claim: &mut Claim,
    ) -> Result<()> {
        for (command, target) in commands {
            let Some(TreeContent::File(facts)) = files.get(target).map(|owned| &owned.file.content)
            else {
                continue;
            };
            if self.is_run(facts) && !claim.members.contains(command) {
                claim
                    .members
                    .insert(command.clone(), launcher(command, target))?;
            }
        }
        Ok(())
    }

    /// Adds notes about files for other machines and about setuid programs.
    fn remark(&self, files: &Files<'_>, claim: &mut Claim) {
        let own = || {
            files
                .iter()
                .filter_map(|(path, owned)| match &owned.file.content {
                    TreeContent::File(facts) => Some((*path, facts)),
                    _ => None,
                })
        };
        let foreign = own().filter(|(_, facts)| {
            let machine = facts.elf.as_ref().map(|elf| elf.machine);
            self.kind(facts).is_loaded() && matches!(machine, Some(Machine::Other(_)))
        });
        let what = "is for another machine than x86-64, and ships as it is";
        claim
            .notes
            .extend(counted(foreign.map(|(path, _)| path), what));
        let setuid = own().filter(|(_, facts)| facts.mode.setuid);
        let what = "ran as its owner or group, and will run as its user";
        claim
            .notes
            .extend(counted(setuid.map(|(path, _)| path), what));
    }
}

impl<'a> RuntimeFile<'a> {
    /// The ELF facts of a file that the dynamic loader may load; `None` for other files.
    pub(super) fn loaded(&self) -> Option<&'a crate::elf::ElfFacts> {
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
    pub(super) fn mode(&self) -> wheel::FileMode {
        if self.facts.mode.executable {
            wheel::FileMode::Executable
        } else {
            wheel::FileMode::Regular
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
    hinted(
        anyhow!(
            "link `{path}` of artifact `{}` leads out of it: `{text}`",
            owned.artifact.name
        ),
        "make it relative and point it at a file of the same artifact",
    )
}

fn useless_link(path: &RelPath, text: &str, owned: &Owned<'_>, to: &str) -> Error {
    hinted(
        anyhow!(
            "link `{path}` of artifact `{}` leads {to}: `{text}`",
            owned.artifact.name
        ),
        "a device package holds files only: ship the file itself, or leave the link out",
    )
}

fn launcher(path: &RelPath, place: &RelPath) -> WheelMemberPlan {
    WheelMemberPlan {
        mode: wheel::FileMode::Executable,
        source: MemberSource::Launcher(way(path, place)),
    }
}

/// Records a name of a library as an alias of its SONAME. Ships the library if it is not in the
/// package yet.
///
/// That happens if a build installs `libx.so.1.2` without the symlink `libx.so.1`. Programs look
/// for the SONAME `libx.so.1`, so the library ships under that name.
fn settle(
    path: RelPath,
    soname: &RelPath,
    place: &RelPath,
    library: WheelMemberPlan,
    claim: &mut Claim,
) -> Result<()> {
    let beside = |path: &RelPath| match path.parent() {
        Some(directory) => directory.join(soname),
        None => soname.clone(),
    };
    let near_name = beside(&path);
    let shipped = if claim.members.contains(&near_name) {
        near_name
    } else {
        beside(place)
    };
    if !claim.members.contains(&shipped) {
        claim.notes.push(format!(
            "`{place}` calls itself `{soname}`, and nothing else does: it ships as `{shipped}`"
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
fn add_shorter_names(pattern: &Glob, claim: &mut Claim) -> Result<()> {
    let matching = claim
        .members
        .iter()
        .filter(|(path, _)| pattern.matches(path.as_str()));
    let mut shorter = BTreeMap::new();
    for (path, member) in matching {
        let mut name = path.as_str();
        while let Some((rest, _)) = name.rsplit_once('.').filter(|(_, last)| *last != "so") {
            shorter
                .entry(rest.parse::<RelPath>()?)
                .or_insert_with(|| member.clone());
            name = rest;
        }
    }
    for (path, member) in shorter {
        if !claim.members.contains(&path) {
            claim.aliases.remove(&path);
            claim.members.insert(path, member)?;
        }
    }
    Ok(())
}

/// A note about one or several files: `` `a` is …; so it is with 2 more ``.
fn counted<'a>(paths: impl Iterator<Item = &'a RelPath>, what: &str) -> Option<String> {
    let paths: BTreeSet<&RelPath> = paths.collect();
    let first = paths.first()?;
    Some(match paths.len() {
        1 => format!("`{first}` {what}"),
        several => format!("`{first}` {what}; so it is with {} more", several - 1),
    })
}
