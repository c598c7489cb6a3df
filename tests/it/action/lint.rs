//! What others find in action.yml, the workflows and their scripts: nothing.

use super::runner::{git, ours, read};
use crate::support::prelude::*;

#[test]
fn zizmor_finds_nothing() {
    let mut command = Command::new(tool("zizmor"));
    command.args(["--offline", "--no-progress", "--persona", "pedantic"]);
    silent(command.args(with_workflows("action.yml")));
}

#[test]
#[ignore = "slow"]
fn everything_is_as_the_schemas_of_github_have_it() {
    let check = |schema: &str, files: &[String]| {
        let mut command = Command::new(tool("check-jsonschema"));
        command.args(["--builtin-schema", schema]).args(files);
        silent(&mut command);
    };
    check("vendor.github-actions", &["action.yml".to_owned()]);
    check("vendor.github-workflows", &workflows());
}

#[test]
#[ignore = "slow"]
fn the_shell_finds_nothing_in_the_scripts() {
    let place = tempfile::tempdir().unwrap();
    let own = ["obtain", "build", "packages", "pin"];
    let mut files = own.map(|name| format!(".github/binary/{name}.sh")).to_vec();
    files.extend([".ci/fuzz", ".ci/run"].map(str::to_owned));
    for (number, file) in with_workflows("action.yml").iter().enumerate() {
        for (place_in_file, script) in scripts(&read(file)).into_iter().enumerate() {
            // No expression is in a script.
            assert_lacks!(script, "${{");
            let path = place.path().join(format!("{number}-{place_in_file}.sh"));
            fs_err::write(&path, format!("#!/bin/bash -e\n{script}")).unwrap();
            files.push(path.display().to_string());
        }
    }
    assert!(files.len() > 6, "{files:?}");
    let mut shellcheck = Command::new(tool("shellcheck"));
    silent(shellcheck.arg("--severity=style").args(files));
}

#[test]
fn every_action_is_pinned_and_everywhere_the_same() {
    let line = Regex::new(r"uses: ([\w./-]+)@(\S+)( # (.*))?").unwrap();
    let pin = Regex::new(r"^[0-9a-f]{40}$").unwrap();
    let release = Regex::new(r"^v\d+\.\d+\.\d+$").unwrap();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for file in with_workflows("action.yml") {
        for found in line.captures_iter(&read(&file)) {
            assert!(pin.is_match(&found[2]), "{file}: {}", &found[0]);
            let version = found.get(4).map_or("", |version| version.as_str());
            let is_ours = format!("{}@{}", &found[1], &found[2]) == ours();
            let is_good = is_ours || release.is_match(version);
            assert!(is_good, "{file}: {}", &found[0]);
            let other = seen.entry(found[1].to_owned()).or_insert_with(|| found[0].to_owned());
            assert_eq!(*other, found[0], "{file}");
        }
    }
    assert!(seen.len() > 3, "{seen:?}");
}

#[test]
fn every_job_ends_sometime_and_may_little() {
    for file in workflows() {
        let text = read(&file);
        assert!(text.contains("\npermissions: {}\n"), "{file}");
        assert!(text.contains("\nconcurrency:\n"), "{file}");
        let own = text.matches("    runs-on: ").count();
        let limits = text.matches("\n    timeout-minutes: ").count();
        assert_eq!(limits, own, "{file}");
        let jobs = own + text.matches("\n    uses: ").count();
        assert_eq!(text.matches("\n    permissions:").count(), jobs, "{file}");
    }
}

/// Two that one workflow calls in one run, such as for Linux and for Windows, must not be taken for one:
/// of a group one waits for the other, a third takes the place of the second, and a pull request's end
/// each other.
#[test]
fn what_tells_two_calls_apart_tells_their_groups_apart() {
    let tested = "run-id platform target family runner container-image python-versions";
    for (file, inputs) in [
        ("packages", "artifact-run-id platforms release-type"),
        ("packages-spread", "artifact-run-id platform release-type"),
        ("test-packages", tested),
        ("packages-and-tests", "artifact-run-id platforms release-type"),
    ] {
        let text = read(&format!("workflows/{file}.yml"));
        let mut lines = text.lines();
        let group = lines.find(|line| line.starts_with("  group: ")).unwrap();
        for input in inputs.split(' ') {
            assert_has!(group, &format!("inputs.{input} "));
        }
    }
}

