//! Copies a tar with other contents of some files.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
};

use tar::Header;

use crate::{
    archive::{BLOCK, TarEntry, TarKind, TarReader, padding},
    error::{Context as _, Result, ensure},
    relpath::RelPath,
};

/// The most bytes that are held back: long names, and the zeros at the end. A hostile archive may have
/// more of them than fit in memory.
const MOST_HELD: usize = 16 << 20;

/// Writes what is read, or holds it back.
struct TarCopy<R, W> {
    source: R,
    out: W,
    held: Option<Vec<u8>>,
}

impl<R: Read, W: Write> Read for TarCopy<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        match &mut self.held {
            None => self.out.write_all(bytes)?,
            Some(held) if held.len() > MOST_HELD => {
                let text = format!("more than {MOST_HELD} bytes between two files");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            Some(held) => held.extend_from_slice(bytes),
        }
        Ok(read)
    }
}

/// Copies a tar of at most `max_len` bytes. The files of these paths get these texts; all other bytes
/// stay as they are, also the times and owners of members.
pub fn replace_texts(
    source: impl Read,
    out: impl Write,
    texts: &BTreeMap<RelPath, String>,
    max_len: u64,
) -> Result<()> {
    let held = None;
    let mut tar = TarReader::new(TarCopy { source, out, held }, max_len);
    let mut old_padding = 0;
    loop {
        // The padding of the last file, and the headers of the next one.
        tar.source.held = Some(Vec::new());
        let entry = tar.next_entry()?;
        let held = tar.source.held.take().unwrap_or_default();
        let held = held.get(old_padding..).unwrap_or_default();
        old_padding = 0;
        let Some(TarEntry { path, kind }) = entry else {
            tar.source.out.write_all(held)?;
            return Ok(());
        };
        let (Some(text), TarKind::File { len, .. }) = (texts.get(&path), kind) else {
            tar.source.out.write_all(held)?;
            io::copy(&mut tar, &mut io::sink())?;
            continue;
        };
        let (before, header) = held.split_last_chunk::<BLOCK>().context("no header")?;
        let mut header = Header::from_byte_slice(header).clone();
        ensure!(
            header.entry_size()? == len,
            "`{path}` has its size in an extension header"
        );
        let size = text.len() as u64;
        header.set_size(size);
        header.set_cksum();
        let zeros = [0; BLOCK];
        let new_padding = usize::try_from(padding(size))?;
        for part in [
            before,
            header.as_bytes(),
            text.as_bytes(),
            &zeros[..new_padding],
        ] {
            tar.source.out.write_all(part)?;
        }
        // The old content is read, and not passed on.
        tar.source.held = Some(Vec::new());
        io::copy(&mut tar, &mut io::sink())?;
        old_padding = usize::try_from(padding(len))?;
    }
}

#[cfg(test)]
mod tests {
    use tar::{Archive, Builder};

    use super::*;

    /// A tar as GNU tar writes it: with the root, times, a long name and a link.
    fn tar(manifest: &str) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        let long = format!("lib/{}/b", "a".repeat(120));
        for (path, text) in [
            ("share/x.json", manifest),
            (&long, "long"),
            ("lib/c", &"c".repeat(512)),
        ] {
            let mut header = Header::new_gnu();
            header.set_mode(0o644);
            header.set_mtime(1_700_000_000);
            header.set_size(text.len() as u64);
            builder
                .append_data(&mut header, path, text.as_bytes())
                .unwrap();
        }
        let mut link = Header::new_gnu();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        builder.append_link(&mut link, "lib/d", "c").unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn one_text_changes_and_all_other_bytes_stay() {
        for (old, new) in [
            ("", "a"),
            ("7.14.0rc1", "7.14.0"),
            (&*"x".repeat(512), ""),
            ("x", &*"y".repeat(600)),
        ] {
            let texts = [("share/x.json".parse().unwrap(), new.to_owned())].into();
            let mut out = Vec::new();
            replace_texts(&tar(old)[..], &mut out, &texts, 1 << 20).unwrap();
            assert!(out == tar(new), "{} to {}", old.len(), new.len());
            assert_eq!(Archive::new(&out[..]).entries().unwrap().count(), 4);
        }
    }

    #[test]
    fn a_tar_that_is_cut_off_is_an_error() {
        let whole = tar("x");
        let texts = [("lib/c".parse().unwrap(), String::new())].into();
        for end in [10, 512, 700, 1500, whole.len() - 1024] {
            let copied = replace_texts(&whole[..end], io::sink(), &texts, 1 << 20);
            assert!(copied.is_err(), "{end}");
        }
    }
}
