//! A mirror has what the lock says, whole, or it has nothing of it.

use super::locked;
use crate::support::prelude::*;

#[test]
#[ignore = "slow"]
fn a_mirror_has_the_locked_files_and_their_pages() {
    let workplace = locked();
    let (it, base) = (&workplace.registry, workplace.path("base"));
    let dry = workplace.deps(&["mirror", "--into", "base", "--dry-run"]);
    assert_has!(dry.ok(), "7 new (");
    assert!(!base.exists());
    it.requests();
    it.break_off("numbers-1.0-py3-none-any.whl");
    // The metadata beside a wheel is that of the wheel, and not what the registry has there.
    let sidecar = "pure_package-10.0.post1-py2.py3-none-any.whl.metadata";
    it.put(sidecar, "Metadata-Version: 2.1\nName: other\nVersion: 1\n");
    let first = workplace.mirror();
    assert_has!(first.stderr, "Indexed 7 files, ");
    assert!(first.ok().ends_with("/base/simple/\n"));
    let asked = it.requests().into_iter();
    let resumed = asked.filter(|path| path.ends_with("numbers-1.0-py3-none-any.whl"));
    assert_eq!(resumed.count(), 2, "the download was resumed");
    let everything = || {
        let mut files = contents(&base);
        // On a slow machine the files are old enough to be remembered.
        files.remove(".rocwheel-digests.json");
        files
    };
    let before = everything();
    for name in workplace.mirrored("base") {
        let digest = Sha256::of(&before[&format!("dist/{name}")]);
        assert_has!(workplace.lock(), &digest.to_string());
    }
    assert_has!(
        workplace.read("base/simple/numbers/index.html"),
        "numbers-1.0-py3-none-any.whl",
        "data-requires-python=\"&gt;=3.12\"",
    );
    let sidecar = workplace.read(&format!("base/dist/{sidecar}"));
    assert_has!(sidecar, "Name: pure-package");
    // Nothing is sent again, and nothing is written.
    workplace.mirror().ok();
    assert_eq!(everything(), before);
    assert_eq!(it.requests(), [""; 0]);
}

#[test]
fn other_bytes_than_the_locked_ones_never_get_a_name() {
    let workplace = locked();
    let name = "helper-1.5-py3-none-any.whl";
    for (bytes, why) in
        [(vec![b'x'; 1], "its SHA-256 is "), (vec![b'x'; 1 << 20], "it has more than ")]
    {
        workplace.registry.put(name, bytes);
        let said = workplace.mirror().refused(1);
        assert_has!(said, "it is not what was locked: ", why);
        assert!(!workplace.path("base/dist").join(name).exists());
        assert!(!workplace.path("base/simple").exists());
    }
}

#[test]
#[ignore = "slow"]
fn a_file_of_the_place_is_never_replaced_or_removed() {
    let workplace = locked();
    let name = "dist/helper-1.5-py3-none-any.whl";
    let there = workplace.path("base").join(name);
    fs_err::create_dir_all(there.parent().unwrap()).unwrap();
    fs_err::write(&there, "another").unwrap();
    let said = workplace.mirror().refused(1);
    assert_has!(said, "1 file is in `base` already, with other bytes; nothing was changed");
    assert_eq!(fs_err::read_to_string(&there).unwrap(), "another");
    assert_eq!(tree(&workplace.path("base")), [name]);
    // What the lock has no longer stays, so that what is pinned to it can be installed.
    fs_err::remove_file(&there).unwrap();
    workplace.mirror().ok();
    workplace.registry.plain("helper", "1.6");
    let changes = workplace.deps(&["update"]).ok();
    assert_eq!(changes, "- helper 1.5\n+ helper 1.6\n");
    workplace.mirror().ok();
    let page = workplace.read("base/simple/helper/index.html");
    assert_has!(page, "helper-1.5-", "helper-1.6-");
}
