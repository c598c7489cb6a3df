//! How much memory a large file takes while it is packed.

use std::{
    env,
    io::{self, Read},
    slice,
};

use rocwheel_base::error::Stop;
use rocwheel_wheel::{
    PackSettings, WheelCompression, WheelMember,
    pack::{WheelWork, write_wheel},
};

use crate::support::prelude::*;
use crate::support::{noise, peak_memory};

const MIB: usize = 1 << 20;

/// The same bytes over and over: 12 MiB that do not shrink, and 4 MiB that do.
struct Repeated {
    source: Arc<Vec<u8>>,
    at: usize,
}

impl Read for Repeated {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.source[self.at..];
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.at = (self.at + len) % self.source.len();
        Ok(len)
    }
}

fn repeated() -> Vec<u8> {
    let noise = noise(1, 12 * MIB);
    let half: Vec<u8> = noise[..4 * MIB].iter().map(|byte| byte | 0xF0).collect();
    [noise, half].concat()
}

/// Writes the wheel in a process of its own, so that only this memory is measured.
#[test]
#[ignore = "slow"]
fn a_large_file_takes_five_blocks_for_each_thread() {
    const CHILD: &str = "ROCWHEEL_TEST_PACKED_FILE";
    if env::var_os(CHILD).is_none() {
        let name = "build::memory::a_large_file_takes_five_blocks_for_each_thread";
        let mut child = Command::new(env::current_exe().unwrap());
        succeed(child.args(["--exact", name]).env(CHILD, "1"));
        return;
    }
    let member =
        WheelMember { path: "x/large.so".parse().unwrap(), executable: false, len: 200 << 20 };
    let record = "x-1.dist-info/RECORD".parse().unwrap();
    let settings = PackSettings::new(WheelCompression::default(), 2.try_into().unwrap());
    let file = tempfile::tempfile().unwrap();
    let mut out = fs_err::File::from_parts(file, "wheel");
    let source = Arc::new(repeated());
    let before = peak_memory();
    let work = WheelWork {
        members: slice::from_ref(&member),
        open: &|_| {
            let source = Arc::clone(&source);
            Ok(Box::new(Repeated { source, at: 0 }.take(member.len)))
        },
        kept: &[],
        texts: &[],
        record: &record,
        settings: &settings,
        stop: &Stop::default(),
        progress: &|_| {},
    };
    let written = write_wheel(&mut out, &work).unwrap();
    assert!(written.len > 150 << 20);
    // Ten blocks of 4.5 MiB, and the compressors. With the program itself it is less than 64 MiB.
    let grown = peak_memory() - before;
    assert!(grown < 54 << 10, "{grown} kB");
}
