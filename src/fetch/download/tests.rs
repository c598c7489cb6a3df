//! What a source may do wrong, and that nothing half-made ever has a final name.

use std::{
    collections::BTreeSet,
    io::Cursor,
    num::NonZeroUsize,
    sync::{Arc, Mutex},
};

use fs_err as fs;
use md5::Digest as _;

use super::*;
use crate::{
    artifact::sample,
    fetch::source::{Digests, Inventory, StoreSource, list_parcels},
};
use rocwheel_base::{digest::Checksum, error::render};
use rocwheel_store::{Condition, PutOptions, Store as _, local::LocalStore};

const NAME: &str = "blas_lib_gfx942.tar.zst";

/// A directory with one archive, another for what is fetched, and what is done to the bytes.
struct Stage {
    from: tempfile::TempDir,
    to: tempfile::TempDir,
}

/// Passes on what a store has, changed.
struct Spoiled {
    inner: StoreSource,
    change: fn(Vec<u8>) -> Vec<u8>,
}

impl ArchiveSource for Spoiled {
    fn inventory(&self) -> Result<Inventory> {
        self.inner.inventory()
    }

    fn digests(&self, archive: &ArtifactArchive) -> Result<Digests> {
        self.inner.digests(archive)
    }

    fn open(&self, parcel: &Parcel) -> Result<Box<dyn Read + Send>> {
        let mut bytes = Vec::new();
        self.inner.open(parcel)?.read_to_end(&mut bytes)?;
        Ok(Box::new(Cursor::new((self.change)(bytes))))
    }
}

impl std::fmt::Display for Spoiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

fn listed(source: &dyn ArchiveSource) -> Vec<Parcel> {
    let archives = source.inventory().unwrap().archives;
    list_parcels(source, archives, NonZeroUsize::MIN, &Stop::default()).unwrap()
}

fn archive_bytes() -> Vec<u8> {
    let mut archives = sample::archives().unwrap().into_iter();
    archives.find(|it| it.file_name == NAME).unwrap().bytes
}

impl Stage {
    fn new(sidecar: Option<&str>) -> Self {
        let stage = Self { from: tempfile::tempdir().unwrap(), to: tempfile::tempdir().unwrap() };
        stage.put(NAME, &archive_bytes());
        if let Some(text) = sidecar {
            stage.put(&format!("{NAME}.sha256sum"), text.as_bytes());
        }
        stage
    }

    fn source(&self) -> StoreSource {
        StoreSource { store: Arc::new(LocalStore::new(self.from.path())), directory: None }
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let options = PutOptions {
            content_type: String::new(),
            cache_control: None,
            condition: Condition::Always,
            sha256: None,
        };
        let store = LocalStore::new(self.from.path());
        store.put(&name.parse().unwrap(), &bytes, &options).unwrap();
    }

    /// What fetching came to, and what is left on disk.
    fn fetch(
        &self,
        kept: OutputForm,
        change: fn(Vec<u8>) -> Vec<u8>,
    ) -> (Result<Received>, String) {
        self.fetch_until(kept, change, &Stop::default())
    }

