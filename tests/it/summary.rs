//! `summary`: from each place that a set can be in, with what was found and what changed.

use std::{collections::BTreeSet, path::Path};

use crate::support::{
    place::copy_files,
    program::{Outcome, command, rocwheel, succeed},
    published::{self, sets},
    sandbox::Sandbox,
};

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn summary(arguments: &[&str]) -> Outcome {
    rocwheel(&[&["summary"], arguments].concat())
}

fn published() -> String {
    text(&published::sample().place())
}

#[test]
fn programs_get_one_document() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("beside-json.md");
    let place = published();
    let page = summary(&[
        &place,
        "--check",
        "--format",
        "json",
        "--output",
        &text(&file),
    ])
    .ok();
    assert!(fs_err::read_to_string(file).unwrap().starts_with("## ROCm"));
    let json: serde_json::Value = serde_json::from_str(&page).unwrap();
    assert_eq!(json["schema"], "rocwheel-summary-v1");
    assert_eq!((&json["errors"], &json["warnings"]), (&0.into(), &0.into()));
    assert_eq!(json["index-url"], format!("file://{place}/simple/"));
    assert_eq!(json["set"]["files"].as_array().unwrap().len(), 7);
    let lines = json["install"].as_array().unwrap();
    let told = |line: &serde_json::Value| format!("{} with {}", line["for"], line["with"]);
    let told: Vec<String> = lines.iter().map(told).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    "gfx942" with "pip"
    "gfx942" with "uv"
    "gfx942" with "pip, from the find-links page"
    "gfx942" with "uv, from the find-links page"
    "gfx1100" with "pip"
    "gfx1100" with "uv"
    "gfx1100" with "pip, from the find-links page"
    "gfx1100" with "uv, from the find-links page"
    "#);
    let command = lines[0]["command"].as_str().unwrap();
    assert!(command.contains("device-gfx942"), "{command}");
}

