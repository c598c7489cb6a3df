//! [`InstalledTree`]: the files of all packages as installed into one directory. Symlinks are
//! resolved in the same way as the Linux kernel does it.

use std::collections::{BTreeMap, BTreeSet};

use crate::elf;

/// The number of symlinks after which a path is taken for a cycle, as in Linux (`ELOOP`).
const MOST_LINKS: usize = 40;

/// The files below one directory, such as `site-packages`. Paths are relative to it.
#[derive(Debug, Default)]
pub struct InstalledTree<'a> {
    files: BTreeMap<String, InstalledFile<'a>>,
    /// The package and the text of each symlink.
    links: BTreeMap<String, (&'a str, &'a str)>,
    directories: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct InstalledFile<'a> {
    /// The package that contains it.
    pub package: &'a str,
    pub contents: FileContents<'a>,
    /// Whether this is a second path of a file that another package contains.
    pub is_second_name: bool,
}

/// What the dynamic loader finds in a file.
#[derive(Clone, Copy, Debug)]
pub enum FileContents<'a> {
    Elf(&'a elf::ElfFacts),
    /// Not an ELF file.
    Other,
    /// A damaged ELF file. The loader fails here, so what it needs is not searched.
    Unknown,
}

impl<'a> InstalledFile<'a> {
    pub fn elf(&self) -> Option<&'a elf::ElfFacts> {
        match self.contents {
            FileContents::Elf(facts) => Some(facts),
            FileContents::Other | FileContents::Unknown => None,
        }
    }
}

impl<'a> InstalledTree<'a> {
    pub fn add_file(&mut self, path: &str, package: &'a str, contents: FileContents<'a>) {
        let file = InstalledFile {
            package,
            contents,
            is_second_name: false,
        };
        self.insert(path, file);
    }

    pub fn add_directory(&mut self, path: &str) {
        self.directories.insert(path.to_owned());
    }

    /// Adds a symlink of the development files. Call this after adding the files that it may point
    /// to.
    ///
    /// Unpacking replaces a symlink to a file of another package by a second path of that file, and
    /// keeps other symlinks.
    pub fn add_link(&mut self, path: &str, text: &'a str, package: &'a str) {
        let place = join(path, text);
        let is_inside = |place: &String| place.split('/').next() == path.split('/').next();
        let place = place.filter(|place| !is_inside(place));
        match place.and_then(|place| self.files.get(&place).copied()) {
            Some(file) => self.insert(path, file.also_of(package)),
            None => _ = self.links.insert(path.to_owned(), (package, text)),
        }
    }

    /// Adds each library a second time under every symlink to it. Call this after adding all
    /// symlinks.
    ///
    /// A library can be opened through a symlink, and then `$ORIGIN` is the directory of the
    /// symlink. For a program `$ORIGIN` is always the directory of the file itself, so programs are
    /// left out.
    pub fn add_libraries_behind_links(&mut self) {
        let links = self.links.iter();
        let found = links.filter_map(|(path, (package, _))| {
            let file = self.files.get(&self.real(path)?)?;
            let is_library = file.elf()?.kind == elf::ElfKind::SharedObject;
            is_library.then(|| (path.clone(), file.also_of(package)))
        });
        for (path, file) in found.collect::<Vec<_>>() {
            self.insert(&path, file);
        }
    }

    pub fn files(&self) -> impl Iterator<Item = (&str, &InstalledFile<'a>)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// The file at a path, after resolving symlinks.
    pub fn file(&self, path: &str) -> Option<&InstalledFile<'a>> {
        let file = self.files.get(path);
        file.or_else(|| self.files.get(&self.real(path)?))
    }

    /// Whether a path is a file or a directory, after resolving symlinks.
    pub fn has(&self, path: &str) -> bool {
        let is_there =
            |path: &str| self.files.contains_key(path) || self.directories.contains(path);
        is_there(path) || self.real(path).is_some_and(|path| is_there(&path))
    }

    /// Resolves all symlinks of a path. `None` if it leaves the tree or is a cycle.
    fn real(&self, path: &str) -> Option<String> {
        let mut left: Vec<&str> = path.split('/').rev().collect();
        let mut done: Vec<&str> = Vec::new();
        let mut links = 0;
        while let Some(part) = left.pop() {
            match part {
                "" | "." => continue,
                ".." => {
                    done.pop()?;
                    continue;
                }
                name => done.push(name),
            }
            if let Some((_, text)) = self.links.get(&done.join("/")) {
                links += 1;
                if links > MOST_LINKS || text.starts_with('/') {
                    return None;
                }
                done.pop();
                left.extend(text.split('/').rev());
            }
        }
        Some(done.join("/"))
    }

    fn insert(&mut self, path: &str, file: InstalledFile<'a>) {
        for (at, _) in path.match_indices('/') {
            self.add_directory(path.get(..at).unwrap_or_default());
        }
        self.files.insert(path.to_owned(), file);
    }
}

impl<'a> InstalledFile<'a> {
    fn also_of(&self, package: &'a str) -> Self {
        Self {
            package,
            is_second_name: true,
            ..*self
        }
    }
}

/// Resolves the text of a symlink or run path relative to the directory of `file`. `None` if the
/// result is outside of the tree.
pub fn join(file: &str, text: &str) -> Option<String> {
    if text.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_as_far_as_they_lead() {
        let mut tree = InstalledTree::default();
        tree.add_file("core/lib/llvm/bin/clang", "a.whl", FileContents::Other);
        tree.add_link("devel/bin/clang", "../../core/lib/llvm/bin/clang", "b.whl");
        tree.add_link("devel/llvm", "../core/lib/llvm", "b.whl");
        tree.add_link("devel/a", "b", "b.whl");
        tree.add_link("devel/b", "a", "b.whl");
        tree.add_link("devel/etc", "/etc", "b.whl");
        assert!(tree.file("devel/bin/clang").unwrap().is_second_name);
        assert!(tree.file("devel/llvm/bin/clang").is_some());
        assert!(tree.has("devel/llvm/bin") && tree.has("core/lib"));
        for path in ["devel/a", "devel/etc/passwd", "devel/llvm/../../../..", "x"] {
            assert!(!tree.has(path), "{path}");
        }
    }

    #[test]
    fn a_way_out_of_the_tree_leads_nowhere() {
        assert_eq!(join("a/b", "../c"), Some("c".to_owned()));
        assert_eq!(join("a/b", "../../c"), None);
        assert_eq!(join("a/b", "/c"), None);
    }
}
