//! What a large file costs: a few reads.

use std::{cell::Cell, io, os::unix::fs::FileExt as _};

use rocwheel_elf::{PatchedReader, ReadAt, plan_rpath};

use rocwheel_test_files::{
    linker::SharedObject,
    programs::{Place, linked},
};

const GOAL: &str = "$ORIGIN/../dep";
/// Beyond what 32 bits hold.
const LARGE: u64 = 5 << 30;

#[test]
fn a_file_of_many_gigabytes_is_planned_from_a_few_reads() {
    let place = Place::make();
    let dependency = SharedObject::new("liby.so.2").function("y", 42);
    place.put("dep/liby.so.2", &dependency.build());
    let library = SharedObject::new("libx.so.1").needs("liby.so.2");
    let path = place.put("lib/libx.so", &library.calls("x", "y").build());
    // Without writing to the disk.
    let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(LARGE).unwrap();
    drop(file);
    let source = Watched { file: fs_err::File::open(&path).unwrap(), read: Cell::new(0) };
    let facts = rocwheel_elf::read(&source).unwrap().unwrap();
    assert_eq!(facts.soname.as_deref(), Some("libx.so.1"));
    let plan = plan_rpath(&source, &GOAL.parse().unwrap()).unwrap();
    let read = source.read.get();
    assert!(read < 64 << 10, "{read} bytes read");
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

fn read_full(source: &impl ReadAt, start: u64, buffer: &mut [u8]) -> usize {
    let mut done = 0;
    while done < buffer.len() {
        let rest = &mut buffer[done..];
        match source.read_at(start + done as u64, rest).unwrap() {
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

impl ReadAt for Watched {
    fn len(&self) -> u64 {
        self.file.metadata().unwrap().len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read.set(self.read.get() + buffer.len());
        self.file.file().read_at(buffer, offset)
    }
}
