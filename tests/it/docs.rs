//! The examples of the pages: every command runs, and every link leads to a file.

mod migrate;

use crate::support::prelude::*;

/// In an empty directory, as a reader would: each command finds what the ones before it left.
#[test]
#[ignore = "slow"]
fn every_command_of_the_readme_runs_and_runs_again() {
    let place = tempfile::tempdir().unwrap();
    let commands = commands(&root().join("README.md"));
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands.iter().chain(&commands) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let arguments = match words.as_slice() {
            ["rocwheel", arguments @ ..] | ["cargo", "run", "--", arguments @ ..] => arguments,
            // This is what is running.
            ["cargo", "test"] | ["cargo", "install", ..] => continue,
            _ => panic!("an example that no test knows how to run: {command}"),
        };
        let mut run = Command::new(ROCWHEEL);
        let said = outside(run.args(arguments).current_dir(place.path()));
        assert!(!said.is_empty(), "{command}: says nothing");
    }
}

/// What a command prints outside of a workflow and of a cloud.
fn outside(command: &mut Command) -> Vec<u8> {
    for variable in ["GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"] {
        command.env_remove(variable);
    }
    succeed(command.env("AWS_EC2_METADATA_DISABLED", "true")).stdout
}

/// What `cargo` does for a newcomer, in the directory of a clone: `run` and `install` only find that the
/// manifest and the lock file fit. To compile the clone takes ten minutes, and makes the program that
/// the tests have.
const CARGO: &str = r#"#!/bin/sh
set -e
CARGO tree --locked --offline --quiet >/dev/null
case "$1" in
run) while [ "$1" != -- ]; do shift; done; shift; exec ROCWHEEL "$@" ;;
install) ln -s ROCWHEEL "$(dirname "$0")/rocwheel" ;;
test) echo "this is what runs" ;;
*) exit 1 ;;
esac
"#;

/// As a newcomer: the lines as they are printed, in their order, in a clean clone.
#[test]
#[ignore = "long"]
fn long_every_line_of_the_readme_runs_in_a_clean_clone() {
    let place = tempfile::tempdir().unwrap();
    let (clone, programs) = (place.path().join("rocwheel"), place.path().join("bin"));
    let mut git = Command::new("git");
    succeed(git.args(["clone", "--quiet"]).arg(root()).arg(&clone));
    fs_err::create_dir(&programs).unwrap();
    let script = CARGO.replace("CARGO", env!("CARGO")).replace("ROCWHEEL", ROCWHEEL);
    let cargo = programs.join("cargo");
    write_program(&cargo, script);
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", programs.display());
    for line in commands(&clone.join("README.md")) {
        let mut shell = Command::new("sh");
        shell.args(["-ec", &line]).current_dir(&clone).env("PATH", &path);
        let is_silent = outside(&mut shell).is_empty();
        assert!(!is_silent || line.starts_with("cargo"), "{line}");
    }
}

