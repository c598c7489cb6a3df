//! Notes the commit that the crate is built from.
#![expect(clippy::disallowed_methods, reason = "a build script has no fs_err")]

use std::{env, fs, path::Path, process::Command};

fn main() {
    println!("cargo:rustc-env=ROCWHEEL_COMMIT={}", commit());
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
    let git = |arguments: &[&str]| said_by("git", arguments);
    // Sources that lie somewhere inside another repository are not that repository's commit.
    if !git(&["rev-parse", "--show-prefix"])?.is_empty() {
        return None;
    }
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for watched in ["HEAD", "logs/HEAD", "packed-refs"]
        .into_iter()
        .chain(branch.as_deref())
    {
        // In a worktree these lie in different places, and cargo runs this again and again for a missing file.
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

/// What a command prints, unless it fails.
fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let succeeds = output.status.success();
    succeeds.then(|| said.trim_end().to_owned())
}
