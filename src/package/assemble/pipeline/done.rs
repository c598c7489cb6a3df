//! What the workers hand to the writer.

use crate::digest::Sha256;

/// A task that is done.
pub(super) enum Done {
    Batch(Vec<Small>),
    Block(Piece),
    Xz,
}

/// A whole member.
pub(super) struct Small {
    pub(super) crc: u32,
    pub(super) sha256: Sha256,
    pub(super) body: Body,
}

/// A block of a member; the last one brings the hash of the whole.
pub(super) struct Piece {
    pub(super) crc: crc32fast::Hasher,
    pub(super) sha256: Option<Sha256>,
    pub(super) body: Body,
}

/// Bytes as they were, or deflated when that is worth it.
pub(super) enum Body {
    Plain(Vec<u8>),
    Deflated(Vec<u8>),
}
