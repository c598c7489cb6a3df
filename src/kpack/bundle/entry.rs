//! Reads the header of a raw bundle: its entries, each with the id of a target and the range of a
//! code object. See the
//! [Clang Offload Bundler](https://clang.llvm.org/docs/ClangOffloadBundler.html).

use std::collections::BTreeSet;

use crate::{
    elf::ReadAt,
    error::{Context as _, Result, anyhow, bail, ensure},
    kpack::{ByteRegion, CodeTarget},
};

/// Limits for damaged bundles. Real bundles have some dozens of entries.
const MAX_ENTRIES: u64 = 4096;
const MAX_ID: u64 = 4096;
/// The offload kinds of HIP: <https://clang.llvm.org/docs/ClangOffloadBundler.html>.
const KINDS: [&str; 2] = ["hip", "hipv4"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleEntry {
    /// `hipv4-amdgcn-amd-amdhsa--gfx942`, as the compiler spells it.
    pub id: String,
    pub owner: Owner,
    /// Relative to the start of the bundle; 0 if the entry is empty.
    pub offset: u64,
    pub size: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The entry for the host, which is always empty.
    Host,
    Device(CodeTarget),
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
pub(super) fn header(
    region: &ByteRegion<'_, impl ReadAt + ?Sized>,
    len: u64,
) -> Result<BundleHeader> {
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
        ensure!(
            seen.insert(key(&entry)),
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
    ensure!(
        entries
            .iter()
            .all(|entry| entry.owner != Owner::Host || entry.size == 0),
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

fn key(entry: &BundleEntry) -> String {
    match &entry.owner {
        Owner::Host => entry.id.clone(),
        Owner::Device(target) => target.to_string(),
    }
}

fn entry(region: &ByteRegion<'_, impl ReadAt + ?Sized>, at: &mut u64) -> Result<BundleEntry> {
    let offset = region.number("entry", *at, 8)?;
    let size = region.number("entry", at.saturating_add(8), 8)?;
    let len = region.number("entry", at.saturating_add(16), 8)?;
    ensure!(len <= MAX_ID, "an entry with a name of {len} bytes");
    let name = at.saturating_add(24);
    let id = region.bytes("name of an entry", name, len)?;
    let id = String::from_utf8(id).map_err(|_| anyhow!("an entry with a name that is no text"))?;
    *at = name.saturating_add(len);
    Ok(BundleEntry {
        owner: owner(&id)?,
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
fn owner(id: &str) -> Result<Owner> {
    if id.starts_with("host") {
        return Ok(Owner::Host);
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
    Ok(Owner::Device(target.with_context(|| {
        format!("failed to read the target of the entry `{id}`")
    })?))
}
