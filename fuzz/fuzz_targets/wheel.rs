//! Wheels: what we accept, another reader of zip files reads as the same bytes.
//! If the first byte is even, the rest damages a sound wheel: an offset and a byte, three bytes each. If it is odd,
//! the rest is the file.
#![no_main]

use std::{
    io::{Cursor, Read as _},
    num::NonZeroUsize,
    sync::LazyLock,
};

use libfuzzer_sys::fuzz_target;
use rocwheel_base::{error::Stop, relpath::RelPath};
use rocwheel_wheel::{
    Archive, Source, SourceMember, WheelCompression,
    pack::{PackSettings, WheelContents, write_contents},
    read_metadata, read_record, read_with_record,
};
use zip::ZipArchive;

/// More than a member of the sound wheel has, and little enough for every bomb.
const LIMIT: u64 = 1 << 20;

static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let path = |text: &str| text.parse::<RelPath>().expect("a path");
    let member = |name: &str, text: &str| SourceMember {
        path: path(name),
        executable: false,
        source: Source::text(text),
    };
    let members = [member("a/__init__.py", &"x = 1\n".repeat(50)), member("a/b.so", "no ELF file")];
    let metadata = "Metadata-Version: 2.1\nName: a\nVersion: 1\n".to_owned();
    let contents = WheelContents {
        members: &members,
        texts: &[(path("a-1.dist-info/METADATA"), metadata)],
        record: &path("a-1.dist-info/RECORD"),
    };
    let settings = PackSettings::new(WheelCompression::Deflate(1), NonZeroUsize::MIN);
    let mut out = Cursor::new(Vec::new());
    write_contents(&mut out, &contents, &settings, &Stop::default(), &|_| {}).expect("a wheel");
    out.into_inner()
});

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let file = if first % 2 == 0 { damaged(rest) } else { rest.to_vec() };
    let _ = read_record(Cursor::new(&file));
    let _ = read_with_record(Cursor::new(&file), "variant.json", LIMIT);
    let _ = read_metadata(Cursor::new(&file), LIMIT);
    let Ok(archive) = Archive::read(Cursor::new(&file)) else {
        return;
    };
    let mut judge =
        ZipArchive::new(Cursor::new(&file)).expect("another reader takes it for an archive");
    for (path, member) in &archive.members {
        let Ok(Some(bytes)) = archive.bytes(Cursor::new(&file), path, LIMIT) else {
            continue;
        };
        assert_eq!(bytes.len() as u64, member.len);
        let mut judged = Vec::new();
        let mut other = judge.by_name(path.as_str()).expect("the member");
        other.read_to_end(&mut judged).expect("its bytes");
        assert!(judged == bytes, "two readers see different bytes of `{path}`");
    }
});

/// The sound wheel with other bytes at some offsets.
fn damaged(changes: &[u8]) -> Vec<u8> {
    let mut file = SOUND.clone();
    for change in changes.as_chunks::<3>().0 {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % file.len();
        file[at] = change[2];
    }
    file
}
