//! Streams and blocks that any reader inflates.

use std::io::Read;

use flate2::bufread::DeflateDecoder;
use proptest::prelude::*;

use super::*;
use rocwheel_test_files::contents::{noise, prose};

fn inflate(stream: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut decoder = DeflateDecoder::new(stream);
    decoder.read_to_end(&mut bytes).unwrap();
    assert_eq!(decoder.total_in(), stream.len() as u64, "nothing is left over");
    bytes
}

fn deflater(level: u8) -> Deflater {
    let compression = WheelCompression::Deflate(level.into());
    compression.deflater().unwrap()
}

fn packed_member(deflater: &mut Deflater, bytes: &[u8]) -> Option<Vec<u8>> {
    packed_block(deflater, bytes, BlockPosition::Last)
}

fn packed_block(deflater: &mut Deflater, bytes: &[u8], place: BlockPosition) -> Option<Vec<u8>> {
    let mut room = vec![0xAA; Deflater::room(bytes.len())];
    let len = deflater.block(bytes, place, &mut room)?;
    Some(room[..len].to_vec())
}

/// The stream of a member of several blocks, and how many of them are not plain.
fn join(bytes: &[u8], block: usize, level: u8) -> (Vec<u8>, usize) {
    let mut deflater = deflater(level);
    let mut stream = Vec::new();
    let mut shrunk = 0;
    let count = bytes.len().div_ceil(block);
    for (index, bytes) in bytes.chunks(block).enumerate() {
        let place = if index + 1 == count { BlockPosition::Last } else { BlockPosition::Inner };
        match packed_block(&mut deflater, bytes, place) {
            Some(packed) => {
                assert!(packed.len() < bytes.len());
                stream.extend(packed);
                shrunk += 1;
            }
            None => {
                for (head, chunk) in plain_blocks(bytes, place) {
                    stream.extend(head);
                    stream.extend(chunk);
                }
            }
        }
    }
    (stream, shrunk)
}

#[test]
fn blocks_join_to_one_stream_at_every_level() {
    let bytes = prose(300_000, 7);
    for level in 1..=12 {
        let (stream, shrunk) = join(&bytes, 70_001, level);
        assert_eq!(shrunk, 5);
        assert_eq!(inflate(&stream), bytes, "level {level}");
    }
}

#[test]
fn plain_and_deflated_blocks_mix_in_any_order() {
    let (text, noise) = (prose(1 << 20, 1), noise(1 << 20, 1));
    for order in [[&text, &noise, &text], [&noise, &text, &noise], [&noise, &noise, &noise]] {
        let bytes = order.map(Vec::as_slice).concat();
        let (stream, shrunk) = join(&bytes, 1 << 20, 6);
        assert_eq!(shrunk, order.iter().filter(|part| part[..] == text[..]).count());
        assert_eq!(inflate(&stream), bytes);
    }
}

#[test]
fn what_does_not_shrink_is_left_alone() {
    let mut deflater = WheelCompression::default().deflater().unwrap();
    for len in [0, 1, 2, 40, 5_000, 600_000, 3_000_000] {
        let noise = noise(len, 5);
        assert_eq!(packed_member(&mut deflater, &noise), None, "{len}");
        let block = packed_block(&mut deflater, &noise, BlockPosition::Last);
        assert_eq!(block, None, "{len}");
    }
    // Also where the samples are of the other kind.
    let mut bytes = noise(STRIDE, 5);
    bytes[STRIDE / 2 - SAMPLE..][..2 * SAMPLE].fill(0);
    assert_eq!(packed_member(&mut deflater, &bytes), None);
}

#[test]
fn a_large_member_is_judged_by_its_samples() {
    let mut deflater = WheelCompression::default().deflater().unwrap();
    let mut bytes = prose(2 * STRIDE, 1);
    assert_ne!(packed_member(&mut deflater, &bytes), None);
    for stride in bytes.chunks_mut(STRIDE) {
        stride[STRIDE / 2 - SAMPLE..][..2 * SAMPLE].copy_from_slice(&noise(2 * SAMPLE, 2));
    }
    assert_eq!(packed_member(&mut deflater, &bytes), None);
    // The bytes are too short for a sample now, so they are compressed.
    assert_ne!(packed_member(&mut deflater, &bytes[..STRIDE - 1]), None);
}

