//! The places that name a release of ours: all the same, and all changed by one script.

use fs_err as fs;

use super::runner::{ours, read};
use crate::support::prelude::*;

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
    let mut bash = Command::new("bash");
    let output = bash.arg(tree.join(SCRIPT)).args(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.success(), said)
}

#[test]
fn every_place_names_the_same_release_and_one_script_names_another() {
    let tree = tree();
    let before = named(tree.path(), "rocwheel");
    assert!(before.len() > 20, "{before:#?}");
    let (repository, _) = ours().split_once('@').unwrap();
    let own = format!("{} # ", ours());
    for (file, release) in &before {
        assert!(release.starts_with(&own), "{file}: {release}");
    }
    let said = [
        &["rocwheel", COMMIT, "v1.2.3"][..],
        &["ROCm/rocwheel", "v1.2.3", "v1.2.3"],
        &["ROCm/rocwheel", COMMIT, "1.2.3 # x"],
        &[],
    ]
    .map(|line| {
        let (worked, said) = pin(tree.path(), line);
        assert!(!worked, "{line:?}");
        said
    });
    insta::assert_snapshot!(said.concat(), @"
    error: not a repository such as `ROCm/rocwheel`: rocwheel
    error: not a whole commit id: v1.2.3
    error: not a version such as `v1.2.3`: 1.2.3 # x
    error: usage: .github/binary/pin.sh OWNER/NAME COMMIT VERSION
    ");
    assert_eq!(named(tree.path(), "rocwheel"), before);
    // What was named by the script can be named again.
    for (name, commit) in [("other-name", COMMIT), ("rocwheel", &"1".repeat(40))] {
        let line = [&format!("ROCm/{name}"), commit, "v1.2.3"];
        let (worked, said) = pin(tree.path(), &line);
        assert!(worked, "{said}");
        let expected = format!("ROCm/{name}@{commit} # v1.2.3");
        let after = named(tree.path(), name);
        assert_eq!(after.len(), before.len());
        assert!(after.iter().all(|(_, it)| *it == expected), "{after:#?}");
        for file in files(tree.path()) {
            let text = fs::read_to_string(tree.path().join(&file)).unwrap();
            assert!(!text.contains(repository), "{file}");
            assert!(!text.contains(&"0".repeat(40)), "{file}");
            assert_eq!(text.lines().count(), read(&file).lines().count(), "{file}");
        }
    }
}
