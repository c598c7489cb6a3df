//! The facts of a wheel.

use std::io::{self, Read, Seek, SeekFrom};

use zip::{ZipArchive, read::ZipFile};

use crate::{
    archive::{Decompressor, Format, TarKind, TarReader},
    audit::{
        facts::{ArchiveFault, Content, DevelEntry, DevelTree, Member, MemberKind, WheelFile},
        observe::{
            Watch,
            content::{self, Hashed, Keep},
        },
        reasons::reasons,
    },
    error::{Interrupted, Result},
    wheel::filename::InvalidFilename,
};

/// What an archive's end record is without a comment.
const END_RECORD: u64 = 22;
const END_MAGIC: &[u8] = b"PK\x05\x06";

/// Reads a wheel from its first byte to its last. What is wrong with it is in the facts.
pub fn read_wheel(
    file: &str,
    source: impl Read + Seek,
    watch: &Watch<'_>,
) -> Result<WheelFile, Interrupted> {
    let mut wheel = WheelFile {
        file: file.to_owned(),
        name: file
            .parse()
            .map_err(|error: InvalidFilename| reasons(&error)),
        faults: Vec::new(),
        members: Vec::new(),
        devel: None,
    };
    let read = look_around(source, &mut wheel.faults)
        .and_then(|source| Ok(ZipArchive::new(source)?))
        .and_then(|mut archive| {
            if archive.offset() > 0 {
                let before = archive.offset();
                wheel.faults.push(ArchiveFault::Around(before));
            }
            if let Err(error) = archive.validate_header_consistency() {
                let fault = ArchiveFault::Inconsistent(error.to_string());
                wheel.faults.push(fault);
            }
            read_members(&mut archive, &mut wheel, watch)
        });
    watch.stop.check()?;
    if let Err(error) = read {
        let fault = ArchiveFault::Unreadable(format!("{error:#}"));
        wheel.faults.push(fault);
    }
    Ok(wheel)
}

/// Looks for the end record where it must be, which is at the very end.
fn look_around<R: Read + Seek>(mut source: R, faults: &mut Vec<ArchiveFault>) -> Result<R> {
    let len = source.seek(SeekFrom::End(0))?;
    let tail = len.min(END_RECORD + u64::from(u16::MAX) * 4);
    source.seek(SeekFrom::Start(len - tail))?;
    let mut bytes = Vec::new();
    source.by_ref().take(tail).read_to_end(&mut bytes)?;
    let mut windows = bytes.windows(END_MAGIC.len());
    // The last end record decides; without any, the archive cannot be read, and that is said then.
    if let Some(at) = windows.rposition(|window| window == END_MAGIC) {
        let after = (tail - at as u64).saturating_sub(END_RECORD);
        if after > 0 {
            faults.push(ArchiveFault::Around(after));
        }
    }
    source.seek(SeekFrom::Start(0))?;
    Ok(source)
}

fn read_members<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    wheel: &mut WheelFile,
    watch: &Watch<'_>,
) -> Result<()> {
    for index in 0..archive.len() {
        watch.stop.check()?;
        let path = archive.name_for_index(index).and_then(Result::ok);
        let path = path.unwrap_or_default().into_owned();
        let member = match archive.by_index(index) {
            Ok(file) => {
                let weight = file.compressed_size();
                let member = read_member(file, &mut wheel.devel, watch);
                (watch.progress)(weight);
                member
            }
            Err(error) => Member {
                path,
                kind: MemberKind::File,
                mode: 0,
                content: Err(error.to_string()),
            },
        };
        wheel.members.push(member);
    }
    Ok(())
}

fn read_member<R: Read>(
    mut file: ZipFile<'_, R>,
    devel: &mut Option<DevelTree>,
    watch: &Watch<'_>,
) -> Member {
    let path = match file.name() {
        Ok(name) => name.into_owned(),
        Err(_) => String::from_utf8_lossy(file.name_raw()).into_owned(),
    };
    let kind = if file.is_symlink() {
        MemberKind::Symlink
    } else if file.is_dir() {
        MemberKind::Directory
    } else {
        MemberKind::File
    };
    let mode = file.unix_mode().unwrap_or(0) & 0o7777;
    let content = match devel_packing(&path) {
        Some(packing) => {
            let read = read_devel(&path, packing, &mut file, watch);
            read.map(|(tree, content)| {
                *devel = Some(tree);
                content
            })
        }
        None => content::read(&mut file, keep(&path), watch.stop),
    };
    Member {
        path,
        kind,
        mode,
        content: content.map_err(|error| error.to_string()),
    }
}

/// How the archive of the development files is packed.
#[derive(Clone, Copy)]
enum Packing {
    Plain,
    Compressed(Format),
}

/// The packing of the archive of the development files, if this is its path.
fn devel_packing(path: &str) -> Option<Packing> {
    let (_, name) = path.split_once('/')?;
    match name {
        "_devel.tar" => Some(Packing::Plain),
        "_devel.tar.xz" => Some(Packing::Compressed(Format::TarXz)),
        _ => None,
    }
}

/// What the rules read themselves.
fn keep(path: &str) -> Keep {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let parent = parts.next().unwrap_or_default();
    if parent.ends_with(".dist-info") || parent == ".devel_links" || name == "_devel_manifest.json"
    {
        Keep::Bytes
    } else {
        Keep::Facts
    }
}

/// Walks through the archive while it is hashed. The bytes count as read whatever is in them.
fn read_devel(
    member: &str,
    packing: Packing,
    source: impl Read,
    watch: &Watch<'_>,
) -> io::Result<(DevelTree, Content)> {
    let mut tree = DevelTree {
        member: member.to_owned(),
        entries: Vec::new(),
        fault: None,
    };
    let mut source = Hashed::new(source, watch.stop);
    let walked = match packing {
        Packing::Plain => walk(&mut source, &mut tree.entries, watch),
        Packing::Compressed(format) => Decompressor::new(format, &mut source)
            .map_err(Into::into)
            .and_then(|source| walk(source, &mut tree.entries, watch)),
    };
    tree.fault = walked.err().map(|error| format!("{error:#}"));
    Ok((tree, source.finish()?))
}

fn walk(source: impl Read, entries: &mut Vec<DevelEntry>, watch: &Watch<'_>) -> Result<()> {
    let mut tar = TarReader::new(source, u64::MAX);
    while let Some(entry) = tar.next_entry()? {
        let elf = match entry.kind {
            TarKind::File { .. } => content::read(&mut tar, Keep::Facts, watch.stop)?.elf,
            _ => None,
        };
        entries.push(DevelEntry { entry, elf });
    }
    Ok(())
}
