//! Archives as people make them, with `tar -C DIR .`.

use std::process::{Command, Stdio};

use fs_err as fs;
use rocwheel::archive::ArchiveFormat;

use super::{
    Fixture,
    tree::{difference, seen},
};
use crate::support::{program::ROCWHEEL, sample::sketch::compress};

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
fn archives_made_by_hand_are_fetched_and_built_from() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    assert_eq!(fixture.fetch("--run-id 7").code, 0);
    by_hand(&fixture);
    let whole = seen(&fixture.out());
    let out = other.out();
    let said = other.run_binary(&format!("--input-dir {}", fixture.run().display()));
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(difference(&seen(&out), &whole), [""; 0]);

    let mut build = Command::new(ROCWHEEL);
    build.env_clear().args(["build", "--artifact-dir"]);
    build
        .arg(fixture.run())
        .args(["--only", "rocm", "--dest-dir"]);
    let output = build
        .arg(fixture.directory.path().join("packages"))
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
}
