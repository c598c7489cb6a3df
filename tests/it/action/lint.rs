//! What others find in action.yml, the workflows and their scripts: nothing.

use super::runner::{CALLED, address, called, git, ours, read};
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
            let named = format!("{}@{}", &found[1], &found[2]);
            let is_ours = named == ours() || called().iter().any(|it| named == address(it));
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
        // A caller has no group: the workflow that it calls has one.
        let is_caller = file.starts_with("workflows/");
        assert!(is_caller || text.contains("\nconcurrency:\n"), "{file}");
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
        ("frameworks", "artifact-name"),
        ("promote", "into"),
        ("check-published", "set run-id platform artifact-group"),
        ("dependencies", "task address"),
    ] {
        let text = read(&format!("{CALLED}{file}.yml"));
        let mut lines = text.lines();
        let group = lines.find(|line| line.starts_with("  group: ")).unwrap();
        for input in inputs.split(' ') {
            assert_has!(group, &format!("inputs.{input} "));
        }
    }
}

/// A job that calls a workflow: its lines, and the called one.
struct Call {
    file: String,
    job: String,
    /// Such as `.github/workflows/packages.yml`.
    called: String,
}

impl Call {
    /// The names of what the job has under a key, such as `with:`.
    fn names(&self, key: &str) -> BTreeSet<String> {
        let lines = self.job.lines().skip_while(|line| line.trim_end() != format!("    {key}:"));
        let lines = lines.skip(1).take_while(|line| line.starts_with("      "));
        lines.filter_map(|line| Some(line.trim().split_once(':')?.0.to_owned())).collect()
    }
}

/// The calls of a workflow, or of the examples of a page.
fn calls(file: &str) -> Vec<Call> {
    let uses =
        Regex::new(r"^    uses: (?:[\w-]+/rocwheel|\$|\.)/(\.github/workflows/[a-z-]+\.yml)")
            .unwrap();
    let text = read(file);
    let lines: Vec<&str> = text.lines().collect();
    let is_in_job = |line: &str| line.is_empty() || line.starts_with("    ");
    let mut calls = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(called) = uses.captures(line) else { continue };
        let start = lines[..at].iter().rposition(|line| !is_in_job(line)).unwrap();
        let end = lines[at..].iter().position(|line| !is_in_job(line));
        let end = end.map_or(lines.len(), |end| at + end);
        let job = lines[start..end].join("\n");
        calls.push(Call { file: file.to_owned(), job, called: called[1].to_owned() });
    }
    calls
}

/// All workflows, and the pages with examples.
fn all_calls() -> Vec<Call> {
    let calls: Vec<Call> =
        with_workflows("docs/action.md").iter().flat_map(|it| calls(it)).collect();
    assert!(calls.len() > 15, "{}", calls.len());
    calls
}

/// A job that calls a workflow has to allow what its jobs ask for, or nothing starts at all.
#[test]
fn every_caller_allows_what_the_called_jobs_ask_for() {
    let permission = Regex::new(r"(?m)^      ([a-z-]+: (?:read|write))(?: #|$)").unwrap();
    let permissions = |text: &str| -> BTreeSet<String> {
        permission.captures_iter(text).map(|it| it[1].to_owned()).collect()
    };
    for call in all_calls() {
        let asked = permissions(&read(&call.called));
        // Who may write may read.
        let is_less = |it: &String| {
            it.strip_suffix(": read")
                .is_some_and(|scope| asked.contains(&format!("{scope}: write")))
        };
        let asked: BTreeSet<String> = asked.iter().filter(|it| !is_less(it)).cloned().collect();
        assert!(!asked.is_empty(), "{}", call.called);
        let granted = permissions(&call.job);
        assert_eq!(granted, asked, "{} calls {}", call.file, call.called);
    }
}

/// The inputs that a called workflow declares, and those among them that it requires.
fn declared(workflow: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let text = read(workflow);
    let (_, inputs) = text.split_once("\n  workflow_call:\n").unwrap();
    let inputs = inputs.strip_prefix("    inputs:\n").unwrap_or_default();
    let lines = inputs.lines().take_while(|line| line.starts_with("      "));
    let mut names = BTreeSet::new();
    let mut required = BTreeSet::new();
    let mut last = "";
    for line in lines {
        match line.strip_prefix("      ").unwrap() {
            "  required: true" => {
                required.insert(last.to_owned());
            }
            line if line.starts_with(' ') => {}
            line => {
                last = line.trim_end_matches(':');
                names.insert(last.to_owned());
            }
        }
    }
    (names, required)
}

