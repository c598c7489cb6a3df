//! Archives as another reader finds them.

use std::io::{Cursor, Read};

use proptest::prelude::*;
use zip::{CompressionMethod, ZipArchive};

use super::*;
use rocwheel_test_files::contents::SparseWheel;

const GIB: u64 = 1 << 30;

fn path(text: &str) -> RelPath {
    text.parse().unwrap()
}

fn member(name: &str, len: usize) -> WheelMember {
    WheelMember { path: path(name), executable: false, len: len as u64 }
}

fn add<W: Write + Seek>(writer: &mut ZipWriter<W>, name: &str, content: &[u8]) -> io::Result<()> {
    let crc = crc32fast::hash(content);
    writer.add(&member(name, content.len()), StorageMethod::Stored, crc, content)
}

fn writer() -> ZipWriter<Cursor<Vec<u8>>> {
    ZipWriter::new(Cursor::default(), 0)
}

fn bytes(writer: ZipWriter<Cursor<Vec<u8>>>) -> Vec<u8> {
    let finished = writer.finish().unwrap();
    let bytes = finished.out.into_inner();
    assert_eq!(finished.len, bytes.len() as u64);
    assert_eq!(finished.crc, crc32fast::hash(&bytes));
    bytes
}

/// All offsets of a marker.
fn found(bytes: &[u8], marker: u32) -> Vec<usize> {
    let marker = marker.to_le_bytes();
    (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&marker)).collect()
}

#[test]
fn an_archive_has_these_bytes_and_no_other() {
    let mut writer = writer();
    let script = WheelMember { executable: true, ..member("a/b", 3) };
    let crc = crc32fast::hash(b"hi\n");
    writer.add(&script, StorageMethod::Stored, crc, b"hi\n").unwrap();
    let hex: Vec<String> = bytes(writer)
        .chunks(16)
        .map(|row| row.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "))
        .collect();
    insta::assert_snapshot!(hex.join("\n"), @"
    50 4b 03 04 14 00 00 00 00 00 00 00 21 00 7a 7a
    6f ed 03 00 00 00 03 00 00 00 03 00 00 00 61 2f
    62 68 69 0a 50 4b 01 02 14 03 14 00 00 00 00 00
    00 00 21 00 7a 7a 6f ed 03 00 00 00 03 00 00 00
    03 00 00 00 00 00 00 00 00 00 00 00 ed 81 00 00
    00 00 61 2f 62 50 4b 05 06 00 00 00 00 01 00 01
    00 31 00 00 00 24 00 00 00 00 00
    ");
}

#[test]
fn another_reader_finds_every_fact() {
    let mut writer = ZipWriter::new(Cursor::default(), 1_700_000_001);
    let paths = ["plain", "dir/é b", "dir/two\nlines", "dir/q\"u,o"];
    for (name, executable) in paths.into_iter().zip([false, true].into_iter().cycle()) {
        let one = WheelMember { executable, ..member(name, name.len()) };
        let crc = crc32fast::hash(name.as_bytes());
        writer.add(&one, StorageMethod::Stored, crc, name.as_bytes()).unwrap();
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes(writer))).unwrap();
    archive.validate_header_consistency().unwrap();
    let facts: Vec<String> = (0..archive.len())
        .map(|index| {
            let mut member = archive.by_index(index).unwrap();
            let mut content = String::new();
            member.read_to_string(&mut content).unwrap();
            assert_eq!(content, paths[index]);
            format!(
                "{:?} {:o} {} {:?} {:?}",
                member.name().unwrap(),
                member.unix_mode().unwrap(),
                member.last_modified().unwrap(),
                member.version_made_by(),
                member.compression(),
            )
        })
        .collect();
    insta::assert_snapshot!(facts.join("\n"), @r#"
    "plain" 100644 2023-11-14 22:13:20 (2, 0) Stored
    "dir/é b" 100755 2023-11-14 22:13:20 (2, 0) Stored
    "dir/two\nlines" 100644 2023-11-14 22:13:20 (2, 0) Stored
    "dir/q\"u,o" 100755 2023-11-14 22:13:20 (2, 0) Stored
    "#);
}

#[test]
fn only_a_name_that_is_not_ascii_is_marked_as_utf_8() {
    for (name, flags) in [("plain", [0, 0]), ("é", [0, 8])] {
        let mut writer = writer();
        add(&mut writer, name, b"").unwrap();
        let bytes = bytes(writer);
        assert_eq!(bytes[6..8], flags, "{name}");
    }
}

#[test]
fn a_streamed_member_is_the_same_as_one_at_hand() {
    let content = b"some bytes in two pieces";
    let mut whole = writer();
    add(&mut whole, "a", content).unwrap();
    add(&mut whole, "b", b"x").unwrap();
    let mut streamed = writer();
    let begun = streamed.begin(&member("a", content.len())).unwrap();
    streamed.append(&content[..9]).unwrap();
    streamed.append(&content[9..]).unwrap();
    streamed.end(begun, StorageMethod::Stored, crc32fast::hash(content)).unwrap();
    add(&mut streamed, "b", b"x").unwrap();
    assert_eq!(bytes(streamed), bytes(whole));
}

#[test]
fn a_name_too_long_for_the_format_is_refused() {
    let error = add(&mut writer(), &"n".repeat(65_536), b"").unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("a name too long for an archive: `nnn"));
    assert!(add(&mut writer(), &"n".repeat(65_535), b"").is_ok());
}

#[test]
fn zip64_begins_with_the_count_that_the_old_field_keeps_for_it() {
    for (count, zip64) in [(65_534, 0), (65_535, 1), (65_536, 1)] {
        let mut writer = writer();
        for index in 0..count {
            add(&mut writer, &index.to_string(), b"").unwrap();
        }
        let bytes = bytes(writer);
        assert_eq!(found(&bytes, 0x0606_4B50).len(), zip64, "{count}");
        assert_eq!(found(&bytes, 0x0706_4B50).len(), zip64, "{count}");
        let archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
        assert_eq!(archive.len(), count);
    }
}

/// An archive of one member of so many zeros and then a small one.
fn huge(len: u64) -> SparseWheel {
    let mut writer = ZipWriter::new(SparseWheel::default(), 0);
    let mut left = usize::try_from(len).unwrap();
    let begun = writer.begin(&member("zeros", left)).unwrap();
    let zeros = vec![0; 64 << 20];
    while left > 0 {
        let piece = left.min(zeros.len());
        writer.append(&zeros[..piece]).unwrap();
        left -= piece;
    }
    writer.end(begun, StorageMethod::Stored, 7).unwrap();
    add(&mut writer, "after", b"small").unwrap();
    writer.finish().unwrap().out
}

#[test]
fn zip64_begins_with_the_size_that_the_old_field_keeps_for_it() {
    // The local header of the first, what both central headers say is needed, and the end.
    for (len, local, central, after, end) in [
        (4 * GIB - (1 << 20), 20, 20, 20, 0),
        // It might take more than it has.
        (4 * GIB - 100, 45, 20, 20, 0),
        (4 * GIB - 2, 45, 20, 45, 1),
        (4 * GIB - 1, 45, 45, 45, 1),
        (4 * GIB, 45, 45, 45, 1),
        (4 * GIB + 1, 45, 45, 45, 1),
    ] {
        let mut file = huge(len);
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(len)).unwrap();
        file.read_to_end(&mut tail).unwrap();
        assert_eq!(found(&tail, 0x0606_4B50).len(), end, "{len}");
        let directory = found(&tail, 0x0201_4B50);
        let needed: Vec<u8> = directory.iter().map(|at| tail[at + 6]).collect();
        assert_eq!(needed, [central, after], "{len}");
        let mut header = [0; 6];
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_exact(&mut header).unwrap();
        assert_eq!(header[4], local, "{len}");
        let mut archive = ZipArchive::new(file).unwrap();
        archive.validate_header_consistency().unwrap();
        assert_eq!(archive.by_index(0).unwrap().size(), len);
        assert_eq!(archive.by_index(0).unwrap().compression(), CompressionMethod::Stored);
        let mut content = String::new();
        archive.by_index(1).unwrap().read_to_string(&mut content).unwrap();
        assert_eq!(content, "small");
    }
}

