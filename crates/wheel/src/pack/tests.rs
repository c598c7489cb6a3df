//! Tests of wheels with all kinds of members, and with several numbers of threads.

use std::{
    io::{self, Cursor, Read, Seek, Write},
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use proptest::prelude::*;
use zip::ZipArchive;

use super::*;
use crate::WheelCompression;
use rocwheel_test_files::contents::{SparseWheel, noise, prose};

mod tasks;
mod trouble;

/// The members of a wheel and their contents.
struct Fixture {
    members: Vec<WheelMember>,
    contents: Vec<Arc<[u8]>>,
    texts: Vec<(RelPath, String)>,
    record: RelPath,
    opened: AtomicUsize,
    progress: AtomicU64,
    stop: Stop,
}

fn path(text: &str) -> RelPath {
    text.parse().unwrap()
}

fn settings(block: usize, jobs: usize) -> PackSettings {
    PackSettings {
        compression: WheelCompression::default(),
        time: FIRST_DAY,
        jobs: NonZeroUsize::new(jobs).unwrap(),
        block: NonZeroUsize::new(block).unwrap(),
    }
}

fn member(name: &str, len: u64) -> WheelMember {
    WheelMember { path: path(name), executable: false, len }
}

impl Fixture {
    fn new<'a>(files: impl IntoIterator<Item = (&'a str, Vec<u8>)>) -> Self {
        let mut fixture = Self {
            members: Vec::new(),
            contents: Vec::new(),
            texts: ["METADATA", "WHEEL"]
                .map(|name| (path(&format!("x-1.dist-info/{name}")), format!("{name}: 1\n")))
                .to_vec(),
            record: path("x-1.dist-info/RECORD"),
            opened: AtomicUsize::new(0),
            progress: AtomicU64::new(0),
            stop: Stop::default(),
        };
        for (name, content) in files {
            fixture.members.push(member(name, content.len() as u64));
            fixture.contents.push(content.into());
        }
        fixture
    }

    fn write_to(&self, out: impl Write + Seek, settings: &PackSettings) -> Result<WrittenWheel> {
        let open = |index: usize| {
            self.opened.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(Cursor::new(Arc::clone(&self.contents[index]))) as Box<dyn Read + Send>)
        };
        self.write_from(out, &open, settings)
    }

    fn write_from(
        &self,
        out: impl Write + Seek,
        open: &Open,
        settings: &PackSettings,
    ) -> Result<WrittenWheel> {
        let progress = |bytes| {
            self.progress.fetch_add(bytes, Ordering::Relaxed);
        };
        write_wheel(out, &self.work(open, settings, &progress))
    }

    fn work<'a>(
        &'a self,
        open: &'a Open,
        settings: &'a PackSettings,
        progress: &'a (dyn Fn(u64) + Sync),
    ) -> WheelWork<'a> {
        WheelWork {
            members: &self.members,
            open,
            kept: &[],
            texts: &self.texts,
            record: &self.record,
            settings,
            stop: &self.stop,
            progress,
        }
    }

    /// Writes the wheel, and verifies its length, its hash, its members and its RECORD.
    fn wheel(&self, settings: &PackSettings) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        let written = self.write_to(&mut out, settings).unwrap();
        let bytes = out.into_inner();
        assert_eq!(written.len, bytes.len() as u64);
        assert_eq!(written.digest(Cursor::new(&bytes), None).unwrap().sha256, Sha256::of(&bytes));
        self.check(&bytes, &written.record);
        bytes
    }

    fn check(&self, bytes: &[u8], record: &Record) {
        let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
        archive.validate_header_consistency().unwrap();
        assert!(!archive.has_overlapping_entries().unwrap());
        assert_eq!(archive.len(), self.members.len() + self.texts.len() + 1);
        for (index, row) in record.rows().iter().enumerate() {
            let mut member = archive.by_index(index).unwrap();
            assert_eq!(member.name().unwrap(), row.path.as_str());
            let mut content = Vec::new();
            member.read_to_end(&mut content).unwrap();
            match self.contents.get(index) {
                Some(expected) => assert!(content == expected[..], "{}", row.path),
                None if row.path == self.record => {
                    assert_eq!(content, record.to_string().as_bytes());
                }
                None => assert_eq!(content, self.texts[index - self.members.len()].1.as_bytes()),
            }
            if row.path != self.record {
                let found = row.mismatch(Sha256::of(&content), content.len() as u64);
                assert_eq!(found, None, "{}", row.path);
            }
        }
    }
}

