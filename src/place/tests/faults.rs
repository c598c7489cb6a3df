//! Uploads to a store that fails, forgets or garbles.

use std::{
    fmt,
    io::{self, Read},
};

use rocwheel_test_files::{
    assert_has,
    wheels::{wheel, wheels},
};

use super::{
    memory::{MemoryStore, put},
    publish_to,
};
use rocwheel_base::error::{Exit, render};
use rocwheel_store::{
    Body, Condition, Depth, Object, PutOptions, Span, Store, StoreError, StoreFailureKind,
    location::Key,
};

/// What is wrong with a store, for keys that hold a text.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It refuses to write.
    Fails(&'static str),
    /// Its disk is full.
    Full,
    /// It says that it wrote, and did not.
    Forgets(&'static str),
    /// It keeps other bytes of the same length.
    Garbles(&'static str),
    /// Another writer puts the same bytes there just before.
    WrittenBefore(&'static str),
    /// Another writer puts other bytes there just before.
    TakenBefore(&'static str),
    /// Another upload completes its own set just before.
    CompletedBefore,
    /// It does not deliver files that exist.
    Unreadable(&'static str),
}

#[derive(Debug)]
struct Faulty(MemoryStore, Fault);

impl Store for Faulty {
    fn list(&self, directory: Option<&Key>, depth: Depth) -> Result<Vec<Object>, StoreError> {
        self.0.list(directory, depth)
    }

    fn head(&self, key: &Key) -> Result<Object, StoreError> {
        self.0.head(key)
    }

    fn get(&self, key: &Key, span: Span) -> Result<Box<dyn Read + Send>, StoreError> {
        if matches!(self.1, Fault::Unreadable(text) if key.as_str().contains(text)) {
            return Err(StoreError::new(StoreFailureKind::Unavailable, key));
        }
        self.0.get(key, span)
    }

    fn put(
        &self,
        key: &Key,
        body: &dyn Body,
        options: &PutOptions,
    ) -> Result<Option<String>, StoreError> {
        let at = |text: &str| key.as_str().contains(text);
        let mut other = Vec::new();
        body.read_from(0).unwrap().read_to_end(&mut other).unwrap();
        other.reverse();
        let unchecked = PutOptions { sha256: None, ..options.clone() };
        match self.1 {
            Fault::Fails(text) if at(text) => {
                return Err(StoreError::new(StoreFailureKind::Denied, key));
            }
            Fault::Full => {
                let full = io::Error::from(io::ErrorKind::StorageFull);
                return Err(StoreError::from_io(key, full));
            }
            Fault::Forgets(text) if at(text) => return Ok(None),
            Fault::Garbles(text) if at(text) => {
                return self.0.put(key, &other.as_slice(), &unchecked);
            }
            Fault::CompletedBefore if at("set.json") && self.0.find(key.as_str()).is_none() => {
                let theirs = br#"{"schema": 1, "files": []}"#;
                self.0.put(key, &theirs.as_slice(), &unchecked)?;
            }
            Fault::WrittenBefore(text) if at(text) => _ = self.0.put(key, body, options)?,
            Fault::TakenBefore(text) if at(text) => {
                self.0.put(key, &other.as_slice(), &unchecked)?;
            }
            _ => {}
        }
        self.0.put(key, body, options)
    }

    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError> {
        self.0.delete(key, condition)
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What an upload to such a store says, its exit code, and what it left there.
fn upload(fault: Fault) -> (String, u8, Vec<String>) {
    let packages = tempfile::tempdir().unwrap();
    wheels(packages.path());
    let store = MemoryStore::default();
    let (said, code) = match publish_to(Faulty(store.clone(), fault), packages.path()) {
        Ok(published) => (format!("{} unchanged\n", published.unchanged), 0),
        Err(error) => (render(&error), Exit::of(&error).code()),
    };
    (said, code, store.keys())
}

/// Without digests and sizes.
fn without_figures(said: &str) -> String {
    let figures = regex::Regex::new("[0-9a-f]{64}|[0-9]+ bytes").unwrap();
    figures.replace_all(said, "_").into_owned()
}

#[test]
fn nothing_points_at_what_could_not_be_written() {
    let (said, code, keys) = upload(Fault::Fails("rocm_sdk_libraries"));
    insta::assert_snapshot!(said, @"
    error: failed to write to `memory:/42-linux/python`
      caused by: failed to write `dist/rocm_sdk_libraries-7.13.0.dev0+ab.cd-py3-none-any.whl`
      caused by: access denied: `42-linux/python/dist/rocm_sdk_libraries-7.13.0.dev0+ab.cd-py3-none-any.whl`
    ");
    assert_eq!(code, 2);
    assert!(!keys.is_empty());
    assert!(keys.iter().all(|key| key.contains("/dist/")), "{keys:?}");
    let (_, _, keys) = upload(Fault::Fails("simple/rocm-sdk-libraries/"));
    let points = |key: &&String| key.ends_with("python/simple/") || key.ends_with("set.json");
    assert_eq!(keys.iter().find(points), None);
}

#[test]
fn a_full_disk_is_one_cause_of_all_failures() {
    let (said, code, keys) = upload(Fault::Full);
    insta::assert_snapshot!(said, @"
    error: failed to write to `memory:/42-linux/python`
      caused by: 3 of 3 failed: no storage space
      failed to write `dist/rocm_sdk_device_gfx942-7.13.0.dev0+ab.cd-py3-none-any.whl`
      failed to write `dist/rocm_sdk_libraries-7.13.0.dev0+ab.cd-py3-none-any.whl`
      failed to write `dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl`

    hint: free disk space, or choose another directory
    ");
    assert_eq!((code, keys.len()), (2, 0));
}

#[test]
fn an_upload_that_did_not_arrive_is_no_success() {
    let wheel = "rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl";
    let (said, code, _) = upload(Fault::Forgets(wheel));
    insta::assert_snapshot!(without_figures(&said), @"
    error: failed to write to `memory:/42-linux/python`
      caused by: 2 of 19 failed
      failed to read back `dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl`: no such object: `42-linux/python/dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl`
      failed to read back `dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl.metadata`: no such object: `42-linux/python/dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl.metadata`
    ");
    assert_eq!(code, 1);
}

/// A page that is not as it was written is mostly the page of another writer.
#[test]
#[ignore = "slow"]
fn a_page_that_never_arrives_is_an_error_after_some_attempts() {
    let faults =
        [Fault::Forgets("simple/rocm-sdk-core/index.html"), Fault::Garbles("simple/index.html")];
    let answers = faults.map(upload);
    let said: String = answers.iter().map(|(said, _, _)| said.as_str()).collect();
    insta::assert_snapshot!(without_figures(&said), @"
    error: other jobs published meanwhile in all 8 attempts: `memory:/42-linux/python`
      caused by: failed to write to `memory:/42-linux/python`
      caused by: failed to read back `simple/rocm-sdk-core/index.html`
      caused by: no such object: `42-linux/python/simple/rocm-sdk-core/index.html`

    hint: repeat the command when they are done
    error: other jobs published meanwhile in all 8 attempts: `memory:/42-linux/python`
      caused by: failed to write to `memory:/42-linux/python`
      caused by: failed to read back `simple/index.html`
      caused by: not what was written: `simple/index.html`: here _ with sha256 _, there _ with sha256 _

    hint: repeat the command when they are done
    ");
    assert_eq!(answers.map(|(_, code, _)| code), [1, 1]);
}

#[test]
fn of_two_uploads_at_once_the_same_is_fine_and_another_is_not() {
    let (said, code, _) =
        upload(Fault::WrittenBefore("rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl"));
    assert_eq!((said.as_str(), code), ("2 unchanged\n", 0));
    let (said, code, keys) = upload(Fault::TakenBefore("any.whl"));
    insta::assert_snapshot!(without_figures(&said), @"
    error: failed to write to `memory:/42-linux/python`
      caused by: 3 of 3 failed
      failed to write `dist/rocm_sdk_device_gfx942-7.13.0.dev0+ab.cd-py3-none-any.whl`: another writer came first, with other bytes: `dist/rocm_sdk_device_gfx942-7.13.0.dev0+ab.cd-py3-none-any.whl`: here _ with sha256 _, there _ with sha256 _
      failed to write `dist/rocm_sdk_libraries-7.13.0.dev0+ab.cd-py3-none-any.whl`: another writer came first, with other bytes: `dist/rocm_sdk_libraries-7.13.0.dev0+ab.cd-py3-none-any.whl`: here _ with sha256 _, there _ with sha256 _
      failed to write `dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl`: another writer came first, with other bytes: `dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl`: here _ with sha256 _, there _ with sha256 _
    ");
    assert_eq!((code, keys.len()), (1, 3));
}

#[test]
fn an_upload_that_another_one_overtook_is_planned_again() {
    let (said, code, keys) = upload(Fault::CompletedBefore);
    // All but `set.json` is there already.
    assert_eq!((said.as_str(), code), ("19 unchanged\n", 0));
    assert_eq!(keys.len(), 20);
}

#[test]
fn a_package_of_others_that_the_store_does_not_deliver_stops_the_upload() {
    let [packages, others] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    wheels(packages.path());
    let name = wheel(others.path(), "torch", "2.9", "");
    let store = MemoryStore::default();
    let key = "42-linux/python/dist/torch-2.9-py3-none-any.whl";
    put(&store, key, "application/zip", &fs_err::read(name).unwrap());
    let faulty = Faulty(store.clone(), Fault::Unreadable("torch"));
    let refused = publish_to(faulty, packages.path()).unwrap_err();
    let said = render(&refused);
    assert_has!(said, "the store does not answer");
    assert_eq!(store.keys().len(), 1);
    // One that is no wheel is listed by its name.
    put(&store, key, "application/zip", b"no wheel");
    publish_to(store.clone(), packages.path()).unwrap();
    let page = store.find("42-linux/python/simple/torch/").unwrap();
    assert!(String::from_utf8(page.bytes).unwrap().contains("torch-2.9"));
}
