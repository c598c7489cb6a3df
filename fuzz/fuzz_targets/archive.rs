//! Archives: what one holds can be written again, and is the same then.
//! The first two bytes say how many of the others are code; the rest are the contents.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use rocwheel_kpack::archive::{ArchiveWriter, KpackArchive, MAGIC, Packed};

fuzz_target!(|data: &[u8]| {
    let Some((size, rest)) = data.split_first_chunk() else {
        return;
    };
    let size = usize::from(u16::from_le_bytes(*size)).min(rest.len());
    let mut file = MAGIC.to_vec();
    file.extend(1_u32.to_le_bytes());
    file.extend((64 + size as u64).to_le_bytes());
    file.resize(64, 0);
    file.extend(rest);
    let Ok(archive) = KpackArchive::open(file) else {
        return;
    };
    let out = Cursor::new(Vec::new());
    let mut writer = ArchiveWriter::new(out, archive.group(), "").expect("memory");
    let mut held = Vec::new();
    for code in archive.codes() {
        let Ok(bytes) = archive.read(code) else {
            continue;
        };
        assert_eq!(bytes.len() as u64, code.size);
        let packed = Packed::new(&bytes).expect("a code object");
        let origin = code.origin.clone();
        writer.add(&code.key, &code.target, &packed, origin).expect("each once");
        held.push((code.key.clone(), code.target.clone(), bytes));
    }
    let (out, _) = writer.finish().expect("an archive");
    let again = KpackArchive::open(out.into_inner()).expect("what was written");
    assert_eq!(again.codes().len(), held.len());
    for (key, target, bytes) in held {
        let code = again.find(&key, &target).expect("the same");
        assert_eq!(again.read(code).expect("the same"), bytes);
    }
});
