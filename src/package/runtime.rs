//! Files as they run: wheels hold no links, so a library keeps only its SONAME, and an executable
//! behind a link is reached through a launcher. Decides; reads nothing, writes nothing.

use std::collections::BTreeMap;

use crate::{
    artifact::{Content, Leaf, LinkEnd, TreeFile},
    elf::Kind,
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
    Names { soname: String, place: RelPath, library: Member },
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
    pub(super) fn claim(&self, files: &BTreeMap<RelPath, TreeFile>, claim: &mut Claim) -> Result<()> {
        let filter = self.spec.filter();
        let mut names = Vec::new();
        for (path, file) in files.iter().filter(|(path, _)| filter.accepts(path.as_str())) {
            match self.fate(path, file)? {
                Fate::Ships(member) => claim.members.insert(path.clone(), member)?,
                Fate::Names { soname, place, library } => {
                    names.push(Name { path: path.clone(), soname, place, library });
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

    fn fate(&self, path: &RelPath, file: &TreeFile) -> Result<Fate> {
        match &file.content {
            Content::Directory => Ok(Fate::Left),
            Content::File(leaf) => self.fate_of_leaf(path, path, leaf, file),
            Content::Link { text, end } => match end {
                LinkEnd::Dangling | LinkEnd::Directory => Ok(Fate::Left),
                LinkEnd::Escapes => Err(escaping_link(path, text, file)),
                LinkEnd::File { leaf, .. } if self.kind(leaf) == Some(Kind::Executable) => {
                    Ok(Fate::Ships(Member {
                        mode: wheel::Mode::Executable,
                        source: Source::Launcher(text.clone()),
                    }))
                }
                LinkEnd::File { path: place, leaf } => self.fate_of_leaf(path, place, leaf, file),
            },
        }
    }

    /// `place` is where the bytes are; `path` is the name they are asked for by.
    fn fate_of_leaf(&self, path: &RelPath, place: &RelPath, leaf: &Leaf, file: &TreeFile) -> Result<Fate> {
        let library = self.kind(leaf) == Some(Kind::SharedObject);
        let soname = leaf.elf.as_ref().filter(|_| library).and_then(|elf| elf.soname.as_ref());
        match soname {
            Some(soname) if !soname.is_empty() && soname != path.file_name() => Ok(Fate::Names {
                soname: soname.clone(),
                place: place.clone(),
                library: self.member(place, leaf, file)?,
            }),
            _ => Ok(Fate::Ships(self.member(path, leaf, file)?)),
        }
    }

    /// What the file is to a loader; nothing is, on Windows.
    fn kind(&self, leaf: &Leaf) -> Option<Kind> {
        match self.platform {
            Platform::Linux => leaf.elf.as_ref().map(|elf| elf.kind),
            Platform::Windows => None,
        }
    }

    fn member(&self, path: &RelPath, leaf: &Leaf, file: &TreeFile) -> Result<Member> {
        place(path, leaf, file, self.platform, self.search)
    }

    /// Commands whose file is there under another name only.
    fn add_commands(&self, files: &BTreeMap<RelPath, TreeFile>, claim: &mut Claim) -> Result<()> {
        for (command, target) in &self.spec.also_as {
            let leaf = files.get(target).and_then(|file| match &file.content {
                Content::File(leaf) => Some((leaf, file)),
                _ => None,
            });
            if let Some((leaf, file)) = leaf
                && !claim.members.contains(command)
            {
                let member = self.member(command, leaf, file)?;
                claim.members.insert(command.clone(), member)?;
            }
        }
        Ok(())
    }
}

/// The member for a file at a path: as it is, or with the run path that the place needs.
pub(super) fn place(
    path: &RelPath,
    leaf: &Leaf,
    file: &TreeFile,
    platform: Platform,
    search: &SearchPath,
) -> Result<Member> {
    let origin = Origin {
        artifact: file.artifact.clone(),
        path: leaf.source.clone(),
        len: leaf.len,
    };
    let searched = leaf.elf.as_ref().filter(|elf| platform == Platform::Linux && search::is_searched(elf));
    let source = match searched {
        Some(elf) => Source::Relink(origin, search.extend(path, elf)?),
        None => Source::Copy(origin),
    };
    Ok(Member { mode: leaf.mode(), source })
}

pub(super) fn escaping_link(path: &RelPath, text: &str, file: &TreeFile) -> Error {
    hinted(
        anyhow!("link `{path}` of artifact `{}` leads out of it: `{text}`", file.artifact),
        "make it relative and point it at a file of the same artifact",
    )
}

/// Remembers a name of a library as an alias of its SONAME; ships the library if nothing else does.
///
/// A build that installs `libx.so.1.2` without the link `libx.so.1` still means programs to find
/// `libx.so.1`.
fn settle(name: Name, claim: &mut Claim) -> Result<()> {
    let Name { path, soname, place, library } = name;
    let beside = |path: &RelPath| -> Result<RelPath> {
        Ok(match path.parent() {
            Some(directory) => directory.join(&soname.parse()?),
            None => soname.parse()?,
        })
    };
    let (near_name, near_library) = (beside(&path)?, beside(&place)?);
    let shipped = if claim.members.contains(&near_name) { near_name } else { near_library };
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
    let shared = from[..above].iter().zip(&to).take_while(|(a, b)| a == b).count();
    let shared = shared.min(to.len().saturating_sub(1));
    let up = std::iter::repeat_n("..", above - shared);
    up.chain(to[shared..].iter().copied()).collect::<Vec<_>>().join("/")
}

/// `librocprof-sys.so.1` also as `librocprof-sys.so`, unless that is there.
fn add_shorter_names(pattern: &Glob, claim: &mut Claim) -> Result<()> {
    let matching = claim.members.iter().filter(|(path, _)| pattern.matches(path.as_str()));
    let mut shorter = BTreeMap::new();
    for (path, member) in matching {
        if let Some((name, _)) = path.as_str().rsplit_once('.') {
            shorter.entry(name.parse::<RelPath>()?).or_insert_with(|| member.clone());
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
