//! Reads tar archives in one pass: an sdist ([PEP 625](https://peps.python.org/pep-0625/)) with its
//! files and metadata, and the development files (`_devel.tar`) inside a wheel. The same pass hashes the
//! archive itself.

use std::io::{self, BufRead, Read};

use flate2::read::GzDecoder;

use crate::check::{
    facts::{
        CheckedPackage, ContentFacts, DevelEntry, DevelTree, DeviceCodeFacts, SdistContents,
        SdistFile,
    },
    observe::{
        BUFFER, ReadWatch, Walk,
        content::{self, Hold, Keep, SizeAndDigest},
        file_name,
    },
    path_facts::has_extension,
    sparse::NotKept,
};
use rocwheel_base::{
    digest::{Hasher, InspectReader},
    error::{Interrupted, Result, ensure},
    io::buffered,
    relpath::join,
};
use rocwheel_wheel::{
    Metadata,
    tar::{ArchiveFormat, Decompressor, TarKind, TarReader},
};

/// The memory that the list of entries may take; an SDK has 100,000. Tar headers compress so well
/// that a small hostile wheel could otherwise hold enough entries to fill the memory.
const MOST_HELD: u64 = 1 << 30;
/// The memory of one entry, without its path and link target.
const ENTRY: u64 = size_of::<DevelEntry>() as u64;
/// The most bytes that an sdist may unpack to. Ours have 40 files of text.
const LONGEST_SDIST: u64 = 256 << 20;
/// The longest file that is kept for the rules: Python, and files that describe the package.
const LONGEST_TEXT: u64 = 16 << 20;
const TEXTS: [&str; 6] = [".json", ".md", ".py", ".toml", ".txt", "PKG-INFO"];

/// Whether a file of an sdist is kept for the rules.
pub(super) fn is_text(path: &str) -> bool {
    TEXTS.iter().any(|end| path.ends_with(end))
}

/// The most top directories that are kept of one sdist. A correct sdist has one.
const MOST_TOPS: usize = 3;
/// The most links out of the top directory that are kept of one sdist. A correct sdist has none.
const MOST_ESCAPES: usize = 10;

/// The memory that all kept files of one sdist may take.
const MOST_TEXT: u64 = 64 << 20;

/// Whether this is the path of the archive of the development files.
pub fn is_devel(path: &str) -> bool {
    let name = path.split_once('/').map(|(_, name)| name);
    matches!(name, Some("_devel.tar" | "_devel.tar.xz"))
}

/// The archive of the development files, after it was read.
pub(super) struct ReadDevel {
    pub(super) tree: DevelTree,
    /// The archive as a member of its wheel.
    pub(super) content: ContentFacts,
}

/// Reads the entries and hashes the archive. A damaged archive is not an error: the rest is hashed,
/// and `fault` of the tree says what is wrong.
pub(super) fn read_devel(
    member: &str,
    source: impl BufRead,
    len: u64,
    hold: Hold,
) -> Result<ReadDevel> {
    let mut tree = DevelTree { member: member.to_owned(), entries: Vec::new(), fault: None };
    let mut hasher = Hasher::default();
    let mut source = InspectReader::new(source, |bytes| hasher.update(bytes));
    let entries_read = if has_extension(member, "xz") {
        Decompressor::new(ArchiveFormat::TarXz, &mut source)
            .map_err(Into::into)
            .and_then(|tar| read_entries(tar, &mut tree.entries, hold, MOST_HELD))
    } else {
        read_entries(&mut source, &mut tree.entries, hold, MOST_HELD)
    };
    if let Err(error) = entries_read {
        // The archive is not damaged. The caller reads it again, and holds its binaries whole.
        if NotKept::is_cause_of(&error) {
            return Err(error);
        }
        tree.fault = Some(format!("{error:#}"));
    }
    io::copy(&mut source, &mut io::sink())?;
    let content = content::plain(SizeAndDigest::of_hashed(hasher, len)?, None);
    Ok(ReadDevel { tree, content })
}

/// Which files of the tree the rules need as bytes: the CMake files by which a project finds a
/// package.
pub(super) fn keep_in_tree(path: &str) -> Keep {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_config = ["Config.cmake", "-config.cmake"].iter().any(|end| name.ends_with(end));
    if is_config { Keep::Text } else { Keep::Facts }
}

/// The facts that are kept of a file in the tree: all but the facts of a file of device code.
pub(super) fn without_code_files(mut content: ContentFacts) -> ContentFacts {
    use DeviceCodeFacts::{Archive, Objects, Unreadable};
    // No rule needs these facts, and they may take memory.
    if let Objects(_) | Archive(_) | Unreadable(_) = content.code {
        content.code = DeviceCodeFacts::None;
    }
    content
}

/// Reads the entries of the development files, which may take `most` bytes of memory.
fn read_entries(
    source: impl Read,
    entries: &mut Vec<DevelEntry>,
    hold: Hold,
    most: u64,
) -> Result<()> {
    let mut tar = TarReader::new(source, u64::MAX);
    let mut memory_used = 0_u64;
    while let Some(entry) = tar.next_entry()? {
        let target_len = match &entry.kind {
            TarKind::Symlink(target) => target.len(),
            TarKind::Hardlink(path) => path.as_str().len(),
            TarKind::Directory | TarKind::File { .. } => 0,
        };
        let keep = keep_in_tree(entry.path.as_str());
        let kept_len = match entry.kind {
            TarKind::File { len, .. } if keep.is_for(len) => len,
            _ => 0,
        };
        let memory = ENTRY + entry.path.as_str().len() as u64 + target_len as u64 + kept_len;
        memory_used = memory_used.saturating_add(memory);
        ensure!(memory_used <= most, "entries that take more than {most} bytes");
        let content = match entry.kind {
            TarKind::File { len, .. } => {
                let file = buffered(&mut tar, len, BUFFER);
                Some(without_code_files(content::read(file, len, keep, hold)?.facts))
            }
            _ => None,
        };
        entries.push(DevelEntry { entry, content });
    }
    Ok(())
}

