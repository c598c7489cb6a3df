//! The launcher that is checked in is what its source makes, and does what it should.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod at_work;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod built;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod confined;

use rocwheel_base::digest::Sha256;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/launcher/source");
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/elf/src/launcher.elf");
const REFRESH: &str =
    "to refresh it: `ROCWHEEL_UPDATE_LAUNCHER=1 cargo test --test it launcher`, on x86_64 Linux";

/// What the checked-in launcher was made of.
#[derive(Debug, PartialEq, Eq, serde::Deserialize)]
struct Record {
    /// What the compiler calls itself.
    compiler: String,
    source: String,
    program: String,
}

impl Record {
    fn read() -> Self {
        let text = fs_err::read_to_string(format!("{FOLDER}/program.toml")).unwrap();
        toml::from_str(&text).unwrap()
    }
}

fn program() -> Vec<u8> {
    fs_err::read(PROGRAM).unwrap()
}

fn source_digest() -> String {
    // A checkout on Windows may have other line ends.
    let read = |name| fs_err::read_to_string(format!("{FOLDER}/{name}")).unwrap();
    let source = read("program.rs") + &read("program.ld");
    digest(source.replace("\r\n", "\n").as_bytes())
}

fn digest(bytes: &[u8]) -> String {
    Sha256::of(bytes).to_string()
}

#[test]
fn the_checked_in_launcher_is_of_its_source() {
    let record = Record::read();
    assert_eq!(record.source, source_digest(), "{REFRESH}");
    assert_eq!(record.program, digest(&program()), "{REFRESH}");
}

#[test]
fn every_build_embeds_the_launcher_that_is_checked_in() {
    let launcher = rocwheel_elf::launcher(b"x").unwrap();
    let mut program = program();
    let mark = b"rocwheel launcher runs: ";
    let found = program.windows(mark.len()).position(|it| it == mark);
    program[found.unwrap() + mark.len()] = b'x';
    assert!(launcher == program);
}
