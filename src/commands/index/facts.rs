//! What a package says about itself, in its file name and in its metadata.

use std::{
    io::{self, Read},
    path::Path,
};

use flate2::read::GzDecoder;
use fs_err as fs;

use crate::{
    error::{Context as _, Result, anyhow, ensure},
    index::Sidecar,
    version::Version,
    wheel::{DistName, SdistFilename, WheelFilename},
};

/// Metadata is a page of text; more is not metadata.
const LONGEST_METADATA: u64 = 16 << 20;
/// PKG-INFO is among the first members of an sdist, and an sdist of ours is small.
const LONGEST_SDIST: u64 = 1 << 30;

/// What an index tells of a package.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) project: DistName,
    pub(super) version: Version,
    pub(super) requires_python: Option<String>,
    /// Of a wheel only: an sdist's metadata need not be that of what is built from it.
    pub(super) metadata: Option<Sidecar>,
}

pub(super) fn read(path: &Path, name: &str) -> Result<Facts> {
    let file = io::BufReader::new(fs::File::open(path)?);
    let (project, version, text, metadata) = if Path::new(name).extension() == Some("whl".as_ref())
    {
        let name: WheelFilename = name.parse()?;
        let text = wheel_metadata(file).context("read METADATA")?;
        let sidecar = Sidecar::new(text.clone());
        (
            name.name().clone(),
            name.version().clone(),
            text,
            Some(sidecar),
        )
    } else {
        let name: SdistFilename = name.parse()?;
        let text = sdist_metadata(file, name.top()).context("read PKG-INFO")?;
        (name.name().clone(), name.version().clone(), text, None)
    };
    let inside = header(&text, "Name")?.context("no `Name` in the metadata")?;
    ensure!(
        inside.parse::<DistName>()? == project,
        "another project by its metadata than by its name: `{inside}`"
    );
    let inside = header(&text, "Version")?.context("no `Version` in the metadata")?;
    ensure!(
        inside.parse::<Version>()? == version,
        "another version by its metadata than by its name: `{inside}`"
    );
    Ok(Facts {
        project,
        version,
        requires_python: header(&text, "Requires-Python")?,
        metadata,
    })
}

fn wheel_metadata(file: io::BufReader<fs::File>) -> Result<Vec<u8>> {
    let mut archive = zip::ZipArchive::new(file)?;
    let is_metadata = |name: &str| {
        name.split_once('/')
            .is_some_and(|(top, rest)| top.ends_with(".dist-info") && rest == "METADATA")
    };
    let name = archive
        .file_names()
        .filter_map(Result::ok)
        .find(|name| is_metadata(name))
        .context("no METADATA")?
        .into_owned();
    bounded(archive.by_name(&name)?)
}

fn sdist_metadata(file: io::BufReader<fs::File>, top: &str) -> Result<Vec<u8>> {
    let mut archive = tar::Archive::new(GzDecoder::new(file).take(LONGEST_SDIST));
    for entry in archive.entries()? {
        let entry = entry?;
        if entry.path()? == Path::new(top).join("PKG-INFO") {
            return bounded(entry);
        }
    }
    Err(anyhow!("no `{top}/PKG-INFO`"))
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

fn header(text: &[u8], name: &str) -> Result<Option<String>> {
    let text = std::str::from_utf8(text)?;
    let headers = text.lines().take_while(|line| !line.is_empty());
    let mut values = headers.filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name)
            .then(|| value.trim().to_owned())
    });
    Ok(values.next())
}
