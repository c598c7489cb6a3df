//! Files as they run: wheels hold no links, so a library keeps only its SONAME, and what runs behind
//! a link is reached through a launcher. Decides; reads nothing, writes nothing.

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

/// The files of some artifacts, merged.
pub(super) type Files<'a> = BTreeMap<&'a RelPath, Owned<'a>>;

/// A file with its bytes, wherever the link to it stands.
#[derive(Clone, Copy)]
pub(super) struct RuntimeFile<'a> {
    pub(super) owned: &'a Owned<'a>,
    pub(super) source: &'a Path,
    pub(super) facts: &'a FileFacts,
}

/// How files are placed where they run.
#[derive(Clone, Copy)]
pub(super) struct Placing<'a> {
    pub(super) platform: Platform,
    pub(super) search: &'a SearchPath,
    pub(super) links: LinkPolicy,
}

/// What becomes of links to directories and to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkPolicy {
    /// Another package may have what they mean; the devel tree keeps them.
    Drop,
    /// Nobody would ever miss them until run time.
    Refuse,
}

/// What becomes of one path.
enum Fate {
    /// It ships, with these bytes.
    Ships(WheelMemberPlan),
    /// A launcher for what is at `place`; if that does not ship, these bytes.
    Launches {
        place: RelPath,
        instead: WheelMemberPlan,
    },
    /// It is one more name of the library at `place`, which loaders know by its SONAME.
    Names {
        soname: RelPath,
        place: RelPath,
        library: WheelMemberPlan,
    },
    /// A directory, or a link that leads to no file of this artifact.
    Left,
}

/// What waits until it is known which paths ship.
#[derive(Default)]
struct PendingLinks {
    launchers: Vec<(RelPath, RelPath, WheelMemberPlan)>,
    names: Vec<(RelPath, RelPath, RelPath, WheelMemberPlan)>,
}

/// Decides for every path of a runtime package.
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
    /// Takes every path.
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

    /// `place` is where the bytes are; `path` is the name they are asked for by.
    fn fate_of_file(
        &self,
        path: &RelPath,
        place: &RelPath,
        found: RuntimeFile<'_>,
    ) -> Result<Fate> {
        let elf = found.facts.elf.as_ref();
        let library = elf.filter(|_| self.kind(found.facts) == FileKind::SharedObject);
        let soname = library.and_then(|elf| elf.soname.as_deref());
        // A SONAME that is no file name is one that no loader ever looks up in a directory.
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

    /// What the file is to a loader; on Windows, nothing is.
    fn kind(&self, facts: &FileFacts) -> FileKind {
        match self.platform {
            Platform::Linux => facts.kind,
            Platform::Windows => FileKind::Other,
        }
    }

    /// Whether it can be run by its path, so that a launcher can stand for it.
    ///
    /// A script that is copied instead would look for its neighbours in the wrong place.
    fn is_run(&self, facts: &FileFacts) -> bool {
        facts.mode.executable && matches!(self.kind(facts), FileKind::Executable | FileKind::Script)
    }

    /// The member for the file at a path: as it is, or with the run path that the place needs.
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

    /// Commands whose file is there under another name only.
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

    /// Says what a reader of the files would not expect.
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
    /// The facts of a file that a loader may come by.
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

    /// What a wheel can say of a mode: whether it can be run.
    pub(super) fn mode(&self) -> wheel::FileMode {
        if self.facts.mode.executable {
            wheel::FileMode::Executable
        } else {
            wheel::FileMode::Regular
        }
    }
}

/// Whether a symlink at this path is there to be run: in `bin`, or below `libexec`.
///
/// Elsewhere a symlink to an executable file is mostly a module or a script library that happens to
/// have an execute bit: `dist-packages/rsmiBindings.py` of rocm-smi leads to such a file. An ELF
/// launcher in its place could not be imported. The same goes for names in `bin` that end like a
/// module or like a script that shells source.
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

/// Remembers a name of a library as an alias of its SONAME; ships the library if nothing else does.
///
/// A build that installs `libx.so.1.2` without the link `libx.so.1` still means programs to find
/// `libx.so.1`.
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

/// `librocprof-sys.so.1.2` also as `librocprof-sys.so.1` and `librocprof-sys.so`, unless these are
/// there.
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

/// `` `a` and 2 more: each … ``
fn counted<'a>(paths: impl Iterator<Item = &'a RelPath>, what: &str) -> Option<String> {
    let paths: BTreeSet<&RelPath> = paths.collect();
    let first = paths.first()?;
    Some(match paths.len() {
        1 => format!("`{first}` {what}"),
        several => format!("`{first}` {what}; so it is with {} more", several - 1),
    })
}