#[test]
fn every_link_of_the_pages_leads_to_a_file() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = fs_err::read_to_string(&page).unwrap();
        let links = text.split("](").skip(1);
        for link in links.filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            if !page.parent().unwrap().join(file).exists() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_path_of_the_pages_exists() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = fs_err::read_to_string(&page).unwrap();
        for path in text.split('`').filter(|it| is_path(it)) {
            let path = root().join(path);
            if !path.exists() && !path.with_extension("rs").exists() {
                broken.push(format!("{}: {}", page.display(), path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn architecture_names_the_crates_of_the_manifest() {
    let manifest = fs_err::read_to_string(root().join("Cargo.toml")).unwrap();
    let page = fs_err::read_to_string(root().join("docs/architecture.md")).unwrap();
    let (_, section) = page.split_once("\n## Dependencies\n").unwrap();
    let (section, _) = section.split_once("\n### ").unwrap();
    let used: BTreeSet<&str> = manifest
        .split("\n[")
        .filter(|table| table.lines().next().unwrap().ends_with("dependencies]"))
        .flat_map(|table| table.lines().skip(1))
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name))
        .map(|name| name.trim_end_matches(".workspace"))
        .filter(|name| !name.starts_with("rocwheel-"))
        .collect();
    // The first column of the table, and what is said below it of crates for tests.
    let rows = section.lines();
    let rows = rows.map(|line| match line.strip_prefix("| ") {
        Some(row) => row.split(" |").next().unwrap(),
        None => line,
    });
    let text = rows.collect::<Vec<_>>().join("\n");
    let named: BTreeSet<&str> = text.split('`').skip(1).step_by(2).collect();
    let missing: Vec<_> = used.difference(&named).collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
    let code = ["Cargo.toml", "cargo run", "cargo test"];
    let gone = named.difference(&used).filter(|it| !code.contains(it));
    let gone: Vec<_> = gone.collect();
    assert!(gone.is_empty(), "not in Cargo.toml: {gone:?}");
}

/// `benches/all.py draw` makes both of what `run` measured.
#[test]
fn tables_and_pictures_are_of_the_same_measurements() {
    let mut python = Command::new("python3");
    python.args(["benches/all.py", "draw", "--check"]);
    succeed(python.current_dir(root()).env("PYTHONDONTWRITEBYTECODE", "1"));
}

#[test]
fn the_readme_has_the_figures_of_the_last_measurement() {
    let page = fs_err::read_to_string(root().join("docs/performance.md")).unwrap();
    let row =
        page.lines().find(|it| it.starts_with("| Build what TheRock's script builds |")).unwrap();
    let times = Regex::new(r"\d+\.\d\d s").unwrap();
    let times: Vec<&str> = times.find_iter(row).take(2).map(|it| it.as_str()).collect();
    let readme = fs_err::read_to_string(root().join("README.md")).unwrap();
    let sentence = format!("took {} on two cores, and {} with", times[0], times[1]);
    assert_has!(readme, &sentence);
}

/// Whether a text is a path below one of our directories. Those with capitals stand for others.
fn is_path(text: &str) -> bool {
    let roots = ["src/", "tests/", "docs/", "benches/", "workflows/", ".github/workflows/"];
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_./".contains(c);
    roots.iter().any(|it| text.starts_with(it)) && text.chars().all(is_plain)
}

/// Help ends the reading of a command line, so that nothing is missing from one that is cut short.
#[test]
#[ignore = "slow"]
fn every_command_line_of_the_pages_has_flags_that_exist() {
    let mut lines = BTreeSet::new();
    for page in pages() {
        let text = fs_err::read_to_string(&page).unwrap();
        let spans = text.split('`').skip(1).step_by(2);
        let spans = spans.filter_map(|span| span.strip_prefix("rocwheel "));
        lines.extend(spans.map(str::to_owned));
        let code = text.lines().filter_map(|line| line.strip_prefix("    rocwheel "));
        lines.extend(code.map(str::to_owned));
    }
    assert!(lines.len() > 30, "{lines:?}");
    for line in lines {
        // What a shell does with the output is no argument.
        let (line, _) = line.split_once(" > ").unwrap_or((line.as_str(), ""));
        let words = line.split_whitespace().filter(|word| *word != "COMMAND");
        let value = |word: &str| match word {
            "N" => "1".to_owned(),
            "FAMILY" | "GROUP" => "gfx94X-dcgpu".to_owned(),
            word => word.replace("BUCKET", "bucket").replace('…', "bucket/key"),
        };
        succeed(command().args(words.map(value)).arg("--help"));
    }
}

fn commands(page: &Path) -> Vec<String> {
    commands_of(&fs_err::read_to_string(page).unwrap())
}

/// The lines after `$ ` in the console examples of a page.
pub(crate) fn commands_of(text: &str) -> Vec<String> {
    let examples = text.split("```console\n").skip(1);
    let examples = examples.filter_map(|rest| rest.split("```").next());
    let lines = examples.flat_map(str::lines);
    let commands = lines.filter_map(|line| line.strip_prefix("$ "));
    commands.map(str::to_owned).collect()
}

fn pages() -> Vec<PathBuf> {
    let docs = fs_err::read_dir(root().join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
    pages
        .chain(["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(|page| root().join(page)))
        .collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
