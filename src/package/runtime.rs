//! Files as they run: wheels hold no links, so a library keeps only its SONAME, and an executable
//! behind a link is reached through a launcher. Decides; reads nothing, writes nothing.

use std::{collections::BTreeMap, path::Path};

use crate::{
    artifact::{Content, FileFacts, FileKind, LinkEnd, Owned},
    error::{Error, Result, anyhow, hinted},
    glob::Glob,
    package::{
        catalog::PackageSpec,
        claims::Claim,
        origin::Origin,
        plan::{Member, Source},
        search::{self, SearchPath},
    },
    relpath::RelPath,
    run::Platform,
    wheel,
};

/// The files of some artifacts, merged.
pub(super) type Files<'a> = BTreeMap<&'a RelPath, Owned<'a>>;

/// A file with its bytes, wherever the link to it stands.
pub(super) struct Found<'a> {
    pub(super) owned: &'a Owned<'a>,
    pub(super) source: &'a Path,
    pub(super) facts: &'a FileFacts,
}

/// How the files of one runtime package are placed.
pub(super) struct Runtime<'a> {
    pub(super) spec: &'a PackageSpec,
    pub(super) platform: Platform,
    pub(super) search: &'a SearchPath,
}

/// What becomes of one path.
enum Fate {
    /// It ships, with these bytes.
    Ships(Member),
    /// It is one more name of the library at `place`, which loaders know by its SONAME.
    Names {
        soname: String,
        place: RelPath,
        library: Member,
    },
    /// A directory, or a link that leads to no file of this artifact.
    Left,
}

/// A path that is not shipped because its library goes by its SONAME.
struct Name {
    path: RelPath,
    soname: String,
    place: RelPath,
    library: Member,
}

