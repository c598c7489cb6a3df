//! The file formats of wheels and source distributions: file names, metadata, RECORD and archives.

pub mod deflate;
pub mod dist_info;
pub mod name;
mod packed;
pub mod reader;
pub mod record;
#[cfg(test)]
pub(crate) mod specimen;
pub mod writer;

pub use deflate::{Deflater, WheelCompression};
pub use dist_info::{Metadata, ensure_one_line, entry_point, top_level_text, wheel_text};
pub use name::{DistName, PackageFilename, Tag};
pub use packed::{PackedMember, packed_members};
pub use reader::read_metadata;
pub use record::Record;
pub use writer::{StorageMethod, WheelMember, ZipWriter};