#[test]
fn a_pipeline_tells_what_was_found_and_which_library_has_which_code() {
    let page = published::sample().summary();
    let checked = page.lines().find(|line| line.contains("check:")).unwrap();
    insta::assert_snapshot!(checked, @"✅ **check: OK, no problems**");
    let start = page.find("### Device code").unwrap();
    insta::assert_snapshot!(&page[start..], @"
    ### Device code

    4 of 4 libraries with code for every target.

    <details><summary>Size of the code by library and target</summary>

    | Library | gfx1100 | gfx942 |
    | :--- | ---: | ---: |
    | <code>libhipblaslt.so.1.0</code> | 32&nbsp;KiB | 64&nbsp;KiB |
    | <code>librccl.so.1.0</code> | 32&nbsp;KiB | 32&nbsp;KiB |
    | <code>librocblas.so.5.1</code> | 64&nbsp;KiB | 128&nbsp;KiB |
    | <code>rocblas</code> | 32&nbsp;KiB | 64&nbsp;KiB |

    </details>
    ");
}

#[test]
fn a_set_is_the_same_wherever_it_is_named() {
    let index = "https://host.example/python/simple/";
    let say = |place: &[&str]| summary(&[place, &["--index-url", index]].concat()).ok();
    for set in sets() {
        let at = text(&set.place());
        let named = say(&[&at]);
        assert_eq!(say(&["--packages-dir", &at]), named);
        let root = text(set.root());
        let run = [
            "--run-id",
            "local",
            "--platform",
            "linux",
            "--output-dir",
            &root,
        ];
        let bucket = ["--bucket", "any", "--repository", "ROCm/TheRock"];
        assert_eq!(say(&[&run[..], &bucket].concat()), named);
        assert!(
            named.contains(index) && !named.contains("file://"),
            "{named}"
        );
        for target in set.targets {
            let line = set.install_line(target);
            assert!(named.contains(&line), "{line}\n{named}");
            assert!(set.summary().contains(&line), "{line}");
        }
    }
}

#[test]
fn what_check_finds_is_run_or_read() {
    for set in sets() {
        let at = text(&set.place());
        let found = rocwheel(&["check", &at, "--format", "json"]);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs_err::write(file.path(), found.ok()).unwrap();
        let read = summary(&[&at, "--findings", &text(file.path())]).ok();
        assert_eq!(summary(&[&at, "--check"]).ok(), read);
        assert!(read.contains("check: OK, no problems") && read.contains("librocblas.so.5.1"));
        assert!(!summary(&[&at]).ok().contains("check:"));
    }
}

#[test]
fn sizes_are_compared_with_a_directory_or_a_document() {
    let at = published();
    let document = Path::new(&at).join("set.json");
    let json = fs_err::read_to_string(&document).unwrap();
    let mut set: serde_json::Value = serde_json::from_str(&json).unwrap();
    let files = set["files"].as_array_mut().unwrap();
    files[0]["sha256"] = "0".repeat(64).into();
    files[0]["size"] = 1000.into();
    files.remove(1);
    let old = tempfile::tempdir().unwrap();
    fs_err::write(old.path().join("set.json"), set.to_string()).unwrap();
    let changes = |baseline: &str| {
        let page = summary(&[&at, "--baseline", baseline]).ok();
        let rows = page.lines().filter(|line| line.starts_with("| [<code>"));
        let last = |row: &str| row.rsplit(" | ").next().unwrap().to_owned();
        rows.map(last).collect::<Vec<_>>()
    };
    let found = changes(&text(old.path()));
    assert!(found[..2].contains(&"🟩 **new** |".to_owned()), "{found:?}");
    assert!(
        found[..2].iter().any(|change| change.starts_with("🔺 +")),
        "{found:?}"
    );
    assert!(
        found[2..].iter().all(|change| change == "unchanged |"),
        "{found:?}"
    );
    assert_eq!(changes(&text(&old.path().join("set.json"))), found);
    let same = changes(&at);
    assert!(
        same.iter().all(|change| change == "unchanged |"),
        "{same:?}"
    );
}

#[test]
fn a_set_with_errors_has_a_summary_that_says_so() {
    let out = tempfile::tempdir().unwrap();
    let page = text(&out.path().join("page.md"));
    let arguments = [
        "pipeline",
        "--sample",
        "--output-dir",
        &text(out.path()),
        "--require-targets",
        "gfx90a",
        "--step-summary",
        &page,
    ];
    let refused = rocwheel(&arguments);
    assert_eq!(refused.code, 1);
    let page = fs_err::read_to_string(page).unwrap();
    let head: Vec<&str> = page.lines().take(3).collect();
    insta::assert_snapshot!(head.join("\n"), @"
    ## ROCm Python packages <code>0.0.1.dev0</code> for Linux

    ❌ **check: 1 error** Nothing was published.
    ");
    assert!(
        page.contains("RW304") && !page.contains("### Install"),
        "{page}"
    );
}

#[test]
fn packages_that_stay_with_a_run_need_no_index_and_have_no_address() {
    let place = tempfile::tempdir().unwrap();
    let dist = place.path().join("dist");
    fs_err::create_dir(&dist).unwrap();
    copy_files(&Path::new(&published()).join("dist"), &dist);
    let (at, outputs) = (text(place.path()), text(&place.path().join("outputs")));
    let run = ["--run-id", "42", "--repository", "ROCm/TheRock"];
    let named = ["--workflow-artifact", "kept", "--github-output", &outputs];
    let page = summary(&[&[&*at][..], &run, &named].concat()).ok();
    assert!(page.contains("gh run download 42 --repo ROCm/TheRock --name kept --dir kept"));
    assert!(
        !page.contains("file:") && !page.contains("set.json"),
        "{page}"
    );
    let outputs = fs_err::read_to_string(outputs).unwrap();
    let mut lines = outputs.lines();
    assert!(lines.next().unwrap().starts_with("package-index-url<<"));
    assert_eq!(lines.next(), Some(""));
    assert!(outputs.contains("\n0.0.1.dev0\n"), "{outputs}");
    let refused = [
        summary(&[&at]).stderr,
        summary(&["s3://bucket/x", "--workflow-artifact", "kept"]).stderr,
        summary(&[&at, "--workflow-artifact", "a b"]).stderr,
    ];
    let refused = refused.concat().replace(&at, "HERE");
    insta::assert_snapshot!(refused, @r#"
    error: no index in `HERE`

    hint: run `rocwheel index` on it, or pass `--index-url`
    error: the set is published: `s3://bucket/x`

    hint: `--workflow-artifact` is for packages in a directory
    error: invalid value 'a b' for '--workflow-artifact <NAME>': not a name of letters, digits, `-`, `_` and `.` that begins with a letter or digit: "a b"

    For more information, try '--help'.
    "#);
}

#[test]
fn what_cannot_be_told_is_said_in_words() {
    let at = published();
    let said = [
        summary(&[]).stderr,
        summary(&["s3://b", "--no-sign-request"]).stderr,
        summary(&[&at, "--findings", "Cargo.toml"]).stderr,
        summary(&[&at, "--baseline", "Cargo.toml"]).stderr,
        summary(&[&at, "--base-index", "https://u@host/"]).stderr,
    ];
    insta::assert_snapshot!(said.concat(), @r#"
    error: no package set was named

    hint: pass a directory, `s3://bucket/prefix`, or `--run-id`
    error: invalid value 's3://b' for '[SET]': not a location such as `s3://bucket/key`: "s3://b"

    For more information, try '--help'.
    error: failed to read what `check` found
      caused by: expected value at line 1 column 2

    hint: write it with `rocwheel check --format json`
    error: failed to read `Cargo.toml`
      caused by: failed to read the `schema` of a set
      caused by: expected value at line 1 column 2
    error: invalid value 'https://***@host/' for '--base-index <URL>': an address with a user in it: "https://***@host/"

    For more information, try '--help'.
    "#);
}

/// The files of a step, in a directory of its own.
struct Step {
    directory: tempfile::TempDir,
}

impl Step {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> String {
        text(&self.directory.path().join(name))
    }

    fn read(&self, name: &str) -> Option<String> {
        fs_err::read_to_string(self.path(name)).ok()
    }

    /// Runs a command as a step of a workflow.
    fn run(&self, arguments: &[&str]) -> Outcome {
        let mut command = command();
        command.args(arguments);
        command.env("GITHUB_STEP_SUMMARY", self.path("step.md"));
        command.env("GITHUB_OUTPUT", self.path("outputs"));
        command.env("RUNNER_TEMP", self.path(""));
        Outcome::of(command.output().unwrap())
    }
}

#[test]
#[ignore = "slow"]
fn an_upload_says_what_summary_says_about_the_published_set() {
    for set in sets() {
        let (uploaded, again) = (Step::new(), Step::new());
        let (packages, to) = (text(&set.root().join("packages")), uploaded.path("to"));
        let upload = ["upload", "--packages-dir", &packages, "--multi-target"];
        let upload = [&upload[..], &["--output-dir", &to]].concat();
        uploaded.run(&upload).ok();
        let page = uploaded.read("step.md").unwrap();
        assert!(page.contains("✅ **check: OK, no problems**"), "{page}");
        assert_eq!(uploaded.read("job_summary.md").unwrap(), page);

        let place = format!("{to}/local-linux/python");
        again.run(&["summary", &place, "--check"]).ok();
        assert_eq!(again.read("step.md").unwrap(), page);
        assert_eq!(again.read("job_summary.md").unwrap(), page);
        assert_eq!(again.read("outputs"), uploaded.read("outputs"));

        // Each step of a job appends to the same file.
        uploaded.run(&upload).ok();
        assert_eq!(uploaded.read("job_summary.md").unwrap(), page.repeat(2));

        let silent = Step::new();
        silent.run(&[&upload[..], &["--no-summary"]].concat()).ok();
        assert_eq!(
            (silent.read("step.md"), silent.read("job_summary.md")),
            (None, None)
        );
        assert_eq!(
            silent.read("outputs"),
            uploaded
                .read("outputs")
                .map(|it| it[..it.len() / 2].to_owned())
        );
        let told = Step::new();
        told.run(&[&upload[..], &["--dry-run"]].concat()).ok();
        assert_eq!((told.read("step.md"), told.read("outputs")), (None, None));
    }
}

#[test]
fn a_set_that_upload_refuses_has_a_summary_and_no_outputs() {
    let step = Step::new();
    let packages = step.directory.path().join("packages");
    fs_err::create_dir_all(packages.join("dist")).unwrap();
    copy_files(&published::sample().dist(), &packages.join("dist"));
    let core = "rocm_sdk_core-0.0.1.dev0-py3-none-linux_x86_64.whl";
    fs_err::remove_file(packages.join("dist").join(core)).unwrap();
    let (from, to) = (text(&packages), step.path("to"));
    let upload = [
        "upload",
        "--packages-dir",
        &from,
        "--multi-target",
        "--output-dir",
        &to,
    ];
    assert_eq!(step.run(&upload).code, 1);
    let page = step.read("job_summary.md").unwrap();
    assert!(page.contains("Nothing was published."), "{page}");
    assert!(!page.contains("pip install"), "{page}");
    assert_eq!(step.read("outputs"), None);
}

#[test]
fn a_directory_of_the_runner_that_is_not_there_costs_only_the_copy() {
    let step = Step::new();
    let from = text(&published::sample().root().join("packages"));
    let (to, none) = (step.path("to"), step.path("none"));
    let upload = [
        "upload",
        "--packages-dir",
        &from,
        "--multi-target",
        "--output-dir",
        &to,
    ];
    let outcome = step.run(&[&upload[..], &["--runner-temp", &none]].concat());
    let said = "warning: the summary is not in `job_summary.md`";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    outcome.ok();
    assert!(step.read("step.md").is_some());
}

/// The pages count too: what `check` refuses, `summary --check` does not call good.
#[test]
fn a_summary_asks_what_check_asks() {
    let copy = tempfile::tempdir().unwrap();
    let set = copy.path().join("set");
    let mut cp = std::process::Command::new("cp");
    succeed(cp.arg("-a").arg(published::sample().place()).arg(&set));
    let page = set.join("simple/rocm-sdk-core/index.html");
    let mut damaged = fs_err::read_to_string(&page).unwrap();
    let at = damaged.find("#sha256=").unwrap() + 8;
    damaged.replace_range(at..at + 64, &"0".repeat(64));
    fs_err::write(&page, damaged).unwrap();
    let set = text(&set);
    assert_eq!(rocwheel(&["check", &set]).code, 1);
    let said = summary(&[&set, "--check", "--format", "json"]).ok();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_ne!(said["errors"], 0, "{said}");
}

/// A copy of the sample without two of its packages.
fn failing() -> Sandbox {
    let t = Sandbox::new();
    fs_err::create_dir_all(t.path("set/dist")).unwrap();
    copy_files(&published::sample().dist(), &t.path("set/dist"));
    for package in ["rocm_sdk_core", "rocm_sdk_device_gfx942"] {
        let name = format!("set/dist/{package}-0.0.1.dev0-py3-none-linux_x86_64.whl");
        fs_err::remove_file(t.path(name)).unwrap();
    }
    t
}

#[test]
fn a_failing_set_shows_the_first_finding_of_each_rule_and_no_install_line() {
    let t = failing();
    let said = t.run("summary set --check --output page.md");
    assert_eq!(said.ok(), "", "the page is in the file");
    let page = t.read("page.md");
    let verdict = page.lines().position(|it| it.starts_with("❌ **check: "));
    let below = page.lines().skip(verdict.unwrap() + 2);
    let first: Vec<&str> = below.take_while(|it| it.starts_with("- ❌ <b>")).collect();
    let shown: BTreeSet<&str> = first
        .iter()
        .map(|it| &it["- ❌ <b>".len()..][..5])
        .collect();
    assert_eq!(shown.len(), first.len(), "each rule once: {page}");
    let report = t.run("check set --format json");
    let report: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let errors = findings.filter(|it| it["severity"] == "error");
    let errors: BTreeSet<&str> = errors.map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(shown, errors, "{page}");
    assert!(!page.contains("pip install"), "{page}");
}

#[test]
fn quiet_hides_no_finding_and_no_warning() {
    let t = failing();
    assert!(t.run("-q check set").stdout.contains("RW201"));
    let refused = t.run("-q upload set --multi-target --output-dir out");
    assert!(refused.stderr.contains("RW201"), "{}", refused.stderr);
    t.write("step.md", "x".repeat(1000 * 1024));
    let summary = format!("-q summary '{}' --step-summary step.md", published());
    let said = t.run(&summary);
    let warning = "warning: the job summary is full";
    assert!(said.stderr.contains(warning), "{}", said.stderr);
}
