//! `Bundles`: finds the offload bundles of a binary while it passes, and keeps what they say.
//!
//! Sections are known from the end of a file only, so bundles are looked for wherever one may begin.
//! Whether that was all of them shows once the section is known; if not, it is read once more.

use std::{cell::RefCell, io, ops::Range};

use crate::{
    elf::ReadAt,
    error::{Error, Result, bail},
    kpack::{
        CodeTarget, Region,
        bundle::{self, Bundle},
    },
};

/// Compilers align bundles so, in memory and in the file.
const PAGE: u64 = 4096;
/// How much of a bundle is held to see what is in it: enough for what tells a bundle from other
/// things, for the headers of most, for those of all.
const GROWTH: [usize; 4] = [4, 4096, 64 << 10, 5 << 18];

/// A bundle, and what it has code for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Seen from the begin of the section, or of the file.
    pub(super) bundle: Bundle,
    pub(super) parts: Vec<(CodeTarget, u64)>,
}

/// Takes a file as it passes.
pub(super) struct Bundles {
    at: u64,
    end: u64,
    /// Where they are known to lie; `None` while every page may begin one.
    section: Option<Range<u64>>,
    step: Step,
    begin: Vec<u8>,
    found: Vec<Found>,
    fault: Option<Error>,
    /// A section that was asked for and is not known well enough.
    missing: RefCell<Option<Range<u64>>>,
}

enum Step {
    /// Nothing that begins before this place.
    Skip(u64),
    /// Zeros between bundles.
    Zeros,
    /// So many bytes of what may be a bundle.
    Gather(usize),
    Done,
}

impl Bundles {
    /// Wherever they may lie in a file.
    pub(super) fn anywhere(len: u64) -> Self {
        Self::new(None, len, Step::Gather(0))
    }

    /// In a section of a file.
    pub(super) fn of_section(section: Range<u64>, len: u64) -> Self {
        let end = section.end.min(len);
        let step = Step::Skip(section.start);
        Self::new(Some(section), end, step)
    }

    fn new(section: Option<Range<u64>>, end: u64, step: Step) -> Self {
        Self {
            at: 0,
            end,
            section,
            step,
            begin: Vec::new(),
            found: Vec::new(),
            fault: None,
            missing: RefCell::default(),
        }
    }

    /// The section that has to be read once more.
    pub(super) fn take_missing(&self) -> Option<Range<u64>> {
        self.missing.take()
    }

    /// All bundles of a section, seen from its begin.
    pub(super) fn within(&self, section: &Range<u64>) -> Result<Vec<Found>> {
        if self.section.as_ref() == Some(section) {
            if let Some(error) = &self.fault {
                bail!("{error:#}");
            }
            return Ok(seen_from(section.start, self.found.clone()));
        }
        let inside = |it: &&Found| section.contains(&it.bundle.offset);
        let inside: Vec<Found> = self.found.iter().filter(inside).cloned().collect();
        if self.section.is_some() || !fill(&inside, section) {
            self.missing.replace(Some(section.clone()));
            bail!("its bundles are not known yet");
        }
        Ok(seen_from(section.start, inside))
    }

    pub(super) fn take(&mut self, mut chunk: &[u8]) {
        while !chunk.is_empty() {
            let count = match self.step {
                Step::Skip(until) => until.saturating_sub(self.at),
                Step::Zeros => chunk.iter().take_while(|byte| **byte == 0).count() as u64,
                Step::Gather(index) => {
                    let most = GROWTH.get(index).copied().unwrap_or(0);
                    most.saturating_sub(self.begin.len()) as u64
                }
                Step::Done => return,
            };
            let rest = self.end.saturating_sub(self.at);
            let count = usize::try_from(count.min(rest)).unwrap_or(usize::MAX);
            let (now, later) = chunk.split_at(count.min(chunk.len()));
            if matches!(self.step, Step::Gather(_)) {
                self.begin.extend_from_slice(now);
            }
            self.at = self.at.saturating_add(now.len() as u64);
            chunk = later;
            if now.len() == count {
                self.next(chunk.is_empty());
            }
        }
    }

    /// The step is done; `is_last` says that nothing more of this chunk is there.
    fn next(&mut self, is_last: bool) {
        match self.step {
            _ if self.at >= self.end && self.begin.is_empty() => self.step = Step::Done,
            Step::Skip(_) if self.section.is_some() => self.step = Step::Zeros,
            Step::Zeros if is_last => {}
            Step::Skip(_) | Step::Zeros => self.step = Step::Gather(0),
            Step::Gather(index) => self.look(index),
            Step::Done => {}
        }
    }

