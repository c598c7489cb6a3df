//! Bundles as compilers write them, and damaged ones.

use proptest::prelude::*;

use rocwheel_test_files::bundles::{compress, raw};

use super::*;

/// Bundles behind each other, each at the next page.
fn concatenated(bundles: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for bundle in bundles {
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        bytes.extend_from_slice(bundle);
    }
    bytes
}

fn refusal(bytes: &[u8]) -> String {
    let region = ByteRegion::whole(&bytes);
    let error = find(&region).and_then(|found| {
        for bundle in &found {
            open(&region, bundle)?;
        }
        Ok(())
    });
    format!("{:#}", error.unwrap_err())
}

/// What is found, for comparison: target, bytes.
fn content(bytes: &[u8]) -> Vec<Vec<(String, Vec<u8>)>> {
    let region = ByteRegion::whole(&bytes);
    let found = find(&region).unwrap();
    found
        .iter()
        .map(|bundle| {
            let opened = open(&region, bundle).unwrap();
            let code = opened.code();
            code.map(|(target, entry)| (target.to_string(), opened.read(entry).unwrap())).collect()
        })
        .collect()
}

#[test]
fn raw_and_compressed_bundles_lie_behind_each_other() {
    let one = raw(&[("gfx1100", b"first".to_vec()), ("gfx90a:xnack-", vec![7; 5000])]);
    let two = raw(&[("gfx942", b"second".to_vec())]);
    let mut bundles = vec![one.clone()];
    for version in 1..=3 {
        for method in ["zlib", "zstd"] {
            bundles.push(compress(&two, version, method).unwrap());
        }
    }
    bundles.push(one);
    let all = concatenated(&bundles);
    let content = content(&all);
    assert_eq!(content.len(), 8);
    assert_eq!(content[0][1], ("gfx90a:xnack-".to_owned(), vec![7; 5000]));
    for two in &content[1..7] {
        assert_eq!(*two, [("gfx942".to_owned(), b"second".to_vec())]);
    }
    assert_eq!(content[7], content[0]);
    let offsets: Vec<u64> =
        find(&ByteRegion::whole(&all)).unwrap().iter().map(|b| b.offset).collect();
    assert_eq!(offsets, [0, 16384, 20480, 24576, 28672, 32768, 36864, 40960]);
}

#[test]
fn magics_inside_code_begin_no_bundle() {
    let mut code = vec![1; 4096];
    code.extend(COMPRESSED);
    code.resize(8192, 2);
    code.extend(RAW);
    let all = concatenated(&[
        raw(&[("gfx942", code.clone()), ("gfx1100", b"last".to_vec())]),
        raw(&[("gfx942", b"next".to_vec())]),
    ]);
    let content = content(&all);
    assert_eq!(content.len(), 2);
    assert_eq!(content[0][0].1, code);
    assert_eq!(content[0][1].1, b"last");
}