/// The members, as a zip reader sees them.
fn listing(bytes: &[u8]) -> String {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
    let lines: Vec<String> = (0..archive.len())
        .map(|index| {
            let member = archive.by_index(index).unwrap();
            format!("{} {} {:?}", member.name().unwrap(), member.size(), member.compression())
        })
        .collect();
    lines.join("\n")
}

/// All kinds of members, for blocks of 64 KiB.
fn every_kind() -> Fixture {
    Fixture::new([
        ("a/empty", Vec::new()),
        ("a/large.so", prose(700_000, 1)),
        ("a/noise.co", noise(300_000, 2)),
        ("a/one", b"1".to_vec()),
        ("b/one block", prose(65_536, 3)),
        ("b/one block and one", prose(65_537, 4)),
        ("b/late.tar", [noise(130_000, 5), prose(400_000, 6)].concat()),
        ("b/early.tar", [prose(400_000, 7), noise(130_000, 8)].concat()),
        ("c/tail.kpack", [noise(2_000_000, 9), vec![0; 40_000]].concat()),
        ("c/é, \"quoted\"", prose(5_000, 10)),
    ])
}

#[test]
fn a_wheel_holds_members_then_texts_then_record() {
    let fixture = every_kind();
    let bytes = fixture.wheel(&settings(65_536, 2));
    insta::assert_snapshot!(listing(&bytes), @r#"
    a/empty 0 Stored
    a/large.so 700000 Deflated
    a/noise.co 300000 Deflated
    a/one 1 Stored
    b/one block 65536 Deflated
    b/one block and one 65537 Deflated
    b/late.tar 530000 Deflated
    b/early.tar 530000 Deflated
    c/tail.kpack 2040000 Deflated
    c/é, "quoted" 5000 Deflated
    x-1.dist-info/METADATA 12 Stored
    x-1.dist-info/WHEEL 9 Stored
    x-1.dist-info/RECORD 863 Deflated
    "#);
    let total: u64 = fixture.members.iter().map(|member| member.len).sum();
    assert_eq!(fixture.progress.load(Ordering::Relaxed), total);
    assert_eq!(fixture.opened.load(Ordering::Relaxed), fixture.members.len());
}

#[test]
fn the_bytes_are_the_same_for_any_number_of_jobs() {
    let fixture = every_kind();
    let one = fixture.wheel(&settings(65_536, 1));
    for jobs in [2, 3, 8, 50] {
        assert!(fixture.wheel(&settings(65_536, jobs)) == one, "{jobs} jobs");
    }
    // The bytes do not depend on the machine either.
    insta::assert_snapshot!(Sha256::of(&one), @"b8d2aa2b2156f7b82d258f0cbe3f6c03209b9dc815f249ac27b5596dedb88ec8");
}

#[test]
fn store_stores_everything() {
    let fixture = every_kind();
    let settings = PackSettings { compression: WheelCompression::Store, ..settings(65_536, 2) };
    let bytes = fixture.wheel(&settings);
    assert!(!listing(&bytes).contains("Deflated"));
    assert_eq!(fixture.opened.load(Ordering::Relaxed), fixture.members.len());
}

#[test]
fn a_large_member_that_does_not_shrink_is_hardly_longer() {
    let block = BLOCK.get();
    let fixture = Fixture::new([("a", noise(3 * block, 1))]);
    let bytes = fixture.wheel(&settings(block, 2));
    let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
    let member = archive.by_index(0).unwrap();
    let more = member.compressed_size() - member.size();
    assert!(more < member.size() / 12_000, "{more}");
}

#[test]
fn bytes_that_another_program_writes_meanwhile_are_noticed() {
    let fixture = every_kind();
    let mut out = Cursor::new(Vec::new());
    let written = fixture.write_to(&mut out, &settings(65_536, 2)).unwrap();
    let bytes = out.into_inner();
    for at in [0, 40, 5_000, bytes.len() - 1] {
        let mut other = bytes.clone();
        other[at] ^= 1;
        let error = written.digest(Cursor::new(&other), None).unwrap_err().to_string();
        assert_eq!(error, "another program wrote to the file while it was written");
    }
    assert!(written.digest(Cursor::new([&*bytes, b"x"].concat()), None).is_err());
    assert!(written.digest(Cursor::new(&bytes[1..]), None).is_err());
}

#[test]
fn a_wheel_may_have_no_members() {
    let fixture = Fixture::new([]);
    insta::assert_snapshot!(listing(&fixture.wheel(&settings(1, 8))), @"
    x-1.dist-info/METADATA 12 Stored
    x-1.dist-info/WHEEL 9 Stored
    x-1.dist-info/RECORD 173 Deflated
    ");
}

#[test]
fn many_small_members_are_batches() {
    let names: Vec<String> = (0..70_000).map(|index| format!("d/{index}")).collect();
    let fixture = Fixture::new(names.iter().map(|name| (name.as_str(), name.clone().into_bytes())));
    let mut out = Cursor::new(Vec::new());
    let written = fixture.write_to(&mut out, &settings(1 << 20, 2)).unwrap();
    assert_eq!(written.record.rows().len(), 70_003);
    let mut archive = ZipArchive::new(Cursor::new(out.into_inner())).unwrap();
    assert_eq!(archive.len(), 70_003);
    let mut content = String::new();
    archive.by_name("d/69999").unwrap().read_to_string(&mut content).unwrap();
    assert_eq!(content, "d/69999");
}

/// A reader of this many zeros.
struct Zeros(u64);

impl Read for Zeros {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.0).unwrap().min(bytes.len());
        bytes[..len].fill(0);
        self.0 -= len as u64;
        Ok(len)
    }
}

