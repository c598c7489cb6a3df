//! Reads the archive of the development files (`_devel.tar`) inside a wheel, in one pass: its
//! entries and the facts of its files, while the archive itself is hashed.

use std::io::{self, Read};

use crate::{
    archive::{ArchiveFormat, Decompressor, TarKind, TarReader},
    check::{
        facts::{ContentFacts, DevelEntry, DevelTree},
        observe::content::{self, HashedReader, Keep},
        path_facts::has_extension,
    },
    error::{Result, ensure},
};

/// The memory that the list of entries may take; an SDK has 100,000. Tar headers compress so well
/// that a small hostile wheel could otherwise hold enough entries to fill the memory.
const MOST_HELD: u64 = 1 << 30;
/// The memory of one entry, without its path and link target.
const ENTRY: u64 = size_of::<DevelEntry>() as u64;

/// Whether this is the path of the archive of the development files.
pub(super) fn is_devel(path: &str) -> bool {
    let name = path.split_once('/').map(|(_, name)| name);
    matches!(name, Some("_devel.tar" | "_devel.tar.xz"))
}

/// Reads the entries and hashes the archive. A damaged archive is not an error: the rest is hashed,
/// and `fault` of the tree says what is wrong.
pub(super) fn read(
    member: &str,
    source: impl Read,
    len: u64,
) -> io::Result<(DevelTree, ContentFacts)> {
    let mut tree = DevelTree {
        member: member.to_owned(),
        entries: Vec::new(),
        fault: None,
    };
    let mut source = HashedReader::new(source);
    let walked = if has_extension(member, "xz") {
        let plain = Decompressor::new(ArchiveFormat::TarXz, &mut source);
        plain
            .map_err(Into::into)
            .and_then(|plain| walk(plain, &mut tree.entries, MOST_HELD))
    } else {
        walk(&mut source, &mut tree.entries, MOST_HELD)
    };
    tree.fault = walked.err().map(|error| format!("{error:#}"));
    io::copy(&mut source, &mut io::sink())?;
    Ok((tree, source.content(len, None)?))
}

fn walk(source: impl Read, entries: &mut Vec<DevelEntry>, most: u64) -> Result<()> {
    let mut tar = TarReader::new(source, u64::MAX);
    let mut held = 0_u64;
    while let Some(entry) = tar.next_entry()? {
        let target = match &entry.kind {
            TarKind::Symlink(text) => text.len(),
            TarKind::Hardlink(path) => path.as_str().len(),
            TarKind::Directory | TarKind::File { .. } => 0,
        };
        let own = ENTRY + entry.path.as_str().len() as u64 + target as u64;
        held = held.saturating_add(own);
        ensure!(held <= most, "entries that take more than {most} bytes");
        let content = match entry.kind {
            TarKind::File { len, .. } => Some(content::read(&mut tar, len, Keep::Facts)?),
            _ => None,
        };
        entries.push(DevelEntry { entry, content });
    }
    Ok(())
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
            let walked = walk(tar, &mut entries, most);
            (walked.map_err(|error| error.to_string()), entries.len())
        };
        let nine = 9 * (ENTRY + 2);
        assert_eq!(walked(nine), (Ok(()), 9));
        let refused = format!("entries that take more than {} bytes", nine - 1);
        assert_eq!(walked(nine - 1), (Err(refused), 8));
    }
}
