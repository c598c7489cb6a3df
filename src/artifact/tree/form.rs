//! How the bytes of a file come from what lies at its source.

use std::{io, path::Path, sync::Arc};

use crate::{
    artifact::FileAt,
    elf::ReadAt,
    kpack::host::{HostPlan, SplitReader},
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// As they lie there.
    #[default]
    Whole,
    /// Without the device code that lies there.
    WithoutCode(Arc<HostPlan>),
    /// Nothing lies there yet: it is written once it is decided what the set holds. Its length is
    /// not known.
    ToCome,
}

/// A file in its form, read at any place.
#[derive(Debug)]
pub enum FormedFile {
    Whole(FileAt),
    WithoutCode(SplitReader<FileAt>),
}

impl Form {
    pub fn open(&self, path: &Path) -> io::Result<FormedFile> {
        let file = FileAt::open(path)?;
        Ok(match self {
            Self::Whole | Self::ToCome => FormedFile::Whole(file),
            Self::WithoutCode(plan) => {
                FormedFile::WithoutCode(SplitReader::new(file, (**plan).clone()))
            }
        })
    }
}

impl ReadAt for FormedFile {
    fn len(&self) -> u64 {
        match self {
            Self::Whole(file) => file.len(),
            Self::WithoutCode(file) => file.len(),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Whole(file) => file.read_at(offset, buffer),
            Self::WithoutCode(file) => file.read_at(offset, buffer),
        }
    }
}
