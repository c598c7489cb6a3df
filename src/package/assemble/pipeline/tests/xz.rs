//! A member that is packed as xz on its way.

use std::{
    io::{self, Cursor, Read},
    sync::atomic::Ordering,
};

use zip::ZipArchive;

use super::{Fixture, settings};
use crate::{
    digest::Sha256,
    error::Exit,
    wheel::specimen::{noise, prose},
};

/// More than a block of xz, between members of other kinds.
fn fixture() -> Fixture {
    let tar = [prose(1_000_000, 1), noise(200_000, 2), vec![0; 9_000_000]].concat();
    let mut fixture = Fixture::new([
        ("a", prose(100, 3)),
        ("devel.tar.xz", tar),
        ("large", prose(300_000, 4)),
        ("z", prose(100, 5)),
    ]);
    fixture.xz = Some(1);
    fixture
}

#[test]
fn it_is_stored_and_unpacks_to_its_source() {
    let fixture = fixture();
    let mut out = Cursor::default();
    let written = fixture.write_to(&mut out, &settings(65_536, 2)).unwrap();
    let bytes = out.into_inner();
    assert_eq!(written.sha256, Sha256::of(&bytes));
    let mut archive = ZipArchive::new(Cursor::new(&bytes)).unwrap();
    archive.validate_header_consistency().unwrap();
    let mut packed = Vec::new();
    archive
        .by_index(1)
        .unwrap()
        .read_to_end(&mut packed)
        .unwrap();
    assert_eq!(
        archive.by_index(1).unwrap().compressed_size(),
        packed.len() as u64
    );
    assert!(packed.len() < fixture.contents[1].len() / 2);
    let mut plain = Vec::new();
    xz2::read::XzDecoder::new(packed.as_slice())
        .read_to_end(&mut plain)
        .unwrap();
    assert!(plain == fixture.contents[1][..]);
    let row = &written.record.rows()[1];
    row.verify(Sha256::of(&packed), packed.len() as u64)
        .unwrap();
    let total: u64 = fixture.members.iter().map(|member| member.len).sum();
    assert_eq!(fixture.progress.load(Ordering::Relaxed), total);
}

#[test]
fn the_bytes_are_the_same_for_any_number_of_jobs() {
    let fixture = fixture();
    let wheel = |jobs| {
        let mut out = Cursor::default();
        fixture.write_to(&mut out, &settings(65_536, jobs)).unwrap();
        out.into_inner()
    };
    let one = wheel(1);
    for jobs in [2, 5] {
        assert!(wheel(jobs) == one, "{jobs} jobs");
    }
}

#[test]
fn a_source_of_another_length_is_refused() {
    let mut fixture = Fixture::new([("a.tar.xz", vec![0; 100])]);
    fixture.xz = Some(0);
    for len in [99, 101] {
        fixture.members[0].len = len;
        let error = fixture
            .write_to(&mut Cursor::default(), &settings(10, 2))
            .unwrap_err();
        let expected = format!("`a.tar.xz` has 100 bytes, not {len}, before it is packed");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_stop_stops_it_and_an_error_of_the_source_is_the_error() {
    let mut fixture = Fixture::new([("a.tar.xz", Vec::new())]);
    fixture.xz = Some(0);
    let broken = |_| Ok(Box::new(super::trouble::Failing) as Box<dyn Read + Send>);
    let error = fixture
        .write_from(&mut Cursor::default(), &broken, &settings(10, 2))
        .unwrap_err();
    assert_eq!(format!("{error:#}"), "pack `a.tar.xz`: the disk is gone");
    let endless = |_| {
        fixture.stop.flag().store(true, Ordering::Relaxed);
        Ok(Box::new(io::repeat(7)) as Box<dyn Read + Send>)
    };
    let error = fixture
        .write_from(&mut Cursor::default(), &endless, &settings(10, 2))
        .unwrap_err();
    assert_eq!(Exit::of(&error), Exit::Interrupted);
}
