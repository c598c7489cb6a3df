//! Archives as people make them, with `tar -C DIR .`.

use std::process::Stdio;

use rocwheel_wheel::tar::ArchiveFormat;

use super::{
    Fixture,
    tree::{difference, seen},
};
use crate::support::prelude::*;
use rocwheel_test_sets::sample::sketch::compress;

/// Makes every archive of the run again from what the fixture has fetched.
fn by_hand(fixture: &Fixture) {
    for name in tree(&fixture.run()) {
        fixture.lose(&name);
    }
    for name in fixture.names() {
        let directory = fixture.out().join(&name);
        if !directory.is_dir() {
            continue;
        }
        let mut tar = Command::new("tar")
            .args(["-c", "-C", text(&directory), "."])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let packed = compress(ArchiveFormat::TarZst, tar.stdout.take().unwrap()).unwrap();
        let archive = format!("bucket/7-linux/{name}.tar.zst");
        fixture.t.write(&archive, packed);
        assert!(tar.wait().unwrap().success());
    }
}

#[test]
#[ignore = "slow"]
fn archives_made_by_hand_are_fetched_and_built_from() {
    let fixture = Fixture::new();
    fixture.fetch("--run-id 7").done();
    by_hand(&fixture);
    let whole = seen(&fixture.out());
    fs_err::remove_dir_all(fixture.out()).unwrap();
    fixture.run_binary("--input-dir bucket/7-linux").done();
    assert_eq!(difference(&seen(&fixture.out()), &whole), [""; 0]);

    let build = "build --artifact-dir bucket/7-linux --only rocm --dest-dir packages";
    fixture.t.run(build).done();
}
