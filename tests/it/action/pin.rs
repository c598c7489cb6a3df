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
    for directory in ["docs", "workflows", ".github/workflows"] {
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

/// Every release of something of this name that is named, for the Action or for a workflow, with the file that
/// names it.
fn named(root: &Path, name: &str) -> Vec<(String, String)> {
    let release = format!(r"([\w-]+/{name})(?:/[\w./-]+)?(@[0-9a-f]{{40}}(?: # .*)?)");
    let release = Regex::new(&release).unwrap();
    let mut all = Vec::new();
    for file in files(root) {
        let text = fs::read_to_string(root.join(&file)).unwrap();
        let found = release.captures_iter(&text);
        all.extend(found.map(|it| (file.clone(), format!("{}{}", &it[1], &it[2]))));
    }
    all
}

fn pin(tree: &Path, arguments: &[&str]) -> (bool, String) {
    let mut bash = Command::new("bash");
    let output = bash.arg(tree.join(SCRIPT)).args(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.success(), said)
}

/// The steps of the workflows that others call name one commit, and what users copy a later one, which has them.
fn is_step(file: &str) -> bool {
    file.starts_with(".github/workflows/")
}

#[test]
fn every_place_names_the_same_release_and_one_script_names_another() {
    let tree = tree();
    let before = named(tree.path(), "rocwheel");
    assert!(before.len() > 40, "{before:#?}");
    let (repository, _) = ours().split_once('@').unwrap();
    for of_steps in [true, false] {
        let mut files = before.iter().filter(|(file, _)| is_step(file) == of_steps);
        let (_, first) = files.next().unwrap();
        assert!(first.starts_with(&format!("{repository}@")), "{first}");
        files.for_each(|(file, release)| assert_eq!(release, first, "{file}"));
    }
    let said = [
        &["pages", "rocwheel", COMMIT, "v1.2.3"][..],
        &["pages", "ROCm/rocwheel", "v1.2.3", "v1.2.3"],
        &["pages", "ROCm/rocwheel", COMMIT, "1.2.3 # x"],
        &["all", "ROCm/rocwheel", COMMIT, "v1.2.3"],
        &["ROCm/rocwheel", COMMIT, "v1.2.3"],
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
    error: not `steps` or `pages`: all
    error: usage: .github/binary/pin.sh steps|pages OWNER/NAME COMMIT VERSION
    ");
    assert_eq!(named(tree.path(), "rocwheel"), before);
    // What was named by the script can be named again.
    for (name, of_steps, of_pages) in
        [("other-name", COMMIT, "2".repeat(40)), ("rocwheel", &"1".repeat(40), COMMIT.to_owned())]
    {
        for (part, commit) in [("steps", of_steps), ("pages", &*of_pages)] {
            let line = [part, &format!("ROCm/{name}"), commit, "v1.2.3"];
            let (worked, said) = pin(tree.path(), &line);
            assert!(worked, "{said}");
        }
        let after = named(tree.path(), name);
        assert_eq!(after.len(), before.len());
        for (file, release) in &after {
            let commit = if is_step(file) { of_steps } else { &of_pages };
            assert_eq!(*release, format!("ROCm/{name}@{commit} # v1.2.3"), "{file}");
        }
        for file in files(tree.path()) {
            let text = fs::read_to_string(tree.path().join(&file)).unwrap();
            assert!(!text.contains(repository), "{file}");
            assert!(!text.contains(&"0".repeat(40)), "{file}");
            assert_eq!(text.lines().count(), read(&file).lines().count(), "{file}");
        }
    }
}
