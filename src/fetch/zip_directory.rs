//! Finds the archives in a zip file from its central directory, which is at the end of the file.
//! Only that part is read, in ranges, so nothing of a remote file is downloaded in vain.
//!
//! The format is that of
//! [APPNOTE.TXT](https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT), sections 4.3.7 and
//! 4.3.12.

use std::io::{self, Read, Seek};

use zip::{CompressionMethod, ZipArchive, read::ZipFileEntry};

use crate::{
    artifact::ArchiveName,
    error::{Context as _, Result, bail, ensure},
    relpath::RelPath,
};

/// The limit for reading a central directory. No upload needs more, but a damaged or hostile file
/// could ask for any size.
pub(super) const MOST: u64 = 64 << 20;

/// The position of a member in a zip file, from the central directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZipSpan {
    pub header_at: u64,
    pub packed: u64,
    /// Size when unpacked.
    pub size: u64,
    pub crc32: u32,
    pub deflated: bool,
}

/// Lists the archives of artifacts in a zip file, in all of its directories, in the order of their
/// positions. Other members are ignored.
pub(super) fn archives(zip: impl Read + Seek) -> Result<Vec<(ArchiveName, ZipSpan)>> {
    let zip = ZipArchive::new(zip).context("not a zip file that can be read")?;
    let mut archives = Vec::new();
    for index in 0..zip.len() {
        let entry = zip.by_index_data(index)?;
        let path = entry.name()?;
        let last = path.rsplit(['/', '\\']).next().unwrap_or_default();
        let Ok(name) = ArchiveName::of_file(last) else {
            continue;
        };
        let _: RelPath = path.parse().context("a member that must not be unpacked")?;
        let span = ZipSpan::of(&entry).with_context(|| format!("`{path}` cannot be unpacked"))?;
        archives.push((name, span));
    }
    archives.sort_by_key(|(_, span)| span.header_at);
    Ok(archives)
}

impl ZipSpan {
    fn of(entry: &ZipFileEntry) -> Result<Self> {
        ensure!(!entry.encrypted(), "it is encrypted");
        Ok(Self {
            header_at: entry.header_start(),
            packed: entry.compressed_size(),
            size: entry.size(),
            crc32: entry.crc32(),
            deflated: match entry.compression() {
                CompressionMethod::Stored => false,
                CompressionMethod::Deflated => true,
                other => bail!("it is neither stored nor deflated but {other}"),
            },
        })
    }

    /// Skips the local header of a member: 30 bytes, a name and an extra field of variable length.
    ///
    /// Its sizes and CRC are ignored, because a streamed zip file has zeros there; those of the
    /// central directory are used. The name and extra field may have other lengths than in the
    /// central directory, so they have to be read here.
    pub(super) fn skip_header(stream: &mut impl Read) -> Result<()> {
        let mut header = [0; 30];
        stream
            .read_exact(&mut header)
            .context("failed to read the zip file's member")?;
        let [b'P', b'K', 3, 4, .., n0, n1, e0, e1] = header else {
            bail!("no member of the zip file where its directory says there is one");
        };
        let rest =
            u64::from(u16::from_le_bytes([n0, n1])) + u64::from(u16::from_le_bytes([e0, e1]));
        let skipped = io::copy(&mut stream.take(rest), &mut io::sink())?;
        ensure!(skipped == rest, "the zip file is cut off");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;
    use crate::{error::render, store::Ranged};

    const NAME: &str = "blas_lib_gfx942.tar.zst";

    fn zip(members: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(method);
        for (name, bytes) in members {
            zip.start_file(*name, options).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    fn refused(bytes: Vec<u8>) -> String {
        render(&archives(Cursor::new(bytes)).unwrap_err())
    }

    #[test]
    fn archives_are_found_in_any_directory_and_nothing_else_is() {
        let bytes = zip(
            &[
                ("a/b/", b""),
                ("readme", b"x"),
                ("a/b/base_lib_generic.tar.xz", b"abc"),
                (NAME, b""),
            ],
            CompressionMethod::Deflated,
        );
        let found = archives(Cursor::new(&bytes)).unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|(name, span)| (name.to_string(), span.size))
            .collect();
        assert_eq!(
            shown,
            [("base_lib_generic.tar.xz".into(), 3), (NAME.into(), 0)]
        );
    }

    #[test]
    fn a_zip_file_is_read_from_its_end_in_few_parts() {
        let long = vec![7; 1 << 20];
        let mut members: Vec<(String, &[u8])> = vec![("long".to_owned(), &long)];
        members.extend((0..2000).map(|at| (format!("{at:040}"), &[][..])));
        members.push((NAME.to_owned(), b"abc"));
        let members: Vec<_> = members
            .iter()
            .map(|(name, it)| (name.as_str(), *it))
            .collect();
        let bytes = zip(&members, CompressionMethod::Stored);
        let end = bytes[bytes.len() - 100..].to_vec();
        let mut parts = Vec::new();
        let ranged = Ranged::new(bytes.len() as u64, |range| {
            let [start, end] = [range.start, range.end].map(|it| usize::try_from(it).unwrap());
            parts.push(end - start);
            Ok(bytes[start..end].to_vec())
        });
        assert_eq!(archives(ranged.with_end(end)).unwrap().len(), 1);
        assert!(parts.len() < 20, "{parts:?}");
    }

    #[test]
    fn what_must_not_or_cannot_be_unpacked_is_refused_in_words() {
        let stored = CompressionMethod::Stored;
        let mut said = String::new();
        for path in ["../", "/", "a/../../", "a\\"] {
            said += &refused(zip(&[(&format!("{path}{NAME}"), b"x")], stored));
        }
        let mut encrypted = zip(&[(NAME, b"x")], stored);
        let mut other = encrypted.clone();
        let directory = encrypted
            .windows(4)
            .rposition(|it| it == b"PK\x01\x02")
            .unwrap();
        encrypted[directory + 8] |= 1;
        other[directory + 10] = 93;
        said += &refused(encrypted);
        said += &refused(other);
        said += &refused(b"<html>".to_vec());
        said += &refused(zip(&[(NAME, b"x")], stored)[..60].to_vec());
        insta::assert_snapshot!(said, @r#"
        error: a member that must not be unpacked
          caused by: a path with `..`: "../blas_lib_gfx942.tar.zst"
        error: a member that must not be unpacked
          caused by: an absolute path: "/blas_lib_gfx942.tar.zst"
        error: a member that must not be unpacked
          caused by: a path with `..`: "a/../../blas_lib_gfx942.tar.zst"
        error: a member that must not be unpacked
          caused by: a backslash in a path: "a\\blas_lib_gfx942.tar.zst"
        error: `blas_lib_gfx942.tar.zst` cannot be unpacked
          caused by: it is encrypted
        error: `blas_lib_gfx942.tar.zst` cannot be unpacked
          caused by: it is neither stored nor deflated but Zstd
        error: not a zip file that can be read
          caused by: invalid Zip archive: Could not find EOCD
        error: not a zip file that can be read
          caused by: invalid Zip archive: Could not find EOCD
        "#);
    }

    #[test]
    fn a_damaged_directory_is_an_error_and_no_panic() {
        let whole = zip(
            &[("readme", b"x"), (NAME, b"abc")],
            CompressionMethod::Deflated,
        );
        for at in 0..whole.len() {
            for value in [0, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let _ = archives(Cursor::new(bytes));
            }
            let _ = archives(Cursor::new(whole[..at].to_vec()));
        }
    }
}
