//! The facts of a source distribution.

use std::io::Read;

use flate2::read::GzDecoder;

use crate::{
    archive::{TarKind, TarReader},
    audit::{
        facts::SdistFile,
        observe::{Watch, source::Walk, wheel::base_name},
        reasons::reasons,
    },
    error::{Interrupted, Result, bail, ensure},
    wheel::{Metadata, filename::InvalidFilename},
};

/// An sdist of ours has 40 files of text; this much is no longer one.
const LONGEST: u64 = 256 << 20;
const LONGEST_METADATA: u64 = 16 << 20;

/// Reads an sdist. What is wrong with it is in the facts.
pub fn read_sdist(
    file: &str,
    source: impl Read,
    watch: &Watch<'_>,
) -> Result<SdistFile, Interrupted> {
    let mut walk = Walk::new(Box::new(source), 0, watch).hashing();
    let found = metadata_files(&mut walk, watch);
    let digest = walk.finish().ok().flatten();
    watch.stop.check()?;
    let mut sdist = SdistFile {
        file: file.to_owned(),
        name: base_name(file)
            .parse()
            .map_err(|error: InvalidFilename| reasons(&error)),
        metadata: Err(String::new()),
        copies_agree: true,
        size: digest.map_or(0, |(_, len)| len),
        digest,
    };
    let top = sdist.name.as_ref().map(|name| name.top().to_owned());
    let main = format!("{}/PKG-INFO", top.unwrap_or_default());
    let read = found.and_then(|found| {
        let Some((_, bytes)) = found.iter().find(|(path, _)| *path == main) else {
            bail!("no `{main}`");
        };
        sdist.copies_agree = found.iter().all(|(_, other)| other == bytes);
        Ok(Metadata::parse(bytes)?)
    });
    sdist.metadata = read.map_err(|error| format!("{error:#}"));
    Ok(sdist)
}

/// Every PKG-INFO, with its path.
fn metadata_files(source: impl Read, watch: &Watch<'_>) -> Result<Vec<(String, Vec<u8>)>> {
    let mut tar = TarReader::new(GzDecoder::new(source), LONGEST);
    let mut found = Vec::new();
    while let Some(entry) = tar.next_entry()? {
        watch.stop.check()?;
        let TarKind::File { len, .. } = entry.kind else {
            continue;
        };
        if entry.path.file_name() == "PKG-INFO" {
            ensure!(len <= LONGEST_METADATA, "`{}` has {len} bytes", entry.path);
            let mut bytes = Vec::new();
            tar.read_to_end(&mut bytes)?;
            found.push((entry.path.to_string(), bytes));
        }
    }
    Ok(found)
}
