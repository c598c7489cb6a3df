//! Notes the commit and the repository that the crate is built from.
#![expect(clippy::disallowed_methods, reason = "a build script has no fs_err")]

use std::{env, fs, path::Path, process::Command};

fn main() {
    println!("cargo:rustc-env=ROCWHEEL_COMMIT={}", commit());
    println!("cargo:rustc-env=ROCWHEEL_REPOSITORY={}", repository());
}

/// The short commit, empty when it is not known: of the package that cargo unpacked, of the
/// checkout, or of the workflow that builds it.
fn commit() -> String {
    for name in ["GITHUB_SHA", "GITHUB_REPOSITORY", "GITHUB_SERVER_URL"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let full =
        packaged_commit().or_else(checked_out_commit).or_else(workflow_commit).unwrap_or_default();
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
    for watched in ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        // In a worktree these lie in different places, and cargo runs this again and again for a missing file.
        let path = git(&["rev-parse", "--git-path", watched])?;
        if Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "HEAD"])
}

fn workflow_commit() -> Option<String> {
    own_repository()?;
    env::var("GITHUB_SHA").ok()
}

/// Only in this repository's own workflow: elsewhere it is another project.
fn own_repository() -> Option<String> {
    let repository = env::var("GITHUB_REPOSITORY").ok()?;
    repository.ends_with("/rocwheel").then_some(repository)
}

/// The address of the repository, empty when it is not known: that in `Cargo.toml`, or of the
/// workflow that builds it.
fn repository() -> String {
    let published = env::var("CARGO_PKG_REPOSITORY").unwrap_or_default();
    let Some(own) = own_repository().filter(|_| published.is_empty()) else {
        return published;
    };
    let server = env::var("GITHUB_SERVER_URL").unwrap_or("https://github.com".to_owned());
    format!("{server}/{own}")
}

/// What a command prints, unless it fails.
fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let succeeds = output.status.success();
    succeeds.then(|| said.trim_end().to_owned())
}
