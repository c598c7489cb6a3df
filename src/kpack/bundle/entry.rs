//! Reads and writes the header of a raw bundle: its entries, each with the id of a target and the range of a
//! code object. See the
//! [Clang Offload Bundler](https://clang.llvm.org/docs/ClangOffloadBundler.html).

use std::collections::BTreeSet;

use crate::{
    error::{Context as _, Result, anyhow, bail, ensure},
    kpack::{ByteRegion, CodeTarget, bundle::RAW},
};

/// Limits for damaged bundles. Real bundles have some dozens of entries.
const MAX_ENTRIES: u64 = 4096;
const MAX_ID: u64 = 4096;
/// Code objects are aligned to pages.
const ALIGN: u64 = 4096;
/// The id of the entry for the host, as clang writes it.
const HOST: &str = "host-x86_64-unknown-linux-gnu-";
/// The offload kinds of HIP: <https://clang.llvm.org/docs/ClangOffloadBundler.html>.
const KINDS: [&str; 2] = ["hip", "hipv4"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleEntry {
    /// `hipv4-amdgcn-amd-amdhsa--gfx942`, as the compiler spells it.
    pub id: String,
    /// `None` for the entry of the host, which is always empty.
    pub target: Option<CodeTarget>,
    /// Relative to the start of the bundle; 0 if the entry is empty.
    pub offset: u64,
    pub size: u64,
}

/// The parsed header of a raw bundle; `len` is its own size.
pub(super) struct BundleHeader {
    pub(super) entries: Vec<BundleEntry>,
    len: u64,
}

/// Reads the header of the raw bundle at the start of a region, and refuses entries that are
/// inconsistent.
///
/// `len` is the size of the bundle, within which all entries must lie. The region may be shorter,
/// as for a compressed bundle of which only the start was decompressed.
pub(super) fn header(region: &ByteRegion<'_>, len: u64) -> Result<BundleHeader> {
    let count = region.number("number of entries", 24, 8)?;
    ensure!(
        count <= MAX_ENTRIES,
        "a bundle with more than {MAX_ENTRIES} entries: {count}"
    );
    let mut entries = Vec::new();
    let mut seen = BTreeSet::new();
    let mut at = 32_u64;
    for _ in 0..count {
        let entry = entry(region, &mut at)?;
        let target = entry.target.as_ref().map(CodeTarget::to_string);
        ensure!(
            seen.insert(target.unwrap_or_else(|| entry.id.clone())),
            "two entries for the same: `{}`",
            entry.id
        );
        entries.push(entry);
    }
    for entry in entries.iter().filter(|entry| entry.size > 0) {
        let end = entry.offset.checked_add(entry.size);
        ensure!(
            end.is_some_and(|end| end <= len),
            "the entry `{}` lies outside of its bundle: {} bytes at {} of {len}",
            entry.id,
            entry.size,
            entry.offset
        );
        ensure!(
            entry.offset >= at,
            "an entry lies in the header: `{}`",
            entry.id
        );
    }
    let mut hosts = entries.iter().filter(|entry| entry.target.is_none());
    ensure!(
        hosts.all(|entry| entry.size == 0),
        "a bundle with code for the host"
    );
    apart(&entries)?;
    Ok(BundleHeader { entries, len: at })
}

/// Refuses entries that overlap partly. Two entries may have the same range: one code object then
/// serves two targets.
fn apart(entries: &[BundleEntry]) -> Result<()> {
    let mut placed: Vec<&BundleEntry> = entries.iter().filter(|entry| entry.size > 0).collect();
    placed.sort_by_key(|entry| (entry.offset, entry.size));
    for pair in placed.windows(2) {
        let [one, other] = pair else { continue };
        let is_same = (one.offset, one.size) == (other.offset, other.size);
        ensure!(
            is_same || one.offset.saturating_add(one.size) <= other.offset,
            "two entries overlap: `{}` and `{}`",
            one.id,
            other.id
        );
    }
    Ok(())
}

impl BundleHeader {
    /// The size of the bundle, which has no field of its own: the end of the last entry, or of the
    /// header if all entries are empty.
    pub(super) fn end(&self) -> u64 {
        let entries = self.entries.iter();
        entries
            .filter(|entry| entry.size > 0)
            .map(|entry| entry.offset.saturating_add(entry.size))
            .fold(self.len, u64::max)
    }
}

fn entry(region: &ByteRegion<'_>, at: &mut u64) -> Result<BundleEntry> {
    let offset = region.number("entry", *at, 8)?;
    let size = region.number("entry", at.saturating_add(8), 8)?;
    let len = region.number("entry", at.saturating_add(16), 8)?;
    ensure!(len <= MAX_ID, "an entry with a name of {len} bytes");
    let name = at.saturating_add(24);
    let id = region.bytes("name of an entry", name, len)?;
    let id = String::from_utf8(id).map_err(|_| anyhow!("an entry with a name that is no text"))?;
    *at = name.saturating_add(len);
    Ok(BundleEntry {
        target: target(&id)?,
        id,
        // The offset of an empty entry has no meaning: clang writes 4096 for the host.
        offset: if size == 0 { 0 } else { offset },
        size,
    })
}

/// Parses the id of an entry, such as `hipv4-amdgcn-amd-amdhsa--gfx942`.
///
/// An id of an unknown kind is an error. If it was ignored, its code would be lost when the section
/// is removed.
fn target(id: &str) -> Result<Option<CodeTarget>> {
    if id.starts_with("host") {
        return Ok(None);
    }
    let parts = id.split_once('-');
    let triple = parts.and_then(|(kind, triple)| KINDS.contains(&kind).then_some(triple));
    // The triple has a fourth part, the environment, which is always empty. Old compilers omitted
    // it with its hyphen.
    let target = triple.and_then(|triple| {
        triple
            .strip_prefix("amdgcn-amd-amdhsa--")
            .or_else(|| triple.strip_prefix("spirv64-amd-amdhsa--"))
            .or_else(|| triple.strip_prefix("amdgcn-amd-amdhsa-"))
    });
    let Some(target) = target else {
        bail!("an entry for an unknown kind of device: `{id}`");
    };
    let target = target.parse();
    target
        .map(Some)
        .with_context(|| format!("failed to read the target of the entry `{id}`"))
}

/// A raw bundle without its code objects: the header, and the offset of each code object.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The first bytes of the bundle.
    pub header: Vec<u8>,
    /// The offset of each code object, relative to the start of the bundle.
    pub starts: Vec<u64>,
    /// The size of the bundle with all code objects.
    pub len: u64,
}

/// The frame for code objects with these entry ids (`hipv4-amdgcn-amd-amdhsa--gfx942`) and sizes.
/// Like clang, aligns each to a page.
pub fn frame(code: &[(&String, u64)]) -> Frame {
    let ids = code.iter().map(|(id, _)| id.as_str());
    let ids: Vec<&str> = std::iter::once(HOST).chain(ids).collect();
    let len = ids.iter().fold(32, |len, id| len + 24 + id.len() as u64);
    let mut at = len.next_multiple_of(ALIGN);
    let mut header = RAW.to_vec();
    header.extend((ids.len() as u64).to_le_bytes());
    let mut starts = Vec::new();
    let mut end = len;
    let sizes = std::iter::once(0).chain(code.iter().map(|(_, size)| *size));
    for (id, size) in ids.iter().zip(sizes) {
        for number in [at, size, id.len() as u64] {
            header.extend(number.to_le_bytes());
        }
        header.extend(id.as_bytes());
        starts.push(at);
        if size > 0 {
            end = at.saturating_add(size);
        }
        at = at.saturating_add(size).next_multiple_of(ALIGN);
    }
    starts.remove(0);
    Frame {
        header,
        starts,
        len: end,
    }
}