/// GitHub starts no run with an input that does not exist, or without one that is required.
#[test]
fn every_caller_passes_inputs_that_the_called_workflow_declares() {
    for call in all_calls() {
        let (declared, required) = declared(&call.called);
        let passed = call.names("with");
        let unknown: Vec<_> = passed.difference(&declared).collect();
        let missing: Vec<_> = required.difference(&passed).collect();
        assert!(unknown.is_empty(), "{} passes {unknown:?} to {}", call.file, call.called);
        assert!(missing.is_empty(), "{} does not pass {missing:?} to {}", call.file, call.called);
    }
}

/// What a caller reads from a called workflow, the workflow has.
#[test]
fn every_output_that_an_example_reads_is_one_of_the_called_workflow() {
    let output = Regex::new(r"needs\.packages\.outputs\.([\w-]+)").unwrap();
    let packages = read(".github/workflows/packages.yml");
    let page = read("docs/action.md");
    let names: BTreeSet<&str> =
        output.captures_iter(&page).map(|it| it.extract::<1>().1[0]).collect();
    assert!(names.len() > 3, "{names:?}");
    for name in names {
        let value = format!("\n        value: ${{{{ jobs.packages.outputs.{name} }}}}\n");
        assert_has!(packages, &value);
    }
}

/// A workflow is called, not copied: what users copy is a call.
#[test]
fn every_workflow_for_others_has_a_short_caller_and_a_row_of_the_page() {
    let page = read("docs/action.md");
    let names = called();
    assert!(names.len() > 7, "{names:?}");
    for name in &names {
        let row = format!("\n| [{name}](../{CALLED}{name}) | [{name}](../workflows/{name}) |");
        assert_has!(page, &row);
        let caller = format!("workflows/{name}");
        let calls = calls(&caller);
        assert_eq!(calls.len(), 1, "{caller}");
        assert_eq!(calls[0].called, format!("{CALLED}{name}"));
        let lines = read(&caller).lines().count();
        assert!(lines <= 26, "{caller} has {lines} lines");
    }
    let callers = fs_err::read_dir(root().join("workflows")).unwrap();
    let callers = callers.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(callers.collect::<BTreeSet<_>>(), names.into_iter().collect());
}

/// The permissions in the table are those that the jobs ask for.
#[test]
fn the_page_names_the_permissions_of_each_workflow() {
    let page = read("docs/action.md");
    for name in called() {
        let caller = &calls(&format!("workflows/{name}"))[0];
        let granted = caller.job.lines().filter_map(|line| line.split(" # ").next());
        let granted = granted.filter_map(|line| line.strip_prefix("      "));
        let granted = granted.filter(|it| it.ends_with(": read") || it.ends_with(": write"));
        let cell: Vec<String> = granted.map(|it| format!("`{it}`")).collect();
        let row = page.lines().find(|line| line.starts_with(&format!("| [{name}]"))).unwrap();
        assert!(row.ends_with(&format!(" | {} |", cell.join(", "))), "{row}");
    }
}

/// A flag that is gone is found here, not by the first run that comes to it.
#[test]
fn every_flag_of_a_workflow_is_one_of_its_command() {
    let line = Regex::new(r"(?:^|[ (])rocwheel ([a-z]+(?: (?:tie|split|env|version|update|check|mirror))?)( [^|>\n]*)").unwrap();
    let flag = Regex::new(r"--[a-z][a-z-]+").unwrap();
    let mut seen = BTreeSet::new();
    for file in workflows() {
        for script in scripts(&read(&file)) {
            for found in line.captures_iter(&script.replace("\\\n", "")) {
                let command: Vec<&str> = found[1].split(' ').collect();
                let help = rocwheel(&[&command[..], &["--help"]].concat()).ok();
                for flag in flag.find_iter(&found[2]) {
                    let is_taken = help.contains(&format!("{} ", flag.as_str()))
                        || help.contains(&format!("{}\n", flag.as_str()));
                    assert!(
                        is_taken,
                        "{file}: `rocwheel {}` has no `{}`",
                        &found[1],
                        flag.as_str()
                    );
                    seen.insert(flag.as_str().to_owned());
                }
            }
        }
    }
    assert!(seen.len() > 9, "{seen:?}");
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
