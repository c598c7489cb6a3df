//! Tests of the state file.

use super::*;
use rocwheel_base::error::render;

fn names(names: &str) -> BTreeSet<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

fn fetched(from: &str) -> Fetched {
    Fetched {
        from: from.to_owned(),
        size: 3,
        sha256: Some(Sha256::of(b"abc")),
        etag: Some("\"1\"".to_owned()),
        extent: PathExtent::default(),
    }
}

/// Wants some artifacts of a run, and fetches others.
fn fetch(at: &Path, from: &str, wanted: &str, done: &str) {
    let mut state = FetchState::read(&at.join(FILE_NAME)).unwrap();
    let due = names(wanted);
    state.begin(from, None, names(wanted), &due, Some(&[])).unwrap();
    let done = names(done);
    for name in &done {
        fs::create_dir_all(at.join(name)).unwrap();
    }
    let done = done.into_iter().map(|name| (name, fetched(from)));
    state.record(&mut done.collect()).unwrap();
}

fn verdict(at: &Path) -> String {
    match fetched_for(at) {
        Ok(only) => format!("whole {only:?}"),
        Err(error) => render(&error).replace(at.to_str().unwrap(), "OUT"),
    }
}

#[test]
fn a_fetch_is_whole_once_all_that_was_wanted_is_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    assert_eq!(verdict(at), "whole []", "it was not fetched");
    fetch(at, "run 1", "a b c", "");
    insta::assert_snapshot!(verdict(at), @"
    error: the fetch into `OUT` is not whole: 3 of 3 artifacts missing: `a`, `b`, `c`

    hint: run the same `rocwheel fetch` again: it fetches only what is missing
    ");
    fetch(at, "run 1", "a b", "a b");
    assert!(verdict(at).contains("1 of 3 artifacts missing: `c`"));
    fetch(at, "run 1", "c", "c");
    assert_eq!(verdict(at), "whole []");
    // What is due again is not there, although an older one is.
    fetch(at, "run 1", "a", "");
    assert!(verdict(at).contains("1 of 3 artifacts missing: `a`"));
    // Another run is another whole.
    fetch(at, "run 2", "a d", "a d");
    assert_eq!(verdict(at), "whole []");
    // What was deleted after the fetch is not there either.
    fs::remove_dir(at.join("d")).unwrap();
    assert!(verdict(at).contains("1 of 2 artifacts missing: `d`"));
    fetch(at, "run 2", "e.tar.zst", "e.tar.zst d");
    fs::rename(at.join("e.tar.zst"), at.join("e")).unwrap();
    assert_eq!(verdict(at), "whole []", "it was unpacked");
}

#[test]
fn a_state_that_cannot_be_read_is_not_a_whole_fetch() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    for text in ["", "{", "[]", r#"{"schema": "other", "fetched": {}}"#] {
        fs::write(at.join(FILE_NAME), text).unwrap();
        assert!(verdict(at).contains("failed to read"), "{text}");
        assert_eq!(FetchState::read(&at.join(FILE_NAME)).unwrap().fetched.get("a"), None, "{text}");
    }
}

#[test]
fn what_is_enough_for_some_packages_is_known_until_all_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let fetch = |packages: Option<&[String]>| {
        let mut state = FetchState::read(&at.join(FILE_NAME)).unwrap();
        state.begin("run 1", None, names("a"), &names("a"), packages).unwrap();
        fs::create_dir_all(at.join("a")).unwrap();
        state.record(&mut vec![("a".to_owned(), fetched("run 1"))]).unwrap();
        let interrupted = fetched_for(at).unwrap().join(" ");
        state.end(packages).unwrap();
        (interrupted, fetched_for(at).unwrap().join(" "))
    };
    let packages = ["core", "devel"].map(str::to_owned);
    let core = Some(&packages[..1]);
    let both = |text: &str| (text.to_owned(), text.to_owned());
    assert_eq!(fetch(core), both("core"));
    assert_eq!(fetch(Some(&packages)), both("core devel"));
    assert_eq!(fetch(None), both("core devel"));
    assert_eq!(fetch(Some(&[])), ("core devel".into(), String::new()));
    assert_eq!(fetch(core), both(""), "all was there before");
}

#[test]
fn a_state_that_cannot_be_written_leaves_no_part_of_itself() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let mut state = FetchState::read(&at.join(FILE_NAME)).unwrap();
    fs::create_dir(at.join(FILE_NAME)).unwrap();
    state.record(&mut vec![("a".to_owned(), fetched("run 1"))]).unwrap_err();
    assert_eq!(fs::read_dir(at).unwrap().count(), 1);
}

#[test]
fn an_extent_changes_with_the_files() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    fs::create_dir_all(at.join("a/sub")).unwrap();
    fs::write(at.join("a/sub/x"), "abc").unwrap();
    let of = || PathExtent::of(&at.join("a")).unwrap();
    let before = of();
    fs::write(at.join("a/sub/x"), "ab").unwrap();
    assert_ne!(of(), before, "a shorter file");
    fs::write(at.join("a/sub/x"), "abc").unwrap();
    assert_eq!(of(), before);
    fs::write(at.join("a/y"), "").unwrap();
    assert_ne!(of(), before, "one file more");
    fs::remove_dir_all(at.join("a")).unwrap();
    assert_eq!(of(), None);
}
