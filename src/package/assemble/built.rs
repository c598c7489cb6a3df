//! What a build knows of the packages that it has made, so that `check`, `index` and `upload` need
//! not read them.

use std::path::Path;

use serde::Serialize;

use super::{
    content::{BuiltContent, SourceBytes},
    earlier::ReuseCount,
    memory::WheelRecipe,
};
use crate::{
    digest::Sha256, io::FileIdentity, package::split_tree::BuildArchives, relpath::RelPath,
};

/// The packages of a finished set. The sources of their members stay readable as long as it lives.
#[derive(Debug)]
pub struct MadeSet {
    pub packages: Vec<MadePackage>,
    /// Only if an earlier set was named.
    pub reused: Option<ReuseCount>,
    /// The archives of device code that some members were packed from. Dropping them removes their
    /// files.
    pub(in crate::package) _archives: Option<BuildArchives>,
}

/// A finished package.
#[derive(Clone, Debug, Serialize)]
pub struct MadePackage {
    /// Its path below `dist/`.
    pub path: String,
    pub size: u64,
    pub sha256: Sha256,
    /// All members in their order: those of a wheel with `.dist-info` and RECORD, or the files of
    /// an sdist, by their path below its top directory.
    #[serde(skip)]
    pub members: Vec<BuiltMember>,
    /// Of the file that was written. `None` if another one has its name since, and on systems
    /// without inodes.
    #[serde(skip)]
    pub identity: Option<FileIdentity>,
    /// Of a wheel.
    #[serde(skip)]
    pub(super) recipe: Option<WheelRecipe>,
    /// Whether the file also belongs to the earlier set, which is deleted once this one is finished.
    #[serde(skip)]
    pub(super) is_shared: bool,
}

/// A member of a finished package.
#[derive(Clone, Debug)]
pub struct BuiltMember {
    pub path: RelPath,
    pub executable: bool,
    pub len: u64,
    pub sha256: Sha256,
    pub content: BuiltContent,
}

impl MadePackage {
    /// Looks for the file under its final name. Replacing an earlier set takes seconds, and another
    /// program may write to the file meanwhile.
    pub(super) fn settle(&mut self, dist: &Path) {
        let found = FileIdentity::of(&dist.join(&self.path)).ok().flatten();
        // Deleting another name of a file changes its `ctime`.
        let is_same = |old: FileIdentity, new: FileIdentity| {
            old == new || self.is_shared && new.is_but_for_ctime(old)
        };
        let both = self.identity.zip(found);
        self.identity = both.and_then(|(old, new)| is_same(old, new).then_some(new));
    }

    /// The METADATA of a wheel, or the PKG-INFO of an sdist.
    pub fn metadata(&self) -> Option<&[u8]> {
        let is_metadata = |path: &str| match path.split_once('/') {
            Some((top, name)) => top.ends_with(".dist-info") && name == "METADATA",
            None => path == "PKG-INFO",
        };
        let mut members = self.members.iter().rev();
        members
            .find(|member| is_metadata(member.path.as_str()))?
            .as_text()
    }
}

impl BuiltMember {
    pub(super) fn text(path: &RelPath, text: &str) -> Self {
        Self {
            path: path.clone(),
            executable: false,
            len: text.len() as u64,
            sha256: Sha256::of(text.as_bytes()),
            content: BuiltContent::Plain(SourceBytes::made(text.as_bytes())),
        }
    }

    /// Its bytes, if they are in memory.
    pub fn as_text(&self) -> Option<&[u8]> {
        match &self.content {
            BuiltContent::Plain(bytes) => bytes.text(),
            BuiltContent::Sdk(_) => None,
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::{thread::sleep, time::Duration};

    use super::*;

    /// Whether a wheel is still the one that was written after something happened to its file.
    fn is_it(is_shared: bool, happens: impl Fn(&Path)) -> bool {
        let dist = tempfile::tempdir().unwrap();
        let file = dist.path().join("a.whl");
        fs_err::write(&file, "a wheel").unwrap();
        let mut made = MadePackage {
            path: "a.whl".to_owned(),
            size: 7,
            sha256: Sha256::of(b"a wheel"),
            members: Vec::new(),
            identity: FileIdentity::of(&file).unwrap(),
            recipe: None,
            is_shared,
        };
        // Let the clock of the file system go on.
        sleep(Duration::from_millis(30));
        happens(&file);
        made.settle(dist.path());
        assert!(made.identity.is_none() || made.identity == FileIdentity::of(&file).unwrap());
        made.identity.is_some()
    }

    #[test]
    fn a_package_is_the_one_that_was_written_until_its_file_changes() {
        assert!(is_it(false, |_| {}));
        // As when the earlier set is deleted that has the same wheel.
        let unlink = |file: &Path| {
            let other = file.with_extension("old");
            fs_err::hard_link(file, &other).unwrap();
            fs_err::remove_file(other).unwrap();
        };
        assert!(is_it(true, unlink));
        assert!(!is_it(false, unlink));
        let replace = |file: &Path| {
            let other = file.with_extension("new");
            fs_err::write(&other, "a whale").unwrap();
            fs_err::rename(other, file).unwrap();
        };
        let damage = |file: &Path| {
            let time = fs_err::metadata(file).unwrap().modified().unwrap();
            fs_err::write(file, "a whale").unwrap();
            let file = fs_err::OpenOptions::new().write(true).open(file).unwrap();
            file.file().set_modified(time).unwrap();
        };
        for is_shared in [false, true] {
            assert!(!is_it(is_shared, |file| fs_err::write(file, "a whale").unwrap()));
            assert!(!is_it(is_shared, |file| fs_err::remove_file(file).unwrap()));
            assert!(!is_it(is_shared, replace));
        }
        assert!(!is_it(false, damage));
    }
}
