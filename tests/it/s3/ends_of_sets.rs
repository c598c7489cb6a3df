//! `diff` of two large sets in a bucket: what it transfers, and how long it takes.

use std::{
    cell::Cell,
    io::{self, Read as _, Seek, SeekFrom, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use fs_err::File;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::{inprocess::InProcess, upload::Desk};
use crate::support::prelude::*;

/// A file in which the bytes of members are holes: it takes no room on the disk.
struct Sparse {
    file: File,
    is_hole: Rc<Cell<bool>>,
}

impl Write for Sparse {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_hole.get() {
            self.file.seek(SeekFrom::Current(bytes.len().try_into().unwrap()))?;
            return Ok(bytes.len());
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Sparse {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// A wheel of so many files and about so many bytes, which are zeros. RECORD gives each a digest of its
/// own: nothing reads them.
fn wheel(directory: &Path, project: &str, count: u64, size: u64, change: Option<u64>) {
    let info = format!("{project}-7.14.0.dist-info");
    let path = directory.join(format!("{project}-7.14.0-py3-none-linux_x86_64.whl"));
    let is_hole = Rc::new(Cell::new(false));
    let file = Sparse { file: File::create(path).unwrap(), is_hole: Rc::clone(&is_hole) };
    let mut zip = ZipWriter::new(file);
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let zeros = vec![0; 1 << 20];
    let mut record = Vec::new();
    for number in 0..count {
        let len = size / count + u64::from(change == Some(number));
        let path = format!("_{project}/lib/rocblas/library/Kernels_{number:05}.dat");
        zip.start_file(&*path, stored).unwrap();
        is_hole.set(true);
        let mut left = usize::try_from(len).unwrap();
        while left > 0 {
            left -= zip.write(&zeros[..left.min(zeros.len())]).unwrap();
        }
        is_hole.set(false);
        // 43 characters of base64, the last of which has two bits that are zero.
        let digest = format!("{number:020}{len:022}A");
        writeln!(record, "{path},sha256={digest},{len}").unwrap();
    }
    let name = project.replace('_', "-");
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 7.14.0\n");
    let tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n";
    writeln!(record, "{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,").unwrap();
    let texts =
        [("METADATA", metadata.as_bytes()), ("WHEEL", tags.as_bytes()), ("RECORD", &record)];
    for (name, text) in texts {
        zip.start_file(format!("{info}/{name}"), SimpleFileOptions::default()).unwrap();
        zip.write_all(text).unwrap();
    }
    zip.finish().unwrap();
}

/// A port from which everything goes to a server, and how many bytes came back.
fn counted(server: u16) -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let received = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&received);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let upstream = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
            thread::spawn(move || io::copy(&mut from, &mut to));
            let count = Arc::clone(&count);
            thread::spawn(move || {
                let (mut from, mut to) = (upstream, client);
                let mut buffer = vec![0; 1 << 16];
                while let Ok(len @ 1..) = from.read(&mut buffer) {
                    count.fetch_add(len as u64, Ordering::Relaxed);
                    if to.write_all(&buffer[..len]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (port, received)
}

/// Writes a set of 6 GiB and 36,000 files, or a fraction of it.
fn write(set: &Path, fraction: u64, change: Option<u64>) {
    let dist = set.join("dist");
    fs_err::create_dir_all(&dist).unwrap();
    let gib = (1 << 30) / fraction;
    wheel(&dist, "rocm_sdk_core", 20_000 / fraction, gib, None);
    // Of more than 4 GiB, so that the directory is that of ZIP64.
    let (count, size) = (10_000 / fraction, gib * 9 / 2);
    wheel(&dist, "rocm_sdk_libraries", count, size, change);
    for target in ["gfx942", "gfx1100"] {
        let project = format!("rocm_sdk_device_{target}");
        wheel(&dist, &project, 3_000 / fraction, gib / 4, None);
    }
}

/// Writes down the tags of wheels where the server keeps those of its objects. Otherwise it reads the
/// whole file for each answer, to compute one.
fn tag(server: &InProcess, set: &str) {
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let dist = server.objects().join(set).join("dist");
    for (number, entry) in fs_err::read_dir(dist).unwrap().enumerate() {
        let name = entry.unwrap().file_name();
        let key = format!("{set}/dist/{}", name.to_str().unwrap());
        let (bucket, key) = (encode(server.bucket.as_str()), encode(&key));
        let path = format!(".bucket-{bucket}.object-{key}.internal.json");
        let tag = format!(r#"{{"e_tag": "{number:032x}"}}"#);
        fs_err::write(server.bucket_named(&path), tag).unwrap();
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "the figures of docs/diff.md")]
fn two_large_sets_in_a_bucket_differ_by_their_ends() {
    // At full length, 6 GiB each, as the sets of all families have.
    let (server, fraction) = (InProcess::start(), long::rounds(200, 1));
    write(&server.objects().join("before"), fraction, None);
    write(&server.objects().join("after"), fraction, Some(7));
    tag(&server, "before");
    tag(&server, "after");
    let (port, received) = counted(server.before().port);
    let desk = Desk::at(server.bucket.clone(), port);
    let began = Instant::now();
    let said = desk.run("diff s3://BUCKET/before s3://BUCKET/after").done();
    let (took, received) = (began.elapsed(), received.load(Ordering::Relaxed));
    let file = "rocm-sdk-libraries: _rocm_sdk_libraries/lib/rocblas/library/Kernels_00007.dat";
    said.says(&format!("changed         +1 B  {file}"));
    said.says("Files: 1 changed\n");
    assert!(took < Duration::from_secs(10), "{took:?}");
    // The ends of eight small wheels are 2 MB, and the rest grows with the number of files.
    let most = (3_000_000 + 50_000_000 / fraction).min(50_000_000);
    assert!(received < most, "{received} bytes in {took:?}");
    eprintln!("{received} bytes in {took:?}");
}
