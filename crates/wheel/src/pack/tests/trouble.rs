//! Tests with sources that have a wrong length, fail, panic or never end, and with users who stop.

use std::{
    io::{self, Cursor, Read, Seek, SeekFrom},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use super::{Fixture, member, settings};
use crate::{
    PackSettings,
    deflate::WheelCompression,
    pack::{Open, write_wheel},
};
use rocwheel_base::error::{Exit, anyhow};
use rocwheel_test_files::contents::{noise, prose};

/// The error for a source with `given` bytes whose length was announced as `announced`.
fn refusal(announced: u64, given: usize, jobs: usize) -> String {
    let mut fixture = Fixture::new([
        ("fine", prose(300_000, 1)),
        ("wrong", vec![b'x'; given]),
        ("also wrong", vec![b'x'; given]),
        ("after", prose(3_000_000, 2)),
    ]);
    fixture.members[1].len = announced;
    fixture.members[2].len = announced;
    let error =
        fixture.write_to(&mut Cursor::new(Vec::new()), &settings(65_536, jobs)).unwrap_err();
    format!("{error:#}")
}

#[test]
fn a_source_of_another_length_is_refused_by_its_name_and_the_first_one_wins() {
    let lengths = [
        (10, 9),
        (10, 11),
        (0, 1),
        (65_536, 65_537),
        (65_537, 65_536),
        (200_000, 199_999),
        (200_000, 200_001),
        (200_000, 0),
        (1 << 50, 100),
    ];
    let messages = lengths.map(|(announced, given)| refusal(announced, given, 1));
    insta::assert_snapshot!(messages.join("\n"), @"
    `wrong` ends after 9 of its 10 bytes
    `wrong` is longer than its 10 bytes
    `wrong` is longer than its 0 bytes
    `wrong` is longer than its 65536 bytes
    `wrong` ends after 65536 of its 65537 bytes
    `wrong` ends after 199999 of its 200000 bytes
    `wrong` is longer than its 200000 bytes
    `wrong` ends after 0 of its 200000 bytes
    `wrong` ends after 100 of its 1125899906842624 bytes
    ");
    for jobs in [2, 8] {
        assert_eq!(lengths.map(|(announced, given)| refusal(announced, given, jobs)), messages);
    }
}

pub(super) struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is gone"))
    }
}

#[test]
fn an_error_of_a_source_ends_all_threads_and_names_the_member() {
    let mut messages = Vec::new();
    for len in [10, 1 << 50] {
        let mut fixture = Fixture::new([]);
        fixture.members =
            vec![member("first", 1 << 20), member("second", len), member("third", 1 << 50)];
        let unopened = |index: usize| match index {
            1 => Err(anyhow!("no such file")),
            _ => {
                Ok(Box::new(io::repeat(7).take(fixture.members[index].len)) as Box<dyn Read + Send>)
            }
        };
        let unread = |index: usize| {
            Ok(match index {
                1 => Box::new(Failing) as Box<dyn Read + Send>,
                _ => Box::new(io::repeat(7).take(fixture.members[index].len)),
            })
        };
        for open in [&unopened as &Open, &unread] {
            for jobs in [1, 8] {
                let error = fixture
                    .write_from(&mut Cursor::new(Vec::new()), open, &settings(65_536, jobs))
                    .unwrap_err();
                messages.push(format!("{error:#}"));
            }
        }
    }
    insta::assert_snapshot!(messages.join("\n"), @"
    failed to open `second`: no such file
    failed to open `second`: no such file
    failed to read `second`: the disk is gone
    failed to read `second`: the disk is gone
    failed to open `second`: no such file
    failed to open `second`: no such file
    failed to read `second`: the disk is gone
    failed to read `second`: the disk is gone
    ");
}

#[test]
fn a_stop_ends_all_threads() {
    for (jobs, compression) in [(1, WheelCompression::Store), (8, WheelCompression::default())] {
        let mut fixture = Fixture::new([]);
        fixture.members = vec![member("endless", 1 << 50)];
        let settings = PackSettings { compression, ..settings(65_536, jobs) };
        let open = |_: usize| Ok(Box::new(io::repeat(7)) as Box<dyn Read + Send>);
        let seen = AtomicUsize::new(0);
        let progress = |_| {
            if seen.fetch_add(1, Ordering::Relaxed) == 20 {
                fixture.stop.flag().store(true, Ordering::Relaxed);
            }
        };
        let mut out = Cursor::new(Vec::new());
        let work = fixture.work(&open, &settings, &progress);
        let error = write_wheel(&mut out, &work).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Interrupted);
        assert!(seen.load(Ordering::Relaxed) <= 21 + jobs);
    }
}

#[test]
fn a_source_that_panics_leaves_no_one_waiting() {
    for len in [10, 1 << 50] {
        let mut fixture = Fixture::new([]);
        fixture.members = vec![member("a", 1 << 20), member("b", len), member("c", 1 << 50)];
        let open = |index: usize| {
            assert!(index != 1, "this source panics");
            Ok(Box::new(io::repeat(7).take(fixture.members[index].len)) as Box<dyn Read + Send>)
        };
        let result = catch_unwind(AssertUnwindSafe(|| {
            fixture.write_from(&mut Cursor::new(Vec::new()), &open, &settings(65_536, 4))
        }));
        assert!(result.is_err());
    }
}

/// An output that measures how far the workers read ahead of the writer.
struct Watched<'a> {
    out: Cursor<Vec<u8>>,
    read: &'a AtomicU64,
    ahead: u64,
}

impl io::Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A slow writer, so that the workers read ahead as far as they may.
        std::thread::sleep(std::time::Duration::from_millis(1));
        let read = self.read.load(Ordering::Relaxed);
        let written = self.out.get_ref().len() as u64;
        self.ahead = self.ahead.max(read.saturating_sub(written));
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Watched<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.out.seek(to)
    }
}

#[test]
fn what_is_read_ahead_of_the_writer_depends_on_the_jobs_only() {
    const BLOCK: usize = 300_000;
    let files = (0..40).map(|index| (format!("small {index}"), noise(BLOCK / 2, index)));
    let files: Vec<(String, Vec<u8>)> =
        files.chain([("large".to_owned(), noise(40 * BLOCK, 99))]).collect();
    let fixture =
        Fixture::new(files.iter().map(|(name, content)| (name.as_str(), content.clone())));
    for jobs in [1, 2, 4] {
        fixture.progress.store(0, Ordering::Relaxed);
        let mut out = Watched { out: Cursor::new(Vec::new()), read: &fixture.progress, ahead: 0 };
        fixture.write_to(&mut out, &settings(BLOCK, jobs)).unwrap();
        let blocks = out.ahead.div_ceil(BLOCK as u64);
        // Per job, two blocks wait; besides, one is being written, and one has its slot but is not
        // read yet.
        assert!(blocks <= 2 * jobs as u64 + 2, "{blocks} blocks for {jobs} jobs");
    }
}

#[test]
fn two_members_of_one_name_are_refused() {
    for name in ["a", "x-1.dist-info/METADATA", "x-1.dist-info/RECORD"] {
        let fixture = Fixture::new([("a", Vec::new()), ("b", Vec::new()), (name, Vec::new())]);
        let error = fixture.write_to(&mut Cursor::new(Vec::new()), &settings(10, 1)).unwrap_err();
        assert_eq!(error.to_string(), format!("two members of one name: `{name}`"));
    }
}
