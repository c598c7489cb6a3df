//! Archives: read, written, and attacked.

use std::io::Cursor;

use rocwheel_test_files::stored::stored;

use super::*;
use rocwheel_base::digest::Sha256;

fn target(text: &str) -> CodeTarget {
    text.parse().unwrap()
}

fn archive(codes: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let out = Cursor::new(Vec::new());
    let mut writer = ArchiveWriter::new(out, "demo_lib", "gfx900").unwrap();
    for (key, name, code) in codes {
        let origin = CodeOrigin {
            target: format!("hipv4-amdgcn-amd-amdhsa--{name}"),
            source_prefix: "stage".to_owned(),
        };
        let packed = Packed::new(code).unwrap();
        writer.add(key, &target(name), &packed, Some(origin)).unwrap();
    }
    writer.finish().unwrap().0.into_inner()
}

fn content(bytes: &Vec<u8>) -> Vec<(String, String, Vec<u8>)> {
    let archive = KpackArchive::open(bytes).unwrap();
    let codes = archive.codes().iter();
    codes
        .map(|code| {
            let bytes = archive.read(code).unwrap();
            (code.key.clone(), code.target.to_string(), bytes)
        })
        .collect()
}

fn refusal(bytes: &Vec<u8>) -> String {
    let result = KpackArchive::open(bytes).and_then(|archive| {
        for code in archive.codes() {
            archive.read(code)?;
        }
        Ok(())
    });
    format!("{:#}", result.unwrap_err())
}

/// The archive of the reference's own tests, as its description gives it byte by byte.
fn reference() -> Vec<u8> {
    let mut bytes = b"KPAK\x01\0\0\0\x3a\x02\0\0\0\0\0\0".to_vec();
    bytes.resize(64, 0);
    bytes.extend(b"KERNEL1_GFX900_DATA");
    bytes.resize(183, 0);
    bytes.extend(b"KERNEL2_GFX906_DATA");
    bytes.resize(402, 0);
    bytes.extend(b"KERNEL3_APP_GFX900");
    bytes.resize(570, 0xff);
    bytes.extend(b"\x87\xaeformat_version\x01\xaagroup_name\xa4test");
    bytes.extend(b"\xafgfx_arch_family\xa7gfx900X\xaagfx_arches\x92\xa6gfx900\xa6gfx906");
    bytes.extend(b"\xa3toc\x82\xadbin/testapp#0\x81\xa6gfx900\x83\xa4type\xa5hsaco");
    bytes.extend(b"\xa7ordinal\x02\xadoriginal_size\xcc\xa8");
    bytes.extend(b"\xb0lib/libtest.so#0\x82\xa6gfx900\x83\xa4type\xa5hsaco\xa7ordinal\0");
    bytes.extend(b"\xadoriginal_size\x77\xa6gfx906\x83\xa4type\xa5hsaco\xa7ordinal\x01");
    bytes.extend(b"\xadoriginal_size\xcc\xdb\xb2compression_scheme\xa4none");
    bytes.extend(b"\xa5blobs\x93\x82\xa6offset\x40\xa4size\x77");
    bytes.extend(
        b"\x82\xa6offset\xcc\xb7\xa4size\xcc\xdb\x82\xa6offset\xcd\x01\x92\xa4size\xcc\xa8",
    );
    bytes
}

#[test]
fn the_example_of_the_reference_is_read() {
    let bytes = reference();
    let archive = KpackArchive::open(&bytes).unwrap();
    assert_eq!((archive.group(), archive.scheme()), ("test", KpackScheme::Stored));
    let code = archive.find("lib/libtest.so#0", &target("gfx906")).unwrap();
    let read = archive.read(code).unwrap();
    assert_eq!((read.len(), &read[..19]), (219, &b"KERNEL2_GFX906_DATA"[..]));
    assert!(archive.find("lib/libtest.so#0", &target("gfx908")).is_none());
}

