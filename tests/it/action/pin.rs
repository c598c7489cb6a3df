//! The places that name a release of ours: all the same, and all changed by one script.

use std::{path::Path, process::Command};

use fs_err as fs;
use regex::Regex;
use tempfile::TempDir;

use super::runner::{ours, read};

const SCRIPT: &str = ".github/binary/pin.sh";
const COMMIT: &str = "89553ce3746eda74ade42557470d25e37c91b6f0";

/// The README, the docs and the workflows, with the script.
fn tree() -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    for file in files(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        let copy = tree.path().join(&file);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::write(copy, read(&file)).unwrap();
    }
    let script = tree.path().join(SCRIPT);
    fs::create_dir_all(script.parent().unwrap()).unwrap();
    fs::write(script, read(SCRIPT)).unwrap();
    tree
}

fn files(root: &Path) -> Vec<String> {
    let mut files = vec!["README.md".to_owned(), "action.yml".to_owned()];
    for directory in ["docs", "workflows"] {
        for entry in fs::read_dir(root.join(directory)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                files.push(format!("{directory}/{}", entry.file_name().display()));
            }
        }
    }
    files.sort();
    files
}

/// Every release of something of this name that is named, with the file that names it.
fn named(root: &Path, name: &str) -> Vec<(String, String)> {
    let release = Regex::new(&format!(r"[\w-]+/{name}@[0-9a-f]{{40}}( # .*)?")).unwrap();
    let mut all = Vec::new();
    for file in files(root) {
        let text = fs::read_to_string(root.join(&file)).unwrap();
        let found = release.find_iter(&text).map(|it| it.as_str().to_owned());
        all.extend(found.map(|found| (file.clone(), found)));
    }
    all
}

fn pin(tree: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new("bash")
        .arg(tree.join(SCRIPT))
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.success(), said)
}

#[test]
fn every_place_names_the_same_release_and_one_script_names_another() {
    let tree = tree();
    let before = named(tree.path(), "rocwheel");
    assert!(before.len() > 20, "{before:#?}");
    let (repository, _) = ours().split_once('@').unwrap();
    for (file, release) in &before {
        assert!(
            release.starts_with(&format!("{} # ", ours())),
            "{file}: {release}"
        );
    }
    let (worked, said) = pin(tree.path(), &["ROCm/other-name", COMMIT, "v1.2.3"]);
    assert!(worked, "{said}");
    for file in files(tree.path()) {
        let text = fs::read_to_string(tree.path().join(&file)).unwrap();
        assert!(!text.contains(repository), "{file}");
        assert!(!text.contains(&"0".repeat(40)), "{file}");
        assert_eq!(text.lines().count(), read(&file).lines().count(), "{file}");
    }
    let expected = format!("ROCm/other-name@{COMMIT} # v1.2.3");
    let after = named(tree.path(), "other-name");
    assert_eq!(after.len(), before.len());
    assert!(after.iter().all(|(_, it)| *it == expected), "{after:#?}");
    let (worked, _) = pin(tree.path(), &["ROCm/rocwheel", &"1".repeat(40), "v2.0.0"]);
    let last = format!("ROCm/rocwheel@{} # v2.0.0", "1".repeat(40));
    let again = named(tree.path(), "rocwheel");
    assert!(worked && again.len() == before.len());
    assert!(again.iter().all(|(_, it)| *it == last), "{again:#?}");
}

#[test]
fn what_is_no_release_is_not_named() {
    let tree = tree();
    let before = named(tree.path(), "rocwheel");
    let said = [
        pin(tree.path(), &["rocwheel", COMMIT, "v1.2.3"]),
        pin(tree.path(), &["ROCm/rocwheel", "v1.2.3", "v1.2.3"]),
        pin(tree.path(), &["ROCm/rocwheel", COMMIT, "1.2.3 # x"]),
        pin(tree.path(), &[]),
    ];
    assert!(said.iter().all(|(worked, _)| !worked));
    let said = said.map(|(_, said)| said).concat();
    insta::assert_snapshot!(said, @"
    error: not a repository such as `ROCm/rocwheel`: rocwheel
    error: not a whole commit id: v1.2.3
    error: not a version such as `v1.2.3`: 1.2.3 # x
    error: usage: .github/binary/pin.sh OWNER/NAME COMMIT VERSION
    ");
    assert_eq!(named(tree.path(), "rocwheel"), before);
}