/// A job that calls a workflow has to allow what the jobs of that ask for, or nothing starts at all.
#[test]
fn every_caller_allows_what_the_called_jobs_ask_for() {
    let called = Regex::new(r"\n    uses: \./\.github/workflows/([a-z-]+\.yml)\b").unwrap();
    let permission = Regex::new(r"(?m)^      ([a-z-]+: (?:read|write))(?: #|$)").unwrap();
    let permissions = |text: &str| -> BTreeSet<String> {
        let found = permission.captures_iter(text);
        found.map(|found| found[1].to_owned()).collect()
    };
    let mut calls = BTreeSet::new();
    for file in with_workflows("docs/action.md") {
        let text = read(&file);
        for call in called.captures_iter(&text) {
            // Users copy ours from `workflows` to where theirs are.
            let own = ".github/workflows/";
            let directory = if file.starts_with(own) { own } else { &own[8..] };
            let asked = permissions(&read(&format!("{directory}{}", &call[1])));
            assert!(!asked.is_empty(), "{}", &call[1]);
            let start = call.get(0).unwrap().start();
            let job = &text[text[..start].rfind("\n    permissions:\n").unwrap()..start];
            let lacking: Vec<_> = asked.difference(&permissions(job)).cloned().collect();
            assert_eq!(lacking, [""; 0], "{file} calls {}", &call[1]);
            calls.insert((file.clone(), call[1].to_owned()));
        }
    }
    assert!(calls.len() > 4, "{calls:?}");
}

#[test]
fn a_checkout_on_windows_has_the_bytes_that_were_committed() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs_err::write(at(".gitattributes"), read(".gitattributes")).unwrap();
    let files = ["obtain.sh", "packages.toml", "page.html", "__init__.py"];
    for file in files {
        fs_err::write(at(file), "one\ntwo\n").unwrap();
    }
    let as_there = |arguments: &[&str]| {
        let own = ["-c", "core.autocrlf=true"];
        git(place.path(), &[&own, arguments].concat());
    };
    as_there(&["init", "--quiet"]);
    as_there(&["add", "."]);
    as_there(&["commit", "--quiet", "--message", "x"]);
    for file in files {
        fs_err::remove_file(at(file)).unwrap();
    }
    as_there(&["checkout", "--", "."]);
    for file in files {
        let text = fs_err::read_to_string(at(file)).unwrap();
        assert_eq!(text, "one\ntwo\n", "{file}");
    }
}

/// Those for users, and our own.
fn workflows() -> Vec<String> {
    let mut files = Vec::new();
    for directory in ["workflows", ".github/workflows"] {
        let entries = fs_err::read_dir(root().join(directory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        files.extend(names.map(|name| format!("{directory}/{name}")));
    }
    files.sort();
    files
}

fn with_workflows(file: &str) -> Vec<String> {
    [vec![file.to_owned()], workflows()].concat()
}

/// The text of every `run:`, with its indentation taken away.
pub(super) fn scripts(text: &str) -> Vec<String> {
    let mut scripts = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let (before, script) = match line.split_once("run: ") {
            Some((before, script)) if before.trim_matches([' ', '-']).is_empty() => {
                (before, script)
            }
            _ => continue,
        };
        if script != "|" {
            scripts.push(script.to_owned());
            continue;
        }
        let indentation = before.len();
        let mut body = String::new();
        while let Some(line) = lines.next_if(|line| {
            line.trim().is_empty() || line.len() - line.trim_start().len() > indentation
        }) {
            body += line.trim_start();
            body.push('\n');
        }
        scripts.push(body);
    }
    scripts
}

fn silent(command: &mut Command) {
    succeed(command.current_dir(root()));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
