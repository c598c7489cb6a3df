//! The table of contents of an archive: the `MessagePack` map at its end.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::Cursor,
    marker::PhantomData,
};

use derive_more::{Deref, DerefMut};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};

use crate::{
    error::{Context as _, Result, bail, ensure},
    kpack::{
        CodeTarget,
        archive::{KpackScheme, VERSION},
    },
};

/// Limit for targets, which is more than all targets with all combinations of their features.
const MOST_TARGETS: usize = 4096;

/// The entries of a key, by target.
#[derive(Debug, Default, Deref, DerefMut, Deserialize, Serialize)]
#[serde(transparent)]
pub(super) struct TocTargets(#[serde(deserialize_with = "unique")] BTreeMap<String, TocEntry>);

/// The map as it is in the file. Readers find its fields by name, so their order is free.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Toc {
    format_version: u64,
    pub(super) group_name: String,
    #[serde(default)]
    pub(super) gfx_arch_family: String,
    #[serde(deserialize_with = "few")]
    pub(super) gfx_arches: Vec<String>,
    #[serde(rename = "toc", deserialize_with = "unique")]
    pub(super) index: BTreeMap<String, TocTargets>,
    #[serde(default)]
    pub(super) compression_scheme: KpackScheme,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) blobs: Option<Vec<BlobPlace>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) zstd_offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) zstd_size: Option<u64>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct TocEntry {
    #[serde(rename = "type")]
    kind: String,
    pub(super) ordinal: u32,
    pub(super) original_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<CodeOrigin>,
}

/// Where a code object comes from. This is optional, and the runtime does not read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct CodeOrigin {
    /// The id of its entry in the bundle: `hipv4-amdgcn-amd-amdhsa--gfx942`.
    #[serde(default)]
    pub target: String,
    /// The stage directory of its binary: `math-libs/BLAS/rocBLAS/stage`.
    #[serde(default)]
    pub source_prefix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct BlobPlace {
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// An entry of an archive: a key and a target, with the code object for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCode {
    /// The key, such as `lib/libfoo.so#0`.
    pub key: String,
    pub target: CodeTarget,
    pub size: u64,
    /// Its size in the archive.
    pub packed: u64,
    pub origin: Option<CodeOrigin>,
    /// Its offset in the archive.
    pub(super) offset: u64,
}

impl Toc {
    /// An empty table of contents.
    pub(super) fn new(group: &str, family: &str, scheme: KpackScheme) -> Self {
        Self {
            format_version: VERSION,
            group_name: group.to_owned(),
            gfx_arch_family: family.to_owned(),
            compression_scheme: scheme,
            ..Self::default()
        }
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let mut reader = rmp_serde::Deserializer::new(Cursor::new(bytes));
        let toc = Self::deserialize(&mut reader).context("failed to read the table of contents")?;
        let end = reader.get_ref().position();
        ensure!(
            end == bytes.len() as u64,
            "{} bytes behind the contents",
            (bytes.len() as u64).saturating_sub(end)
        );
        ensure!(
            toc.format_version == VERSION,
            "contents of an unknown version: {}",
            toc.format_version
        );
        Ok(toc)
    }

    pub(super) fn render(&self) -> Result<Vec<u8>> {
        rmp_serde::to_vec_named(self).context("failed to write the table of contents")
    }

    /// All entries, sorted by key and target. `places` has the place of each code object, by
    /// ordinal. It is an error if `gfx_arches` does not list the target of an entry, because the
    /// runtime would never find that code.
    pub(super) fn codes(&self, places: &[BlobPlace]) -> Result<Vec<StoredCode>> {
        let named: BTreeSet<&String> = self.gfx_arches.iter().collect();
        let entries = self.index.iter().flat_map(|(key, targets)| {
            let entries = targets.iter();
            entries.map(move |(target, entry)| (key, target, entry))
        });
        let codes = entries.map(|(key, target, entry)| {
            ensure!(
                named.contains(target),
                "code for a target that the archive does not name: `{key}` for `{target}`"
            );
            let place = usize::try_from(entry.ordinal).ok();
            let place = place.and_then(|ordinal| places.get(ordinal));
            let Some(place) = place else {
                let (ordinal, count) = (entry.ordinal, places.len());
                bail!("code object {ordinal} of {count}: `{key}` for `{target}`");
            };
            let code = StoredCode::new(key, target, entry, self.blobs.is_some(), *place)?;
            ensure!(
                self.compression_scheme == KpackScheme::Zstd || place.size == code.size,
                "code of two sizes, {} and {}: `{key}` for `{target}`",
                place.size,
                code.size
            );
            Ok(code)
        });
        codes.collect()
    }
}

impl StoredCode {
    fn new(
        key: &str,
        target: &str,
        entry: &TocEntry,
        is_stored: bool,
        place: BlobPlace,
    ) -> Result<Self> {
        let parsed: CodeTarget = target.parse()?;
        ensure!(
            parsed.as_str() == target,
            "a target in an order that the runtime does not ask for: `{target}`"
        );
        ensure!(
            entry.kind == "hsaco",
            "code of an unknown kind: `{}` in `{key}`",
            entry.kind
        );
        let stored = is_stored.then_some(place.size);
        let size = entry.original_size.or(stored);
        Ok(Self {
            key: key.to_owned(),
            target: parsed,
            size: size
                .with_context(|| format!("code of an unknown size: `{key}` for `{target}`"))?,
            packed: place.size,
            origin: entry.metadata.clone(),
            offset: place.offset,
        })
    }
}

impl TocEntry {
    pub(super) fn new(ordinal: u32, size: u64, origin: Option<CodeOrigin>) -> Self {
        Self {
            kind: "hsaco".to_owned(),
            ordinal,
            original_size: Some(size),
            metadata: origin,
        }
    }
}

/// Reads a map without duplicate keys. serde would keep the last of two values, while other readers
/// may use the first, so they would find different code.
fn unique<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, V>, D::Error> {
    struct Pairs<V>(PhantomData<V>);
    impl<'de, V: Deserialize<'de>> Visitor<'de> for Pairs<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut unique = BTreeMap::new();
            while let Some((key, value)) = map.next_entry::<String, V>()? {
                if unique.contains_key(&key) {
                    return Err(A::Error::custom(format!("`{key}` stands twice")));
                }
                unique.insert(key, value);
            }
            Ok(unique)
        }
    }
    deserializer.deserialize_map(Pairs(PhantomData))
}

/// Reads the list of targets, with a limit. An empty string has one byte in the file but many in
/// memory, so a list within `MAX_TOC` could still exhaust the memory.
fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Targets;
    impl<'de> Visitor<'de> for Targets {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of targets")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut targets = Vec::new();
            while let Some(target) = list.next_element()? {
                if targets.len() == MOST_TARGETS {
                    return Err(A::Error::custom(format!(
                        "more than {MOST_TARGETS} targets"
                    )));
                }
                targets.push(target);
            }
            Ok(targets)
        }
    }
    deserializer.deserialize_seq(Targets)
}
