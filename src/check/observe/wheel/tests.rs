//! Wheels in one portion and in many, and archives that readers see in different ways.

use std::io::{self, Cursor, Write as _};

use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::*;
use crate::check::facts::MemberKind;
use rocwheel_base::error::Stop;
use rocwheel_wheel::tar::{TarEntry, TarKind, TarPlan};

const FILE: &str = "rocm_sdk_core-1-py3-none-any.whl";

fn zipped(members: &[(&str, &[u8], CompressionMethod)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes, method) in members {
        let options = SimpleFileOptions::default().compression_method(*method);
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn sample() -> Vec<u8> {
    let text = b"some text that is said again and again and again".repeat(9);
    zipped(&[
        ("a/one", &text, CompressionMethod::Deflated),
        ("a/two", b"", CompressionMethod::Stored),
        ("a/three", &text, CompressionMethod::Stored),
    ])
}

impl PackageReader for Vec<u8> {
    fn size(&self) -> u64 {
        Self::len(self) as u64
    }

    fn stream(&self, range: Range<u64>) -> io::Result<Box<dyn Read + Send + '_>> {
        let place = |offset: u64| usize::try_from(offset).unwrap();
        let end = place(range.end).min(Self::len(self));
        Ok(Box::new(self.get(place(range.start)..end).unwrap_or_default()))
    }
}

fn tar(binary: &[u8]) -> Vec<u8> {
    let entry = TarEntry {
        path: "liba.so".parse().unwrap(),
        kind: TarKind::File { len: binary.len() as u64, executable: true },
    };
    let plan = TarPlan::new(vec![entry], 0).unwrap();
    let mut bytes = Vec::new();
    let mut stream = plan.stream(|_| Ok(Cursor::new(binary.to_vec())));
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

fn whole(bytes: &[u8]) -> WheelFile {
    let watch = ReadWatch { stop: &Stop::default(), binaries: None, progress: &|_| () };
    let outline = Outline::read(FILE, &bytes.to_vec());
    let facts = outline.read_portion(&bytes.to_vec(), &outline.whole(), &watch);
    outline.finish(vec![facts.unwrap()])
}

/// What is wrong with the archive itself.
fn faults_of(wheel: &WheelFile) -> Vec<&String> {
    wheel.contradictions.iter().chain(&wheel.unreadable).collect()
}

/// What is wrong, one line each.
fn faults(bytes: &[u8]) -> String {
    let wheel = whole(bytes);
    let members = wheel.members.iter().filter_map(|member| {
        let why = member.content.as_ref().err()?;
        Some(format!("{}: {why}", member.path))
    });
    let faults = wheel.contradictions.iter().chain(&wheel.unreadable).cloned();
    faults.chain(members).collect::<Vec<_>>().join("\n")
}

fn find(bytes: &[u8], part: &[u8]) -> usize {
    let mut windows = bytes.windows(part.len());
    windows.position(|window| window == part).unwrap()
}

/// Where the entry of the directory is that has this name; its name is 46 bytes further.
fn entry(bytes: &[u8], name: &str) -> usize {
    let mut windows = bytes.windows(name.len());
    windows.rposition(|window| window == name.as_bytes()).unwrap() - 46
}

#[test]
fn a_sound_archive_has_no_fault() {
    let wheel = whole(&sample());
    assert_eq!(faults_of(&wheel), Vec::<&String>::new());
    assert_eq!(wheel.members.len(), 3);
    assert_eq!(wheel.package.sha256, Some(Sha256::of(&sample())));
    assert!(wheel.members.iter().all(|member| member.content.is_ok()));
}

#[test]
fn portions_in_any_order_say_the_same_as_the_whole() {
    let noise = (0..20_u32 << 20).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3]);
    let noise: Vec<u8> = noise.collect();
    let bytes = zipped(&[
        ("a/one", &noise, CompressionMethod::Stored),
        ("a/two", b"2", CompressionMethod::Stored),
        ("a/three", &noise, CompressionMethod::Deflated),
        ("a/four", b"4", CompressionMethod::Deflated),
    ]);
    let stop = Stop::default();
    let watch = ReadWatch { stop: &stop, binaries: None, progress: &|_| () };
    let outline = Outline::read(FILE, &bytes);
    let portions = outline.portions(false);
    assert_eq!(portions.len(), 2);
    let read = |portion| outline.read_portion(&bytes, portion, &watch).unwrap();
    let facts = portions.iter().rev().map(read).collect();
    let wheel = outline.finish(facts);
    let shown = |wheel: &WheelFile| format!("{:?} {:?}", faults_of(wheel), wheel.members);
    assert_eq!(shown(&wheel), shown(&whole(&bytes)));
}

#[test]
fn a_binary_with_headers_where_its_code_should_be_is_read_again() {
    let binary = content::tests::deceptive();
    let tar = tar(&binary);
    for (name, bytes) in [("a/liba.so", binary), ("a/_devel.tar", tar)] {
        let wheel = whole(&zipped(&[
            (name, &bytes, CompressionMethod::Deflated),
            ("a/two", b"2", CompressionMethod::Deflated),
        ]));
        assert_eq!(faults_of(&wheel), Vec::<&String>::new());
        assert!(wheel.members.iter().all(|it| it.content.is_ok()));
        assert!(wheel.files().any(|(_, content)| content.elf().is_some()));
    }
}

#[test]
fn every_mode_bit_and_kind_is_seen() {
    let mut bytes = sample();
    for (name, mode) in [("a/one", 0o104_755_u16), ("a/two", 0o120_777), ("a/three", 0o010_644)] {
        let at = entry(&bytes, name);
        bytes[at + 40..at + 42].copy_from_slice(&mode.to_le_bytes());
    }
    let wheel = whole(&bytes);
    let seen: Vec<_> = wheel.members.iter().map(|it| (it.mode, it.kind)).collect();
    assert_eq!(
        seen,
        [(0o4755, MemberKind::File), (0o777, MemberKind::Symlink), (0o644, MemberKind::Special)]
    );
}