impl Runtime<'_> {
    /// Decides for every path of the package.
    pub(super) fn claim(&self, files: &Files<'_>, claim: &mut Claim) -> Result<()> {
        let filter = self.spec.filter();
        let mut names = Vec::new();
        for (path, file) in files
            .iter()
            .filter(|(path, _)| filter.accepts(path.as_str()))
        {
            match self.fate(path, file)? {
                Fate::Ships(member) => claim.members.insert((*path).clone(), member)?,
                Fate::Names {
                    soname,
                    place,
                    library,
                } => {
                    names.push(Name {
                        path: (*path).clone(),
                        soname,
                        place,
                        library,
                    });
                }
                Fate::Left => {}
            }
        }
        for name in names {
            settle(name, claim)?;
        }
        for pattern in &self.spec.also_without_last_suffix {
            add_shorter_names(pattern, claim)?;
        }
        self.add_commands(files, claim)
    }

    fn fate(&self, path: &RelPath, owned: &Owned<'_>) -> Result<Fate> {
        let file = owned.file;
        match &file.content {
            Content::Directory => Ok(Fate::Left),
            Content::File(facts) => self.fate_of_file(
                path,
                path,
                &Found {
                    owned,
                    source: &file.source,
                    facts,
                },
            ),
            Content::Link { text, end } => match end {
                LinkEnd::Dangling | LinkEnd::Directory => Ok(Fate::Left),
                LinkEnd::Escapes => Err(escaping_link(path, text, owned)),
                LinkEnd::File { facts, .. } if self.kind(facts) == FileKind::Executable => {
                    Ok(Fate::Ships(Member {
                        mode: wheel::Mode::Executable,
                        source: Source::Launcher(text.clone()),
                    }))
                }
                LinkEnd::File {
                    path: place,
                    source,
                    facts,
                } => self.fate_of_file(
                    path,
                    place,
                    &Found {
                        owned,
                        source,
                        facts,
                    },
                ),
            },
        }
    }

    /// `place` is where the bytes are; `path` is the name they are asked for by.
    fn fate_of_file(&self, path: &RelPath, place: &RelPath, found: &Found<'_>) -> Result<Fate> {
        let library = self.kind(found.facts) == FileKind::SharedObject;
        let elf = found.facts.elf.as_ref().filter(|_| library);
        match elf.and_then(|elf| elf.soname.as_ref()) {
            Some(soname) if !soname.is_empty() && soname != path.file_name() => Ok(Fate::Names {
                soname: soname.clone(),
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

    fn member(&self, path: &RelPath, found: &Found<'_>) -> Result<Member> {
        found.member(path, self.platform, self.search)
    }

    /// Commands whose file is there under another name only.
    fn add_commands(&self, files: &Files<'_>, claim: &mut Claim) -> Result<()> {
        for (command, target) in &self.spec.also_as {
            let Some(owned) = files.get(target) else {
                continue;
            };
            if let Content::File(facts) = &owned.file.content
                && !claim.members.contains(command)
            {
                let found = Found {
                    owned,
                    source: &owned.file.source,
                    facts,
                };
                claim
                    .members
                    .insert(command.clone(), self.member(command, &found)?)?;
            }
        }
        Ok(())
    }
}

impl Found<'_> {
    /// The member for the file at a path: as it is, or with the run path that the place needs.
    pub(super) fn member(
        &self,
        path: &RelPath,
        platform: Platform,
        search: &SearchPath,
    ) -> Result<Member> {
        let elf = self
            .facts
            .elf
            .as_ref()
            .filter(|_| self.facts.kind.is_loaded());
        let searched = elf.filter(|elf| platform == Platform::Linux && search::is_searched(elf));
        let source = match searched {
            Some(elf) => Source::Relink(self.origin(), search.extend(path, elf)?),
            None => Source::Copy(self.origin()),
        };
        Ok(Member {
            mode: self.mode(),
            source,
        })
    }

    pub(super) fn origin(&self) -> Origin {
        Origin {
            artifact: self.owned.artifact.name.clone(),
            path: self.source.to_owned(),
            len: self.facts.len,
        }
    }

    pub(super) fn mode(&self) -> wheel::Mode {
        if self.facts.mode.executable {
            wheel::Mode::Executable
        } else {
            wheel::Mode::Regular
        }
    }
}

pub(super) fn escaping_link(path: &RelPath, text: &str, owned: &Owned<'_>) -> Error {
    hinted(
        anyhow!(
            "link `{path}` of artifact `{}` leads out of it: `{text}`",
            owned.artifact.name
        ),
        "make it relative and point it at a file of the same artifact",
    )
}

/// Remembers a name of a library as an alias of its SONAME; ships the library if nothing else does.
///
/// A build that installs `libx.so.1.2` without the link `libx.so.1` still means programs to find
/// `libx.so.1`.
fn settle(name: Name, claim: &mut Claim) -> Result<()> {
    let Name {
        path,
        soname,
        place,
        library,
    } = name;
    let beside = |path: &RelPath| -> Result<RelPath> {
        Ok(match path.parent() {
            Some(directory) => directory.join(&soname.parse()?),
            None => soname.parse()?,
        })
    };
    let (near_name, near_library) = (beside(&path)?, beside(&place)?);
    let shipped = if claim.members.contains(&near_name) {
        near_name
    } else {
        near_library
    };
    if !claim.members.contains(&shipped) {
        claim.notes.push(format!(
            "`{place}` calls itself `{soname}`, and nothing else does: it ships as `{shipped}`"
        ));
        claim.members.insert(shipped.clone(), library)?;
    }
    if shipped != path {
        claim.aliases.insert(path.clone(), way(&path, &shipped));
    }
    Ok(())
}

/// The link text that leads from one file's directory to another file.
fn way(from: &RelPath, to: &RelPath) -> String {
    let from: Vec<&str> = from.components().collect();
    let to: Vec<&str> = to.components().collect();
    let above = from.len().saturating_sub(1);
    let shared = from[..above]
        .iter()
        .zip(&to)
        .take_while(|(a, b)| a == b)
        .count();
    let shared = shared.min(to.len().saturating_sub(1));
    let up = std::iter::repeat_n("..", above - shared);
    up.chain(to[shared..].iter().copied())
        .collect::<Vec<_>>()
        .join("/")
}

/// `librocprof-sys.so.1` also as `librocprof-sys.so`, unless that is there.
fn add_shorter_names(pattern: &Glob, claim: &mut Claim) -> Result<()> {
    let matching = claim
        .members
        .iter()
        .filter(|(path, _)| pattern.matches(path.as_str()));
    let mut shorter = BTreeMap::new();
    for (path, member) in matching {
        if let Some((name, _)) = path.as_str().rsplit_once('.') {
            shorter
                .entry(name.parse::<RelPath>()?)
                .or_insert_with(|| member.clone());
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
