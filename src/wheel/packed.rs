//! Finds the compressed members of a wheel, so that another wheel can take them over as they are.
//!
//! The wheel is untrusted input: what it says about its members is a claim. To take a member over,
//! [`PackedMember::verify`] its bytes, or know from elsewhere that they did not change since they
//! were written.

use std::io::{self, BufRead as _, Read, Seek, Write};

use super::{
    Record, StorageMethod, WheelCompression,
    archive::{Archive, StoredMember},
    dist_info::WheelFacts,
};
use crate::{
    digest::{Hasher, Sha256},
    error::{Context as _, Result, ensure},
    io::buffered,
};
use flate2::bufread::DeflateDecoder;

/// The longest WHEEL and the longest RECORD that are read. RECORD has about 150 bytes for each file.
const WHEEL_LIMIT: u64 = 1 << 20;
const RECORD_LIMIT: u64 = 256 << 20;

/// A member of a finished wheel, with the digest of its content, as RECORD says.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Deref)]
pub struct PackedMember {
    pub sha256: Sha256,
    #[deref]
    stored: StoredMember,
}

/// The members of a wheel that were compressed like those of a new wheel will be. It is an error if
/// the wheel does not say so.
pub fn packed_members(
    mut reader: impl Read + Seek,
    compression: WheelCompression,
) -> Result<Vec<PackedMember>> {
    let archive = Archive::read(&mut reader)?;
    let mut text = |name: &str, limit| {
        let path = archive.dist_info.join(&name.parse()?);
        let bytes = archive.bytes(&mut reader, &path, limit)?;
        bytes.with_context(|| format!("no `{path}` in the wheel"))
    };
    let wheel = text("WHEEL", WHEEL_LIMIT)?;
    let WheelFacts { generator, .. } = String::from_utf8_lossy(&wheel).parse()?;
    ensure!(
        recipe(&generator) == Some(&*compression.recipe()),
        "it was not packed with `{}`, but by `{generator}`",
        compression.recipe()
    );
    let record = Record::parse(&text("RECORD", RECORD_LIMIT)?)?;
    let mut members = Vec::new();
    for row in record.rows() {
        let (path, Some(sha256), Some(len)) = (&row.path, row.digest, row.len) else {
            continue;
        };
        let member = archive.members.get(path);
        let member = member.with_context(|| format!("RECORD lists `{path}`, and it is missing"))?;
        ensure!(member.len == len, "`{path}` does not have the size that RECORD says");
        members.push(PackedMember::of(member, sha256));
    }
    Ok(members)
}

/// How the members of a wheel are compressed, by its `Generator`. `None` if another program made it,
/// or a rocwheel that compressed otherwise.
pub fn compression_of(generator: &str) -> Option<WheelCompression> {
    let recipe = recipe(generator)?;
    let levels = (1..=12).map(WheelCompression::Deflate);
    let mut all = levels.chain([WheelCompression::Store]);
    all.find(|it| it.recipe() == recipe)
}

/// How a generator compresses: `deflate level 5, revision 3` of `rocwheel (0.1.0; deflate level 5,
/// revision 3)`.
fn recipe(generator: &str) -> Option<&str> {
    let inner = generator.strip_prefix("rocwheel (")?.strip_suffix(')')?;
    inner.split_once("; ").map(|(_, recipe)| recipe)
}

/// The size of the buffers that [`PackedMember::verify`] reads with.
const BUFFER: usize = 128 << 10;

impl PackedMember {
    /// A member whose content has this digest.
    pub fn of(stored: &StoredMember, sha256: Sha256) -> Self {
        let stored = stored.clone();
        Self { sha256, stored }
    }

    /// Whether the compressed bytes in `reader` give the content, and end with it. They do not if
    /// they cannot be read.
    ///
    /// It does not verify that the compressor would produce just these bytes: only compressing the
    /// content again could tell.
    pub fn verify(&self, reader: impl Read) -> bool {
        self.is_content(reader).unwrap_or(false)
    }

    fn is_content(&self, reader: impl Read) -> io::Result<bool> {
        let bytes = self.bytes.end.saturating_sub(self.bytes.start);
        let mut packed = buffered(reader, bytes, BUFFER);
        let mut seen = Checksums::default();
        // One byte more than the member has: the stream must end before it, and a stream that would
        // inflate to terabytes is not read on.
        let most = self.len.saturating_add(1);
        match self.method {
            StorageMethod::Stored => io::copy(&mut packed.by_ref().take(most), &mut seen)?,
            StorageMethod::Deflated => {
                let content = DeflateDecoder::new(&mut packed).take(most);
                io::copy(&mut buffered(content, self.len, BUFFER), &mut seen)?
            }
        };
        let is_at_end = packed.fill_buf()?.is_empty();
        let same = seen.content.finish() == (self.sha256, self.len);
        Ok(same && is_at_end && seen.crc.finalize() == self.crc)
    }
}

/// Takes both checksums of what is written to it.
#[derive(Default)]
struct Checksums {
    content: Hasher,
    crc: crc32fast::Hasher,
}

impl Write for Checksums {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.crc.update(bytes);
        self.content.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::wheel::{
        Tag, WheelMember, ZipWriter,
        deflate::{BlockPosition, Deflater},
        specimen::{noise, prose},
        wheel_text,
    };

