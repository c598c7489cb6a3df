//! The launcher, built again from its source.

use super::{FOLDER, PROGRAM, REFRESH, Record, digest, program, source_digest};
use crate::support::prelude::*;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What a command prints.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
    let said = String::from_utf8(succeed(&mut command).stdout).unwrap();
    said.trim_end().to_owned()
}

fn compiler() -> String {
    said_by("rustc", &["--version"])
}

/// Builds the launcher with nothing of the machine's but `rustc`, which brings a linker.
fn build() -> Vec<u8> {
    let sysroot = said_by("rustc", &["--print=sysroot"]);
    let linker = format!("{sysroot}/lib/rustlib/{TARGET}/bin/rust-lld");
    assert!(Path::new(&linker).is_file(), "no linker at {linker}");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("launcher");
    let root = env!("CARGO_MANIFEST_DIR");
    let flags = "--crate-name=launcher --crate-type=bin --edition=2024 --cap-lints=warn -Copt-level=z \
                 -Cpanic=abort -Ccodegen-units=1 -Cforce-unwind-tables=no -Crelocation-model=static \
                 -Ctarget-feature=+crt-static -Crelro-level=off -Cstrip=symbols \
                 -Clinker-flavor=ld.lld -Clink-arg=--orphan-handling=error \
                 tests/it/launcher/source/program.rs";
    let places = [
        format!("--target={TARGET}"),
        format!("--remap-path-prefix={root}=."),
        format!("-Clinker={linker}"),
        format!("-Clink-arg=-T{FOLDER}/program.ld"),
        format!("-o{}", out.display()),
    ];
    let places = places.iter().map(String::as_str);
    said_by("rustc", &flags.split_whitespace().chain(places).collect::<Vec<_>>());
    fs_err::read(out).unwrap()
}

#[test]
fn the_compiler_that_made_the_launcher_makes_it_again() {
    if std::env::var_os("ROCWHEEL_UPDATE_LAUNCHER").is_some() {
        let built = build();
        let (compiler, source, digest) = (compiler(), source_digest(), digest(&built));
        let record =
            format!("compiler = \"{compiler}\"\nsource = \"{source}\"\nprogram = \"{digest}\"\n");
        fs_err::write(format!("{FOLDER}/program.toml"), record).unwrap();
        fs_err::write(PROGRAM, built).unwrap();
    } else if compiler() == Record::read().compiler {
        assert!(build() == program(), "the launcher differs; {REFRESH}");
    }
}
