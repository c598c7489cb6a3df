//! `Site`: all packages of a set as they lie beside each other once installed, with the development
//! files unpacked.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    archive::TarKind,
    check::facts::{Elf, ElfFile, SetFacts},
    elf,
};

/// Links are followed so often, and then taken for a circle, as Linux does.
const MOST_LINKS: usize = 40;

#[derive(Debug, Default)]
pub(super) struct Site<'a> {
    files: BTreeMap<String, SiteFile<'a>>,
    links: BTreeMap<String, &'a str>,
    directories: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SiteFile<'a> {
    /// The file name of the wheel that it came with.
    pub(super) wheel: &'a str,
    pub(super) seen: Seen<'a>,
    /// Whether it is another name for a file of another package.
    pub(super) is_second_name: bool,
}

/// What is known of a file as something to load.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen<'a> {
    Elf(&'a ElfFile),
    /// No ELF file.
    Other,
    /// Damaged: that is told, and nothing follows from it.
    Unknown,
}

impl<'a> SiteFile<'a> {
    pub(super) fn elf(&self) -> Option<&'a ElfFile> {
        match self.seen {
            Seen::Elf(elf) => Some(elf),
            Seen::Other | Seen::Unknown => None,
        }
    }
}

impl<'a> Site<'a> {
    pub(super) fn of(set: &'a SetFacts) -> Self {
        let mut site = Self::default();
        for wheel in &set.wheels {
            for member in &wheel.members {
                let content = member.content.as_ref();
                let file = SiteFile {
                    wheel: &wheel.file,
                    seen: content.map_or(Seen::Unknown, |content| seen(content.elf.as_ref())),
                    is_second_name: false,
                };
                site.add_file(&member.path, file);
            }
        }
        let mut symlinks = Vec::new();
        for wheel in &set.wheels {
            let entries = wheel.devel.iter().flat_map(|tree| &tree.entries);
            for devel in entries {
                let path = devel.entry.path.as_str();
                match &devel.entry.kind {
                    TarKind::Directory => site.add_directory(path),
                    TarKind::Symlink(text) => {
                        site.add_link(path, text, &wheel.file);
                        symlinks.push((path, wheel.file.as_str()));
                    }
                    TarKind::Hardlink(_) => {}
                    TarKind::File { .. } => {
                        let file = SiteFile {
                            wheel: &wheel.file,
                            seen: seen(devel.elf.as_ref()),
                            is_second_name: false,
                        };
                        site.add_file(path, file);
                    }
                }
            }
        }
        for (path, wheel) in symlinks {
            site.add_library_behind_symlink(path, wheel);
        }
        site
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &SiteFile<'a>)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// The file that a path leads to, through whatever links.
    pub(super) fn file(&self, path: &str) -> Option<&SiteFile<'a>> {
        self.files
            .get(path)
            .or_else(|| self.files.get(&self.real(path)?))
    }

    /// Whether a path leads to a file or a directory.
    pub(super) fn has(&self, path: &str) -> bool {
        let is_there =
            |path: &str| self.files.contains_key(path) || self.directories.contains(path);
        is_there(path) || self.real(path).is_some_and(|path| is_there(&path))
    }

    /// A path without links in it; `None` when it leaves the site or goes in a circle.
    fn real(&self, path: &str) -> Option<String> {
        let mut left: Vec<&str> = path.split('/').rev().collect();
        let mut done: Vec<&str> = Vec::new();
        let mut links = 0_usize;
        while let Some(part) = left.pop() {
            match part {
                "" | "." => continue,
                ".." => {
                    done.pop()?;
                    continue;
                }
                name => done.push(name),
            }
            if let Some(text) = self.links.get(&done.join("/")) {
                links = links.saturating_add(1);
                if links > MOST_LINKS || text.starts_with('/') {
                    return None;
                }
                done.pop();
                left.extend(text.split('/').rev());
            }
        }
        Some(done.join("/"))
    }

    fn add_file(&mut self, path: &str, file: SiteFile<'a>) {
        for (at, _) in path.match_indices('/') {
            self.add_directory(path.get(..at).unwrap_or_default());
        }
        self.files.insert(path.to_owned(), file);
    }

    fn add_directory(&mut self, path: &str) {
        self.directories.insert(path.to_owned());
    }

    /// A symlink within the unpacked tree is one more path that a library is opened by, with an
    /// `$ORIGIN` of its own. The `$ORIGIN` of a program is where its file is.
    fn add_library_behind_symlink(&mut self, path: &str, wheel: &'a str) {
        let file = self.real(path).and_then(|file| self.files.get(&file));
        let is_library = |file: &&SiteFile<'a>| {
            let elf = file.elf();
            elf.is_some_and(|elf| elf.facts.kind == elf::Kind::SharedObject)
        };
        if let Some(file) = file.filter(is_library) {
            let file = SiteFile {
                wheel,
                is_second_name: true,
                ..*file
            };
            self.add_file(path, file);
        }
    }

    /// Unpacking makes a second name of a link to a file of a package, and leaves others links.
    fn add_link(&mut self, path: &str, text: &'a str, wheel: &'a str) {
        let place = join(path, text);
        let is_inside = |place: &String| place.split('/').next() == path.split('/').next();
        let place = place.filter(|place| !is_inside(place));
        let file = place.and_then(|place| self.files.get(&place).copied());
        match file {
            Some(file) => self.add_file(
                path,
                SiteFile {
                    wheel,
                    is_second_name: true,
                    ..file
                },
            ),
            None => {
                self.links.insert(path.to_owned(), text);
            }
        }
    }
}

fn seen(elf: Option<&Elf>) -> Seen<'_> {
    match elf {
        Some(Elf::Read(elf)) => Seen::Elf(elf),
        Some(Elf::Damaged(_) | Elf::TooLarge) => Seen::Unknown,
        None => Seen::Other,
    }
}

/// Where a text leads from the directory of a file; `None` outside of the site.
pub(super) fn join(file: &str, text: &str) -> Option<String> {
    if text.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> SiteFile<'static> {
        SiteFile {
            wheel: "a.whl",
            seen: Seen::Other,
            is_second_name: false,
        }
    }

    #[test]
    fn links_are_followed_as_far_as_they_lead() {
        let mut site = Site::default();
        site.add_file("core/lib/llvm/bin/clang", file());
        site.add_link("devel/bin/clang", "../../core/lib/llvm/bin/clang", "b.whl");
        site.add_link("devel/llvm", "../core/lib/llvm", "b.whl");
        site.add_link("devel/a", "b", "b.whl");
        site.add_link("devel/b", "a", "b.whl");
        site.add_link("devel/etc", "/etc", "b.whl");
        assert!(site.file("devel/bin/clang").unwrap().is_second_name);
        assert!(site.file("devel/llvm/bin/clang").is_some());
        assert!(site.has("devel/llvm/bin") && site.has("core/lib"));
        for path in ["devel/a", "devel/etc/passwd", "devel/llvm/../../../..", "x"] {
            assert!(!site.has(path), "{path}");
        }
    }

    #[test]
    fn a_way_out_of_the_site_leads_nowhere() {
        assert_eq!(join("a/b", "../c"), Some("c".to_owned()));
        assert_eq!(join("a/b", "../../c"), None);
        assert_eq!(join("a/b", "/c"), None);
    }
}
