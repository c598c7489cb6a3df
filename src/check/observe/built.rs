//! Takes the facts of packages that a build has just made from what they were made of: a few small
//! reads of each source, instead of inflating and hashing the package.

use std::{num::NonZeroUsize, sync::Arc};

use itertools::Itertools as _;

use super::{
    content, file_name,
    tarball::{self, is_devel},
    wheel::keep,
};
use crate::{
    archive::{TarEntry, TarKind},
    check::{
        SetFacts,
        facts::{
            CheckedPackage, ContentFacts, DevelEntry, DevelTree, MemberFacts, MemberKind,
            SdistFile, WheelFile,
        },
    },
    digest::Sha256,
    error::{Context as _, Result, Stop},
    package::assemble::{BuiltContent, BuiltMember, MadePackage, SourceBytes},
    parallel,
};

/// What one thread examines at a time: a member, or a file in the development files.
enum WheelPart<'a> {
    Member(&'a BuiltMember),
    Entry(&'a TarEntry, Option<&'a SourceBytes>),
}

/// The facts of a [`WheelPart`].
enum ExaminedPart {
    Member(MemberFacts),
    Entry(DevelEntry),
}

/// The facts of the packages of a build.
pub fn facts_of_built(
    packages: &[MadePackage],
    jobs: NonZeroUsize,
    stop: &Stop,
) -> Result<SetFacts> {
    let mut set = SetFacts::default();
    let sorted = packages.iter().sorted_by_key(|package| &package.path);
    for package in sorted {
        let checked = CheckedPackage {
            name: file_name(&package.path),
            file: package.path.clone(),
            size: package.size,
            digest: Some((package.sha256, package.size)),
        };
        let is_wheel = checked.platform().is_some();
        if is_wheel {
            let wheel = observe(checked, &package.members, jobs, stop)
                .with_context(|| format!("failed to examine the members of `{}`", package.path))?;
            set.wheels.push(Arc::new(wheel));
        } else {
            set.sdists.push(Arc::new(sdist(checked, &package.members)));
        }
    }
    Ok(set)
}

fn observe(
    package: CheckedPackage,
    members: &[BuiltMember],
    jobs: NonZeroUsize,
    stop: &Stop,
) -> Result<WheelFile> {
    let parts = members.iter().flat_map(|member| {
        let entries = match &member.content {
            BuiltContent::Sdk(archive) => Some(archive.entries()),
            BuiltContent::Plain(_) => None,
        };
        let entries = entries.into_iter().flatten();
        let entries = entries.map(|(entry, bytes)| WheelPart::Entry(entry, bytes));
        [WheelPart::Member(member)].into_iter().chain(entries)
    });
    let parts: Vec<WheelPart<'_>> = parts.collect();
    let mut wheel = WheelFile {
        package,
        // A wheel that we made has no defects as an archive.
        faults: Vec::new(),
        members: Vec::with_capacity(members.len()),
        devel: None,
    };
    for seen in parallel::map(&parts, jobs, stop, WheelPart::examine)? {
        match seen {
            ExaminedPart::Member(member) => {
                if is_devel(&member.path) {
                    wheel.devel.get_or_insert(DevelTree {
                        member: member.path.clone(),
                        entries: Vec::new(),
                        fault: None,
                    });
                }
                wheel.members.push(member);
            }
            ExaminedPart::Entry(entry) => {
                let tree = wheel.devel.as_mut();
                tree.context("an entry has no archive")?.entries.push(entry);
            }
        }
    }
    Ok(wheel)
}

impl WheelPart<'_> {
    fn examine(&self) -> Result<ExaminedPart> {
        match self {
            Self::Member(member) => {
                let facts = member_facts(member);
                let facts = facts.with_context(|| format!("failed to examine `{}`", member.path));
                Ok(ExaminedPart::Member(facts?))
            }
            Self::Entry(entry, bytes) => {
                let content = match (&entry.kind, bytes) {
                    (TarKind::File { .. }, Some(bytes)) => Some(in_tree(bytes, entry)?),
                    (TarKind::File { .. }, None) => {
                        Some(content::plain((Some(Sha256::of(b"")), 0), None))
                    }
                    _ => None,
                };
                Ok(ExaminedPart::Entry(DevelEntry {
                    entry: (*entry).clone(),
                    content,
                }))
            }
        }
    }
}

fn in_tree(bytes: &SourceBytes, entry: &TarEntry) -> Result<ContentFacts> {
    let content = bytes
        .examine(|file| content::examine(file, None, tarball::keep_in_tree(entry.path.as_str())));
    let content = content.and_then(|it| Ok(it?));
    let content = content.with_context(|| format!("failed to examine `{}`", entry.path))?;
    Ok(tarball::in_tree(content))
}

fn member_facts(member: &BuiltMember) -> Result<MemberFacts> {
    let (path, sha256) = (member.path.as_str(), Some(member.sha256));
    let content = match &member.content {
        // The archive itself is not examined, only what is in it.
        BuiltContent::Sdk(_) => content::plain((sha256, member.len), None),
        BuiltContent::Plain(bytes) => {
            bytes.examine(|file| content::examine(file, sha256, keep(path)))??
        }
    };
    Ok(MemberFacts {
        path: path.to_owned(),
        kind: MemberKind::File,
        mode: if member.executable { 0o755 } else { 0o644 },
        content: Ok(content),
    })
}

fn sdist(package: CheckedPackage, members: &[BuiltMember]) -> SdistFile {
    let files = members.iter().map(|member| {
        let path = member.path.as_str();
        let kept = member.as_text().filter(|_| tarball::is_text(path));
        let content = (Some(member.sha256), member.len);
        (
            path.to_owned(),
            content::plain(content, kept.map(<[u8]>::to_vec)),
        )
    });
    tarball::sdist(package, Ok(files.collect()))
}
