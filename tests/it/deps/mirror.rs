//! A mirror has what the lock says, whole, or it has nothing of it.

use super::{digest_of, locked};
use crate::publish::tree;

#[test]
#[ignore = "slow"]
fn a_mirror_has_the_locked_files_and_their_pages() {
    let workplace = locked();
    let (it, base) = (&workplace.registry, workplace.path("base"));
    let dry = workplace
        .deps(&["mirror", "--into", "base", "--dry-run"])
        .ok();
    assert!(!base.exists() && dry.contains("7 new ("), "{dry}");
    it.requests();
    it.break_off("numbers-1.0-py3-none-any.whl");
    // The metadata beside a wheel is that of the wheel, and not what the registry has there.
    let sidecar = "pure_package-10.0.post1-py2.py3-none-any.whl.metadata";
    let other = b"Metadata-Version: 2.1\nName: other\nVersion: 1\n";
    it.put(sidecar, other.to_vec());
    let first = workplace.deps(&["mirror", "--into", "base"]);
    assert!(
        first.stderr.contains("Indexed 7 files, "),
        "{}",
        first.stderr
    );
    assert!(first.ok().ends_with("/base/simple/\n"));
    let asked = it.requests();
    let resumed = asked
        .iter()
        .filter(|path| path.ends_with("numbers-1.0-py3-none-any.whl"));
    assert_eq!(resumed.count(), 2, "the download was resumed");
    for name in workplace.mirrored("base") {
        let digest = digest_of(&base.join("dist").join(&name));
        assert!(workplace.lock().contains(&digest.to_string()), "{name}");
    }
    let page = fs_err::read_to_string(base.join("simple/numbers/index.html")).unwrap();
    assert!(page.contains("numbers-1.0-py3-none-any.whl"), "{page}");
    assert!(
        page.contains("data-requires-python=\"&gt;=3.12\""),
        "{page}"
    );
    let sidecar = fs_err::read_to_string(base.join("dist").join(sidecar)).unwrap();
    assert!(sidecar.contains("Name: pure-package"), "{sidecar}");
    // Nothing is sent again, and nothing is written.
    let state = || -> Vec<_> {
        let paths = tree(&base).into_iter();
        // On a slow machine the files are old enough to be remembered.
        paths
            .filter(|path| path != ".rocwheel-digests.json")
            .map(|path| (digest_of(&base.join(&path)), path))
            .collect()
    };
    let before = state();
    workplace.deps(&["mirror", "--into", "base"]).ok();
    assert_eq!(state(), before);
    assert_eq!(it.requests(), [""; 0]);
}

#[test]
fn other_bytes_than_the_locked_ones_never_get_a_name() {
    let workplace = locked();
    let it = &workplace.registry;
    let name = "helper-1.5-py3-none-any.whl";
    let refused = |why: &str| {
        let outcome = workplace.deps(&["mirror", "--into", "base"]);
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("it is not what was locked: "),
            "{}",
            outcome.stderr
        );
        assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
        assert!(!workplace.path("base/dist").join(name).exists());
        assert!(!workplace.path("base/simple").exists());
    };
    let lock = workplace.lock();
    let digest = |it: &&str| it.len() == 64 && lock.contains(it);
    assert!(lock.split('"').any(|it| digest(&it)), "{lock}");
    it.put(name, b"x".to_vec());
    refused("its SHA-256 is ");
    it.put(name, vec![b'x'; 1 << 20]);
    refused("it has more than ");
}

#[test]
#[ignore = "slow"]
fn a_file_of_the_place_is_never_replaced_or_removed() {
    let workplace = locked();
    let dist = workplace.path("base/dist");
    fs_err::create_dir_all(&dist).unwrap();
    let there = dist.join("helper-1.5-py3-none-any.whl");
    fs_err::write(&there, "another").unwrap();
    let refused = workplace.deps(&["mirror", "--into", "base"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let error = "1 file is in `base` already, with other bytes; nothing was changed";
    assert!(refused.stderr.contains(error), "{}", refused.stderr);
    assert_eq!(fs_err::read_to_string(&there).unwrap(), "another");
    assert_eq!(
        tree(&workplace.path("base")),
        ["dist/helper-1.5-py3-none-any.whl"]
    );
    // What the lock has no longer stays, so that what is pinned to it can be installed.
    fs_err::remove_file(&there).unwrap();
    workplace.deps(&["mirror", "--into", "base"]).ok();
    let newer = super::none();
    workplace
        .registry
        .wheel("helper", "1.6", "py3-none-any", "", newer);
    let changes = workplace.deps(&["update"]).ok();
    assert_eq!(changes, "- helper 1.5\n+ helper 1.6\n");
    workplace.deps(&["mirror", "--into", "base"]).ok();
    let page = fs_err::read_to_string(workplace.path("base/simple/helper/index.html")).unwrap();
    assert!(
        page.contains("helper-1.5-") && page.contains("helper-1.6-"),
        "{page}"
    );
}
