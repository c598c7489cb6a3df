//! Installs from an index without digests: each chosen file is read once, and its digest is remembered.

use super::{assert_installed, sandbox};
use crate::support::bare_index::BareIndex;

#[test]
#[ignore = "slow"]
fn each_wheel_of_an_index_without_digests_is_read_once_and_pinned() {
    for installer in ["uv", "pip"] {
        let index = BareIndex::start();
        let t = sandbox();
        let t = t.shows(index.url.clone(), "INDEX/");
        let cache = t.path("cache");
        let t = t.with("XDG_CACHE_HOME", cache.clone()).with("UV_CACHE_DIR", cache.join("uv"));
        let line = format!("install {} --target gfx942 --installer {installer}", index.url);
        let dry = t.run(&format!("{line} --dry-run")).done();
        assert_lacks!(dry.stderr, "first use");
        assert_eq!(index.take_sent(), 0);

        let first = t.run(&line).done();
        assert_has!(first.stderr, "does not say the SHA-256 of 5 files", "trust on first use");
        assert_installed(&t.path(".venv"), &["gfx942"]);
        assert_eq!(index.take_sent(), 2, "{installer}: {}", first.stderr);
        let entries = fs_err::read_dir(t.path("")).unwrap().count();
        assert_eq!(entries, 2, "what was kept for the install is gone");

        let pins = t.run(&format!("{line} --emit requirements")).done();
        assert_lacks!(pins.stderr, "first use");
        assert_eq!(pins.stdout.matches("--hash=sha256:").count(), 5);
        let lock = t.run(&format!("{line} --emit pylock")).done();
        assert_eq!(lock.stdout.matches("sha256 = ").count(), 5);
        assert_eq!(index.take_sent(), 0, "the digests are remembered");
        t.run(&format!("{line} --venv second")).ok();
        assert_installed(&t.path("second"), &["gfx942"]);
    }
}

#[test]
fn a_file_that_is_another_one_now_is_refused() {
    let index = BareIndex::start();
    let t = sandbox();
    let t = t.shows(index.url.clone(), "INDEX/");
    let cache = t.path("cache");
    let t = t.with("XDG_CACHE_HOME", cache);
    let line = format!("install {} --target none --extras none --emit pylock", index.url);
    let first = t.run(&line).done();
    assert_eq!(index.take_sent(), 1);
    assert_eq!(t.run(&line).done().stdout, first.stdout);
    assert_eq!(index.take_sent(), 0);
    let name = "rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl";
    // In the middle of a library, so that the metadata can still be read.
    let mut files = index.files.lock().unwrap();
    let bytes = files.get_mut(name).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    drop(files);
    let refused = t.run(&line).refused(1);
    assert_has!(
        refused,
        "rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl` is another file",
        "remove `HERE/cache/rocwheel/served-digests.json`",
    );
    // It stays so until the user has decided.
    t.run(&line).refused(1);
    fs_err::remove_file(t.path("cache/rocwheel/served-digests.json")).unwrap();
    assert_ne!(t.run(&line).ok(), first.stdout);
}
