//! Wheels that are small, installable, and of versions with a `+`; and the members of any wheel.

use std::{
    io::{Cursor, Read as _, Write as _},
    path::Path,
};

use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

/// As a development build has it.
pub const VERSION: &str = "7.13.0.dev0+ab.cd";

/// A set as `build` leaves it in `dist/`, with wheels only.
pub fn wheels(root: &Path) {
    let dist = root.join("dist");
    wheel(&dist, "rocm-sdk-core", VERSION, "Requires-Python: >=3.8,<4\n");
    wheel(&dist, "rocm-sdk-libraries", VERSION, "");
    let needs = format!("Requires-Dist: rocm-sdk-libraries=={VERSION}\n");
    wheel(&dist, "rocm-sdk-device-gfx942", VERSION, &needs);
}

/// A wheel, and its path.
pub fn wheel(directory: &Path, name: &str, version: &str, more: &str) -> String {
    let stem = name.replace('-', "_");
    let info = format!("{stem}-{version}.dist-info");
    let tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let members = [
        (format!("{stem}/__init__.py"), "x = 1\n".to_owned()),
        (format!("{info}/METADATA"), metadata(name, version, more)),
        (format!("{info}/WHEEL"), tag.to_owned()),
    ];
    let mut record: String = members.iter().map(|(path, _)| path.clone() + ",,\n").collect();
    record.push_str(&info);
    record.push_str("/RECORD,,\n");
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let all = members.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    for (path, text) in all.chain([(&*format!("{info}/RECORD"), record.as_str())]) {
        archive.start_file(path, stored).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    let path = directory.join(format!("{stem}-{version}-py3-none-any.whl"));
    fs_err::create_dir_all(directory).unwrap();
    // It may be another name of a published file, which must not change.
    let _ = fs_err::remove_file(&path);
    fs_err::write(&path, archive.finish().unwrap().into_inner()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn metadata(name: &str, version: &str, more: &str) -> String {
    format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}")
}

/// Path, mode and bytes of each member.
pub type Members = Vec<(String, u32, Vec<u8>)>;

/// The members of a wheel, in order.
pub fn unzip(bytes: &[u8]) -> Members {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
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

/// A wheel of members.
pub fn zipped(members: &Members) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, mode, bytes) in members {
        let options = SimpleFileOptions::default().unix_permissions(*mode);
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
