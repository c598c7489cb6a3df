//! [`SourceWheel`]: a wheel that another one is made of. It is hashed while it is copied.
//!
//! A promoted wheel differs from its source near the end, where the metadata is. Up to there one copy
//! and one hash serve both, which takes a third of the time off a promotion: hashing takes longer
//! than copying. A wheel that was built here need not be hashed up to its last large member, because
//! the build remembers the hash until there.

use std::{
    io::{self, BufReader, Read as _, Seek as _, SeekFrom},
    ops::Range,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use fs_err::File;

use super::{
    TakenMember,
    content::{CountedReader, Unchanged},
    pipeline::{CommonStart, OpenedMember},
};
use crate::{
    artifact::FileStamp,
    digest::{BegunHash, Hasher, Sha256},
    error::{Context as _, Result, Stop, anyhow, ensure},
    wheel::{WheelMember, common_start},
};

/// The buffer for what is only hashed.
const READ: usize = 256 << 10;

/// A wheel on this disk.
pub struct SourceWheel<'a> {
    path: PathBuf,
    stamp: FileStamp,
    is_hashed: bool,
    begun: Option<&'a BegunHash>,
}

impl<'a> SourceWheel<'a> {
    /// With `is_hashed`, its digest is wanted. `begun` is the hash of its first bytes, if that is known.
    pub fn new(path: &Path, is_hashed: bool, begun: Option<&'a BegunHash>) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            stamp: FileStamp::of(path)?,
            is_hashed,
            begun: begun.filter(|it| it.hasher().is_some()),
        })
    }

    /// How many members a wheel of these has in common with this one, at the beginning, and their
    /// length with their headers.
    pub(super) fn common_start(
        &self,
        members: &[WheelMember],
        taken: &[Option<TakenMember>],
        time: u64,
    ) -> Result<(usize, u64)> {
        let members = members.iter().zip(taken);
        let members = members.map_while(|(member, taken)| {
            let packed = &taken.as_ref()?.packed;
            Some((member, packed.method, packed.crc, &packed.bytes))
        });
        Ok(common_start(File::open(&self.path)?, members, time)?)
    }

    /// Writes a wheel that begins with these members of this one. Returns the digest of this one as
    /// well, if it is wanted.
    pub(super) fn write<T>(
        &self,
        (members, len): (usize, u64),
        stop: &Stop,
        write: impl FnOnce(CommonStart<'_>) -> Result<T>,
    ) -> Result<(T, Option<Sha256>)> {
        thread::scope(|scope| {
            let (hashed, begun) = mpsc::channel();
            let digest = move || self.digest(len, &begun, stop);
            let thread = self.is_hashed.then(|| {
                let thread = thread::Builder::new().spawn_scoped(scope, digest);
                thread.context("failed to start a thread")
            });
            let thread = thread.transpose()?;
            let file = File::open(&self.path)?;
            let written = write(CommonStart {
                members,
                file: &file,
                begun: self.begun.filter(|it| it.len <= len),
                open: &|start| self.open(start..len),
                // Fails if no thread wants it.
                hashed: &|hash| drop(hashed.send(hash)),
            });
            // If the writer failed, this ends the thread.
            drop(hashed);
            let digest = match thread.map(thread::ScopedJoinHandle::join) {
                Some(digest) => digest.map_err(|_| anyhow!("a thread that hashes died"))?,
                None => Ok(None),
            };
            Ok((written?, digest?))
        })
    }

    /// Goes on with the hash of the first bytes. `None` if there is none, because the writer failed.
    fn digest(
        &self,
        start: u64,
        begun: &mpsc::Receiver<Hasher>,
        stop: &Stop,
    ) -> Result<Option<Sha256>> {
        let Ok(mut hasher) = begun.recv() else {
            return Ok(None);
        };
        let (source, progress) = (self.open(start..self.stamp.len)?, &|_| {});
        let source = CountedReader {
            source,
            stop,
            progress,
        };
        io::copy(&mut BufReader::with_capacity(READ, source), &mut hasher)?;
        let (sha256, len) = hasher.finish();
        let path = self.path.display();
        ensure!(
            len == self.stamp.len,
            "`{path}` became shorter while it was read"
        );
        Ok(Some(sha256))
    }

    /// Reads some of its bytes, and fails if it has changed.
    fn open(&self, bytes: Range<u64>) -> Result<OpenedMember> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(bytes.start))?;
        let left = bytes.end.saturating_sub(bytes.start);
        Ok(Box::new(Unchanged {
            reader: file.take(left),
            path: self.path.clone(),
            stamp: self.stamp,
            left,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::{
        console::{Console, Options, World},
        package::{
            FIRST_DAY,
            assemble::{
                AssembleSettings, ChangedContent, ChangedFile, ChangedWheel,
                pipeline::{self, WheelWork},
            },
        },
        wheel::{PackedMember, WheelCompression, specimen::noise, zipped_wheel},
    };

    fn settings() -> AssembleSettings {
        AssembleSettings {
            compression: WheelCompression::default(),
            time: FIRST_DAY,
            jobs: NonZeroUsize::MIN,
            block: pipeline::BLOCK,
        }
    }

    /// Writes a wheel with a large member, and returns the hash that is kept of it.
    fn source(path: &Path) -> BegunHash {
        let contents = [noise(200_000, 1), b"1".to_vec()];
        let member = |(name, content): (&str, &Vec<u8>)| WheelMember {
            path: name.parse().unwrap(),
            executable: false,
            len: content.len() as u64,
        };
        let members: Vec<_> = ["a", "b"].into_iter().zip(&contents).map(member).collect();
        let work = WheelWork {
            members: &members,
            open: &|index| Ok(Box::new(io::Cursor::new(contents[index].clone()))),
            taken: &[],
            start: None,
            texts: &[("x-1.dist-info/WHEEL".parse().unwrap(), "1".to_owned())],
            record: &"x-1.dist-info/RECORD".parse().unwrap(),
            settings: &settings(),
            stop: &Stop::default(),
            progress: &|_| {},
        };
        let mut out = fs_err::File::options();
        let mut out = out.read(true).write(true).create(true).open(path).unwrap();
        pipeline::write_wheel(&mut out, &work)
            .unwrap()
            .begun
            .unwrap()
    }

    /// Makes a wheel that differs from a source in `b`.
    fn changed(
        source: &Path,
        is_hashed: bool,
        begun: Option<&BegunHash>,
    ) -> (ChangedFile, Option<Sha256>, Vec<u8>) {
        let wheel = zipped_wheel(BufReader::new(File::open(source).unwrap())).unwrap();
        let member = &wheel.members["a"];
        let packed = PackedMember::of(member, Sha256::of(&noise(200_000, 1)));
        let taken = TakenMember::of_file(source, packed).unwrap();
        let name = "x-2-py3-none-any.whl".parse().unwrap();
        let mut made = ChangedWheel::new(name, "x-2.dist-info".parse().unwrap());
        made.add("a".parse().unwrap(), false, ChangedContent::Taken(taken));
        made.add("b".parse().unwrap(), false, ChangedContent::text("2"));
        let directory = tempfile::tempdir().unwrap();
        let wheel = SourceWheel::new(source, is_hashed, begun).unwrap();
        let world = World {
            console: Console::of_this_process(&Options::silent()),
            stop: Stop::default(),
        };
        let (file, digest) = made
            .write_from(
                Some(&wheel),
                directory.path(),
                &settings(),
                "Making",
                &world,
            )
            .unwrap();
        let bytes = fs_err::read(directory.path().join(&file.file)).unwrap();
        (file, digest, bytes)
    }

    #[test]
    fn a_hash_that_is_kept_stands_for_the_bytes_that_are_copied() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x-1-py3-none-any.whl");
        let begun = source(&path);
        let old = Sha256::of(&fs_err::read(&path).unwrap());
        for is_hashed in [false, true] {
            let (file, digest, bytes) = changed(&path, is_hashed, None);
            assert_eq!(file.sha256, Sha256::of(&bytes));
            assert_eq!(digest, is_hashed.then_some(old));
            let (again, digest, copied) = changed(&path, is_hashed, Some(&begun));
            assert_eq!((again.sha256, again.size), (file.sha256, file.size));
            assert_eq!(digest, is_hashed.then_some(old));
            assert!(bytes == copied);
        }
        // The bytes themselves are not hashed then: a wrong hash would show.
        let mut wrong = Hasher::default();
        wrong.update(&vec![0; usize::try_from(begun.len).unwrap()]);
        let (file, _, bytes) = changed(&path, false, Some(&wrong.begun()));
        assert_ne!(file.sha256, Sha256::of(&bytes));
    }
}