/// Reads an sdist. A damaged sdist is not an error: the facts say what is wrong with it.
pub fn read_sdist<'a>(
    file: &str,
    source: Box<dyn Read + Send + 'a>,
    watch: &'a ReadWatch<'a>,
) -> Result<SdistFile, Interrupted> {
    let mut walk = Walk::new(source, 0, watch).hashed();
    let mut package =
        CheckedPackage { file: file.to_owned(), filename: file_name(file), size: 0, sha256: None };
    let contents = read_contents(&mut walk, &package, watch);
    // A failed stream is not reported here: the caller asks the package for its outcome.
    if let Ok(whole) = walk.finish() {
        package.sha256 = whole.sha256;
        package.size = whole.len;
    }
    watch.stop.check()?;
    Ok(sdist(package, contents))
}

/// The top directory of an sdist.
pub(super) fn top(package: &CheckedPackage) -> String {
    package.filename().map_or("", |name| name.top()).to_owned()
}

/// The sdist with these files, by their path below the top directory.
pub(super) fn sdist(package: CheckedPackage, contents: Result<SdistContents>) -> SdistFile {
    let contents = match contents {
        Ok(contents) => contents,
        Err(error) => {
            return SdistFile {
                package,
                metadata: Err(format!("{error:#}")),
                copies_agree: true,
                contents: SdistContents::default(),
            };
        }
    };
    let Some(main) = contents.files.get("PKG-INFO") else {
        let metadata = Err(format!("no `{}/PKG-INFO`", top(&package)));
        return SdistFile { package, metadata, copies_agree: true, contents };
    };
    let mut copies = contents.files.iter().filter(|(path, _)| path.ends_with("/PKG-INFO"));
    let copies_agree = copies.all(|(_, copy)| copy.sha256 == main.sha256);
    let metadata = Metadata::parse(main.kept.as_deref().unwrap_or_default())
        .map_err(|error| format!("{error:#}"));
    SdistFile { package, metadata, copies_agree, contents }
}

/// Reads all files. A package of another project keeps only the bytes of its PKG-INFO.
fn read_contents(
    source: impl Read,
    package: &CheckedPackage,
    watch: &ReadWatch<'_>,
) -> Result<SdistContents> {
    let top = top(package);
    let mut tar = TarReader::new(GzDecoder::new(source), LONGEST_SDIST);
    let mut contents = SdistContents::default();
    let mut held = 0_u64;
    while let Some(entry) = tar.next_entry()? {
        watch.stop.check()?;
        let path = entry.path.as_str();
        let first = path.split('/').next().unwrap_or_default();
        if !contents.tops.contains(first) && contents.tops.len() < MOST_TOPS {
            contents.tops.insert(first.to_owned());
        }
        let len = match &entry.kind {
            TarKind::File { len, .. } => *len,
            TarKind::Symlink(target) => {
                let is_inside = join(path, target)
                    .is_some_and(|destination| destination.split('/').next() == Some(first));
                if !is_inside && contents.escapes.len() < MOST_ESCAPES {
                    contents.escapes.push(path.to_owned());
                }
                continue;
            }
            // A hard link leads to a file of the archive: the reader accepts no other path.
            TarKind::Directory | TarKind::Hardlink(_) => continue,
        };
        let inside = path
            .strip_prefix(&top)
            .and_then(|below_top| below_top.strip_prefix('/'))
            // Older builders of other projects spell the top directory in another way than the file name.
            .or_else(|| Some(path.split_once('/')?.1).filter(|_| !package.is_ours()));
        let path = inside.unwrap_or(path).to_owned();
        let mut hasher = Hasher::default();
        let mut source = InspectReader::new(&mut tar, |bytes| hasher.update(bytes));
        let mut kept = None;
        let is_kept = if package.is_ours() { is_text(&path) } else { path == "PKG-INFO" };
        if is_kept {
            ensure!(len <= LONGEST_TEXT, "`{path}` has {len} bytes");
            held = held.saturating_add(len);
            ensure!(held <= MOST_TEXT, "texts of more than {MOST_TEXT} bytes");
            source.read_to_end(kept.insert(Vec::new()))?;
        }
        io::copy(&mut source, &mut io::sink())?;
        let size = SizeAndDigest::of_hashed(hasher, len)?;
        contents.files.insert(path, content::plain(size, kept));
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_wheel::tar::{TarEntry, TarPlan};

    #[test]
    fn entries_take_no_more_memory_than_those_of_any_sdk() {
        let entry = |index: usize| TarEntry {
            path: index.to_string().parse().unwrap(),
            kind: TarKind::Symlink("x".to_owned()),
        };
        let plan = TarPlan::new((0..9).map(entry).collect(), 0).unwrap();
        let walked = |most| {
            let tar = plan.stream(|_| Ok(io::empty()));
            let mut entries = Vec::new();
            let walked = read_entries(tar, &mut entries, Hold::WithoutCode, most);
            (walked.map_err(|error| error.to_string()), entries.len())
        };
        let nine = 9 * (ENTRY + 2);
        assert_eq!(walked(nine), (Ok(()), 9));
        let refused = format!("entries that take more than {} bytes", nine - 1);
        assert_eq!(walked(nine - 1), (Err(refused), 8));
    }
}
