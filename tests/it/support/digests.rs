//! The bytes of the sample's packages, by their digests: no change goes unseen.
//!
//! A commit that changes them says why. `ROCWHEEL_BLESS=1 cargo test --test it support::digests`
//! writes the new ones.

use std::fmt::Write as _;

use crate::support::prelude::*;

const BLESSED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/packages.sha256");

#[test]
fn the_packages_of_the_sample_are_the_same_bytes() {
    let dist = published::sample().dist();
    let files = fs_err::read_dir(dist).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.is_file()).collect();
    files.sort();
    let mut found = String::new();
    for path in files {
        let digest = Sha256::of(&fs_err::read(&path).unwrap());
        let name = path.file_name().unwrap().to_str().unwrap();
        writeln!(found, "{digest}  {name}").unwrap();
    }
    if std::env::var_os("ROCWHEEL_BLESS").is_some() {
        fs_err::write(BLESSED, found).unwrap();
        return;
    }
    let blessed = fs_err::read_to_string(BLESSED).unwrap();
    assert_eq!(
        found, blessed,
        "say why in the commit, and run `ROCWHEEL_BLESS=1 cargo test --test it support::digests`"
    );
}
