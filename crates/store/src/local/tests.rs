//! Attacks on a store in a local directory.

use super::*;
use rocwheel_base::error::render;

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

fn options(condition: Condition) -> PutOptions {
    PutOptions {
        content_type: "text/html; charset=utf-8".into(),
        cache_control: None,
        condition,
        sha256: None,
    }
}

fn put(store: &LocalStore, at: &str, text: &str) -> Result<(), StoreError> {
    store.put(&key(at), &text.as_bytes(), &options(Condition::IfAbsent)).map(drop)
}

/// A store in a directory, with a secret file beside that directory.
fn store() -> (tempfile::TempDir, LocalStore) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("secret.html"), "secret").unwrap();
    let store = LocalStore::new(directory.path().join("bucket"));
    (directory, store)
}

/// Everything below a directory, by path.
fn tree(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().to_str().unwrap();
            found.push(name.to_owned());
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_path_that_leaves_the_directory_is_no_key() {
    let (directory, store) = store();
    let paths = [
        "../secret.html",
        "a/../../secret.html",
        "..",
        "/secret.html",
        "a//b",
        "a/./b",
        "./a",
        "..\\secret.html",
        "a\0b",
        "",
        "/",
        "a//",
        "../",
        ".rocwheel-1-1",
        "a/.rocwheel-1/b",
    ];
    for path in paths {
        let answer = store.path_to_read(path).map_err(|error| error.kind());
        assert_eq!(answer, Err(StoreFailureKind::Unusable), "{path:?}");
    }
    assert_eq!(tree(directory.path()), ["secret.html"]);
    insta::assert_snapshot!(store.path_to_read("../secret.html").unwrap_err(), @"not a usable key: `../secret.html`");
}

#[cfg(unix)]
#[test]
fn symbolic_links_are_no_objects_and_lead_nowhere() {
    use fs_err::os::unix::fs::symlink;
    let (directory, store) = store();
    put(&store, "a/real.html", "real").unwrap();
    symlink("../../secret.html", store.root().join("a/link.html")).unwrap();
    symlink(directory.path(), store.root().join("a/up")).unwrap();
    symlink("a", store.root().join("loop")).unwrap();
    for path in ["a/link.html", "a/up/secret.html", "loop/real.html"] {
        let kinds = [
            store.head(&key(path)).map(drop),
            store.get(&key(path), Span::Whole).map(drop),
            put(&store, path, "mine"),
            store.put(&key(path), &b"mine".as_slice(), &options(Condition::Always)).map(drop),
            store.delete(&key(path), &Condition::Always),
        ]
        .map(|answer| answer.map_err(|error| error.kind()));
        assert_eq!(kinds, [Err(StoreFailureKind::Unusable); 5], "{path}");
    }
    let listed = store.list(None, Depth::All).unwrap();
    let listed: Vec<&str> = listed.iter().map(|object| object.key.as_str()).collect();
    assert_eq!(listed, ["a/real.html"]);
    assert!(store.list(Some(&key("loop")), Depth::All).is_err());
    assert_eq!(fs::read_to_string(directory.path().join("secret.html")).unwrap(), "secret");
}

#[test]
fn a_page_of_a_directory_is_the_file_that_a_web_server_would_serve() {
    let (_directory, store) = store();
    put(&store, "simple/rocm/", "html").unwrap();
    let json = PutOptions {
        content_type: "application/vnd.pypi.simple.v1+json".into(),
        ..options(Condition::Always)
    };
    store.put(&key("simple/_json/"), &b"{}".as_slice(), &json).unwrap();
    assert_eq!(
        tree(store.root()),
        [
            "simple",
            "simple/_json",
            "simple/_json/index.json",
            "simple/rocm",
            "simple/rocm/index.html"
        ]
    );
}

/// A body that ends early or fails.
struct Short(io::ErrorKind);

impl Body for Short {
    fn size(&self) -> u64 {
        9
    }

    fn read_from(&self, _: u64) -> io::Result<Box<dyn Read + Send + '_>> {
        match self.0 {
            io::ErrorKind::UnexpectedEof => Ok(Box::new(&b"short"[..])),
            kind => Err(kind.into()),
        }
    }
}

