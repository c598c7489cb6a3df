//! String tables, notes and dynamic tables.

use std::collections::BTreeMap;

/// A string table; each string once.
#[derive(Clone, Debug)]
pub(super) struct Strings {
    bytes: Vec<u8>,
    places: BTreeMap<String, u32>,
}

impl Default for Strings {
    fn default() -> Self {
        Self { bytes: vec![0], places: BTreeMap::from([(String::new(), 0)]) }
    }
}

impl Strings {
    pub(super) fn add(&mut self, text: &str) -> u32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = u32::try_from(self.bytes.len()).unwrap_or(0);
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
        self.places.insert(text.to_owned(), place);
        place
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The note that carries a build id.
pub(super) fn build_id(id: &[u8]) -> Vec<u8> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let mut note = Vec::new();
    append!(note, 4_u32, u32::try_from(id.len()).unwrap_or(0));
    append!(note, NT_GNU_BUILD_ID);
    note.extend(b"GNU\0");
    note.extend(id);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

/// The version table that says what is needed of which library.
pub(super) fn needed_versions(needs: &[(u32, Vec<(u32, u32)>)]) -> Vec<u8> {
    const RECORD: u32 = 16;
    // Indices 0 and 1 mean a local and an unversioned symbol.
    let mut index = 2_u16;
    let mut bytes = Vec::new();
    for (position, (library, versions)) in needs.iter().enumerate() {
        let count = u16::try_from(versions.len()).unwrap_or(0);
        let is_last = position + 1 == needs.len();
        let next = RECORD * (u32::from(count) + 1);
        append!(bytes, 1_u16, count, library, RECORD);
        append!(bytes, if is_last { 0 } else { next });
        for (place, (hash, name)) in versions.iter().enumerate() {
            let is_last = place + 1 == versions.len();
            append!(bytes, hash, 0_u16, index, name);
            append!(bytes, if is_last { 0 } else { RECORD });
            index += 1;
        }
    }
    bytes
}

/// Bytes that do not compress, and are the same every time.
pub(super) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
