#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod archive;
pub mod deflate;
mod directory;
pub mod dist_info;
mod edit;
mod headers;
mod installed;
mod marker;
pub mod name;
pub mod pack;
pub mod record;
mod requirement;
mod source;
pub mod tar;
mod variant;
pub mod writer;

pub use archive::{
    Archive, StoredMember, VARIANT_LIMIT, read_metadata, read_record, read_variant,
    read_with_record,
};
pub use deflate::{Deflater, WheelCompression};
pub use directory::{Directory, DirectoryEntry, LocalHeader, MemberKind, ReadRange};
pub use dist_info::{Metadata, ensure_one_line, entry_point, top_level_text, wheel_text};
pub use edit::{ChangedFile, WheelEdit};
pub use headers::Headers;
pub use installed::{InstalledPlace, installed_path, installed_place};
pub use marker::{Marker, MarkerVariable, MarkerVariables};
pub use name::{DistName, PackageFilename, Tag, VariantLabel};
pub use pack::{FIRST_DAY, PackSettings};
pub use record::{Record, RecordRow};
pub use requirement::Requirement;
pub use source::{
    FileSource, KeptMember, MadeBytes, MemberKeeper, MemberReader, Source, SourceMember,
};
pub use variant::{VARIANT_JSON, VARIANTS_JSON, VariantDocument};
pub use writer::{StorageMethod, WheelMember, ZipWriter};
