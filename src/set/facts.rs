//! Reads the facts of a package that an index needs from its file name and its metadata: METADATA
//! of a wheel ([PEP 427](https://peps.python.org/pep-0427/)), PKG-INFO of an sdist ([PEP
//! 625](https://peps.python.org/pep-0625/)).

use std::{
    io::{Read, Seek},
    path::Path,
};

use flate2::read::GzDecoder;

use crate::{
    error::{Context as _, Result, bail, ensure},
    version::Version,
    wheel::{DistName, Metadata, SdistFilename, WheelFilename, WheelReader},
};

/// The largest METADATA or PKG-INFO that is read.
const LONGEST_METADATA: u64 = 16 << 20;
/// The uncompressed bytes of an sdist that are searched for PKG-INFO, which is among its first
/// members. The limit stops a small archive that unpacks to any size.
const LONGEST_SEARCH: u64 = 1 << 30;

/// The facts of one package that an index shows.
#[derive(Debug)]
pub(super) struct PackageFacts {
    pub(super) project: DistName,
    pub(super) version: Version,
    pub(super) requires_python: Option<String>,
    /// The bytes of the sidecar; of wheels only. The metadata of an sdist may differ from that of
    /// the wheel built from it.
    pub(super) sidecar: Option<Vec<u8>>,
}

/// Reads a package. The extension of its name says whether it is a wheel or an sdist.
pub(super) fn read(file: impl Read + Seek, name: &str) -> Result<PackageFacts> {
    if Path::new(name).extension() == Some("whl".as_ref()) {
        of_wheel(&name.parse()?, file)
    } else {
        of_sdist(&name.parse()?, file)
    }
}

fn of_wheel(name: &WheelFilename, file: impl Read + Seek) -> Result<PackageFacts> {
    let text = wheel_metadata(file).context("failed to read METADATA")?;
    let mut facts = facts(&text, name.name(), name.version())?;
    facts.sidecar = Some(text);
    Ok(facts)
}

fn of_sdist(name: &SdistFilename, file: impl Read) -> Result<PackageFacts> {
    let text = sdist_metadata(file, name.top()).context("failed to read PKG-INFO")?;
    facts(&text, name.name(), name.version())
}

/// Takes project and version from the metadata. The file name must say the same, because installers
/// choose a file by its name.
fn facts(text: &[u8], project: &DistName, version: &Version) -> Result<PackageFacts> {
    let inside = Metadata::parse(text)?;
    ensure!(
        inside.name == *project,
        "its metadata is that of another project: `{}`",
        inside.name
    );
    ensure!(
        inside.version == *version,
        "its metadata is that of another version: `{}`",
        inside.version
    );
    Ok(PackageFacts {
        project: inside.name,
        version: inside.version,
        requires_python: inside.requires_python.map(|line| line.as_str().to_owned()),
        sidecar: None,
    })
}

fn wheel_metadata(file: impl Read + Seek) -> Result<Vec<u8>> {
    let mut wheel = WheelReader::from_directory(file)?;
    let path = wheel.dist_info().join(&"METADATA".parse()?);
    Ok(wheel.read(&path, LONGEST_METADATA)?)
}

fn sdist_metadata(file: impl Read, top: &str) -> Result<Vec<u8>> {
    let wanted = format!("{top}/PKG-INFO");
    let mut archive = tar::Archive::new(GzDecoder::new(file).take(LONGEST_SEARCH));
    for entry in archive.entries()? {
        let entry = entry?;
        if *entry.path_bytes() == *wanted.as_bytes() {
            return bounded(entry);
        }
    }
    bail!("no `{wanted}`")
}