    const HOW: WheelCompression = WheelCompression::Deflate(5);

    /// A wheel whose RECORD is what a function makes of it, and the offset of its first member.
    fn wheel(record: impl Fn(String) -> String, compression: WheelCompression) -> Vec<u8> {
        let tag: Tag = "py3-none-any".parse().unwrap();
        let mut files = vec![
            ("x/a.so", prose(30_000, 1)),
            ("x/b.so", noise(3_000, 2)),
            ("x/empty", Vec::new()),
            ("x-1.dist-info/WHEEL", wheel_text(&tag, compression).into_bytes()),
        ];
        let mut rows = Record::default();
        for (name, content) in &files {
            let content = Some((Sha256::of(content), content.len() as u64));
            rows.push(name.parse().unwrap(), content);
        }
        let path = "x-1.dist-info/RECORD";
        rows.push(path.parse().unwrap(), None);
        files.push((path, record(rows.to_string()).into_bytes()));
        let mut zip = ZipWriter::new(Cursor::default(), 0);
        for (name, content) in &files {
            let mut room = vec![0; Deflater::room(content.len())];
            let packed = compression
                .deflater()
                .and_then(|mut it| it.block(content, BlockPosition::Last, &mut room));
            let (method, bytes) = match packed {
                Some(len) => (StorageMethod::Deflated, &room[..len]),
                None => (StorageMethod::Stored, &content[..]),
            };
            let member = WheelMember {
                path: name.parse().unwrap(),
                executable: false,
                len: content.len() as u64,
            };
            let crc = crc32fast::hash(content);
            zip.add(&member, method, crc, bytes).unwrap();
        }
        zip.finish().unwrap().out.into_inner()
    }

    fn refusal(bytes: &[u8]) -> String {
        format!("{:#}", packed_members(Cursor::new(bytes), HOW).unwrap_err())
    }

    fn bytes_of<'a>(wheel: &'a [u8], member: &PackedMember) -> &'a [u8] {
        let at = |offset: u64| usize::try_from(offset).unwrap();
        &wheel[at(member.bytes.start)..at(member.bytes.end)]
    }

    #[test]
    fn the_compressed_bytes_of_each_member_are_found_and_give_its_content() {
        for compression in [HOW, WheelCompression::Store] {
            let wheel = wheel(|record| record, compression);
            let members = packed_members(Cursor::new(&wheel), compression).unwrap();
            assert_eq!(members.len(), 4);
            for member in &members {
                assert!(member.verify(bytes_of(&wheel, member)), "{member:?}");
            }
        }
    }

    #[test]
    fn a_member_with_any_other_byte_is_not_its_content() {
        let wheel = wheel(|record| record, HOW);
        for member in packed_members(Cursor::new(&wheel), HOW).unwrap() {
            let bytes = bytes_of(&wheel, &member);
            let longer = [bytes, b"\0"].concat();
            assert!(!member.verify(&longer[..]));
            for at in (0..bytes.len()).step_by(211) {
                assert!(!member.verify(&bytes[..at]), "{at}");
                let mut changed = bytes.to_vec();
                changed[at] ^= 0x10;
                assert!(!member.verify(&changed[..]), "{at}");
            }
            let mut other = member.clone();
            other.stored.crc = !member.crc;
            assert!(!other.verify(bytes));
        }
    }

    #[test]
    fn wheels_that_were_packed_otherwise_or_contradict_themselves_are_refused_in_words() {
        let same = wheel(|record| record, HOW);
        let other = WheelCompression::Deflate(6);
        let more = wheel(|record| format!("x/none,sha256={},1\n{record}", "A".repeat(43)), HOW);
        let longer = wheel(|record| record.replace(",3000", ",3001"), HOW);
        let messages = [
            refusal(&wheel(|record| record, other)),
            refusal(&wheel(|record| record, WheelCompression::Store)),
            refusal(&more),
            refusal(&longer),
            refusal(&same[1..]),
        ];
        let messages = messages.join("\n");
        insta::assert_snapshot!(messages.replace(env!("CARGO_PKG_VERSION"), "VERSION"), @"
        it was not packed with `deflate level 5, revision 3`, but by `rocwheel (VERSION; deflate level 6, revision 3)`
        it was not packed with `deflate level 5, revision 3`, but by `rocwheel (VERSION; store)`
        RECORD lists `x/none`, and it is missing
        `x/a.so` does not have the size that RECORD says
        not a wheel that can be read: its end record says that the directory has 288 bytes at 5972, before byte 6259
        ");
        for generator in ["bdist_wheel (0.46.2)", "rocwheel (0.1.0)", "", "rocwheel ("] {
            assert_eq!(recipe(generator), None, "{generator}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_wheel_or_an_error(
            changes in proptest::collection::vec((0..4_000_usize, proptest::prelude::any::<u8>()), 1..30)
        ) {
            let mut bytes = wheel(|record| record, HOW);
            for (from_end, value) in changes {
                let at = bytes.len().saturating_sub(from_end + 1);
                bytes[at] = value;
            }
            let _ = packed_members(Cursor::new(bytes), HOW);
        }
    }
}