#[test]
fn the_contents_of_the_reference_are_written() {
    let bytes = reference();
    let contents = &bytes[570..];
    let toc = Toc::parse(contents).unwrap();
    assert_eq!(rmp_serde::to_vec_named(&toc).unwrap(), contents);
}

#[test]
fn what_is_written_is_read_as_it_is_without_compression() {
    let codes: &[(&str, &str, &[u8])] = &[
        ("lib/a.so#0", "gfx900", &[1; 5000]),
        ("lib/a.so#0", "gfx900:xnack+", b"other"),
        ("lib/a.so#1", "gfx900", b""),
    ];
    let bytes = archive(codes);
    let expected: Vec<_> = codes
        .iter()
        .map(|(key, target, code)| ((*key).to_owned(), (*target).to_owned(), code.to_vec()))
        .collect();
    assert_eq!(content(&bytes), expected);
    assert_eq!(content(&stored(codes)), expected);
    assert_eq!(archive(codes), bytes);
    let read = KpackArchive::open(&bytes).unwrap();
    assert_eq!(read.targets(), ["gfx900", "gfx900:xnack+"]);
    let origin = read.codes()[0].origin.clone().unwrap();
    assert_eq!(origin.source_prefix, "stage");
}

#[test]
fn equal_code_is_written_once() {
    // Code that does not compress.
    let hashes = (0..500_u64).map(|seed| Sha256::of(&seed.to_le_bytes()).to_string());
    let same = hashes.collect::<String>().into_bytes();
    let one = archive(&[("a#0", "gfx900", &same)]).len();
    let bytes =
        archive(&[("a#0", "gfx900", &same), ("a#1", "gfx900", &same), ("b#0", "gfx900", &same)]);
    assert!(one > 15_000 && bytes.len() < one + 1000, "{one}");
    assert!(content(&bytes).iter().all(|(_, _, code)| *code == same));
}

#[test]
fn a_code_object_has_one_place() {
    let out = Cursor::new(Vec::new());
    let mut writer = ArchiveWriter::new(out, "g", "f").unwrap();
    let code = Packed::new(b"x").unwrap();
    writer.add("a#0", &target("gfx900"), &code, None).unwrap();
    let again = writer.add("a#0", &target("gfx900"), &code, None);
    insta::assert_snapshot!(again.unwrap_err(), @"two code objects for the same: `a#0` for `gfx900`");
}

/// The example with one text in its contents changed to another of the same length.
fn changed(from: &[u8], to: &[u8]) -> String {
    let mut bytes = reference();
    assert_eq!(from.len(), to.len());
    let place = bytes.windows(from.len()).position(|window| window == from);
    let place = place.unwrap();
    bytes[place..place + to.len()].copy_from_slice(to);
    refusal(&bytes)
}

#[test]
fn a_contradicting_archive_is_refused() {
    let with = |at: usize, byte: u8| {
        let mut bytes = reference();
        bytes[at] = byte;
        refusal(&bytes)
    };
    let longer = [reference(), vec![0]].concat();
    insta::assert_snapshot!(
        [
            with(0, b'X'),
            with(4, 2),
            with(8, 0x10),
            with(15, 0xff),
            refusal(&longer),
            refusal(&reference()[..900].to_vec()),
            changed(b"version\x01", b"version\x02"),
            changed(b"\xa4none", b"\xa4zstd"),
            changed(b"hsaco", b"spirv"),
            changed(b"ordinal\x02", b"ordinal\x03"),
            changed(b"offset\x40", b"offset\x3f"),
            changed(b"offset\xcd\x01\x92", b"offset\xcd\x02\x92"),
            changed(b"original_size\x77", b"original_size\x76"),
            changed(b"\x92\xa6gfx900\xa6gfx906", b"\x92\xa6gfx900\xa6gfx907"),
            changed(b"\xa6gfx906\x83", b"\xa6gfx900\x83"),
            changed(b"\x93\x82\xa6offset", b"\xdd\xff\xff\xff\xff\x82set"),
        ]
        .join("\n"),
        @"
    not an archive of device code
    an archive of an unknown version: 2
    failed to read the table of contents: invalid type: integer `-1`, expected struct Toc
    the contents lies outside of what holds it: 0 bytes at 18374686479671624250 of 903
    1 bytes behind the contents
    failed to read the table of contents: IO error while reading data: unexpected end of file: unexpected end of file
    contents of an unknown version: 2
    failed to read the table of contents: unknown variant `zstd`, expected `none` or `zstd-per-kernel`
    code of an unknown kind: `spirv` in `bin/testapp#0`
    code object 3 of 3: `bin/testapp#0` for `gfx900`
    a code object in the header
    the code object lies outside of what holds it: 168 bytes at 658 of 570
    code of two sizes, 119 and 118: `lib/libtest.so#0` for `gfx900`
    code for a target that the archive does not name: `lib/libtest.so#0` for `gfx906`
    failed to read the table of contents: `gfx900` stands twice
    failed to read the table of contents: missing field `offset`
    "
    );
}

