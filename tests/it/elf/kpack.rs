//! Makes of a linked file what the kpack split leaves of it: a marker in a segment of its own, and
//! the program headers behind it with spare slots, while the section headers stay.

const PHDR: usize = 56;
const PAGE: u64 = 0x1000;
const LOAD: u32 = 1;
const PT_PHDR: u32 = 6;

/// Whether the program headers are as far from the first segment in memory as in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Loose,
    Pinned,
}

pub(super) fn split(file: &[u8], table: Table) -> Vec<u8> {
    let mut file = file.to_vec();
    let mut headers = headers(&file);
    let end = headers
        .iter()
        .filter(|h| h.kind() == LOAD)
        .map(Header::end)
        .max()
        .unwrap();
    let marker = end.next_multiple_of(PAGE);
    grow(&mut file, PAGE);
    let marker = Header::load(file.len() as u64, marker, 119);
    file.extend([b'\x82'; 119]);
    let mut address = marker.end().next_multiple_of(PAGE);
    grow(&mut file, PAGE);
    if table == Table::Pinned {
        let first = headers.iter().find(|h| h.kind() == LOAD).unwrap();
        let bias = first.address() - first.offset();
        let offset = (address - bias).max(file.len() as u64);
        file.resize(usize::try_from(offset).unwrap(), 0);
        address = offset + bias;
    }
    let slots = (headers.len() + 3).div_ceil(16) * 16;
    let own = Header::load(file.len() as u64, address, (slots * PHDR) as u64);
    let last = headers.iter().rposition(|h| h.kind() == LOAD).unwrap();
    headers.splice(last + 1..=last, [marker, own.clone()]);
    for header in headers.iter_mut().filter(|h| h.kind() == PT_PHDR) {
        header.0[8..].copy_from_slice(&own.0[8..]);
    }
    file[32..40].copy_from_slice(&own.offset().to_le_bytes());
    let count = u16::try_from(headers.len()).unwrap();
    file[56..58].copy_from_slice(&count.to_le_bytes());
    let start = file.len();
    file.extend(headers.iter().flat_map(|h| h.0));
    file.resize(start + slots * PHDR, 0);
    file
}

#[derive(Clone)]
struct Header([u8; PHDR]);

impl Header {
    fn load(offset: u64, address: u64, size: u64) -> Self {
        let mut bytes = [0; PHDR];
        bytes[..4].copy_from_slice(&LOAD.to_le_bytes());
        bytes[4..8].copy_from_slice(&4_u32.to_le_bytes());
        for (word, value) in [offset, address, address, size, size, PAGE]
            .iter()
            .enumerate()
        {
            bytes[8 + word * 8..16 + word * 8].copy_from_slice(&value.to_le_bytes());
        }
        Self(bytes)
    }

    fn kind(&self) -> u32 {
        u32::from_le_bytes(*self.0.first_chunk().unwrap())
    }

    fn word(&self, index: usize) -> u64 {
        u64::from_le_bytes(*self.0[8 + index * 8..].first_chunk().unwrap())
    }

    fn offset(&self) -> u64 {
        self.word(0)
    }

    fn address(&self) -> u64 {
        self.word(1)
    }

    fn end(&self) -> u64 {
        self.address() + self.word(4)
    }
}

fn headers(file: &[u8]) -> Vec<Header> {
    let start = usize::try_from(u64::from_le_bytes(*file[32..].first_chunk().unwrap())).unwrap();
    let count = usize::from(u16::from_le_bytes(*file[56..].first_chunk().unwrap()));
    let table = &file[start..start + count * PHDR];
    table
        .chunks_exact(PHDR)
        .map(|bytes| Header(bytes.try_into().unwrap()))
        .collect()
}

fn grow(file: &mut Vec<u8>, page: u64) {
    let page = usize::try_from(page).unwrap();
    file.resize(file.len().next_multiple_of(page), 0);
}
