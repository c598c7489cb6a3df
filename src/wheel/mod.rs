//! The file formats of wheels and source distributions: file names, metadata, RECORD and archives.

mod base64;
pub mod deflate;
pub mod dist_info;
pub mod filename;
pub mod headers;
pub mod metadata;
pub mod name;
pub mod reader;
pub mod record;
pub mod sdist;
#[cfg(test)]
pub(crate) mod sparse;
pub mod tag;
#[cfg(test)]
pub(crate) mod test_bytes;
pub mod writer;

pub use base64::{InvalidBase64, decode as decode_sha256, decode_base64};
pub use deflate::{CompressionLevel, Deflater, WheelCompression};
pub use dist_info::{EntryPoint, entry_points_text, top_level_text, wheel_text};
pub use filename::{SdistFilename, WheelFilename};
pub use headers::HeaderLine;
pub use metadata::Metadata;
pub use name::DistName;
pub use reader::{Fault, WheelError, WheelReader};
pub use record::Record;
pub use sdist::{SdistContents, SdistError, read_sdist, write_sdist};
pub use tag::Tag;
pub use writer::{FileMode, StorageMethod, Timestamp, WheelMember, ZipWriter};
