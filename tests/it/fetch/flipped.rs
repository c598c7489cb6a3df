//! Damage where nothing but the archive itself has a checksum.

use std::io::Read as _;

use xz2::{bufread::XzEncoder, stream};

use super::{
    Fixture,
    bucket::Remote,
    flat::tar,
    tree::{difference, seen},
};
use crate::{
    s3::{fault::Fault, inprocess::InProcess},
    support::prelude::*,
};

/// One archive of each compression, and what errors call that. Most of their bytes do not compress, so
/// that they are in the archives as they are, where only a checksum tells whether they changed.
const ARCHIVES: [(&str, &str); 2] =
    [("blas_lib_gfx942.tar.zst", "zstd"), ("amd-llvm_lib_generic.tar.xz", "xz")];

/// The name of the artifact.
fn stem(archive: &str) -> &str {
    archive.split_once('.').unwrap().0
}

#[test]
#[ignore = "slow"]
fn a_bit_that_flips_on_the_way_from_another_server_is_found() {
    let server = InProcess::start();
    let run = server.objects().join("7-linux");
    sample().write_archives(&run);
    for (archive, format) in ARCHIVES {
        let stem = stem(archive);
        let remote = Remote::of(&server.bucket, server.port);
        let part = format!("{archive}?");
        remote.proxy.breaks("GET", &part, 1, Fault::Flip);
        let wanted = format!("--allow-incomplete ^{stem}");
        let said = remote.fetch(&wanted);
        assert_eq!(said.code, 1, "{}", said.stderr);
        said.says(&format!("failed to unpack `{archive}`: "));
        said.says(&format!("the {format} data is damaged: "));
        assert!(!remote.out().join(stem).exists());
        // The next one, from a wire that is sound again.
        remote.fetch(&wanted).done();
        assert!(remote.out().join(stem).exists());
    }
}

#[test]
#[ignore = "slow"]
fn no_flipped_bit_of_an_archive_without_a_digest_changes_what_is_fetched() {
    for (archive, _) in ARCHIVES {
        let stem = stem(archive);
        let fixture = Fixture::new();
        fixture.lose(&format!("{archive}.sha256sum"));
        let archive = fixture.run().join(archive);
        let wanted = format!("--run-id 7 --allow-incomplete ^{stem}");
        fixture.fetch(&wanted).done();
        let whole = seen(&fixture.out());
        let sound = fs_err::read(&archive).unwrap();
        let count = long::rounds(12, 150);
        let mut found = 0;
        for number in 0..count {
            let at = (sound.len() - 1) * number / (count - 1);
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (number % 8);
            fs_err::write(&archive, bytes).unwrap();
            fs_err::remove_dir_all(fixture.out()).unwrap();
            let said = fixture.fetch(&wanted);
            if said.code == 0 {
                // A bit that means nothing.
                assert_eq!(difference(&seen(&fixture.out()), &whole), [""; 0], "{at}");
            } else {
                assert_eq!(said.code, 1, "{at}: {}", said.stderr);
                assert!(!fixture.out().join(stem).exists(), "{at}");
                found += 1;
            }
        }
        assert!(found * 10 >= count * 9, "{stem}: {found} of {count}");
    }
}

/// The second of two streams has no checksum, so that damage in it would pass.
#[test]
fn an_archive_of_which_a_part_has_no_checksum_is_named() {
    let tar = tar(&["lib/x=some text", "lib/y=and another"]);
    let (first, second) = tar.split_at(tar.len() / 2);
    let packed = |part: &[u8], check| {
        let encoder = stream::Stream::new_easy_encoder(1, check).unwrap();
        let mut packed = Vec::new();
        let mut encoder = XzEncoder::new_stream(part, encoder);
        encoder.read_to_end(&mut packed).unwrap();
        packed
    };
    let fixture = Fixture::new();
    let archive = fixture.run().join("rand_dev_generic.tar.xz");
    let warned = |check| {
        let streams = [packed(first, stream::Check::Crc64), packed(second, check)];
        fs_err::write(&archive, streams.concat()).unwrap();
        let wanted = "--run-id 7 --allow-incomplete ^rand_dev";
        let said = fixture.fetch(wanted).done();
        let warning = "fetched without any checksum, so damage would not be detected: `rand_dev_generic.tar.xz`";
        let line = said.stderr.lines().find(|line| line.contains(warning));
        line.is_some_and(|line| line.starts_with("warning: "))
    };
    assert!(warned(stream::Check::None));
    assert!(!warned(stream::Check::Crc64));
}