#[test]
fn an_archive_for_more_targets_than_there_are_is_refused() {
    let naming = |count| {
        let toc = Toc {
            format_version: VERSION,
            gfx_arches: vec![String::new(); count],
            blobs: Some(Vec::new()),
            ..Toc::default()
        };
        let contents = rmp_serde::to_vec_named(&toc).unwrap();
        let numbers = [&1_u32.to_le_bytes()[..], &64_u64.to_le_bytes(), &[0; 48]];
        [&MAGIC[..], &numbers.concat(), &contents].concat()
    };
    assert_eq!(KpackArchive::open(&naming(4096)).unwrap().targets().len(), 4096);
    insta::assert_snapshot!(refusal(&naming(4097)), @"failed to read the table of contents: more than 4096 targets");
}

#[test]
fn code_is_packed_to_the_same_bytes_after_any_other_code() {
    let codes: Vec<Vec<u8>> = [3_000_000, 10, 20_000, 400_000, 0, 200_000, 20_000]
        .iter()
        .enumerate()
        .map(|(seed, len)| {
            let mut state = seed as u64;
            let word = |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                [(state >> 61) as u8; 3]
            };
            (0..len / 3).flat_map(word).collect()
        })
        .collect();
    for code in codes.iter().chain(codes.iter().rev()) {
        let pack = || Packed::new(code).unwrap();
        let fresh = std::thread::scope(|scope| scope.spawn(pack).join());
        assert_eq!(pack(), fresh.unwrap());
    }
}

#[test]
fn contradicting_frames_are_refused() {
    let good = archive(&[("a#0", "gfx900", &[9; 5000])]);
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        refusal(&changed)
    };
    insta::assert_snapshot!(
        [
            with(64, &[0xff; 4]),
            with(64, &[0; 4]),
            with(68, &[0xff; 4]),
            with(68, &[1, 0, 0, 0]),
            with(72, &[0; 4]),
            with(76, &[0xff; 6]),
        ]
        .join("\n"),
        @"
    an archive of 4294967295 code objects
    frames that end at 4 of 27
    the frame lies outside of what holds it: 4294967295 bytes at 8 of 27
    frames that end at 9 of 27
    failed to decode `a#0` for `gfx900`: Unknown frame descriptor
    failed to decode `a#0` for `gfx900`: Unsupported frame parameter
    "
    );
}

#[test]
fn damaged_archives_are_answered_and_never_panic() {
    let zstd = archive(&[("a#0", "gfx900", &[9; 500]), ("a#1", "gfx900:xnack-", &[8; 50])]);
    let mut seed = 7_u64;
    for all in [reference(), zstd] {
        for _ in 0..5000 {
            let mut damaged = all.clone();
            for _ in 0..2 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let place = usize::try_from(seed >> 33).unwrap() % damaged.len();
                damaged[place] = u8::try_from(seed >> 24 & 0xff).unwrap();
            }
            if let Ok(archive) = KpackArchive::open(&damaged) {
                for code in archive.codes() {
                    let _ = archive.read(code);
                }
            }
        }
    }
}
