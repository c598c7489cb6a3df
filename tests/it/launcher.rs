//! The launcher of this build, and the checked-in copy of it for hosts that cannot build one.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod at_work;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod confined;

use std::{fmt::Write as _, sync::LazyLock};

use sha2::{Digest, Sha256};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/elf/launcher");
const BUILT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launcher"));
/// `built by rustc …`, or `copied: ` and the reason.
const ORIGIN: &str = env!("ROCWHEEL_LAUNCHER");
const REFRESH: &str =
    "to refresh it: `ROCWHEEL_UPDATE_LAUNCHER=1 cargo test --test it launcher`, on x86_64 Linux";

/// What the checked-in copy was made of.
#[derive(Debug, PartialEq, Eq, serde::Deserialize)]
struct Record {
    origin: String,
    source: String,
    copy: String,
}

static COPY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let copy = format!("{FOLDER}/program.elf");
    if std::env::var_os("ROCWHEEL_UPDATE_LAUNCHER").is_some() {
        assert!(ORIGIN.starts_with("built by "), "{ORIGIN}");
        let (source, built) = (source_digest(), digest(BUILT));
        let record = format!("origin = \"{ORIGIN}\"\nsource = \"{source}\"\ncopy = \"{built}\"\n");
        fs_err::write(format!("{FOLDER}/program.toml"), record).unwrap();
        fs_err::write(&copy, BUILT).unwrap();
    }
    fs_err::read(copy).unwrap()
});

fn record() -> Record {
    LazyLock::force(&COPY);
    let text = fs_err::read_to_string(format!("{FOLDER}/program.toml")).unwrap();
    toml::from_str(&text).unwrap()
}

fn source_digest() -> String {
    // A checkout on Windows may have other line ends.
    let read = |name| fs_err::read_to_string(format!("{FOLDER}/{name}")).unwrap();
    let source = read("program.rs") + &read("program.ld");
    digest(source.replace("\r\n", "\n").as_bytes())
}

fn digest(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

#[test]
fn the_checked_in_copy_is_of_the_source_beside_it() {
    let record = record();
    assert_eq!(record.source, source_digest(), "{REFRESH}");
    assert_eq!(record.copy, digest(&COPY), "{REFRESH}");
}

/// Under any other compiler `at_work` puts the copy to the same tests as the launcher of this build.
#[test]
fn the_compiler_that_made_the_copy_makes_it_again() {
    if ORIGIN == record().origin || ORIGIN.starts_with("copied: ") {
        assert!(BUILT == *COPY, "the copy differs; {REFRESH}");
    }
}

#[test]
fn a_compiler_that_could_build_the_launcher_did() {
    assert!(!ORIGIN.contains("fails"), "{ORIGIN}; see `cargo build`");
}
