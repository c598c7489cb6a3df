//! The dynamic symbol table and the two hash tables over it.

use goblin::elf::sym::{STB_GLOBAL, STT_FUNC};

#[derive(Clone, Debug)]
pub(super) struct Symbol {
    pub(super) name: String,
    pub(super) place: u32,
    /// The section, the address and the size; `None` for one that another file defines.
    pub(super) definition: Option<(u16, u64, u64)>,
}

/// Undefined symbols first, then the others in the order that `.gnu.hash` asks for.
pub(super) fn sort(symbols: &mut [Symbol]) {
    let buckets = bucket_count(symbols);
    symbols.sort_by_key(|symbol| {
        let bucket = gnu_hash(&symbol.name) % buckets;
        let bucket = symbol.definition.map(|_| bucket);
        (bucket, symbol.name.clone())
    });
}

pub(super) fn table(symbols: &[Symbol]) -> Vec<u8> {
    let mut bytes = vec![0; 24];
    for symbol in symbols {
        let (section, address, size) = symbol.definition.unwrap_or_default();
        let kind = (STB_GLOBAL << 4) | STT_FUNC;
        append!(bytes, symbol.place, kind, 0_u8);
        append!(bytes, section, address, size);
    }
    bytes
}

pub(super) fn gnu_hash_table(symbols: &[Symbol]) -> Vec<u8> {
    const SHIFT: u32 = 6;
    let imports = symbols.iter().filter(|s| s.definition.is_none()).count();
    let exports = &symbols[imports..];
    let first = u32::try_from(imports + 1).unwrap_or(1);
    let count = bucket_count(symbols);
    let mut bloom = 0_u64;
    let mut buckets = vec![0_u32; count as usize];
    let mut chain = Vec::new();
    for (index, symbol) in (first..).zip(exports) {
        let hash = gnu_hash(&symbol.name);
        bloom |= (1 << (hash % 64)) | (1 << ((hash >> SHIFT) % 64));
        let bucket = &mut buckets[(hash % count) as usize];
        if *bucket == 0 {
            *bucket = index;
        }
        chain.push(hash & !1);
    }
    // The last symbol of each bucket is marked.
    let bucket = |at: usize| exports.get(at).map(|s| gnu_hash(&s.name) % count);
    for (index, hash) in chain.iter_mut().enumerate() {
        if bucket(index) != bucket(index + 1) {
            *hash |= 1;
        }
    }
    let mut bytes = Vec::new();
    append!(bytes, count, first, 1_u32, SHIFT, bloom);
    for word in buckets.into_iter().chain(chain) {
        append!(bytes, word);
    }
    bytes
}

pub(super) fn sysv_hash_table(symbols: &[Symbol]) -> Vec<u8> {
    let count = u32::try_from(symbols.len() + 1).unwrap_or(1);
    let bucket_count = bucket_count(symbols);
    let mut buckets = vec![0_u32; bucket_count as usize];
    let mut chain = vec![0_u32; count as usize];
    for (index, symbol) in (1_u32..).zip(symbols) {
        let bucket = &mut buckets[(sysv_hash(&symbol.name) % bucket_count) as usize];
        chain[index as usize] = *bucket;
        *bucket = index;
    }
    let mut bytes = Vec::new();
    append!(bytes, bucket_count, count);
    for word in buckets.into_iter().chain(chain) {
        append!(bytes, word);
    }
    bytes
}

pub(super) fn sysv_hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(byte));
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

fn gnu_hash(name: &str) -> u32 {
    name.bytes().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)))
}

fn bucket_count(symbols: &[Symbol]) -> u32 {
    u32::try_from(symbols.len().div_ceil(2).max(1)).unwrap_or(1)
}