#[test]
fn text_gets_a_higher_level_than_a_binary() {
    let alone = |bytes: &[u8], level| {
        let mut room = vec![0; bytes.len()];
        let level = CompressionLvl::new(level).unwrap();
        let len = Compressor::new(level).deflate_compress(bytes, &mut room);
        room[..len.unwrap()].to_vec()
    };
    let text: Vec<u8> = (prose(100_000, 1).iter()).map(|byte| b' ' + byte % 90).collect();
    let binary: Vec<u8> = text.iter().map(|byte| byte ^ 0x80).collect();
    // Padded headers between the files, as in a tar, and a page of zeros.
    let tar = [&text, &[0; 2_000][..], &text, &[0; 4_096]].concat();
    // Large ones are judged by the middle of each stride.
    let large = [vec![0xFF; STRIDE / 4], text.repeat(6)].concat();
    for (bytes, level) in [(&text, 7), (&tar, 7), (&binary, 5), (&large, 7)] {
        let packed = packed_member(&mut deflater(5), bytes).unwrap();
        assert!(packed == alone(bytes, level), "not level {level}");
    }
    let short = &text[..SAMPLE - 1];
    assert!(packed_member(&mut deflater(5), short) == Some(alone(short, 5)));
    let levels: Vec<i32> = (1..=12).map(text_level).collect();
    assert_eq!(levels, [3, 4, 5, 6, 7, 8, 9, 9, 9, 10, 11, 12]);
}

#[test]
fn a_saving_of_less_than_3_percent_is_not_worth_it() {
    let mut deflater = WheelCompression::default().deflater().unwrap();
    for (zeros, worth) in [(2_000, false), (5_000, true)] {
        let bytes = [noise(100_000 - zeros, 3), vec![0; zeros]].concat();
        let member = packed_member(&mut deflater, &bytes);
        assert_eq!(member.is_some(), worth, "{zeros}");
        let block = packed_block(&mut deflater, &bytes, BlockPosition::Last);
        assert_eq!(block.is_some(), worth, "{zeros}");
    }
}

#[test]
fn a_block_is_never_longer_than_it_was() {
    let mut deflater = WheelCompression::default().deflater().unwrap();
    for len in 0..600 {
        let text = prose(len, len as u64);
        for place in [BlockPosition::Inner, BlockPosition::Last] {
            if let Some(packed) = packed_block(&mut deflater, &text, place) {
                assert!(packed.len() < len);
            }
        }
        if let Some(packed) = packed_member(&mut deflater, &text) {
            assert!(packed.len() < len);
            assert_eq!(inflate(&packed), text);
        }
    }
}

#[test]
fn a_compressor_keeps_nothing_of_what_it_did_before() {
    let text = prose(100_000, 3);
    let mut used = deflater(6);
    packed_block(&mut used, &prose(200_000, 4), BlockPosition::Inner);
    packed_member(&mut used, &noise(600_000, 4));
    let mut fresh = deflater(6);
    assert_eq!(
        packed_block(&mut used, &text, BlockPosition::Inner),
        packed_block(&mut fresh, &text, BlockPosition::Inner)
    );
    assert_eq!(packed_member(&mut used, &text), packed_member(&mut fresh, &text));
}

#[test]
fn plain_blocks_are_full_but_for_the_last() {
    for len in [1_usize, 65_534, 65_535, 65_536, 131_070, 131_071] {
        let bytes = noise(len, 2);
        let stream: Vec<u8> = plain_blocks(&bytes, BlockPosition::Last)
            .flat_map(|(head, chunk)| [&head, chunk].concat())
            .collect();
        assert_eq!(stream.len(), len + 5 * len.div_ceil(65_535));
        assert_eq!(inflate(&stream), bytes);
    }
}