#[test]
fn what_readers_see_in_different_ways_is_reported() {
    let broken = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = sample();
        change(&mut bytes);
        faults(&bytes)
    };
    let local = |bytes: &[u8], name: &str| find(bytes, name.as_bytes()) - 30;
    let told = [
        broken(&|bytes| bytes.extend(b"junk")),
        broken(&|bytes| drop(bytes.splice(0..0, *b"junk"))),
        broken(&|bytes| {
            let at = local(bytes, "a/two");
            bytes[at + 30] = b'b';
        }),
        broken(&|bytes| {
            let at = local(bytes, "a/three");
            bytes[at + 22] ^= 1;
        }),
        broken(&|bytes| {
            let at = entry(bytes, "a/three");
            bytes[at + 8] |= 1;
        }),
        broken(&|bytes| {
            let at = entry(bytes, "a/two");
            bytes[at + 46..at + 51].copy_from_slice(b"a/one");
        }),
        broken(&|bytes| {
            let at = bytes.len() - 14;
            bytes[at] = 2;
            bytes[at + 2] = 2;
        }),
        broken(&|bytes| {
            let at = entry(bytes, "a/two");
            bytes[at + 42] = 0;
        }),
        broken(&|bytes| {
            let at = entry(bytes, "a/one");
            bytes[at + 16] ^= 1;
        }),
    ];
    insta::assert_snapshot!(told.join("\n--\n"), @r#"
    4 bytes stand before the archive or after its end
    --
    4 bytes stand before the archive or after its end
    --
    `a/two`: its local header names it "b/two"
    --
    `a/three`: other sizes or another checksum in its local header
    --
    `a/three`: other flags in its local header
    a/three: it is encrypted
    --
    `a/one` is there twice
    `a/one`: its local header names it "a/two"
    --
    3 members in the directory, and 2 in the end record
    --
    `a/one` overlaps what follows it
    a/one: it overlaps what follows it
    a/two: it overlaps the member before it
    --
    `a/one`: other sizes or another checksum in its local header
    a/one: its checksum is bb1ea1ad, and bb1ea1ac in the directory of the archive
    "#);
}

#[test]
fn bytes_that_no_member_owns_are_reported() {
    let mut bytes = sample();
    let at = find(&bytes, b"a/three") - 30;
    // The directory moves, and so does the third member.
    bytes.splice(at..at, *b"hidden");
    let third = entry(&bytes, "a/three");
    let moved = u32::try_from(at + 6).unwrap().to_le_bytes();
    bytes[third + 42..third + 46].copy_from_slice(&moved);
    let end = bytes.len() - 6;
    let start = u32::from_le_bytes(*bytes[end..].first_chunk().unwrap()) + 6;
    bytes[end..end + 4].copy_from_slice(&start.to_le_bytes());
    insta::assert_snapshot!(faults(&bytes), @"6 bytes before `a/three` that belong to no member");
}

#[test]
fn an_archive_that_is_cut_off_or_damaged_anywhere_is_no_panic() {
    let bytes = sample();
    for end in 0..bytes.len() {
        assert!(!faults(&bytes[..end]).is_empty(), "{end}");
    }
    for at in 0..bytes.len() {
        for mask in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            faults(&damaged);
        }
    }
}

#[test]
fn sizes_behind_the_data_are_understood() {
    // As a writer leaves them that cannot go back.
    let text = b"streamed text, streamed text, streamed text";
    let mut writer = ZipWriter::new_stream(Vec::new());
    let options = SimpleFileOptions::default();
    for name in ["a/one", "a/two"] {
        writer.start_file(name, options).unwrap();
        writer.write_all(text).unwrap();
    }
    let mut bytes = writer.finish().unwrap().into_inner();
    // Wherever a read ends.
    let stop = Stop::default();
    let watch = ReadWatch { stop: &stop, binaries: None, progress: &|_| () };
    for at in 0..bytes.len() {
        let outline = Outline::read(FILE, &bytes);
        let facts = outline.read_portion(&TornAt(at, &bytes), &outline.whole(), &watch);
        let wheel = outline.finish(vec![facts.unwrap()]);
        assert_eq!(faults_of(&wheel), Vec::<&String>::new(), "{at}");
    }
    // With sizes of 64 bits, at the end of a portion, which no other record follows.
    let end = bytes.len() - 6;
    let start = u32::from_le_bytes(*bytes[end..].first_chunk().unwrap());
    bytes[end..end + 4].copy_from_slice(&(start + 8).to_le_bytes());
    let start = usize::try_from(start).unwrap();
    for at in [start, start - 4] {
        bytes.splice(at..at, [0; 4]);
    }
    let outline = Outline::read(FILE, &bytes);
    let portions = outline.portions(false);
    let facts = outline.read_portion(&bytes, &portions[0], &watch).unwrap();
    assert_eq!(faults_of(&outline.finish(vec![facts])), Vec::<&String>::new());
}

/// A wheel of which no read passes this offset.
struct TornAt<'a>(usize, &'a Vec<u8>);

impl PackageReader for TornAt<'_> {
    fn size(&self) -> u64 {
        self.1.size()
    }

    fn stream(&self, _: Range<u64>) -> io::Result<Box<dyn Read + Send + '_>> {
        let (begin, rest) = self.1.split_at(self.0);
        Ok(Box::new(begin.chain(rest)))
    }
}