    fn fetch_until(
        &self,
        kept: OutputForm,
        change: fn(Vec<u8>) -> Vec<u8>,
        stop: &Stop,
    ) -> (Result<Received>, String) {
        let source = Spoiled { inner: self.source(), change };
        let parcels = listed(&source);
        let context = DownloadContext { directory: self.to.path(), kept, stop, progress: &|_| () };
        let result = receive(&source, &parcels[0], &context);
        let mut names: Vec<String> = fs::read_dir(self.to.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        (result, names.join(" "))
    }

    fn refused(&self, change: fn(Vec<u8>) -> Vec<u8>) -> String {
        let numbers = regex::Regex::new("[0-9a-f]{64}|[0-9]{3,}").unwrap();
        let mut said = Vec::new();
        for kept in [OutputForm::Unpacked, OutputForm::Packed] {
            let (result, names) = self.fetch(kept, change);
            assert_eq!(names, "", "nothing may be left");
            let text = render(&result.unwrap_err());
            let masked = numbers.replace_all(
                &text,
                |it: &regex::Captures| {
                    if it[0].len() == 64 { "SHA" } else { "N" }
                },
            );
            said.push(masked.replace("gfxN", "gfx942"));
        }
        said.dedup();
        said.join("\n")
    }
}

fn good() -> String {
    Sha256::of(&archive_bytes()).to_string()
}

#[test]
fn a_good_archive_is_unpacked_or_kept() {
    let stage = Stage::new(Some(&good()));
    let (extents, names) = stage.fetch(OutputForm::Unpacked, |bytes| bytes);
    assert!(extents.unwrap().artifacts[0].1.extent.files > 1);
    assert_eq!(names, "blas_lib_gfx942");
    let (extents, names) = stage.fetch(OutputForm::Packed, |bytes| bytes);
    assert_eq!(extents.unwrap().artifacts[0].1.extent.bytes, archive_bytes().len() as u64);
    assert_eq!(names, "blas_lib_gfx942 blas_lib_gfx942.tar.zst");
    assert_eq!(fs::read(stage.to.path().join(NAME)).unwrap(), archive_bytes());
}

#[test]
fn an_archive_of_other_bytes_is_refused() {
    let stage = Stage::new(Some(&Sha256::of(b"other").to_string()));
    insta::assert_snapshot!(stage.refused(|bytes| bytes), @"
    error: failed to fetch `blas_lib_gfx942.tar.zst`
      caused by: wrong digest: shaN SHA, expected SHA

    hint: fetch it again; if that does not help, upload it again from its run
    ");
}

#[test]
fn a_download_that_ends_early_or_goes_on_is_refused() {
    let stage = Stage::new(None);
    insta::assert_snapshot!(stage.refused(|bytes| bytes[..100].to_vec()), @"
    error: failed to fetch `blas_lib_gfx942.tar.zst`
      caused by: failed to unpack `blas_lib_gfx942.tar.zst`
      caused by: the download ended after N of N bytes

    error: failed to fetch `blas_lib_gfx942.tar.zst`
      caused by: the download ended after N of N bytes
    ");
    insta::assert_snapshot!(stage.refused(|_| Vec::new()), @"
    error: failed to fetch `blas_lib_gfx942.tar.zst`
      caused by: failed to unpack `blas_lib_gfx942.tar.zst`
      caused by: the download ended after 0 of N bytes

    error: failed to fetch `blas_lib_gfx942.tar.zst`
      caused by: the download ended after 0 of N bytes
    ");
    insta::assert_snapshot!(stage.refused(|bytes| [bytes.clone(), bytes].concat()), @"
    error: failed to fetch `blas_lib_gfx942.tar.zst`
      caused by: failed to unpack `blas_lib_gfx942.tar.zst`
      caused by: failed to unpack `math-libs/BLAS/rocBLAS/stage/lib/rocblas/library/TensileLibrary_gfx942.co`
      caused by: the download goes on after N bytes, where it should end

    hint: download the archive again; if that does not help, rebuild it in its run

    error: failed to fetch `blas_lib_gfx942.tar.zst`
      caused by: the download goes on after N bytes, where it should end
    ");
}

#[test]
fn a_page_in_place_of_an_archive_is_refused() {
    let stage = Stage::new(Some(&good()));
    let page = |bytes: Vec<u8>| {
        b"<html>Service Unavailable ".iter().copied().cycle().take(bytes.len()).collect()
    };
    insta::assert_snapshot!(stage.refused(page), @"
    error: failed to fetch `blas_lib_gfx942.tar.zst`
      caused by: failed to unpack `blas_lib_gfx942.tar.zst`
      caused by: this is not zstd data

    hint: download the archive again; if that does not help, rebuild it in its run

    error: failed to fetch `blas_lib_gfx942.tar.zst`
      caused by: wrong digest: shaN SHA, expected SHA

    hint: fetch it again; if that does not help, upload it again from its run
    ");
}

#[test]
fn what_was_there_stays_when_its_successor_is_bad() {
    let stage = Stage::new(None);
    stage.fetch(OutputForm::Unpacked, |bytes| bytes).0.unwrap();
    let at = stage.to.path().join("blas_lib_gfx942");
    let before = PathExtent::of(&at).unwrap();
    let (result, names) = stage.fetch(OutputForm::Unpacked, |bytes| bytes[..200].to_vec());
    result.unwrap_err();
    assert_eq!(names, "blas_lib_gfx942");
    assert_eq!(PathExtent::of(&at).unwrap(), before);
}

#[test]
fn a_stop_leaves_nothing() {
    let stage = Stage::new(None);
    let stop = Stop::default();
    stop.flag().store(true, std::sync::atomic::Ordering::Relaxed);
    let (result, names) = stage.fetch_until(OutputForm::Unpacked, |bytes| bytes, &stop);
    assert!(result.unwrap_err().is::<rocwheel_base::error::Interrupted>());
    assert_eq!(names, "");
}

#[test]
fn an_archive_for_whose_bytes_nothing_stands_is_named() {
    let plain = |bytes: Vec<u8>| {
        let tar = zstd::decode_all(bytes.as_slice()).unwrap();
        // As most libraries write it: without a checksum.
        zstd::bulk::compress(&tar, 1).unwrap()
    };
    let stage = Stage::new(None);
    let unverified = |form| stage.fetch(form, |bytes| bytes).0.unwrap().unverified;
    assert_eq!(unverified(OutputForm::Unpacked), [""; 0], "its own checksum");
    assert_eq!(unverified(OutputForm::Packed), [NAME], "which nothing read");
    stage.put(NAME, &plain(archive_bytes()));
    let unverified = |form| stage.fetch(form, |bytes| bytes).0.unwrap().unverified;
    assert_eq!(unverified(OutputForm::Unpacked), [NAME]);
    let sidecar = Sha256::of(&plain(archive_bytes())).to_string();
    stage.put(&format!("{NAME}.sha256sum"), sidecar.as_bytes());
    let unverified = |form| stage.fetch(form, |bytes| bytes).0.unwrap().unverified;
    assert_eq!(unverified(OutputForm::Unpacked), [""; 0], "a digest beside it");
}

#[test]
fn progress_counts_every_byte() {
    let stage = Stage::new(None);
    let told = Arc::new(Mutex::new(0));
    let source = stage.source();
    let parcels = listed(&source);
    let context = DownloadContext {
        directory: stage.to.path(),
        kept: OutputForm::Unpacked,
        stop: &Stop::default(),
        progress: &|bytes| *told.lock().unwrap() += bytes,
    };
    receive(&source, &parcels[0], &context).unwrap();
    assert_eq!(*told.lock().unwrap(), archive_bytes().len() as u64);
}

#[test]
fn a_checksum_of_the_store_finds_damage_that_no_digest_is_for() {
    let stage = Stage::new(None);
    let source = Spoiled { inner: stage.source(), change: |bytes| bytes };
    let mut parcel = listed(&source).remove(0);
    let context = DownloadContext {
        directory: stage.to.path(),
        kept: OutputForm::Packed,
        stop: &Stop::default(),
        progress: &|_| (),
    };
    let names = |received: Received| received.unverified.join(" ");
    assert_eq!(names(receive(&source, &parcel, &context).unwrap()), NAME);
    parcel.digests.checksum = Some(Checksum::Crc64Nvme(7));
    insta::assert_snapshot!(render(&receive(&source, &parcel, &context).unwrap_err()), @"
    error: failed to fetch `blas_lib_gfx942.tar.zst`
      caused by: wrong digest: the store has another checksum

    hint: fetch it again; if that does not help, upload it again from its run
    ");
    let digest: [u8; 16] = md5::Md5::digest(archive_bytes()).into();
    parcel.digests.checksum = Some(Checksum::Md5(digest));
    assert_eq!(names(receive(&source, &parcel, &context).unwrap()), "");
}

/// A parcel with members of a zip file, as `zip` writes it, streamed or not.
mod zipped {
    use std::io::{Seek, Write};

    use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

    use super::*;
    use crate::fetch::run_artifacts;

    struct Zipped(Vec<u8>);

    impl std::fmt::Display for Zipped {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a zip file")
        }
    }

    impl ArchiveSource for Zipped {
        fn inventory(&self) -> Result<Inventory> {
            Ok(Inventory::default())
        }

        fn open(&self, _: &Parcel) -> Result<Box<dyn Read + Send>> {
            Ok(Box::new(Cursor::new(self.0.clone())))
        }
    }

    fn write<W: Write + Seek>(mut zip: ZipWriter<W>, method: CompressionMethod) {
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file("readme.txt", options).unwrap();
        zip.write_all(b"hello").unwrap();
        zip.start_file(NAME, options).unwrap();
        zip.write_all(&archive_bytes()).unwrap();
        zip.finish().unwrap();
    }

    fn parcel(bytes: &[u8]) -> Parcel {
        let zipped = run_artifacts::list_zipped(Cursor::new(bytes), &mut BTreeSet::new()).unwrap();
        let run_artifacts::ZippedArchive { name, member } = zipped.into_iter().next().unwrap();
        Parcel {
            id: "artifact".into(),
            size: bytes.len() as u64,
            digests: Digests { sha256: vec![Sha256::of(bytes)], checksum: None },
            etag: None,
            members: vec![ArtifactArchive {
                name,
                size: member.size,
                key: NAME.to_owned(),
                sha256: None,
                etag: None,
                sidecar: false,
                upload: None,
                zipped: Some(member),
            }],
        }
    }

    fn take(bytes: &[u8], parcel: &Parcel) -> Result<Vec<u8>> {
        let to = tempfile::tempdir().unwrap();
        let context = DownloadContext {
            directory: to.path(),
            kept: OutputForm::Packed,
            stop: &Stop::default(),
            progress: &|_| (),
        };
        let received = receive(&Zipped(bytes.to_vec()), parcel, &context);
        assert_eq!(to.path().join(NAME).exists(), received.is_ok());
        received.and_then(|_| Ok(fs::read(to.path().join(NAME))?))
    }

    #[test]
    fn a_member_of_a_zip_file_is_found_unpacked_and_verified() {
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let mut seekable = Cursor::new(Vec::new());
            write(ZipWriter::new(&mut seekable), method);
            let bytes = seekable.into_inner();
            assert_eq!(take(&bytes, &parcel(&bytes)).unwrap(), archive_bytes());
        }
    }

    #[test]
    fn a_directory_that_says_something_else_is_refused() {
        let mut seekable = Cursor::new(Vec::new());
        write(ZipWriter::new(&mut seekable), CompressionMethod::Deflated);
        let bytes = seekable.into_inner();
        let entry = bytes.windows(4).rposition(|it| it == b"PK\x01\x02").unwrap();
        let mut said = String::new();
        // The flag of encryption, the method, the checksum, and the size.
        for (at, change) in [(8, 1), (10, 4), (16, 1), (24, 1)] {
            let mut bytes = bytes.clone();
            bytes[entry + at] ^= change;
            said.push_str(&render(&take(&bytes, &parcel(&bytes)).unwrap_err()));
        }
        insta::assert_snapshot!(said, @"
        error: failed to fetch `artifact`
          caused by: failed to read `blas_lib_gfx942.tar.zst` in the zip file
          caused by: unsupported Zip archive: Password required to decrypt file
        error: failed to fetch `artifact`
          caused by: failed to read `blas_lib_gfx942.tar.zst` in the zip file
          caused by: compression method not supported: 12
        error: failed to fetch `artifact`
          caused by: failed to read `blas_lib_gfx942.tar.zst` in the zip file
          caused by: Invalid checksum
        error: failed to fetch `artifact`
          caused by: failed to read `blas_lib_gfx942.tar.zst` in the zip file
          caused by: File is larger than its declared uncompressed size
        ");
    }
}
