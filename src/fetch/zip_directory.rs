//! What the directory at the end of a zip file says is in it, read in parts from wherever it lies.

use std::io::{self, Read, Seek, SeekFrom};

use zip::{CompressionMethod, ZipArchive, read::ZipFileEntry};

use super::source::{Deflated, ZipSpan};
use crate::{
    artifact::ArchiveName,
    error::{Context as _, Result, bail, ensure},
    relpath::RelPath,
};

/// As much as is read at once; the directories of most zip files are shorter.
pub(super) const WINDOW: u64 = 1 << 16;
/// A directory that takes more reading than this is none that an upload makes.
const MOST: u64 = 64 << 20;

/// An archive of an artifact in a zip file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Zipped {
    pub name: ArchiveName,
    pub size: u64,
    pub span: ZipSpan,
}

/// The archives of artifacts in a zip file, in whatever directories of it; all else is left alone.
pub(super) fn archives(zip: impl Read + Seek) -> Result<Vec<Zipped>> {
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
        archives.push(Zipped {
            size: entry.size(),
            span: span(&entry).with_context(|| format!("`{path}` cannot be unpacked"))?,
            name,
        });
    }
    archives.sort_by_key(|it| it.span.header_at);
    Ok(archives)
}

fn span(entry: &ZipFileEntry) -> Result<ZipSpan> {
    ensure!(!entry.encrypted(), "it is encrypted");
    Ok(ZipSpan {
        header_at: entry.header_start(),
        packed: entry.compressed_size(),
        crc32: entry.crc32(),
        deflated: match entry.compression() {
            CompressionMethod::Stored => Deflated::No,
            CompressionMethod::Deflated => Deflated::Yes,
            other => bail!("it is neither stored nor deflated but {other}"),
        },
    })
}

/// Something of a known size that is read in parts, a few of them, and with seeking in between.
pub(super) struct Windows<F> {
    size: u64,
    at: u64,
    /// Where `window` begins.
    from: u64,
    window: Vec<u8>,
    /// How much was read already.
    total: u64,
    read: F,
}

impl<F: FnMut(u64, u64) -> io::Result<Vec<u8>>> Windows<F> {
    /// With its end, which was read already.
    pub(super) fn new(size: u64, end: Vec<u8>, read: F) -> Self {
        let total = end.len() as u64;
        Self {
            size,
            at: 0,
            from: size.saturating_sub(total),
            window: end,
            total,
            read,
        }
    }

    fn ahead(&self) -> &[u8] {
        let skipped = self.at.checked_sub(self.from);
        let skipped = skipped.and_then(|it| usize::try_from(it).ok());
        skipped
            .and_then(|it| self.window.get(it..))
            .unwrap_or_default()
    }
}

impl<F: FnMut(u64, u64) -> io::Result<Vec<u8>>> Read for Windows<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at < self.size && self.ahead().is_empty() {
            let end = self.size.min(self.at.saturating_add(WINDOW));
            self.total = self.total.saturating_add(end - self.at);
            if self.total > MOST {
                return Err(io::Error::other("its directory is too long"));
            }
            self.window = (self.read)(self.at, end)?;
            self.from = self.at;
        }
        let count = self.ahead().read(buffer)?;
        self.at = self.at.saturating_add(count as u64);
        Ok(count)
    }
}

impl<F> Seek for Windows<F> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(offset) => self.size.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.at.checked_add_signed(offset),
        };
        self.at = at.ok_or_else(|| io::Error::other("before the beginning"))?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;
    use crate::error::render;

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
            .map(|it| (it.name.to_string(), it.size))
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
        let windows = Windows::new(bytes.len() as u64, end, |from, to| {
            parts.push(to - from);
            Ok(bytes[usize::try_from(from).unwrap()..usize::try_from(to).unwrap()].to_vec())
        });
        assert_eq!(archives(windows).unwrap().len(), 1);
        assert!(
            parts.len() < 20 && parts.iter().all(|it| *it <= WINDOW),
            "{parts:?}"
        );
    }

    #[test]
    fn a_directory_without_end_is_given_up() {
        let size = 1 << 40;
        let zeros = |from, to| Ok(vec![0; usize::try_from(to - from).unwrap()]);
        let mut windows = Windows::new(size, Vec::new(), zeros);
        let error = io::copy(&mut windows, &mut io::sink()).unwrap_err();
        assert_eq!(error.to_string(), "its directory is too long");
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
