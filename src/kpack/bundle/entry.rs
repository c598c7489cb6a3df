//! Reads and writes the header of a raw bundle: its entries, each with the id of a target and the range of a
//! code object. See the
//! [Clang Offload Bundler](https://clang.llvm.org/docs/ClangOffloadBundler.html).

use std::collections::BTreeSet;

use itertools::Itertools as _;

use crate::{
    error::{Context as _, Result, anyhow, ensure},
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
/// What stands between the kind and the target. The triple has a fourth part, the environment, which
/// is always empty. Old compilers omitted it with its hyphen.
const TRIPLES: [&str; 3] = [
    "amdgcn-amd-amdhsa--",
    "spirv64-amd-amdhsa--",
    "amdgcn-amd-amdhsa-",
];

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

/// Reads the header of the raw bundle at the start of a region, and refuses entries that are
/// inconsistent. Returns the entries, and the size of the bundle, which has no field of its own: the
/// end of the last entry, or of the header if all entries are empty.
///
/// All entries must lie within the first `len` bytes. The region may be shorter, as for a compressed
/// bundle of which only the start was decompressed.
pub(super) fn header(region: &ByteRegion<'_>, len: u64) -> Result<(Vec<BundleEntry>, u64)> {
    ensure!(region.has(0, RAW)?, "no bundle in a compressed bundle");
    let count = region.number("number of entries", 24, 8)?;
    ensure!(
        count <= MAX_ENTRIES,
        "a bundle with more than {MAX_ENTRIES} entries: {count}"
    );
    let mut entries = Vec::new();
    let mut at = 32_u64;
    for _ in 0..count {
        entries.push(entry(region, &mut at)?);
    }
    let mut seen = BTreeSet::new();
    let mut placed = Vec::new();
    for it in &entries {
        let (id, offset, size) = (&it.id, it.offset, it.size);
        let name = it.target.as_ref().map_or(id.as_str(), CodeTarget::as_str);
        ensure!(seen.insert(name), "two entries for the same: `{id}`");
        if size == 0 {
            continue;
        }
        let end = offset.checked_add(size).filter(|end| *end <= len);
        let end = end.with_context(|| {
            format!(
                "the entry `{id}` lies outside of its bundle: {size} bytes at {offset} of {len}"
            )
        })?;
        ensure!(offset >= at, "an entry lies in the header: `{id}`");
        ensure!(it.target.is_some(), "a bundle with code for the host");
        placed.push((offset, end, id));
    }
    placed.sort_unstable();
    for (one, other) in placed.iter().tuple_windows() {
        // Two entries may have the same range: one code object then serves two targets.
        ensure!(
            (one.0, one.1) == (other.0, other.1) || one.1 <= other.0,
            "two entries overlap: `{}` and `{}`",
            one.2,
            other.2
        );
    }
    let end = placed.last().map_or(at, |last| last.1);
    Ok((entries, end))
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
    let target = triple.and_then(|it| TRIPLES.iter().find_map(|triple| it.strip_prefix(triple)));
    let target =
        target.with_context(|| format!("an entry for an unknown kind of device: `{id}`"))?;
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
    let code = code.iter().map(|(id, size)| (id.as_str(), *size));
    let entries: Vec<(&str, u64)> = std::iter::once((HOST, 0)).chain(code).collect();
    let mut len = entries
        .iter()
        .fold(32, |len, (id, _)| len + 24 + id.len() as u64);
    let mut at = len.next_multiple_of(ALIGN);
    let mut header = RAW.to_vec();
    header.extend((entries.len() as u64).to_le_bytes());
    let mut starts = Vec::new();
    for (id, size) in entries {
        for number in [at, size, id.len() as u64] {
            header.extend(number.to_le_bytes());
        }
        header.extend(id.as_bytes());
        starts.push(at);
        if size > 0 {
            len = at.saturating_add(size);
        }
        at = at.saturating_add(size).next_multiple_of(ALIGN);
    }
    starts.remove(0);
    Frame {
        header,
        starts,
        len,
    }
}
