//! Reads a wheel ([PEP 427](https://peps.python.org/pep-0427/)): first its directory ([`Outline`]),
//! then its members, in one stream or in portions that several threads read at the same time.

use std::ops::Range;

use crate::{
    check::{
        error_lines::reasons,
        facts::{ArchiveFault, WheelFile},
        observe::{
            ObserveProgress, PackageReader,
            directory::{CentralDirectory, inconsistent},
            portion::PortionContent,
            source::Walk,
        },
    },
    digest::Sha256,
    error::{Interrupted, Result},
    wheel::filename::InvalidFilename,
};

/// The least size of a portion, so that each is worth a stream of its own. A member is never split.
const PORTION: u64 = 16 << 20;

/// The facts at the end of a wheel: its directory, or why that cannot be read.
#[derive(Debug)]
pub struct Outline {
    file: String,
    size: u64,
    directory: CentralDirectory,
    unreadable: Option<String>,
}

/// Consecutive members of a wheel, which are read in one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portion {
    members: Range<usize>,
    bytes: Range<u64>,
    hash: Hash,
}

/// Whether to hash the bytes of the archive too, besides those of each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Members,
    Archive,
}

/// The facts of one portion.
#[derive(Debug)]
pub struct PortionFacts {
    first: usize,
    found: PortionContent,
    digest: Option<(Sha256, u64)>,
    error: Option<String>,
}

impl Portion {
    /// The number of bytes to read.
    pub fn weight(&self) -> u64 {
        self.bytes.end.saturating_sub(self.bytes.start)
    }
}

impl Outline {
    pub fn read(file: &str, source: &dyn PackageReader) -> Self {
        let (directory, unreadable) = match CentralDirectory::read(source) {
            Ok(directory) => (directory, None),
            Err(error) => (CentralDirectory::default(), Some(format!("{error:#}"))),
        };
        Self {
            file: file.to_owned(),
            size: source.len(),
            directory,
            unreadable,
        }
    }

    /// Path, length and CRC-32 of each member, from the directory.
    pub fn members(&self) -> impl Iterator<Item = (&str, u64, u32)> {
        let entries = self.directory.entries.iter();
        entries.map(|entry| (entry.path.as_str(), entry.len, entry.crc))
    }

    /// The whole wheel as one portion, which is also hashed: for a wheel in a store, of which each
    /// byte should be downloaded once.
    pub fn whole(&self, source: &dyn PackageReader) -> Portion {
        Portion {
            members: 0..self.directory.entries.len(),
            bytes: 0..source.len(),
            hash: Hash::Archive,
        }
    }

    /// All members, split into portions that may be read at the same time.
    pub fn portions(&self) -> Vec<Portion> {
        let entries = &self.directory.entries;
        let mut portions = Vec::new();
        let mut first = 0;
        for index in 0..entries.len() {
            let at = |index: usize| match entries.get(index) {
                Some(_) if index == 0 => self.directory.begin,
                Some(entry) => entry.at,
                None => self.directory.start,
            };
            let next = index.saturating_add(1);
            let bytes = at(first)..at(next).max(at(first));
            let len = bytes.end.saturating_sub(bytes.start);
            if len >= PORTION || next == entries.len() {
                portions.push(Portion {
                    members: first..next,
                    bytes,
                    hash: Hash::Members,
                });
                first = next;
            }
        }
        portions
    }

    pub fn read_portion(
        &self,
        source: &dyn PackageReader,
        portion: &Portion,
        watch: &ObserveProgress<'_>,
    ) -> Result<PortionFacts, Interrupted> {
        let mut facts = PortionFacts {
            first: portion.members.start,
            found: PortionContent::default(),
            digest: None,
            error: None,
        };
        let read = || -> Result<(PortionContent, Option<(Sha256, u64)>)> {
            let stream = source.stream(portion.bytes.clone())?;
            let mut walk = Walk::new(stream, portion.bytes.start, watch);
            if portion.hash == Hash::Archive {
                walk = walk.hashing();
            }
            let entries = &self.directory.entries;
            let members = entries.get(portion.members.clone()).unwrap_or_default();
            let next = entries.get(portion.members.end);
            let end = next.map_or(self.directory.start, |entry| entry.at);
            if portion.members.start == 0 {
                // The directory has reported bytes before the archive already.
                walk.skip_to(self.directory.begin)?;
            }
            let found = PortionContent::read(&mut walk, members, end);
            Ok((found, walk.finish()?))
        };
        match read() {
            Ok((found, digest)) => (facts.found, facts.digest) = (found, digest),
            Err(error) => facts.error = Some(format!("{error:#}")),
        }
        watch.stop.check()?;
        Ok(facts)
    }

    /// Combines the facts of all portions.
    pub fn finish(self, mut portions: Vec<PortionFacts>) -> WheelFile {
        portions.sort_by_key(|portion| portion.first);
        let mut wheel = WheelFile {
            name: base_name(&self.file)
                .parse()
                .map_err(|error: InvalidFilename| reasons(&error)),
            file: self.file,
            size: self.size,
            faults: self.directory.faults,
            members: Vec::new(),
            devel: None,
            digest: None,
        };
        let mut told = Vec::new();
        let mut unreadable = self.unreadable;
        for portion in portions {
            wheel.members.extend(portion.found.members);
            wheel.devel = wheel.devel.or(portion.found.devel);
            wheel.digest = wheel.digest.or(portion.digest);
            told.extend(portion.found.told);
            unreadable = unreadable.or(portion.error);
        }
        wheel.faults.extend(inconsistent(told));
        wheel
            .faults
            .extend(unreadable.map(ArchiveFault::Unreadable));
        wheel
    }
}

/// The file name of a package, without the directory of its family: `gfx94X-dcgpu/rocm-7.tar.gz`.
pub(super) fn base_name(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// Reads a wheel in one stream. A damaged wheel is not an error: the facts say what is wrong with
/// it.
pub fn read_wheel(
    file: &str,
    source: &dyn PackageReader,
    watch: &ObserveProgress<'_>,
) -> Result<WheelFile, Interrupted> {
    let outline = Outline::read(file, source);
    let portion = outline.whole(source);
    let facts = outline.read_portion(source, &portion, watch)?;
    Ok(outline.finish(vec![facts]))
}

#[cfg(test)]
mod tests;