    /// Decides what the bytes that were gathered begin with.
    fn look(&mut self, index: usize) {
        let start = self.at.saturating_sub(self.begin.len() as u64);
        let begins = |magic: &[u8]| self.begin.starts_with(magic.get(..4).unwrap_or_default());
        let is_bundle = begins(bundle::RAW) || begins(bundle::COMPRESSED);
        if !is_bundle && self.section.is_none() {
            // Most pages of most files: an error for each would take longer than looking at it.
            self.begin.clear();
            return self.go_on(self.at);
        }
        let seen = if is_bundle {
            self.see(start)
        } else {
            Err(Error::msg("neither a bundle nor zeros"))
        };
        match seen {
            Ok(found) => self.add(start, found),
            Err(_) if is_bundle && index + 1 < GROWTH.len() && self.at < self.end => {
                self.step = Step::Gather(index + 1);
            }
            Err(error) => self.fail(start, error),
        }
    }

    fn see(&self, start: u64) -> Result<Found> {
        let begin = Begin {
            bytes: &self.begin,
            len: self.end.saturating_sub(start),
        };
        let region = Region::whole(&begin);
        let bundle = bundle::bundle_at(&region, 0)?;
        let parts = bundle::parts(&region, &bundle)?;
        let bundle = Bundle {
            offset: start,
            ..bundle
        };
        Ok(Found { bundle, parts })
    }

    fn add(&mut self, start: u64, found: Found) {
        let end = start.saturating_add(found.bundle.len);
        self.found.push(found);
        if self.found.len() > bundle::MOST {
            return self.fail(start, Error::msg("more bundles than any binary has"));
        }
        self.go_on(end);
        // A short bundle may end before what was gathered.
        let gathered = std::mem::take(&mut self.begin);
        let over = usize::try_from(self.at.saturating_sub(end)).unwrap_or(0);
        if over > 0 {
            self.at = end;
            let rest = gathered.len().saturating_sub(over);
            self.take(gathered.get(rest..).unwrap_or_default());
        }
    }

    fn fail(&mut self, start: u64, error: Error) {
        self.begin.clear();
        if let Some(section) = &self.section {
            let (count, at) = (self.found.len(), start.saturating_sub(section.start));
            self.fault = Some(error.context(format!("read bundle {count} at {at:#x}")));
            self.step = Step::Done;
        } else if self.found.len() > bundle::MOST {
            self.step = Step::Done;
        } else {
            self.go_on(self.at);
        }
    }

    /// On from a place behind a bundle, or behind something else.
    fn go_on(&mut self, from: u64) {
        self.step = if self.section.is_some() {
            Step::Skip(from)
        } else {
            Step::Skip(from.next_multiple_of(PAGE))
        };
        if from >= self.end {
            self.step = Step::Done;
        }
    }
}

fn seen_from(start: u64, mut found: Vec<Found>) -> Vec<Found> {
    for it in &mut found {
        it.bundle.offset = it.bundle.offset.saturating_sub(start);
    }
    found
}

/// Whether there is no room for another bundle in a section.
fn fill(found: &[Found], section: &Range<u64>) -> bool {
    let mut at = section.start;
    for it in found {
        if it.bundle.offset != at {
            return false;
        }
        let end = it.bundle.offset.saturating_add(it.bundle.len);
        if end > section.end {
            return false;
        }
        at = end.next_multiple_of(PAGE);
    }
    at >= section.end
}

/// What is known of a file: its first bytes, and its length.
struct Begin<'a> {
    bytes: &'a [u8],
    len: u64,
}