fn bounded(reader: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(LONGEST_METADATA + 1).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() as u64 <= LONGEST_METADATA,
        "more than {LONGEST_METADATA} bytes"
    );
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use flate2::{Compression, write::GzEncoder};

    use super::*;
    use crate::error::render;

    const GOOD: &str =
        "Metadata-Version: 2.4\nName: Rocm.SDK-core\nVersion: 7.0.0+ab\nRequires-Python: >=3.8\n";

    fn wheel(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in members {
            let options = zip::write::SimpleFileOptions::default();
            writer.start_file(*name, options).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn sdist(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, bytes) in members {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            archive.append_data(&mut header, name, *bytes).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    fn of_wheel_bytes(bytes: Vec<u8>) -> Result<PackageFacts> {
        let name = "rocm_sdk_core-7.0.0+ab-py3-none-linux_x86_64.whl";
        of_wheel(&name.parse().unwrap(), Cursor::new(bytes))
    }

    fn of_sdist_bytes(bytes: &[u8]) -> Result<PackageFacts> {
        of_sdist(&"rocm_sdk_core-7.0.0+ab.tar.gz".parse().unwrap(), bytes)
    }

    const METADATA: &str = "rocm_sdk_core-7.0.0+ab.dist-info/METADATA";
    const PKG_INFO: &str = "rocm_sdk_core-7.0.0+ab/PKG-INFO";

    #[test]
    fn a_wheel_says_what_it_is_and_its_metadata_can_be_published() {
        let facts = of_wheel_bytes(wheel(&[("a.py", b"1"), (METADATA, GOOD.as_bytes())])).unwrap();
        assert_eq!(facts.project.normalized(), "rocm-sdk-core");
        assert_eq!(facts.requires_python.as_deref(), Some(">=3.8"));
        assert_eq!(facts.sidecar.unwrap(), GOOD.as_bytes());
    }

    #[test]
    fn an_sdist_says_what_it_is_and_has_no_metadata_to_publish() {
        let bytes = sdist(&[("x/PKG-INFO", b"no"), (PKG_INFO, GOOD.as_bytes())]);
        let facts = of_sdist_bytes(&bytes).unwrap();
        assert_eq!(facts.version.to_string(), "7.0.0+ab");
        assert!(facts.sidecar.is_none());
        let wheel = of_wheel_bytes(bytes);
        assert!(wheel.is_err());
    }

    #[test]
    fn a_package_that_contradicts_itself_is_refused_in_words() {
        let other = GOOD.replace("core", "devel");
        let newer = GOOD.replace("7.0.0", "7.0.1");
        let twice = "another-1.dist-info/METADATA";
        let refused = [
            of_wheel_bytes(wheel(&[(METADATA, other.as_bytes())])),
            of_wheel_bytes(wheel(&[(METADATA, newer.as_bytes())])),
            of_wheel_bytes(wheel(&[(METADATA, b"Name: a\n")])),
            of_wheel_bytes(wheel(&[(METADATA, b"a"), (twice, b"b")])),
            of_wheel_bytes(wheel(&[("a/b.dist-info/METADATA", GOOD.as_bytes())])),
            of_sdist_bytes(&sdist(&[("PKG-INFO", GOOD.as_bytes())])),
            of_sdist_bytes(&sdist(&[(PKG_INFO, newer.as_bytes())])),
        ];
        let shown = refused.map(|answer| render(&answer.unwrap_err()));
        insta::assert_snapshot!(shown.concat(), @"
        error: its metadata is that of another project: `Rocm.SDK-devel`
        error: its metadata is that of another version: `7.0.1+ab`
        error: metadata without `Metadata-Version`
        error: failed to read METADATA
          caused by: a wheel has one `.dist-info` directory: found another-1.dist-info, rocm_sdk_core-7.0.0+ab.dist-info
        error: failed to read METADATA
          caused by: a wheel has one `.dist-info` directory: found none
        error: failed to read PKG-INFO
          caused by: no `rocm_sdk_core-7.0.0+ab/PKG-INFO`
        error: its metadata is that of another version: `7.0.1+ab`
        ");
    }

    #[test]
    fn a_damaged_package_is_an_error() {
        let whole = wheel(&[(METADATA, GOOD.as_bytes())]);
        for end in 0..whole.len() {
            assert!(of_wheel_bytes(whole[..end].to_vec()).is_err(), "{end}");
        }
        let whole = sdist(&[(PKG_INFO, GOOD.as_bytes())]);
        for end in 0..100 {
            assert!(of_sdist_bytes(&whole[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn metadata_that_unpacks_to_gigabytes_is_refused() {
        let bomb = vec![b'a'; 17 << 20];
        let answers = [
            of_wheel_bytes(wheel(&[(METADATA, &bomb)])),
            of_sdist_bytes(&sdist(&[(PKG_INFO, &bomb)])),
        ];
        for answer in answers {
            let said = render(&answer.unwrap_err());
            assert!(said.contains("more than 16777216 bytes"), "{said}");
        }
    }
}
