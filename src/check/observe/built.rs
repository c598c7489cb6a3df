//! Takes the facts of packages that a build has just made. It makes a few small reads in each file that the
//! build packed, instead of inflating and hashing the package.

use std::{collections::BTreeSet, num::NonZeroUsize, sync::Arc};

use itertools::Itertools as _;

use super::{
    content::{self, LoaderTables, SizeAndDigest},
    file_name, tarball,
    wheel::keep,
};
use crate::{
    check::{
        SetFacts,
        facts::{
            CheckedPackage, ContentFacts, DevelEntry, DevelTree, MemberFacts, MemberKind,
            SdistContents, SdistFile, WheelFile,
        },
    },
    package::assemble::{BuiltMember, MadePackage},
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Result, Stop},
    parallel,
};
use rocwheel_wheel::{
    FileSource,
    tar::{TarEntry, TarKind},
};

/// The facts of the packages of a build.
pub fn facts_of_built(
    packages: &[MadePackage],
    jobs: NonZeroUsize,
    stop: &Stop,
) -> Result<SetFacts> {
    let mut set = SetFacts::default();
    let sorted = packages.iter().sorted_by_key(|package| package.file.below());
    for package in sorted {
        let checked = CheckedPackage {
            filename: file_name(package.file.below()),
            file: package.file.below().to_owned(),
            size: package.file.size,
            sha256: Some(package.file.sha256),
        };
        let is_wheel = checked.platform().is_some();
        if is_wheel {
            let wheel = built_wheel(checked, &package.members, jobs, stop).with_context(|| {
                format!("failed to examine the members of `{}`", package.file.below())
            })?;
            set.wheels.push(Arc::new(wheel));
        } else {
            set.sdists.push(Arc::new(built_sdist(checked, &package.members)));
        }
    }
    Ok(set)
}

fn built_wheel(
    package: CheckedPackage,
    members: &[BuiltMember],
    jobs: NonZeroUsize,
    stop: &Stop,
) -> Result<WheelFile> {
    let mut wheel = WheelFile {
        package,
        // A wheel that we made has no defects as an archive.
        unreadable: None,
        contradictions: Vec::new(),
        members: parallel::map(members, jobs, stop, |member| {
            member_facts(member).with_context(|| format!("failed to examine `{}`", member.path))
        })?,
        devel: None,
    };
    for member in members {
        let Some(archive) = &member.tree else {
            continue;
        };
        let entries: Vec<_> = archive.entries().collect();
        wheel.devel.get_or_insert(DevelTree {
            member: member.path.to_string(),
            entries: parallel::map(&entries, jobs, stop, |(entry, file)| {
                devel_entry(entry, *file)
            })?,
            fault: None,
        });
    }
    Ok(wheel)
}

fn devel_entry(entry: &TarEntry, file: Option<&FileSource>) -> Result<DevelEntry> {
    let content = match (&entry.kind, file) {
        (TarKind::File { .. }, Some(file)) => Some(devel_content(file, entry)?),
        // Only an empty file may come without a source.
        (TarKind::File { .. }, None) => {
            let empty = SizeAndDigest { len: 0, sha256: Some(Sha256::of(b"")) };
            Some(content::plain(empty, None))
        }
        _ => None,
    };
    Ok(DevelEntry { entry: entry.clone(), content })
}

fn devel_content(file: &FileSource, entry: &TarEntry) -> Result<ContentFacts> {
    let keep = tarball::keep_in_tree(entry.path.as_str());
    let content = file
        .examine(|file| content::examine(file, None, keep, LoaderTables::Proven))
        .and_then(|content| Ok(content?))
        .with_context(|| format!("failed to examine `{}`", entry.path))?;
    Ok(tarball::without_code_files(content))
}

fn member_facts(member: &BuiltMember) -> Result<MemberFacts> {
    let path = member.path.as_str();
    let size = SizeAndDigest { len: member.len, sha256: Some(member.sha256) };
    let examined = match &member.tree {
        // The archive itself is not examined, only the files in it.
        Some(_) => None,
        // `examine` gives `None` for a source that can be read only from its first byte to its last.
        None => member.source.examine(|file| {
            content::examine(file, size.sha256, keep(path), LoaderTables::Proven)
        })?,
    };
    let content = match examined {
        Some(content) => content?,
        None => content::plain(size, None),
    };
    Ok(MemberFacts {
        path: path.to_owned(),
        kind: MemberKind::File,
        mode: if member.executable { 0o755 } else { 0o644 },
        content: Ok(content),
    })
}

fn built_sdist(package: CheckedPackage, members: &[BuiltMember]) -> SdistFile {
    let files = members.iter().map(|member| {
        let path = member.path.as_str();
        let kept = member.as_text().filter(|_| tarball::is_text(path));
        let size = SizeAndDigest { len: member.len, sha256: Some(member.sha256) };
        (path.to_owned(), content::plain(size, kept.map(<[u8]>::to_vec)))
    });
    let contents = SdistContents {
        files: files.collect(),
        tops: BTreeSet::from([tarball::top(&package)]),
        escapes: Vec::new(),
    };
    tarball::sdist(package, Ok(contents))
}
