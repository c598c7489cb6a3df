//! Files on this disk: whether one is still the file that was read, and what is remembered of it.

mod digest_cache;
mod identity;
mod tap;

pub use digest_cache::{CachedFile, DigestCache};
pub use identity::{FileIdentity, FileStamp, FileState};
pub use tap::Tap;
