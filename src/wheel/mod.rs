//! The file formats of wheels and source distributions: file names, metadata, RECORD and archives.

mod archive;
pub mod deflate;
pub mod dist_info;
mod marker;
pub mod name;
mod packed;
pub mod reader;
pub mod record;
mod requirement;
#[cfg(test)]
pub(crate) mod specimen;
pub mod writer;

pub use archive::{Archive, StoredMember};
pub use deflate::{Deflater, WheelCompression};
pub use dist_info::{Metadata, ensure_one_line, entry_point, top_level_text, wheel_text};
pub use marker::MarkerVariables;
pub use name::{DistName, PackageFilename, Tag};
pub use packed::{PackedMember, compression_of, packed_members};
pub use reader::read_metadata;
pub use record::{Record, RecordRow};
pub use requirement::RequirementLine;
pub use writer::{StorageMethod, WheelMember, ZipWriter};
