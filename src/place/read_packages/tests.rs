//! Packages whose metadata is good, contradicts itself, or is damaged.

use std::{
    io::{Cursor, Write as _},
    sync::Arc,
};

use flate2::{Compression, write::GzEncoder};

use super::*;
use crate::console::{Console, Options};
use rocwheel_base::error::{Stop, render};
use rocwheel_store::{Store, local::LocalStore};

const GOOD: &str =
    "Metadata-Version: 2.4\nName: Rocm.SDK-core\nVersion: 7.0.0+ab\nRequires-Python: >=3.8\n";

fn wheel(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let options = zip::write::SimpleFileOptions::default();
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn sdist(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, name, *bytes).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

fn of_wheel_bytes(bytes: Vec<u8>) -> Result<Metadata> {
    let name = "rocm_sdk_core-7.0.0+ab-py3-none-linux_x86_64.whl";
    named_metadata(&metadata_text(Cursor::new(bytes), name)?, name)
}

fn of_sdist_bytes(bytes: &[u8]) -> Result<Metadata> {
    let name = "rocm_sdk_core-7.0.0+ab.tar.gz";
    named_metadata(&metadata_text(Cursor::new(bytes), name)?, name)
}

const METADATA: &str = "rocm_sdk_core-7.0.0+ab.dist-info/METADATA";
const PKG_INFO: &str = "rocm_sdk_core-7.0.0+ab/PKG-INFO";

#[test]
fn a_wheel_says_what_it_is() {
    let facts = of_wheel_bytes(wheel(&[("a.py", b"1"), (METADATA, GOOD.as_bytes())])).unwrap();
    assert_eq!(facts.name.normalized(), "rocm-sdk-core");
    assert_eq!(facts.requires_python.as_deref(), Some(">=3.8"));
}

#[test]
fn a_package_that_became_shorter_is_a_failure_of_its_store() {
    let place = tempfile::tempdir().unwrap();
    let name = "rocm_sdk_core-7.0.0+ab-py3-none-linux_x86_64.whl";
    let bytes = wheel(&[(METADATA, GOOD.as_bytes())]);
    fs_err::write(place.path().join(name), &bytes).unwrap();
    let store: Arc<dyn Store> = Arc::new(LocalStore::new(place.path()));
    let key = name.parse().unwrap();
    let size = 2 * bytes.len() as u64;
    let package = StoredPackage::new(name.to_owned(), &store, key, size);
    assert!(package.metadata().is_err());
    let failure = render(&package.outcome().unwrap_err());
    assert!(failure.contains("it became shorter"), "{failure}");
}

#[test]
fn an_sdist_says_what_it_is() {
    let bytes = sdist(&[("x/PKG-INFO", b"no"), (PKG_INFO, GOOD.as_bytes())]);
    let facts = of_sdist_bytes(&bytes).unwrap();
    assert_eq!(facts.version.to_string(), "7.0.0+ab");
    let wheel = of_wheel_bytes(bytes);
    assert!(wheel.is_err());
}

#[test]
fn a_package_that_contradicts_itself_is_refused_in_words() {
    let other = GOOD.replace("core", "devel");
    let newer = GOOD.replace("7.0.0", "7.0.1");
    let twice = "another-1.dist-info/METADATA";
    let refused = [
        of_wheel_bytes(wheel(&[(METADATA, other.as_bytes())])),
        of_wheel_bytes(wheel(&[(METADATA, newer.as_bytes())])),
        of_wheel_bytes(wheel(&[(METADATA, b"Name: a\n")])),
        of_wheel_bytes(wheel(&[(METADATA, b"a"), (twice, b"b")])),
        of_wheel_bytes(wheel(&[("a/b.dist-info/METADATA", GOOD.as_bytes())])),
        of_sdist_bytes(&sdist(&[("PKG-INFO", GOOD.as_bytes())])),
        of_sdist_bytes(&sdist(&[(PKG_INFO, newer.as_bytes())])),
    ];
    let shown = refused.map(|answer| render(&answer.unwrap_err()));
    insta::assert_snapshot!(shown.concat(), @"
    error: its metadata is of another project: `rocm-sdk-devel`
    error: its metadata is of another version: `7.0.1+ab`
    error: metadata without `Metadata-Version`
    error: failed to read METADATA
      caused by: a wheel has one `.dist-info` directory: found 2
    error: failed to read METADATA
      caused by: a wheel has one `.dist-info` directory: found 0
    error: failed to read PKG-INFO
      caused by: no `rocm_sdk_core-7.0.0+ab/PKG-INFO`
    error: its metadata is of another version: `7.0.1+ab`
    ");
}

#[test]
fn a_damaged_package_is_an_error() {
    let whole = wheel(&[(METADATA, GOOD.as_bytes())]);
    for end in 0..whole.len() {
        assert!(of_wheel_bytes(whole[..end].to_vec()).is_err(), "{end}");
    }
    let whole = sdist(&[(PKG_INFO, GOOD.as_bytes())]);
    for end in 0..100 {
        assert!(of_sdist_bytes(&whole[..end]).is_err(), "{end}");
    }
}

#[test]
fn metadata_that_unpacks_to_gigabytes_is_refused() {
    let bomb = vec![b'a'; 17 << 20];
    let answers =
        [of_wheel_bytes(wheel(&[(METADATA, &bomb)])), of_sdist_bytes(&sdist(&[(PKG_INFO, &bomb)]))];
    for answer in answers {
        let said = render(&answer.unwrap_err());
        assert!(said.contains("more than 16777216 bytes"), "{said}");
    }
}

fn stamp(etag: Option<&str>) -> SetStamp {
    SetStamp { size: 1, etag: etag.map(str::to_owned) }
}

fn known(file: &SetStamp) -> KnownFacts {
    let sha256 = Sha256::of(b"a");
    let text = serde_json::json!({ "schema": 1, "files": [{
        "path": "dist/a-1.tar.gz", "project": "a", "version": "1", "size": 1,
        "sha256": sha256.to_string(), "remembered": { "file": file },
    }, {
        "path": "dist/b-1-py3-none-any.whl", "project": "b", "version": "1", "size": 1,
        "sha256": sha256.to_string(),
        "remembered": { "file": file, "sidecar": file, "sidecar-sha256": sha256.to_string() },
    }] });
    let document = SetJson::parse(&text.to_string()).unwrap();
    KnownFacts::new(document)
}

fn listed(name: &str, stamp: SetStamp) -> ListedPackage {
    ListedPackage { path: format!("dist/{name}"), name: name.into(), stamp, uploaded: None }
}

#[test]
fn a_digest_of_a_bucket_holds_for_the_same_etag_only() {
    let marked = stamp(Some("mark"));
    let is_known =
        |known: &KnownFacts, stamp: SetStamp| known.sha256(&listed("a-1.tar.gz", stamp)).is_some();
    assert!(is_known(&known(&marked), marked.clone()));
    assert!(!is_known(&known(&marked), stamp(Some("other"))));
    assert!(!is_known(&known(&marked), SetStamp { size: 2, ..marked }));
    let plain = stamp(None);
    assert!(!is_known(&known(&plain), plain.clone()));
}

#[test]
fn what_a_wheel_says_holds_as_long_as_its_sidecar_does() {
    let old = stamp(Some("mark"));
    let known = known(&old);
    let wheel = listed("b-1-py3-none-any.whl", old.clone());
    let all = |sidecar| known.all(&wheel, sidecar).is_some();
    assert!(all(Some(&old)));
    assert!(!all(None), "the sidecar is gone");
    assert!(!all(Some(&stamp(Some("other")))), "it was replaced");
    let sdist = listed("a-1.tar.gz", old.clone());
    assert!(known.all(&sdist, None).is_some());
    assert!(known.all(&sdist, Some(&old)).is_none());
}

/// Sets of one size can differ in all their bytes, such as in the times of their members.
#[cfg(unix)]
#[test]
fn what_a_build_knows_holds_for_the_file_that_it_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let written = |name: &str| {
        let path = directory.path().join(name);
        fs_err::write(&path, "a").unwrap();
        FileIdentity::of(&path).unwrap()
    };
    let ours = written("ours");
    let other = written("other");
    let path = "dist/a-1.tar.gz".to_owned();
    let file = PackageFile::named(path.clone(), 1, Sha256::of(b"a")).unwrap();
    let made = KnownPackage { file, metadata: Vec::new(), identity: Some(ours), start: None };
    let known = KnownFacts { made: [(path, made)].into(), ..KnownFacts::default() };
    let listed = listed("a-1.tar.gz", stamp(None));
    assert!(known.on_disk(&listed, ours).is_some());
    assert!(known.on_disk(&listed, other).is_none());
}

#[cfg(unix)]
#[test]
fn what_an_index_has_read_of_a_file_holds_until_the_file_changes() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let name = "other-1-py3-none-any.whl";
    let metadata = "Metadata-Version: 2.4\nName: other\nVersion: 1\n";
    let bytes = wheel(&[("other-1.dist-info/METADATA", metadata.as_bytes())]);
    fs_err::write(root.join(name), &bytes).unwrap();
    // A file that has just changed is not remembered.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let mut cache = DigestCache::of_directory(root);
    let remembered = CachedPackage {
        sha256: Sha256::of(b"remembered"),
        metadata: Some(metadata.to_owned()),
        start: None,
        has_rocm: true,
    };
    cache.insert(name, FileIdentity::of(&root.join(name)).unwrap(), remembered);
    cache.write().unwrap();
    let world = World {
        console: Console::of_this_process(Options { quiet: 2, ..Options::default() }),
        stop: Stop::default(),
    };
    let place = SetPlace::directory(root, &world.stop);
    let read = || {
        let layouts = vec![Layout::Flat];
        let listed = place.files(&layouts).unwrap();
        let reading = Reading {
            place: &place,
            layouts,
            known: &KnownFacts::read(&place, None).unwrap(),
            at_once: NonZeroUsize::MIN,
            world: &world,
            progress: &world.console.progress("Reading", "a directory", None),
        };
        let [file] = <[PackageFile; 1]>::try_from(reading.run(listed).unwrap().files).unwrap();
        (file.sha256, file.has_rocm)
    };
    assert_eq!(read(), (Sha256::of(b"remembered"), true));
    fs_err::write(root.join(name), &bytes).unwrap();
    assert_eq!(read(), (Sha256::of(&bytes), false));
}
