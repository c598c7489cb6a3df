//! One package, member after member, into a file.

use std::io::{Read as _, Seek as _, SeekFrom};

use flate2::{Compression, GzBuilder};
use libdeflater::{CompressionLvl, Compressor};

use crate::{
    archive::{TarEntry, TarKind, TarPlan},
    digest::Sha256,
    error::{Context as _, Result, Stop, anyhow, ensure},
    package::{
        assemble::{Watch, content::Content},
        plan::SdistPlan,
    },
    relpath::RelPath,
    wheel::{self, Digest, Method, Mode, Record, Timestamp, ZipWriter},
};

/// How packages are written.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What every member is dated with, in seconds since 1970.
    pub time: u64,
    /// How hard members are compressed, 1 to 12; 0 stores them.
    pub level: i32,
}

/// Writes a wheel: its members, its texts, and RECORD; gives its size and its digest.
pub(super) fn write(
    file: fs_err::File,
    members: &[(&RelPath, Mode, Content)],
    dist_info: &[(RelPath, String)],
    settings: &Settings,
    stop: &Stop,
    watch: &dyn Watch,
) -> Result<(u64, Sha256)> {
    let mut zip = ZipWriter::new(file, Timestamp::from_epoch(settings.time));
    let mut record = Record::default();
    for (path, mode, content) in members {
        stop.check()?;
        let bytes = read(content).with_context(|| format!("read `{path}`"))?;
        add(&mut zip, path, *mode, &bytes, settings)?;
        record.push((*path).clone(), Digest::of(&bytes), bytes.len() as u64);
        watch.reads(bytes.len() as u64);
    }
    for (path, text) in dist_info {
        add(&mut zip, path, Mode::Regular, text.as_bytes(), settings)?;
        record.push(path.clone(), Digest::of(text.as_bytes()), text.len() as u64);
    }
    let path = record_path(dist_info)?;
    record.push_self(path.clone());
    add(
        &mut zip,
        &path,
        Mode::Regular,
        record.to_string().as_bytes(),
        settings,
    )?;
    let (file, _) = zip.finish()?;
    digest(file)
}

/// Writes an sdist; gives its size and its digest.
pub(super) fn write_sdist(
    file: fs_err::File,
    plan: &SdistPlan,
    settings: &Settings,
) -> Result<(u64, Sha256)> {
    let top: RelPath = plan.filename.top().parse()?;
    let entries = plan.files.iter().map(|(path, bytes)| TarEntry {
        path: top.join(path),
        kind: TarKind::File {
            len: bytes.len() as u64,
            executable: false,
        },
    });
    let tar = TarPlan::new(entries.collect(), settings.time)?;
    let mut tar = tar.stream(|index| {
        let (_, bytes) = plan.files.get(index).context("a file of the plan")?;
        Ok(bytes.as_slice())
    });
    let mut gzip = GzBuilder::new()
        .operating_system(255)
        .write(file, Compression::best());
    std::io::copy(&mut tar, &mut gzip)?;
    digest(gzip.finish()?)
}

fn read(content: &Content) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    content.open()?.read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() as u64 == content.len(),
        "{} bytes, where {} were expected",
        bytes.len(),
        content.len()
    );
    Ok(bytes)
}

fn add(
    zip: &mut ZipWriter<fs_err::File>,
    path: &RelPath,
    mode: Mode,
    bytes: &[u8],
    settings: &Settings,
) -> Result<()> {
    let crc = crc32fast::hash(bytes);
    let (method, packed) = match deflate(bytes, settings.level)? {
        Some(packed) if packed.len() < bytes.len() => (Method::Deflated, packed),
        _ => (Method::Stored, bytes.to_vec()),
    };
    let content = wheel::Content {
        method,
        crc,
        len: bytes.len() as u64,
    };
    Ok(zip.add(path, mode, content, &packed)?)
}

fn deflate(bytes: &[u8], level: i32) -> Result<Option<Vec<u8>>> {
    if level == 0 {
        return Ok(None);
    }
    let level = CompressionLvl::new(level)
        .map_err(|_| anyhow!("a compression level from 0 to 12: {level}"))?;
    let mut compressor = Compressor::new(level);
    let mut packed = vec![0; compressor.deflate_compress_bound(bytes.len())];
    let length = compressor.deflate_compress(bytes, &mut packed)?;
    packed.truncate(length);
    Ok(Some(packed))
}

/// RECORD lies beside the other texts.
fn record_path(dist_info: &[(RelPath, String)]) -> Result<RelPath> {
    let directory = dist_info.first().and_then(|(path, _)| path.parent());
    Ok(directory
        .context("a wheel with a `dist-info` directory")?
        .join(&"RECORD".parse()?))
}

fn digest(mut file: fs_err::File) -> Result<(u64, Sha256)> {
    file.seek(SeekFrom::Start(0))?;
    let (sha256, size) = Sha256::of_reader(file)?;
    Ok((size, sha256))
}
