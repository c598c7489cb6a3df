//! Archives as people make them, with `tar -C DIR .`.

use std::process::{Command, Stdio};

use fs_err as fs;
use rocwheel::archive::ArchiveFormat;

use super::{
    Fixture,
    tree::{difference, seen},
};
use crate::support::sample::sketch::compress;

/// Makes every archive of the run again from what the fixture has fetched.
fn by_hand(fixture: &Fixture) {
    for entry in fs::read_dir(fixture.run()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap_or_default();
    }
    for name in fixture.names() {
        let directory = fixture.out().join(&name);
        if !directory.is_dir() {
            continue;
        }
        let mut tar = Command::new("tar")
            .arg("-C")
            .arg(directory)
            .args(["-c", "."])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let archive = fixture.run().join(format!("{name}.tar.zst"));
        let packed = compress(ArchiveFormat::TarZst, tar.stdout.take().unwrap()).unwrap();
        fs::write(archive, packed).unwrap();
        assert!(tar.wait().unwrap().success());
    }
}

#[test]
#[ignore = "slow"]
fn archives_made_by_hand_are_fetched_and_built_from() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    fixture.fetch("--run-id 7").done();
    by_hand(&fixture);
    let whole = seen(&fixture.out());
    let out = other.out();
    other
        .run_binary(&format!("--input-dir {}", fixture.run().display()))
        .done();
    assert_eq!(difference(&seen(&out), &whole), [""; 0]);

    fixture
        .t
        .run("build --artifact-dir bucket/7-linux --only rocm --dest-dir packages")
        .done();
}
