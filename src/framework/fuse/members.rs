//! [`SetMembers`]: the files that the packages of a set would install, and where their compressed bytes
//! are.

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use fs_err::File;

use crate::{
    console::World,
    digest::Sha256,
    error::{Context as _, Result, bail, ensure},
    framework::packages::{LocalPackage, SetPackages, downloads},
    package::assemble::{ChangedContent, TakenMember},
    parallel,
    relpath::RelPath,
    set::SetPlace,
    target::Target,
    wheel::{PackedMember, Record, StoredMember, stored_members},
};

/// The files of a set by their installed paths. The first packages are those for every GPU.
#[derive(Debug)]
pub struct SetMembers {
    pub(super) files: BTreeMap<String, SetMember>,
}

/// A file of a set.
#[derive(Clone, Debug)]
pub(super) struct SetMember {
    wheel: PathBuf,
    stored: StoredMember,
    /// What RECORD says.
    sha256: Sha256,
    /// Whether it is for one GPU.
    pub is_for_device: bool,
}

impl SetMembers {
    /// Reads which files the packages have. Packages that are elsewhere are downloaded to `scratch`.
    pub fn read(
        place: &SetPlace,
        packages: &SetPackages<'_>,
        targets: &[Target],
        scratch: &Path,
        world: &World,
    ) -> Result<Self> {
        let common = packages.wanted(&[])?.len();
        let mut files = BTreeMap::new();
        let wanted = packages.wanted(targets)?;
        let (count, size) = downloads(place, &wanted);
        let join = || (world.console).joined_progress("Downloading", place, count, size);
        let _bar = (count > 0).then(join);
        for (index, file) in wanted.into_iter().enumerate() {
            let local = LocalPackage::of(place, file, scratch, world)?;
            let members = members(&local.path, index >= common);
            let members = members.with_context(|| format!("failed to read `{}`", file.name))?;
            for (path, member) in members {
                if let Some(path) = files.insert(path.clone(), member).map(|_| path) {
                    bail!("two packages of the set have `{path}`");
                }
            }
        }
        Ok(Self { files })
    }

    pub(super) fn get(&self, path: &str) -> Option<&SetMember> {
        self.files.get(path)
    }
}

fn members(wheel: &Path, is_for_device: bool) -> Result<Vec<(String, SetMember)>> {
    let stored = stored_members(File::open(wheel)?)?;
    let record = stored.iter().find(|(path, _)| {
        let top = path.parent();
        path.file_name() == "RECORD" && top.is_some_and(|it| it.as_str().ends_with(".dist-info"))
    });
    let (record, at) = record.context("no RECORD")?;
    let mut text = Vec::new();
    at.content(File::open(wheel)?)?.read_to_end(&mut text)?;
    let text = Record::parse(&text)?;
    let digests: BTreeMap<&RelPath, Sha256> = text
        .rows()
        .iter()
        .filter_map(|row| Some((&row.path, row.digest?)))
        .collect();
    let files = stored.iter().filter(|(path, _)| *path != record);
    let files = files.map(|(path, stored)| {
        let sha256 = digests.get(path).copied();
        let member = SetMember {
            wheel: wheel.to_owned(),
            stored: stored.clone(),
            sha256: sha256.with_context(|| format!("`{path}` has no digest in RECORD"))?,
            is_for_device,
        };
        Ok((path.to_string(), member))
    });
    files.collect()
}

impl SetMember {
    /// How much it adds to a wheel.
    pub(super) fn packed(&self) -> u64 {
        self.stored
            .bytes
            .end
            .saturating_sub(self.stored.bytes.start)
    }

    /// Its size as installed.
    pub(super) fn size(&self) -> u64 {
        self.stored.len
    }

    pub(super) fn executable(&self) -> bool {
        self.stored.executable
    }

    /// The file for another wheel. Its compressed bytes are taken over once they are verified.
    fn content(&self, scratch: &Path) -> Result<ChangedContent> {
        let packed = PackedMember::of(&self.stored, self.sha256);
        let taken = TakenMember::of_file(&self.wheel, packed)?;
        ensure!(
            taken.packed.verify(taken.open()?),
            "it is not what RECORD of its package says"
        );
        if self.stored.is_short() {
            return Ok(ChangedContent::Taken(taken));
        }
        let to = scratch.join(self.sha256.to_string());
        let source = File::open(&self.wheel)?;
        let len = io::copy(&mut self.stored.content(source)?, &mut File::create(&to)?)?;
        Ok(ChangedContent::File(to, len))
    }
}

/// The contents of files, in their order.
pub(super) fn contents(
    files: &[(&String, &SetMember)],
    scratch: &Path,
    (jobs, world): (NonZeroUsize, &World),
) -> Result<Vec<ChangedContent>> {
    parallel::map(files, jobs, &world.stop, |(path, member)| {
        let content = member.content(scratch);
        content.with_context(|| format!("failed to take `{path}` over"))
    })
}