#[test]
fn a_member_of_more_than_4_gib_is_streamed() {
    let len = (4 << 30) + 5;
    let mut fixture = Fixture::new([]);
    fixture.members = vec![member("zeros", len), member("after", 3)];
    let open =
        |index: usize| Ok(Box::new(Zeros(fixture.members[index].len)) as Box<dyn Read + Send>);
    let settings = PackSettings { compression: WheelCompression::Store, ..settings(4 << 20, 2) };
    let mut out = SparseWheel::default();
    let written = fixture.write_from(&mut out, &open, &settings).unwrap();
    let mut archive = ZipArchive::new(out).unwrap();
    archive.validate_header_consistency().unwrap();
    assert_eq!(archive.by_index(0).unwrap().size(), len);
    assert_eq!(archive.by_index(1).unwrap().header_start(), len + 55);
    assert_eq!(written.record.rows()[0].len, Some(len));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_members_become_a_wheel_that_is_true_to_itself(
        files in proptest::collection::vec((0_usize..3_000, 0_usize..3_000, any::<u64>()), 0..8),
        block in 1_usize..2_000,
        jobs in 1_usize..5,
    ) {
        let names: Vec<String> = (0..files.len()).map(|index| format!("d/{index}")).collect();
        let contents = files.iter().map(|(first, second, seed)| match seed % 3 {
            0 => [noise(*first, *seed), prose(*second, *seed)].concat(),
            1 => [prose(*first, *seed), noise(*second, *seed)].concat(),
            _ => noise(first + second, *seed),
        });
        let fixture = Fixture::new(names.iter().map(String::as_str).zip(contents));
        let bytes = fixture.wheel(&settings(block, jobs));
        prop_assert!(bytes == fixture.wheel(&settings(block, 1)));
    }
}