#[test]
fn old_and_unusual_names_are_read_and_none_is_passed_over() {
    let bundle = raw(&[
        ("hip-amdgcn-amd-amdhsa-gfx906", b"a"),
        ("hip-amdgcn-amd-amdhsa--gfx908", b"b"),
        ("hipv4-spirv64-amd-amdhsa--amdgcnspirv", b"c"),
        ("gfx9-4-generic:xnack+", b"d"),
    ]);
    let content = content(&bundle);
    let targets: Vec<&str> = content[0].iter().map(|(target, _)| target.as_str()).collect();
    assert_eq!(targets, ["gfx906", "gfx908", "amdgcnspirv", "gfx9-4-generic:xnack+"]);
    let mut unknown = raw(&[("gfx942", b"e")]);
    let kind = unknown.windows(5).position(|it| it == b"hipv4").unwrap();
    unknown[kind + 2] = b'x';
    insta::assert_snapshot!(refusal(&unknown), @"failed to read bundle 0 at 0x0: an entry for an unknown kind of device: `hixv4-amdgcn-amd-amdhsa--gfx942`");
    insta::assert_snapshot!(refusal(&raw(&[("hip-nvptx64-nvidia-cuda--sm_90", b"e")])), @"failed to read bundle 0 at 0x0: an entry for an unknown kind of device: `hip-nvptx64-nvidia-cuda--sm_90`");
    insta::assert_snapshot!(refusal(&raw(&[("hip-amdgcn-amd-amdhsa--../x", b"e")])), @r#"failed to read bundle 0 at 0x0: failed to read the target of the entry `hip-amdgcn-amd-amdhsa--../x`: not a processor such as `gfx942` or `gfx9-4-generic`: "../x""#);
}

#[test]
fn an_empty_bundle_is_as_long_as_its_header() {
    let empty = raw::<&str, &[u8]>(&[]);
    let bundle = &find(&ByteRegion::whole(&empty)).unwrap()[0];
    assert_eq!(bundle.len, empty.len() as u64);
    assert_eq!(content(&empty), [[]]);
}

#[test]
fn no_section_holds_more_bundles_than_any_binary_has() {
    let empty = [&RAW[..], &[0; 8]].concat();
    assert_eq!(refusal(&empty.repeat(MOST + 1)), "more than 65536 bundles");
}

#[test]
fn an_empty_code_object_lies_anywhere() {
    let mut bundle = raw(&[("gfx90a", &b""[..]), ("gfx942", b"code")]);
    let first = 32 + 24 + 30;
    bundle[first..first + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    let last = raw(&[("gfx90a", &b"code"[..]), ("gfx942", b"")]);
    for bundle in [bundle, last] {
        let content = content(&bundle);
        let sizes: Vec<usize> = content[0].iter().map(|(_, code)| code.len()).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 4, "{sizes:?}");
    }
}

#[test]
fn what_is_no_bundle_is_refused() {
    let good = raw(&[("gfx942", b"code".to_vec())]);
    let with = |at: usize, number: u64| {
        let mut bytes = good.clone();
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        refusal(&bytes)
    };
    let second = 32 + 24 + 30;
    insta::assert_snapshot!(
        [
            refusal(b"junk"),
            refusal(&concatenated(&[good.clone(), b"junk".to_vec()])),
            refusal(&good[..good.len() - 1]),
            refusal(&good[..40]),
            with(24, u64::MAX),
            with(32 + 16, u64::MAX),
            with(second, u64::MAX),
            with(second + 8, u64::MAX),
            with(second, 40),
            with(32 + 8, 4),
            refusal(&raw(&[("gfx942", b"a"), ("gfx942", b"b")])),
        ]
        .join("\n"),
        @"
    failed to read bundle 0 at 0x0: neither a bundle nor zeros
    failed to read bundle 1 at 0x2000: neither a bundle nor zeros
    failed to read bundle 0 at 0x0: the entry `hipv4-amdgcn-amd-amdhsa--gfx942` lies outside of its bundle: 4 bytes at 4096 of 4099
    failed to read bundle 0 at 0x0: the entry lies outside of what holds it: 8 bytes at 40 of 40
    failed to read bundle 0 at 0x0: a bundle with more than 4096 entries: 18446744073709551615
    failed to read bundle 0 at 0x0: an entry with a name of 18446744073709551615 bytes
    failed to read bundle 0 at 0x0: the entry `hipv4-amdgcn-amd-amdhsa--gfx942` lies outside of its bundle: 4 bytes at 18446744073709551615 of 4100
    failed to read bundle 0 at 0x0: the entry `hipv4-amdgcn-amd-amdhsa--gfx942` lies outside of its bundle: 18446744073709551615 bytes at 4096 of 4100
    failed to read bundle 0 at 0x0: an entry lies in the header: `hipv4-amdgcn-amd-amdhsa--gfx942`
    failed to read bundle 0 at 0x0: a bundle with code for the host
    failed to read bundle 0 at 0x0: two entries for the same: `hipv4-amdgcn-amd-amdhsa--gfx942`
    "
    );
}

#[test]
fn entries_share_all_of_their_code_or_none() {
    let good = raw(&[("gfx90a", vec![1; 100]), ("gfx942", vec![2; 100])]);
    let last = 32 + 24 + 30 + 24 + 31;
    let with = |offset: u64, size: u64| {
        let mut bytes = good.clone();
        bytes[last..last + 8].copy_from_slice(&offset.to_le_bytes());
        bytes[last + 8..last + 16].copy_from_slice(&size.to_le_bytes());
        bytes
    };
    assert!(with(8192, 100) == good);
    let shared = with(4096, 100)[..4196].to_vec();
    assert_eq!(content(&shared)[0][1].1, [1; 100]);
    let refused = [with(4097, 100), with(4096, 99)].map(|bytes| refusal(&bytes));
    insta::assert_snapshot!(refused.join("\n"), @"
    failed to read bundle 0 at 0x0: two entries overlap: `hipv4-amdgcn-amd-amdhsa--gfx90a` and `hipv4-amdgcn-amd-amdhsa--gfx942`
    failed to read bundle 0 at 0x0: two entries overlap: `hipv4-amdgcn-amd-amdhsa--gfx942` and `hipv4-amdgcn-amd-amdhsa--gfx90a`
    ");
}

#[test]
fn the_hash_of_a_compressed_bundle_is_verified() {
    let inside = raw(&[("gfx942", vec![5; 10_000])]);
    let mut packed = compress(&inside, 3, "zstd").unwrap();
    let region = ByteRegion::whole(&packed);
    let bundle = bundle_at(&region, 0).unwrap();
    assert!(open(&region, &bundle).unwrap().decoded.unwrap() == inside);
    packed[24] ^= 1;
    let region = ByteRegion::whole(&packed);
    let bundle = bundle_at(&region, 0).unwrap();
    assert!(open(&region, &bundle).is_err());
    assert!(open_unhashed(&region, &bundle).is_ok());
}

#[test]
fn a_compressed_bundle_that_contradicts_itself_is_refused() {
    let inside = raw(&[("gfx942", vec![5; 10_000])]);
    let good = compress(&inside, 3, "zstd").unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        refusal(&changed)
    };
    insta::assert_snapshot!(
        [
            with(4, &[4]),
            with(6, &[2]),
            with(8, &u64::MAX.to_le_bytes()),
            with(8, &32_u64.to_le_bytes()),
            with(16, &u64::MAX.to_le_bytes()),
            with(16, &9_u64.to_le_bytes()),
            with(16, &20_000_u64.to_le_bytes()),
            with(24, &[0, 0, 0]),
            with(40, &[0xff; 8]),
            refusal(&compress(b"no bundle", 2, "zlib").unwrap()),
            refusal(&good[..20]),
        ]
        .join("\n"),
        @"
    failed to read bundle 0 at 0x0: a compressed bundle of an unknown version: 4
    failed to read bundle 0 at 0x0: a compressed bundle of an unknown method: 2
    failed to read bundle 0 at 0x0: the compressed bundle lies outside of what holds it: 18446744073709551615 bytes at 0 of 159
    failed to read bundle 0 at 0x0: a compressed bundle shorter than its header: 32 bytes
    failed to read bundle 0 at 0x0: a compressed bundle of more than 4294967296 bytes: 18446744073709551615
    a compressed bundle of another length than it says: not 9 bytes
    a compressed bundle of another length than it says: not 20000 bytes
    the content of a compressed bundle does not have its hash: 2aa82006ef1b44ce instead of 2aa82006ef000000
    failed to decode a compressed bundle: Data corruption detected
    no bundle in a compressed bundle
    failed to read bundle 0 at 0x0: the header of a compressed bundle lies outside of what holds it: 8 bytes at 16 of 20
    "
    );
}

#[test]
fn damaged_bundles_are_answered_and_never_panic() {
    let inside = raw(&[("gfx942", vec![5; 5000]), ("gfx1100", vec![6; 100])]);
    let all = concatenated(&[
        inside.clone(),
        compress(&inside, 1, "zlib").unwrap(),
        compress(&inside, 2, "zstd").unwrap(),
    ]);
    let mut seed = 1_u64;
    for _ in 0..3000 {
        let mut damaged = all.clone();
        for _ in 0..3 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let place = usize::try_from(seed >> 33).unwrap() % damaged.len();
            damaged[place] = u8::try_from(seed >> 24 & 0xff).unwrap();
        }
        damaged.truncate(usize::try_from(seed >> 40).unwrap() % (all.len() + 1));
        let region = ByteRegion::whole(&damaged);
        for bundle in find(&region).unwrap_or_default() {
            let _ = open(&region, &bundle).map(|opened| {
                for (_, entry) in opened.code() {
                    assert!(opened.read(entry).is_ok());
                }
            });
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        code in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9000), 0..4),
        version in 0_u16..4,
    ) {
        let code: Vec<(String, Vec<u8>)> = code
            .into_iter()
            .enumerate()
            .map(|(number, bytes)| (format!("gfx90{number}"), bytes))
            .collect();
        let mut bundle = raw(&code);
        if version > 0 {
            bundle = compress(&bundle, version, "zstd").unwrap();
        }
        prop_assert_eq!(content(&bundle), [code]);
    }
}