impl ReadAt for Begin<'_> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read_at(offset, buffer)?;
        if count == 0 && offset < self.len && !buffer.is_empty() {
            return Err(io::Error::other("a part of it that was not kept"));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kpack::bundle::Method;

    const BEFORE: usize = 8192;

    /// Bytes that look random.
    fn noise(len: usize) -> Vec<u8> {
        let words = (0..len as u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
        words.map(|word| word.to_le_bytes()[0]).collect()
    }

    /// A file with bundles, each at a page; where the section with them is, and what is in them.
    fn file() -> (Vec<u8>, Range<u64>) {
        let small = bundle::raw(&[("gfx942", vec![1; 5000]), ("gfx90a:xnack+", noise(3000))]);
        let large = bundle::raw(&[("gfx1100", noise(3 << 20)), ("gfx942", vec![3; 70_000])]);
        let compressed = [(2, Method::Zstd), (3, Method::Zstd), (3, Method::Zlib)];
        let compressed =
            compressed.map(|(version, method)| bundle::compress(&large, version, method).unwrap());
        let mut bytes = noise(BEFORE);
        for one in [&small, &large].into_iter().chain(&compressed) {
            bytes.resize(bytes.len().next_multiple_of(4096), 0);
            bytes.extend(one);
        }
        let section = BEFORE as u64..bytes.len() as u64;
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        bytes.extend(noise(10_000));
        (bytes, section)
    }

    fn taken(mut bundles: Bundles, bytes: &[u8], chunk: usize) -> Bundles {
        bytes.chunks(chunk).for_each(|chunk| bundles.take(chunk));
        bundles
    }

    fn shown(found: &[Found]) -> String {
        let lines = found.iter().map(|it| {
            let parts = it.parts.iter();
            let parts: Vec<String> = parts.map(|(to, bytes)| format!("{to} {bytes}")).collect();
            format!("{:#x}: {}\n", it.bundle.offset, parts.join(", "))
        });
        lines.collect()
    }

    #[test]
    fn bundles_are_found_while_a_file_passes_and_are_those_that_are_there() {
        let (bytes, section) = file();
        let len = bytes.len() as u64;
        let region = Region::new(&bytes, "s", section.start, section.end - section.start).unwrap();
        let there = bundle::find(&region).unwrap();
        assert_eq!(there.len(), 5);
        for chunk in [128 << 10, 1000, 7] {
            for begin in [
                Bundles::anywhere(len),
                Bundles::of_section(section.clone(), len),
            ] {
                let bundles = taken(begin, &bytes, chunk);
                let found = bundles.within(&section).unwrap();
                assert_eq!(bundles.take_missing(), None);
                let known: Vec<Bundle> = found.iter().map(|it| it.bundle.clone()).collect();
                assert_eq!(known, there);
                for it in &found {
                    assert_eq!(it.parts, bundle::parts(&region, &it.bundle).unwrap());
                }
            }
        }
    }

    #[test]
    fn a_section_that_is_not_all_pages_is_read_once_more() {
        let one = bundle::raw(&[("gfx942", vec![1; 5000])]);
        // As linkers for Windows lay them: aligned to 512 bytes in the file.
        let bytes = [&noise(512)[..], &one, &[0; 64], &one, &[0; 5000], &one].concat();
        let (section, len) = (512..bytes.len() as u64, bytes.len() as u64);
        let bundles = taken(Bundles::anywhere(len), &bytes, 1000);
        assert!(bundles.within(&section).is_err());
        assert_eq!(bundles.take_missing(), Some(section.clone()));
        let bundles = taken(Bundles::of_section(section.clone(), len), &bytes, 1000);
        insta::assert_snapshot!(shown(&bundles.within(&section).unwrap()), @"
        0x0: gfx942 5000
        0x23c8: gfx942 5000
        0x5ad8: gfx942 5000
        ");
    }

    #[test]
    fn what_only_looks_like_a_bundle_is_none() {
        let (mut bytes, section) = file();
        let len = bytes.len() as u64;
        // In front of the section, where it hides what is behind it.
        bytes[4096..4100].copy_from_slice(b"CCOB");
        bytes[4100..4104].copy_from_slice(&[3, 0, 1, 0]);
        bytes[4104..4112].copy_from_slice(&20_000_u64.to_le_bytes());
        let bundles = taken(Bundles::anywhere(len), &bytes, 4096);
        let known = bundles.within(&section);
        assert!(known.is_ok() || bundles.take_missing() == Some(section.clone()));
        // In the section it is what keeps the runtime from its code.
        bytes[BEFORE + 3] = b'X';
        let bundles = taken(Bundles::anywhere(len), &bytes, 4096);
        assert!(bundles.within(&section).is_err());
        assert_eq!(bundles.take_missing(), Some(section.clone()));
        let bundles = taken(Bundles::of_section(section.clone(), len), &bytes, 4096);
        let error = bundles.within(&section).unwrap_err();
        assert_eq!(bundles.take_missing(), None);
        insta::assert_snapshot!(error, @"read bundle 0 at 0x0: neither a bundle nor zeros");
    }

    #[test]
    fn a_section_of_nothing_but_headers_is_refused() {
        let empty = [&bundle::RAW[..], &[0; 8]].concat();
        let bytes = empty.repeat(bundle::MOST + 2);
        let (section, len) = (0..bytes.len() as u64, bytes.len() as u64);
        let bundles = taken(Bundles::of_section(section.clone(), len), &bytes, 128 << 10);
        let error = bundles.within(&section).unwrap_err();
        insta::assert_snapshot!(format!("{error:#}"), @"read bundle 65537 at 0x200000: more bundles than any binary has");
    }
}
