//! What a large file costs: a few reads.

use std::{cell::Cell, io, os::unix::fs::FileExt as _, path::Path};

use rocwheel::elf::{self, PatchedReader, ReadAt, plan_rpath};

use crate::elf::load::{Place, linked};
use crate::support::linker::SharedObject;

const GOAL: &str = "$ORIGIN/../dep";
/// Beyond what 32 bits hold.
const LARGE: u64 = 5 << 30;

#[test]
fn a_file_of_many_gigabytes_is_planned_from_a_few_reads() {
    let place = Place::new();
    place.put(
        "dep/liby.so.2",
        &SharedObject::new("liby.so.2").function("y", 42).build(),
    );
    let path = place.put("lib/libx.so", &library());
    stretch(&path, LARGE);
    let source = Watched::open(&path);
    assert_eq!(
        elf::read(&source).unwrap().unwrap().soname.as_deref(),
        Some("libx.so.1")
    );
    let plan = plan_rpath(&source, &GOAL.parse().unwrap()).unwrap();
    assert!(
        source.read.get() < 64 << 10,
        "{} bytes read",
        source.read.get()
    );
    // Only what differs is written, so that the file stays sparse.
    let view = PatchedReader::new(source, plan);
    let pieces = [(0, 0x4000), (LARGE, view.len())].map(|(start, end)| {
        let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
        let count = read_full(&view, start, &mut bytes);
        bytes.truncate(count);
        (start, bytes)
    });
    let target = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
    for (start, bytes) in pieces {
        target.file().write_all_at(&bytes, start).unwrap();
    }
    drop(target);
    assert_eq!(linked(&path, "x"), Ok(42));
}

fn library() -> Vec<u8> {
    SharedObject::new("libx.so.1")
        .needs("liby.so.2")
        .calls("x", "y")
        .build()
}

/// Makes a file large without writing to the disk.
fn stretch(path: &Path, len: u64) {
    let file = fs_err::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(len).unwrap();
}

fn read_full(source: &impl ReadAt, start: u64, buffer: &mut [u8]) -> usize {
    let mut done = 0;
    while done < buffer.len() {
        match source
            .read_at(start + done as u64, &mut buffer[done..])
            .unwrap()
        {
            0 => break,
            count => done += count,
        }
    }
    done
}

/// A file, and how many bytes of it were read.
struct Watched {
    file: fs_err::File,
    read: Cell<usize>,
}

impl Watched {
    fn open(path: &Path) -> Self {
        Self {
            file: fs_err::File::open(path).unwrap(),
            read: Cell::new(0),
        }
    }
}

impl ReadAt for Watched {
    fn len(&self) -> u64 {
        self.file.metadata().unwrap().len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read.set(self.read.get() + buffer.len());
        self.file.file().read_at(buffer, offset)
    }
}
