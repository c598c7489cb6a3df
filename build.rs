//! Builds the launcher that the crate embeds, and notes the commit that the crate is built from.
#![expect(clippy::disallowed_methods, reason = "a build script has no fs_err")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

const LAUNCHER_TARGET: &str = "x86_64-unknown-linux-gnu";
const PROGRAM: &str = "src/elf/launcher/program.rs";
const LAYOUT: &str = "src/elf/launcher/program.ld";
const COPY: &str = "src/elf/launcher/program.elf";

fn main() {
    let out = PathBuf::from(variable("OUT_DIR")).join("launcher");
    for path in [PROGRAM, LAYOUT, COPY] {
        println!("cargo:rerun-if-changed={path}");
    }
    let origin = match build_launcher(&out) {
        Ok(version) => format!("built by {version}"),
        Err(why) => {
            copy_launcher(&out, &why);
            format!("copied: {}", why.lines().next().unwrap_or_default())
        }
    };
    println!("cargo:rustc-env=ROCWHEEL_LAUNCHER={origin}");
    println!("cargo:rustc-env=ROCWHEEL_COMMIT={}", commit());
}

/// The compiler's version once it has built the launcher, with nothing of the host's but `rustc`.
fn build_launcher(out: &Path) -> Result<String, String> {
    let rustc = variable("RUSTC");
    let library = said_by(
        &rustc,
        &["--print=target-libdir", "--target", LAUNCHER_TARGET],
    )?;
    if !Path::new(&library).is_dir() {
        return Err(format!("no standard library for {LAUNCHER_TARGET}"));
    }
    let linker = Path::new(&said_by(&rustc, &["--print=sysroot"])?)
        .join("lib/rustlib")
        .join(variable("HOST"))
        .join("bin/rust-lld")
        .with_extension(env::consts::EXE_EXTENSION);
    if !linker.is_file() {
        return Err(format!("no linker at {}", linker.display()));
    }
    let root = variable("CARGO_MANIFEST_DIR");
    let linker = linker.display();
    let layout = Path::new(&root).join(LAYOUT);
    let out = out.display();
    said_by(
        &rustc,
        &[
            "--crate-name=launcher",
            "--crate-type=bin",
            "--edition=2024",
            "--cap-lints=warn",
            &format!("--target={LAUNCHER_TARGET}"),
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
            &format!("-Clink-arg=-T{}", layout.display()),
            "-Clink-arg=--orphan-handling=error",
            &format!("-o{out}"),
            PROGRAM,
        ],
    )?;
    said_by(&rustc, &["--version"])
}

fn copy_launcher(out: &Path, why: &str) {
    // Elsewhere the copy is the way it is meant to be.
    if variable("HOST") == LAUNCHER_TARGET {
        println!("cargo:warning=embedding the checked-in launcher ({COPY}), because:");
        for line in why.lines() {
            println!("cargo:warning={line}");
        }
    }
    // Not `fs::copy`: sources may be read-only, and the next build writes here again.
    if let Err(error) = fs::read(COPY).and_then(|copy| fs::write(out, copy)) {
        println!("cargo:error=copy `{COPY}` to `{}`: {error}", out.display());
    }
}

/// The short commit, empty when it is not known: of the package that cargo unpacked, of the
/// checkout, or of the workflow that builds it.
fn commit() -> String {
    for name in ["GITHUB_SHA", "GITHUB_REPOSITORY"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let full = packaged_commit()
        .or_else(checked_out_commit)
        .or_else(workflow_commit)
        .unwrap_or_default();
    full.chars().take(9).collect()
}

/// What `cargo package` noted.
fn packaged_commit() -> Option<String> {
    let text = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    rest.split('"').nth(1).map(str::to_owned)
}

fn checked_out_commit() -> Option<String> {
    let git = |arguments: &[&str]| said_by("git", arguments).ok();
    // Sources that lie somewhere inside another repository are not that repository's commit.
    if !git(&["rev-parse", "--show-prefix"])?.is_empty() {
        return None;
    }
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for watched in ["HEAD", "logs/HEAD", "packed-refs"]
        .into_iter()
        .chain(branch.as_deref())
    {
        // In a worktree these lie in different places, and cargo never rests over a missing file.
        let path = git(&["rev-parse", "--git-path", watched])?;
        if Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "HEAD"])
}

/// Only of this repository's own workflow: elsewhere it is the commit of another project.
fn workflow_commit() -> Option<String> {
    let repository = env::var("GITHUB_REPOSITORY").ok()?;
    repository.ends_with("/rocwheel").then_some(())?;
    env::var("GITHUB_SHA").ok()
}

/// What a command prints; or, if it fails, what it complains of.
fn said_by(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("`{program}`: {error}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() {
        Ok(said(&output.stdout))
    } else {
        let complaint = said(&output.stderr);
        Err(format!(
            "`{program}` fails ({})\n{complaint}",
            output.status
        ))
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
