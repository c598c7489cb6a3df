//! The launcher, built again from its source.

use std::{path::Path, process::Command};

use super::{FOLDER, PROGRAM, REFRESH, Record, digest, program, source_digest};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What a command prints.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} fails\n{complaint}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
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
    said_by(
        "rustc",
        &[
            "--crate-name=launcher",
            "--crate-type=bin",
            "--edition=2024",
            "--cap-lints=warn",
            &format!("--target={TARGET}"),
            &format!("--remap-path-prefix={root}=."),
            "-Copt-level=z",
            "-Cpanic=abort",
            "-Ccodegen-units=1",
            "-Cforce-unwind-tables=no",
            "-Crelocation-model=static",
            "-Ctarget-feature=+crt-static",
            "-Crelro-level=off",
            "-Cstrip=symbols",
            "-Clinker-flavor=ld.lld",
            &format!("-Clinker={linker}"),
            &format!("-Clink-arg=-T{FOLDER}/program.ld"),
            "-Clink-arg=--orphan-handling=error",
            &format!("-o{}", out.display()),
            "tests/it/launcher/source/program.rs",
        ],
    );
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
