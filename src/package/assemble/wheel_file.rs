//! One package, member after member, into a file.

use std::io::{Read as _, Seek as _, SeekFrom};

use flate2::GzBuilder;

use crate::{
    archive::{TarEntry, TarKind, TarPlan},
    digest::Sha256,
    error::{Context as _, Result, Stop, ensure},
    package::{
        assemble::{Watch, content::Content},
        plan::SdistPlan,
    },
    relpath::RelPath,
    wheel::{
        Compression, Deflater, Member, Method, Mode, Record, Timestamp, ZipWriter, deflate::Packed,
    },
};

/// How packages are written.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What every member is dated with, in seconds since 1970.
    pub time: u64,
    pub compression: Compression,
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
        record.push((*path).clone(), Sha256::of(&bytes), bytes.len() as u64);
        watch.reads(bytes.len() as u64);
    }
    for (path, text) in dist_info {
        add(&mut zip, path, Mode::Regular, text.as_bytes(), settings)?;
        record.push(path.clone(), Sha256::of(text.as_bytes()), text.len() as u64);
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
        .write(file, flate2::Compression::best());
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
    let member = Member {
        path: path.clone(),
        mode,
        len: bytes.len() as u64,
    };
    let packed = match &settings.compression {
        Compression::Deflate(level) => Deflater::new(*level).member(bytes),
        Compression::Store => Packed::Plain,
    };
    match packed {
        Packed::Deflated(packed) => zip.add(&member, Method::Deflated, crc, &packed)?,
        Packed::Plain => zip.add(&member, Method::Stored, crc, bytes)?,
    }
    Ok(())
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