#[test]
fn a_compression_is_a_level_or_none() {
    for text in ["store", "1", "6", "12"] {
        assert_eq!(text.parse::<WheelCompression>().unwrap().to_string(), text);
    }
    assert_eq!(WheelCompression::default().to_string(), "5");
    let messages = ["", "Store", "0", "13", "06", "+6", "-1", "six", "300"]
        .map(|text| text.parse::<WheelCompression>().unwrap_err().to_string());
    insta::assert_snapshot!(messages.join("\n"), @r#"
    a compression is `store` or a level from 1 to 12, not ""
    a compression is `store` or a level from 1 to 12, not "Store"
    a compression is `store` or a level from 1 to 12, not "0"
    a compression is `store` or a level from 1 to 12, not "13"
    a compression is `store` or a level from 1 to 12, not "06"
    a compression is `store` or a level from 1 to 12, not "+6"
    a compression is `store` or a level from 1 to 12, not "-1"
    a compression is `store` or a level from 1 to 12, not "six"
    a compression is `store` or a level from 1 to 12, not "300"
    "#);
}

/// Checks an ending with a real decoder: it stops at the end, and needs every bit before it.
fn check_ending(stream: &[u8]) -> Ending {
    let ending = Finder::default().walk(stream).unwrap();
    assert_eq!(ending.end.div_ceil(8), stream.len());
    let mut open = stream.to_vec();
    open.resize(stream.len() + GAP, 0xAA);
    let grown = leave_open(&mut open, ending);
    open.truncate(stream.len() + grown);
    // A last block that is empty: what was left open ends here, and nowhere before.
    open.extend([1, 0, 0, 0xFF, 0xFF]);
    let bytes = inflate(stream);
    assert_eq!(inflate(&open), bytes);
    assert_eq!(Finder::default().find(stream, &bytes), Some(ending));
    ending
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut stream = Vec::with_capacity(bytes.len() + 1_000);
    flate2::Compress::new(flate2::Compression::best(), false)
        .compress_vec(bytes, &mut stream, flate2::FlushCompress::Finish)
        .unwrap();
    stream
}

#[test]
fn endings_are_those_of_fixed_stored_and_dynamic_blocks() {
    // Fixed: nothing at all, and "a".
    check_ending(&[3, 0]);
    check_ending(&[0x4B, 4, 0]);
    check_ending(&[1, 1, 0, 0xFE, 0xFF, b'a']);
    check_ending(&[0, 0, 0, 0xFF, 0xFF, 3, 0]);
    for bytes in [prose(100_000, 9), noise(70_000, 9), vec![7; 100_000]] {
        check_ending(&zlib(&bytes));
    }
}

#[test]
fn an_ending_is_found_from_behind() {
    for bytes in
        [prose(900_000, 1), [noise(100_000, 2), prose(500_000, 2)].concat(), vec![7; 400_000]]
    {
        let stream = zlib(&bytes);
        let found = Finder::default().search(&stream, &bytes);
        assert_eq!(found, Some(check_ending(&stream)));
    }
    for len in [30_000, 65_535, 70_000, 65_535 * 2 + 100] {
        let bytes = [prose(300_000, 3), noise(len, 3)].concat();
        let mut stream = vec![0; bytes.len() + 1_000];
        let mut compressor = Compressor::new(CompressionLvl::default());
        let end = compressor.deflate_compress(&bytes, &mut stream).unwrap();
        stream.truncate(end);
        check_ending(&stream);
    }
}

#[test]
fn an_ending_of_other_bytes_is_not_believed() {
    let bytes = prose(300_000, 1);
    let stream = zlib(&bytes);
    let mut other = bytes.clone();
    let ending = Finder::default().search(&stream, &bytes).unwrap();
    // One byte more in front does no harm, and one behind does.
    assert_eq!(Finder::default().search(&stream, &[&[1], &bytes[..]].concat()), Some(ending));
    other.push(1);
    assert_eq!(Finder::default().search(&stream, &other), None);
    assert_eq!(Finder::default().search(&stream, &noise(300_000, 1)), None);
}

#[test]
fn what_is_no_stream_has_no_ending() {
    let refused: &[&[u8]] = &[
        &[],
        // No end, a reserved kind, a stored block whose length is not what it says, or is not
        // there.
        &[2],
        &[7],
        &[1, 1, 0, 0, 0, 0],
        &[1, 1, 0, 0xFE, 0xFF],
        &[1, 1],
        // A dynamic block: more codes than fit, a repeat of nothing, and lengths for too many.
        &[0x05, 0xE0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
        &[0x05, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0xFD, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
    ];
    for stream in refused {
        assert_eq!(Finder::default().find(stream, b""), None, "{stream:?}");
    }
}

#[test]
fn a_stream_cut_short_has_no_ending() {
    let bytes = prose(2_000, 11);
    let stream = packed_member(&mut deflater(6), &bytes).unwrap();
    assert!(Finder::default().find(&stream, &bytes).is_some());
    for len in 0..stream.len() {
        let found = Finder::default().find(&stream[..len], &bytes);
        assert_eq!(found, None, "{len}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_in_any_blocks_join(len in 1_usize..40_000, block in 1_usize..9_000, level in 1_u8..=12, seed: u64, kind in 0..3) {
        let bytes = match kind {
            0 => prose(len, seed),
            1 => noise(len, seed),
            _ => [noise(len / 2, seed), prose(len - len / 2, seed)].concat(),
        };
        prop_assert_eq!(inflate(&join(&bytes, block, level).0), bytes);
    }

    #[test]
    fn sizes_round_the_edge_of_a_block_join(blocks in 1_usize..4, by in -2_isize..=2, seed: u64) {
        let len = (blocks * 4_096).checked_add_signed(by).unwrap();
        let bytes = prose(len, seed);
        prop_assert_eq!(inflate(&join(&bytes, 4_096, 6).0), bytes);
    }

    #[test]
    fn what_is_found_from_behind_is_what_a_walk_finds(len in 1_usize..200_000, level in 1_u8..=12, seed: u64, kind in 0..3) {
        let bytes = match kind {
            0 => prose(len, seed),
            1 => [prose(len / 2, seed), noise(len - len / 2, seed)].concat(),
            _ => [noise(len / 2, seed), prose(len - len / 2, seed)].concat(),
        };
        let mut stream = vec![0; len + 1_000];
        let mut compressor = Compressor::new(CompressionLvl::new(level.into()).unwrap());
        let end = compressor.deflate_compress(&bytes, &mut stream).unwrap();
        let mut finder = Finder::default();
        let found = finder.find(&stream[..end], &bytes);
        prop_assert!(found.is_some());
        prop_assert_eq!(found, finder.walk(&stream[..end]));
    }

    #[test]
    fn any_bytes_have_an_ending_or_none(stream in proptest::collection::vec(any::<u8>(), 0..200), head in 0_u8..8) {
        let mut stream = stream;
        if let Some(first) = stream.first_mut() {
            *first = *first & !7 | head;
        }
        let _ = Finder::default().find(&stream, &stream);
    }
}

#[test]
fn a_generator_names_the_compression_of_its_wheels() {
    for compression in [WheelCompression::Deflate(5), WheelCompression::Store] {
        let generator = format!("rocwheel (0.1.0; {})", compression.recipe());
        assert_eq!(WheelCompression::of_generator(&generator), Some(compression));
    }
    let old = "rocwheel (0.1.0; deflate level 5, revision 1)";
    for generator in ["bdist_wheel (0.46.2)", "rocwheel (0.1.0)", "", "rocwheel (", old] {
        assert_eq!(WheelCompression::of_generator(generator), None, "{generator}");
    }
}

/// If this fails, the same bytes have another stream: raise `REVISION`, or two wheels say that they were packed
/// in the same way and were not.
#[test]
fn a_revision_stands_for_the_same_streams() {
    let text: Vec<u8> = (prose(700_000, 5).iter()).map(|byte| b' ' + byte % 90).collect();
    let bytes = [prose(700_000, 3), noise(50_000, 4), vec![7; 300_000], text].concat();
    let digests = [1, 5, 6, 9, 12].map(|level| {
        let (stream, _) = join(&bytes, 350_000, level);
        let recipe = WheelCompression::Deflate(level.into()).recipe();
        format!("{recipe}: {}", rocwheel_base::digest::Sha256::of(&stream))
    });
    insta::assert_snapshot!(digests.join("\n"), @"
    deflate level 1, revision 3: a877f316fb286d2a45d884a9bbcc4b80890fdf2f97b6428b1ffc70a2f6b3b08e
    deflate level 5, revision 3: e103d2e74634e10e4d9fe9032362dd6596961b4d4a912b14c3a874a989117d92
    deflate level 6, revision 3: a8e9a134893e9b487d830d36dcf80ed064697d3b2aeded2d65b3472d8c09509f
    deflate level 9, revision 3: e52996b772745f566b0ac9bd9efb531ac8c8ba7766bb2654a1e98177f662cff0
    deflate level 12, revision 3: 2fd53fa7dc64e5a2ddb2507bd2a4c6b8386f7bbbe8182b21536e0141b7ed5f74
    ");
}
