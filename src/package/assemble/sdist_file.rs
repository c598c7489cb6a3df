//! One sdist into a file.

use std::io::{Seek as _, SeekFrom};

use flate2::{Compression, GzBuilder};

use crate::{
    archive::{TarEntry, TarKind, TarPlan},
    digest::Sha256,
    error::{Context as _, Result},
    package::plan::SdistPlan,
    relpath::RelPath,
};

/// Writes an sdist; gives its size and its digest.
pub(super) fn write(file: fs_err::File, plan: &SdistPlan, time: u64) -> Result<(u64, Sha256)> {
    let top: RelPath = plan.filename.top().parse()?;
    let entries = plan.files.iter().map(|(path, bytes)| TarEntry {
        path: top.join(path),
        kind: TarKind::File {
            len: bytes.len() as u64,
            executable: false,
        },
    });
    let tar = TarPlan::new(entries.collect(), time)?;
    let mut tar = tar.stream(|index| {
        let (_, bytes) = plan.files.get(index).context("a file of the plan")?;
        Ok(bytes.as_slice())
    });
    // Neither the time nor the system that it is made on.
    let mut gzip = GzBuilder::new()
        .operating_system(255)
        .write(file, Compression::best());
    std::io::copy(&mut tar, &mut gzip)?;
    let mut file = gzip.finish()?;
    file.seek(SeekFrom::Start(0))?;
    let (sha256, size) = Sha256::of_reader(file)?;
    Ok((size, sha256))
}