#[test]
fn nothing_is_left_of_a_put_that_failed() {
    let (_directory, store) = store();
    let put = |body: &dyn Body, options: &PutOptions| store.put(&key("a.whl"), body, options);
    let always = options(Condition::Always);
    let wrong = PutOptions { sha256: Some(Sha256::of(b"x")), ..options(Condition::Always) };
    let failures = [
        put(&Short(io::ErrorKind::UnexpectedEof), &always),
        put(&Short(io::ErrorKind::StorageFull), &always),
        put(&b"y".as_slice(), &wrong),
    ];
    let shown = failures.map(|answer| render(&answer.unwrap_err().into()));
    insta::assert_snapshot!(shown.concat(), @r"
    error: wrong contents: `a.whl`
    error: no space left: `a.whl`
      caused by: no storage space
    error: wrong contents: `a.whl`
    ");
    assert_eq!(tree(store.root()), Vec::<String>::new());
}

#[test]
fn a_file_where_a_directory_would_have_to_be_is_an_error() {
    let (_directory, store) = store();
    put(&store, "a", "file").unwrap();
    assert_eq!(put(&store, "a/b", "below").unwrap_err().kind(), StoreFailureKind::Unusable);
    assert_eq!(store.head(&key("a/b")).unwrap_err().kind(), StoreFailureKind::NotFound);
    assert!(store.list(Some(&key("a/")), Depth::All).unwrap().is_empty());
    assert!(store.delete(&key("a/b"), &Condition::Always).is_ok());
    put(&store, "d/e", "file").unwrap();
    assert_eq!(store.head(&key("d")).unwrap_err().kind(), StoreFailureKind::NotFound);
}

#[test]
fn unfinished_and_unnameable_files_are_not_listed() {
    let (_directory, store) = store();
    put(&store, "a.html", "a").unwrap();
    fs::write(store.root().join(".rocwheel-1-1"), "part").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let name = std::ffi::OsStr::from_bytes(b"\xff.html");
        fs::write(store.root().join(name), "?").unwrap();
    }
    assert_eq!(store.list(None, Depth::All).unwrap().len(), 1);
}

/// To wait for another writer would not help: the directory has to be removed.
#[test]
fn a_directory_under_the_name_of_an_object_is_no_other_writer() {
    let (directory, store) = store();
    fs::create_dir_all(directory.path().join("bucket/simple/a/index.html")).unwrap();
    let at = "simple/a/index.html";
    assert_eq!(put(&store, at, "a page").unwrap_err().kind(), StoreFailureKind::Unusable);
    let condition = Condition::IfSame("0-7".into());
    let put = store.put(&key(at), &"a page".as_bytes(), &options(condition));
    assert_eq!(put.unwrap_err().kind(), StoreFailureKind::Unusable);
}

#[cfg(unix)]
#[test]
fn a_file_that_is_linked_is_the_same_file_and_replaces_no_other_in_place() {
    use std::os::unix::fs::{MetadataExt as _, symlink};
    let (directory, store) = store();
    let root = directory.path();
    let [one, two, alias] = ["one.whl", "two.whl", "alias.whl"].map(|name| root.join(name));
    fs::write(&one, "one").unwrap();
    fs::write(&two, "two").unwrap();
    symlink("two.whl", &alias).unwrap();
    let link = |file: &Path, condition| store.link(&key("dist/a.whl"), file, &|_| true, &condition);
    let there = root.join("bucket/dist/a.whl");
    let inode = |path: &Path| fs::symlink_metadata(path).unwrap().ino();
    assert!(link(&one, Condition::IfAbsent).unwrap());
    assert_eq!(inode(&there), inode(&one));
    let refused = link(&two, Condition::IfAbsent).unwrap_err();
    assert_eq!(refused.kind(), StoreFailureKind::Exists);
    // A symlink gives its file, and the file that was there keeps its bytes.
    assert!(link(&alias, Condition::Always).unwrap());
    assert_eq!(inode(&there), inode(&two));
    assert_eq!(fs::read_to_string(&one).unwrap(), "one");
    // Once more, although renaming a file to another name of itself does nothing.
    assert!(link(&two, Condition::Always).unwrap());
    assert_eq!(tree(&root.join("bucket")), ["dist", "dist/a.whl"]);
    assert!(!link(&root.join("gone.whl"), Condition::Always).unwrap());
    fs::remove_file(&there).unwrap();
    symlink("../../secret.html", &there).unwrap();
    assert!(link(&two, Condition::Always).is_err());
    assert_eq!(fs::read_to_string(root.join("secret.html")).unwrap(), "secret");
}

#[cfg(unix)]
#[test]
fn a_file_that_is_not_the_wanted_one_is_not_linked_and_the_object_stays() {
    let (directory, store) = store();
    let new = directory.path().join("new.whl");
    fs::write(&new, "new").unwrap();
    put(&store, "dist/a.whl", "old").unwrap();
    for (at, condition) in [("dist/a.whl", Condition::Always), ("dist/b.whl", Condition::IfAbsent)]
    {
        let is_wanted = |path: &Path| {
            assert_eq!(fs::read_to_string(path).unwrap(), "new");
            // A reader sees the old objects now.
            assert!(!store.root().join("dist/b.whl").exists());
            false
        };
        let linked = store.link(&key(at), &new, &is_wanted, &condition);
        assert!(!linked.unwrap(), "{at}");
    }
    assert_eq!(tree(store.root()), ["dist", "dist/a.whl"]);
    let there = store.root().join("dist/a.whl");
    assert_eq!(fs::read_to_string(there).unwrap(), "old");
    assert_eq!(fs::read_to_string(new).unwrap(), "new");
}
