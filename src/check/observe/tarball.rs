//! Reads tar archives in one pass: an sdist ([PEP 625](https://peps.python.org/pep-0625/)) with its
//! files and metadata, and the development files (`_devel.tar`) inside a wheel. The archive itself is
//! hashed meanwhile.

use std::io::{self, BufRead, Read};

use flate2::read::GzDecoder;

use crate::{
    archive::{ArchiveFormat, Decompressor, TarKind, TarReader},
    check::{
        facts::{
            CheckedPackage, ContentFacts, DevelEntry, DevelTree, DeviceCodeFacts, SdistContents,
            SdistFile,
        },
        observe::{
            BUFFER, ObserveProgress, Walk,
            content::{self, Hold, Keep, SizeAndDigest},
            file_name,
        },
        path_facts::has_extension,
        sparse::NotKept,
    },
    digest::{Hasher, InspectReader},
    error::{Context as _, Interrupted, Result, ensure},
    io::buffered,
    relpath::join,
    wheel::Metadata,
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

/// The top directories and the links that are kept of one sdist; correct ones have one, and none.
const MOST_TOPS: usize = 3;
const MOST_ESCAPES: usize = 10;

/// The memory that all kept files of one sdist may take.
const MOST_TEXT: u64 = 64 << 20;

/// Whether this is the path of the archive of the development files.
pub(super) fn is_devel(path: &str) -> bool {
    let name = path.split_once('/').map(|(_, name)| name);
    matches!(name, Some("_devel.tar" | "_devel.tar.xz"))
}

/// Reads the entries and hashes the archive. A damaged archive is not an error: the rest is hashed,
/// and `fault` of the tree says what is wrong.
pub(super) fn read_devel(
    member: &str,
    source: impl BufRead,
    len: u64,
    how: Hold,
) -> Result<(DevelTree, ContentFacts)> {
    let mut tree = DevelTree { member: member.to_owned(), entries: Vec::new(), fault: None };
    let mut hasher = Hasher::default();
    let mut source = InspectReader::new(source, |bytes| hasher.update(bytes));
    let walked = if has_extension(member, "xz") {
        let plain = Decompressor::new(ArchiveFormat::TarXz, &mut source);
        plain.map_err(Into::into).and_then(|plain| walk(plain, &mut tree.entries, how, MOST_HELD))
    } else {
        walk(&mut source, &mut tree.entries, how, MOST_HELD)
    };
    let walked = match walked {
        Err(error) if NotKept::is_cause_of(&error) => return Err(error),
        walked => walked,
    };
    tree.fault = walked.err().map(|error| format!("{error:#}"));
    io::copy(&mut source, &mut io::sink())?;
    Ok((tree, content::plain(SizeAndDigest::of_hashed(hasher, len)?, None)))
}

/// Which files of the tree the rules need as bytes: the CMake files by which a project finds a
/// package.
pub(super) fn keep_in_tree(path: &str) -> Keep {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_config = ["Config.cmake", "-config.cmake"].iter().any(|end| name.ends_with(end));
    if is_config { Keep::Text } else { Keep::Facts }
}

/// The facts that are kept of a file in the tree.
pub(super) fn in_tree(mut content: ContentFacts) -> ContentFacts {
    use DeviceCodeFacts::{Archive, Objects, Unreadable};
    // No rule needs these, and they may take memory.
    if let Objects(_) | Archive(_) | Unreadable(_) = content.code {
        content.code = DeviceCodeFacts::None;
    }
    content
}

fn walk(source: impl Read, entries: &mut Vec<DevelEntry>, how: Hold, most: u64) -> Result<()> {
    let mut tar = TarReader::new(source, u64::MAX);
    let mut held = 0_u64;
    while let Some(entry) = tar.next_entry()? {
        let target = match &entry.kind {
            TarKind::Symlink(text) => text.len(),
            TarKind::Hardlink(path) => path.as_str().len(),
            TarKind::Directory | TarKind::File { .. } => 0,
        };
        let keep = keep_in_tree(entry.path.as_str());
        let kept = match entry.kind {
            TarKind::File { len, .. } if keep.is_for(len) => len,
            _ => 0,
        };
        let own = ENTRY + entry.path.as_str().len() as u64 + target as u64 + kept;
        held = held.saturating_add(own);
        ensure!(held <= most, "entries that take more than {most} bytes");
        let content = match entry.kind {
            TarKind::File { len, .. } => {
                let file = buffered(&mut tar, len, BUFFER);
                let (content, _) = content::read(file, len, keep, how)?;
                Some(in_tree(content))
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
    watch: &'a ObserveProgress<'a>,
) -> Result<SdistFile, Interrupted> {
    let mut walk = Walk::new(source, 0, true, watch);
    let mut package =
        CheckedPackage { file: file.to_owned(), name: file_name(file), size: 0, sha256: None };
    let read = contents(&mut walk, &package, watch);
    if let Some((sha256, len)) = walk.finish().ok().flatten() {
        package.sha256 = Some(sha256);
        package.size = len;
    }
    watch.stop.check()?;
    Ok(sdist(package, read))
}

/// The top directory of an sdist.
pub(super) fn top(package: &CheckedPackage) -> String {
    package.identity().map_or("", |name| name.top()).to_owned()
}

/// The sdist with these files, by their path below the top directory.
pub(super) fn sdist(package: CheckedPackage, contents: Result<SdistContents>) -> SdistFile {
    let top = top(&package);
    let mut sdist = SdistFile {
        package,
        metadata: Err(String::new()),
        copies_agree: true,
        contents: SdistContents::default(),
    };
    let metadata = contents.and_then(|contents| {
        sdist.contents = contents;
        let main = sdist.contents.files.get("PKG-INFO");
        let main = main.with_context(|| format!("no `{top}/PKG-INFO`"))?;
        let mut copies = sdist.contents.files.iter().filter(|it| it.0.ends_with("/PKG-INFO"));
        sdist.copies_agree = copies.all(|(_, copy)| copy.sha256 == main.sha256);
        Metadata::parse(main.kept.as_deref().unwrap_or_default())
    });
    sdist.metadata = metadata.map_err(|error| format!("{error:#}"));
    sdist
}

/// Reads all files. Of a package of another project only the PKG-INFO is kept.
fn contents(
    source: impl Read,
    package: &CheckedPackage,
    watch: &ObserveProgress<'_>,
) -> Result<SdistContents> {
    let top = top(package);
    let mut tar = TarReader::new(GzDecoder::new(source), LONGEST_SDIST);
    let mut found = SdistContents::default();
    let mut held = 0_u64;
    while let Some(entry) = tar.next_entry()? {
        watch.stop.check()?;
        let path = entry.path.as_str();
        let first = path.split('/').next().unwrap_or_default();
        if !found.tops.contains(first) && found.tops.len() < MOST_TOPS {
            found.tops.insert(first.to_owned());
        }
        let len = match &entry.kind {
            TarKind::File { len, .. } => *len,
            TarKind::Symlink(text) => {
                let is_inside =
                    join(path, text).is_some_and(|it| it.split('/').next() == Some(first));
                if !is_inside && found.escapes.len() < MOST_ESCAPES {
                    found.escapes.push(path.to_owned());
                }
                continue;
            }
            // A hard link leads to a file of the archive: the reader accepts no other path.
            TarKind::Directory | TarKind::Hardlink(_) => continue,
        };
        let inside = path
            .strip_prefix(&top)
            .and_then(|it| it.strip_prefix('/'))
            // Older builders of others spell the directory in another way than the file.
            .or_else(|| Some(path.split_once('/')?.1).filter(|_| !package.is_ours()));
        let path = inside.unwrap_or(path).to_owned();
        let mut hasher = Hasher::default();
        let mut source = InspectReader::new(&mut tar, |bytes| hasher.update(bytes));
        let mut text = None;
        let is_asked = if package.is_ours() { is_text(&path) } else { path == "PKG-INFO" };
        if is_asked {
            ensure!(len <= LONGEST_TEXT, "`{path}` has {len} bytes");
            held = held.saturating_add(len);
            ensure!(held <= MOST_TEXT, "texts of more than {MOST_TEXT} bytes");
            source.read_to_end(text.insert(Vec::new()))?;
        }
        io::copy(&mut source, &mut io::sink())?;
        found.files.insert(path, content::plain(SizeAndDigest::of_hashed(hasher, len)?, text));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{TarEntry, TarPlan};

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
            let walked = walk(tar, &mut entries, Hold::WithoutCode, most);
            (walked.map_err(|error| error.to_string()), entries.len())
        };
        let nine = 9 * (ENTRY + 2);
        assert_eq!(walked(nine), (Ok(()), 9));
        let refused = format!("entries that take more than {} bytes", nine - 1);
        assert_eq!(walked(nine - 1), (Err(refused), 8));
    }
}
