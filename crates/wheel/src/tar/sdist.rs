//! Source distributions, `.tar.gz` ([PEP 625](https://peps.python.org/pep-0625/)), written with the
//! same bytes on every machine.

use std::{
    collections::HashSet,
    io::{self, Read, Write},
};

use flate2::{Compression, GzBuilder, read::GzDecoder};
use tar::Header;

use crate::tar::{BLOCK, TarEntry, TarKind, TarPlan, TarReader};
use rocwheel_base::{
    error::{Context as _, Result, bail, ensure},
    relpath::RelPath,
};

/// The most bytes that an sdist may unpack to. The sdists of this program have 40 files of text.
const LONGEST: u64 = 256 << 20;

/// The files of an sdist.
#[derive(Clone, Debug)]
pub struct SdistFiles {
    /// Relative to the top directory, in the order of the archive.
    pub files: Vec<(RelPath, Vec<u8>)>,
    /// The modification time of its first member, in seconds since 1970.
    pub time: u64,
}

/// Reads the files below directory `top`. It is an error if there is anything that
/// [`write_sdist`] could not write again.
pub fn read_sdist(source: impl Read, top: &RelPath) -> Result<SdistFiles> {
    let mut plain = GzDecoder::new(source);
    // `TarReader` does not keep times, so the first header is read here, and again by the reader.
    let mut first = [0; BLOCK];
    plain.read_exact(&mut first)?;
    let time = Header::from_byte_slice(&first).mtime()?;
    let mut tar = TarReader::new(first.as_slice().chain(plain), LONGEST);
    let mut files = Vec::new();
    while let Some(TarEntry { path, kind }) = tar.next_entry()? {
        // `write_sdist` makes the directories of its files.
        if kind == TarKind::Directory {
            continue;
        }
        let below =
            path.strip_prefix(top).with_context(|| format!("`{path}` is not below `{top}`"))?;
        let TarKind::File { executable, .. } = kind else {
            bail!("a link, which no sdist of ours has: `{path}`");
        };
        ensure!(!executable, "a program, which no sdist of ours has: `{path}`");
        let mut bytes = Vec::new();
        tar.read_to_end(&mut bytes)?;
        files.push((below, bytes));
    }
    Ok(SdistFiles { files, time })
}

