//! Bytes for tests, of the two kinds that matter to a compressor.

/// Pseudo-random bytes, which no compressor makes shorter.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_be_bytes()[0]
        })
        .collect()
}

/// Words in random order, so that deflate produces literals, matches and distances of every kind.
pub(crate) fn prose(len: usize, seed: u64) -> Vec<u8> {
    let words: Vec<Vec<u8>> = noise(64, seed)
        .iter()
        .map(|size| noise(usize::from(size % 13) + 1, u64::from(*size)))
        .collect();
    let mut text = Vec::with_capacity(len + 16);
    for byte in noise(len, seed + 1) {
        if text.len() >= len {
            break;
        }
        text.extend_from_slice(&words[usize::from(byte % 64)]);
        if byte >= 250 {
            text.extend(std::iter::repeat_n(byte, usize::from(byte) * 3));
        }
    }
    text.truncate(len);
    text
}
