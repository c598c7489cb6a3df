//! Reads strings of the dynamic string table (`DT_STRTAB`).

use std::cell::Cell;

use goblin::elf::dynamic::{DT_STRSZ, DT_STRTAB};

use crate::elf::{
    ElfError, ReadAt,
    image::{DynamicEntry, ElfImage, value},
};

/// Limit for all strings that are read of a file. In a damaged file, thousands of entries may refer
/// to the same long string, and each would become a copy of it.
const MOST: usize = 1 << 20;

pub(super) struct Strings<'a, 'b, R: ?Sized> {
    image: &'a ElfImage<'b, R>,
    /// Start and end of the table in the file.
    place: Option<(u64, u64)>,
    /// How many more bytes may be read.
    left: Cell<usize>,
}

impl<'a, 'b, R: ReadAt + ?Sized> Strings<'a, 'b, R> {
    pub(super) fn find(image: &'a ElfImage<'b, R>, dynamic: &[DynamicEntry]) -> Self {
        let place = value(dynamic, DT_STRTAB)
            .and_then(|address| image.locate(address))
            .map(|(offset, rest)| {
                let size = value(dynamic, DT_STRSZ).unwrap_or(rest).min(rest);
                (offset, offset.saturating_add(size))
            });
        let left = Cell::new(MOST);
        Self { image, place, left }
    }

    pub(super) fn text(&self, offset: u64) -> Result<String, ElfError> {
        let Some((start, end)) = self.place else {
            return Err(ElfError::damaged(
                "the dynamic string table is in no segment",
            ));
        };
        let start = start.saturating_add(offset);
        let text = self.image.text("dynamic string", start, end)?;
        let left = self.left.get().checked_sub(text.len());
        self.left.set(left.ok_or_else(|| {
            ElfError::damaged(format!("dynamic strings of more than {MOST} bytes"))
        })?);
        utf8(text)
    }
}

pub(super) fn utf8(text: Vec<u8>) -> Result<String, ElfError> {
    String::from_utf8(text).map_err(|error| {
        ElfError::damaged(format!(
            "a string that is not UTF-8: {:?}",
            String::from_utf8_lossy(error.as_bytes())
        ))
    })
}
