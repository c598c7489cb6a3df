//! The header of a raw bundle: which code is where.

use std::collections::BTreeSet;

use crate::{
    elf::ReadAt,
    error::{Context as _, Result, anyhow, bail, ensure},
    kpack::{ByteRegion, CodeTarget},
};

/// Targets number in the dozens.
const MAX_ENTRIES: u64 = 4096;
const MAX_ID: u64 = 4096;
/// The offload kinds of HIP: <https://clang.llvm.org/docs/ClangOffloadBundler.html>.
const KINDS: [&str; 2] = ["hip", "hipv4"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleEntry {
    /// `hipv4-amdgcn-amd-amdhsa--gfx942`, as the compiler spells it.
    pub id: String,
    pub owner: Owner,
    /// Where it begins, seen from the bundle.
    pub offset: u64,
    pub size: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A place for the host's own code, which is empty.
    Host,
    Device(CodeTarget),
}

/// What a raw bundle says about itself.
pub(super) struct BundleHeader {
    pub(super) entries: Vec<BundleEntry>,
    len: u64,
}

/// The header of the raw bundle at the begin of a region. All of its entries lie within `len`
/// bytes, of which the region may have the first ones alone.
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

/// Code may serve two targets, but what lies in two code objects by half is in neither.
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
    /// Where the last of the entries ends; an empty bundle still has its header.
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
        // What is empty may be said to lie anywhere, as the host's is.
        offset: if size == 0 { 0 } else { offset },
        size,
    })
}

/// Code of a kind that is not known would be lost with the section: it is an error.
fn owner(id: &str) -> Result<Owner> {
    if id.starts_with("host") {
        return Ok(Owner::Host);
    }
    let parts = id.split_once('-');
    let triple = parts.and_then(|(kind, triple)| KINDS.contains(&kind).then_some(triple));
    // Old compilers left out the fourth part of the triple, which is always empty.
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
        format!("read the target of the entry `{id}`")
    })?))
}