/// Writes files below directory `top`, in their order. Each directory is listed before its
/// contents.
///
/// All members have the modification time `epoch`. The gzip header has no time, no file name and no
/// operating system, so that the same files give the same archive.
pub fn write_sdist(
    out: impl Write,
    top: &RelPath,
    files: &[(RelPath, impl AsRef<[u8]>)],
    epoch: u64,
) -> Result<()> {
    let mut entries = Vec::new();
    let mut contents = Vec::new();
    let mut made = HashSet::new();
    for (path, content) in files {
        let path = top.join(path);
        let content = content.as_ref();
        // Implementations of tar do not agree on names with line breaks.
        ensure!(
            !path.as_str().contains(char::is_control),
            "a control character in a name: {:?}",
            path.as_str()
        );
        for directory in path.ancestors() {
            if made.insert(directory.clone()) {
                entries.push(TarEntry { path: directory, kind: TarKind::Directory });
                // One content for each entry: `stream` asks for contents by the index of the entry.
                contents.push(&[][..]);
            }
        }
        ensure!(made.insert(path.clone()), "two members of one name: `{path}`");
        let kind = TarKind::File { len: content.len() as u64, executable: false };
        entries.push(TarEntry { path, kind });
        contents.push(content);
    }
    // 255 is an unknown system.
    let mut gzip = GzBuilder::new().mtime(0).operating_system(255).write(out, Compression::best());
    let plan = TarPlan::new(entries, epoch)?;
    io::copy(&mut plan.stream(|index| Ok(contents[index])), &mut gzip)?;
    gzip.finish()?.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use flate2::bufread::GzDecoder;
    use proptest::prelude::*;
    use tar::Archive;

    use super::*;

    fn path(text: &str) -> RelPath {
        text.parse().unwrap()
    }

    fn files() -> Vec<(RelPath, Vec<u8>)> {
        [
            ("PKG-INFO", "Name: rocm\n"),
            ("setup.py", "import setuptools\n"),
            ("src/rocm.egg-info/PKG-INFO", "another\n"),
            ("src/rocm_sdk/__init__.py", ""),
            ("src/rocm_sdk/tests/é.py", "odd\n"),
        ]
        .map(|(name, content)| (path(name), content.as_bytes().to_vec()))
        .to_vec()
    }

    fn sdist(files: &[(RelPath, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_sdist(&mut bytes, &path("rocm-1.0"), files, 1_700_000_000).unwrap();
        bytes
    }

    /// The paths of the files in an archive, below its top directory.
    fn names(bytes: &[u8]) -> Vec<RelPath> {
        let mut archive = Archive::new(GzDecoder::new(bytes));
        let entries = archive.entries().unwrap().map(Result::unwrap);
        let files = entries.filter(|entry| entry.header().entry_type().is_file());
        files
            .map(|entry| {
                let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
                path(&name).strip_prefix(&path("rocm-1.0")).unwrap()
            })
            .collect()
    }

    #[test]
    fn directories_come_before_their_files_and_nothing_depends_on_the_machine() {
        let bytes = sdist(&files());
        // No flags, no time, the best level, an unknown system.
        assert_eq!(bytes[..10], [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 2, 255]);
        let mut archive = Archive::new(GzDecoder::new(&bytes[..]));
        let lines: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                format!(
                    "{:o} {} {} {} {:?}{:?} {} {}",
                    header.mode().unwrap(),
                    header.uid().unwrap(),
                    header.gid().unwrap(),
                    header.mtime().unwrap(),
                    header.username().unwrap().unwrap(),
                    header.groupname().unwrap().unwrap(),
                    entry.size(),
                    entry.path().unwrap().display(),
                )
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        755 0 0 1700000000 """" 0 rocm-1.0/
        644 0 0 1700000000 """" 11 rocm-1.0/PKG-INFO
        644 0 0 1700000000 """" 18 rocm-1.0/setup.py
        755 0 0 1700000000 """" 0 rocm-1.0/src/
        755 0 0 1700000000 """" 0 rocm-1.0/src/rocm.egg-info/
        644 0 0 1700000000 """" 8 rocm-1.0/src/rocm.egg-info/PKG-INFO
        755 0 0 1700000000 """" 0 rocm-1.0/src/rocm_sdk/
        644 0 0 1700000000 """" 0 rocm-1.0/src/rocm_sdk/__init__.py
        755 0 0 1700000000 """" 0 rocm-1.0/src/rocm_sdk/tests/
        644 0 0 1700000000 """" 4 rocm-1.0/src/rocm_sdk/tests/é.py
        "#);
        assert_eq!(sdist(&files()), bytes);
    }

    #[test]
    fn paths_of_any_length_survive() {
        let mut files = files();
        let long = ["d".repeat(90), "e".repeat(100), "f".repeat(101), "g".repeat(300)];
        for (index, name) in long.iter().enumerate() {
            files.push((path(name), Vec::new()));
            files.push((path(&format!("x{}/{name}", long[(index + 1) % 4])), vec![7; index]));
        }
        let found = names(&sdist(&files));
        let wanted: Vec<RelPath> = files.into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn names_that_readers_would_disagree_about_are_refused() {
        let messages = [["two\nlines", "b"], ["b", "b"], ["b/c", "b"]].map(|names| {
            let files = names.map(|name| (path(name), Vec::new()));
            write_sdist(Vec::new(), &path("a"), &files, 0).unwrap_err().to_string()
        });
        insta::assert_snapshot!(messages.join("\n"), @r#"
        a control character in a name: "a/two\nlines"
        two members of one name: `a/b`
        two members of one name: `a/b`
        "#);
    }

    proptest! {
        #[test]
        fn any_files_read_back(names in proptest::collection::btree_set("[^/\\\\\\pC.]{1,150}(/[^/\\\\\\pC.]{1,150})?", 0..5)) {
            let files: Vec<_> = names
                .iter()
                .map(|name| (path(&format!("d/{name}")), name.clone().into_bytes()))
                .collect();
            let found = self::names(&sdist(&files));
            let wanted: Vec<RelPath> = files.into_iter().map(|(name, _)| name).collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