#[test]
fn times_are_those_of_the_calendar_and_stay_within_the_format() {
    let shown = [
        0,
        315_532_799,
        315_532_800,
        951_782_399,
        951_782_400,
        951_868_800,
        1_700_000_001,
        4_107_542_399,
        4_107_542_400,
        4_354_819_199,
        u64::MAX,
    ]
    .map(|seconds| {
        let bytes = dos_time(seconds).to_le_bytes();
        let [time, date] = [0, 2].map(|at| u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let shown = zip::DateTime::try_from_msdos(date, time).unwrap();
        format!("{seconds} {shown}")
    });
    insta::assert_snapshot!(shown.join("\n"), @"
    0 1980-01-01 00:00:00
    315532799 1980-01-01 00:00:00
    315532800 1980-01-01 00:00:00
    951782399 2000-02-28 23:59:58
    951782400 2000-02-29 00:00:00
    951868800 2000-03-01 00:00:00
    1700000001 2023-11-14 22:13:20
    4107542399 2100-02-28 23:59:58
    4107542400 2100-03-01 00:00:00
    4354819199 2107-12-31 23:59:58
    18446744073709551615 2107-12-31 23:59:58
    ");
}

proptest! {
    #[test]
    fn any_members_read_back(
        members in proptest::collection::btree_map("[^/\\\\\0.]{1,8}(/[^/\\\\\0.]{1,8})?", proptest::collection::vec(any::<u8>(), 0..64), 0..6),
    ) {
        let mut writer = writer();
        for (name, content) in &members {
            add(&mut writer, name, content).unwrap();
        }
        let mut archive = ZipArchive::new(Cursor::new(bytes(writer))).unwrap();
        prop_assert_eq!(archive.len(), members.len());
        archive.validate_header_consistency().unwrap();
        for (index, (name, content)) in members.iter().enumerate() {
            let mut member = archive.by_index(index).unwrap();
            prop_assert_eq!(&*member.name().unwrap(), name.as_str());
            let mut read = Vec::new();
            member.read_to_end(&mut read).unwrap();
            prop_assert_eq!(&read, content);
        }
    }
}
