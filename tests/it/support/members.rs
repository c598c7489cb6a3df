//! The members of wheels, to change and to pack again.

use std::io::{Cursor, Read as _, Write as _};

use rocwheel::{digest::Sha256, wheel::Record};

/// Path, mode and bytes of each member.
pub(crate) type Members = Vec<(String, u32, Vec<u8>)>;

pub(crate) fn unzip(bytes: &[u8]) -> Members {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let indices = 0..archive.len();
    indices
        .map(|index| {
            let mut file = archive.by_index(index).unwrap();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            let name = file.name().unwrap().into_owned();
            (name, file.unix_mode().unwrap(), bytes)
        })
        .collect()
}

pub(crate) fn zipped(members: &Members) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, mode, bytes) in members {
        let options = zip::write::SimpleFileOptions::default().unix_permissions(*mode);
        if mode & 0o170_000 == 0o120_000 {
            let target = String::from_utf8(bytes.clone()).unwrap();
            writer.add_symlink(name.as_str(), target, options).unwrap();
        } else {
            writer.start_file(name.as_str(), options).unwrap();
            writer.write_all(bytes).unwrap();
        }
    }
    writer.finish().unwrap().into_inner()
}

/// RECORD as it has to be.
pub(crate) fn record(members: &mut Members) {
    let mut record = Record::default();
    let own = members.iter().position(|it| it.0.ends_with("/RECORD")).unwrap();
    for (at, (name, _, bytes)) in members.iter().enumerate() {
        let content = (Sha256::of(bytes), bytes.len() as u64);
        record.push(name.parse().unwrap(), (at != own).then_some(content));
    }
    members[own].2 = record.to_string().into_bytes();
}
