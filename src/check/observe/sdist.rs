//! Reads an sdist ([PEP 625](https://peps.python.org/pep-0625/)) in one pass: its files, its
//! metadata and its digest.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use flate2::read::GzDecoder;

use crate::{
    archive::{TarKind, TarReader},
    check::{
        facts::{ContentFacts, SdistFile},
        observe::{ObserveProgress, Walk, content::HashedReader, file_name},
    },
    error::{Context as _, Interrupted, Result, ensure},
    wheel::Metadata,
};

/// The most bytes that an sdist may unpack to. Ours have 40 files of text.
const LONGEST: u64 = 256 << 20;
/// The longest file that is kept for the rules: Python, and files that describe the package.
const LONGEST_TEXT: u64 = 16 << 20;
const TEXTS: [&str; 4] = [".py", ".toml", ".txt", "PKG-INFO"];
/// The memory that all kept files of one sdist may take.
const MOST_HELD: u64 = 64 << 20;

/// Reads an sdist. A damaged sdist is not an error: the facts say what is wrong with it.
pub fn read_sdist<'a>(
    file: &str,
    source: Box<dyn Read + 'a>,
    watch: &'a ObserveProgress<'a>,
) -> Result<SdistFile, Interrupted> {
    let mut walk = Walk::new(source, 0, watch).hashing(true);
    let mut sdist = SdistFile {
        file: file.to_owned(),
        name: file_name(file),
        metadata: Err(String::new()),
        copies_agree: true,
        size: 0,
        digest: None,
        files: BTreeMap::new(),
    };
    let top = sdist.name.as_ref().map_or("", |name| name.top()).to_owned();
    let read = files(&mut walk, &top, watch);
    sdist.digest = walk.finish().ok().flatten();
    sdist.size = sdist.digest.map_or(0, |(_, len)| len);
    watch.stop.check()?;
    let metadata = read.and_then(|files| {
        sdist.files = files;
        let main = sdist.files.get("PKG-INFO");
        let main = main.with_context(|| format!("no `{top}/PKG-INFO`"))?;
        let mut copies = sdist.files.iter().filter(|it| it.0.ends_with("/PKG-INFO"));
        sdist.copies_agree = copies.all(|(_, copy)| copy.sha256 == main.sha256);
        Metadata::parse(main.kept.as_deref().unwrap_or_default())
    });
    sdist.metadata = metadata.map_err(|error| format!("{error:#}"));
    Ok(sdist)
}

/// All files, by their path below the top directory `{name}-{version}/`.
fn files(
    source: impl Read,
    top: &str,
    watch: &ObserveProgress<'_>,
) -> Result<BTreeMap<String, ContentFacts>> {
    let mut tar = TarReader::new(GzDecoder::new(source), LONGEST);
    let (mut found, mut held) = (BTreeMap::new(), 0_u64);
    while let Some(entry) = tar.next_entry()? {
        watch.stop.check()?;
        let TarKind::File { len, .. } = entry.kind else {
            continue;
        };
        let path = entry.path.as_str();
        let inside = path.strip_prefix(top).and_then(|it| it.strip_prefix('/'));
        let path = inside.unwrap_or(path).to_owned();
        let mut source = HashedReader::new(&mut tar);
        let mut text = None;
        if TEXTS.iter().any(|end| path.ends_with(end)) {
            ensure!(len <= LONGEST_TEXT, "`{path}` has {len} bytes");
            held = held.saturating_add(len);
            ensure!(held <= MOST_HELD, "texts of more than {MOST_HELD} bytes");
            source.read_to_end(text.insert(Vec::new()))?;
        }
        io::copy(&mut source, &mut io::sink())?;
        found.insert(path, source.content(len, text)?);
    }
    Ok(found)
}
