//! `summary`: from each place that a set can be in, with what was found and what changed.

use crate::support::prelude::*;
use crate::support::web::Manner;

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
    let file = text(&file);
    let page = summary(&[&place, "--check", "--format=json", "--output", &file]).ok();
    assert!(fs_err::read_to_string(file).unwrap().starts_with("## ROCm"));
    let json: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(json["schema"], "rocwheel-summary-v1");
    assert_eq!((&json["errors"], &json["warnings"]), (&0.into(), &0.into()));
    assert_eq!(json["index-url"], format!("file://{place}/simple/"));
    assert_eq!(json["set"]["files"].as_array().unwrap().len(), 7);
    let lines = json["install"].as_array().unwrap();
    let told = |line: &Value| format!("{} with {}", line["for"], line["with"]);
    let told: Vec<String> = lines.iter().map(told).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    "this machine" with "rocwheel"
    "gfx942" with "pip"
    "gfx942" with "uv"
    "gfx942" with "pip, from the find-links page"
    "gfx942" with "uv, from the find-links page"
    "gfx1100" with "pip"
    "gfx1100" with "uv"
    "gfx1100" with "pip, from the find-links page"
    "gfx1100" with "uv, from the find-links page"
    "#);
    let command = lines[1]["command"].as_str().unwrap();
    assert_has!(command, "device-gfx942");
}

#[test]
fn a_set_on_a_web_server_has_the_page_of_its_directory() {
    let place = published::sample().place();
    let server = Server::of_directory(&place, Manner::Ranges);
    let address = server.url.trim_end_matches('/');
    let page = |set: &str| summary(&[set]).ok();
    // Beside the shared set other tests leave what they checked.
    let copy = tempfile::tempdir().unwrap();
    copy_tree(&place, copy.path());
    let place = copy.path().join(place.file_name().unwrap());
    let here = page(&text(&place)).replace(&format!("file://{}", text(&place)), address);
    assert_eq!(page(&server.url), here);
    let empty = tempfile::tempdir().unwrap();
    let server = Server::of_directory(empty.path(), Manner::Ranges);
    let said = summary(&[&server.url]).refused(2);
    assert_has!(said, &format!("no such object: `{}set.json`", server.url));
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
        // Beside the shared set other tests leave what they checked.
        let copy = tempfile::tempdir().unwrap();
        copy_tree(set.root(), copy.path());
        let root = copy.path().join(set.root().file_name().unwrap());
        let at = text(&root.join(set.place().strip_prefix(set.root()).unwrap()));
        let named = say(&[&at]);
        assert_eq!(say(&["--packages-dir", &at]), named);
        let root = text(&root);
        let run = ["--run-id=local", "--platform=linux", "--output-dir", &root];
        let bucket = ["--bucket", "any", "--repository", "ROCm/TheRock"];
        assert_eq!(say(&[&run[..], &bucket].concat()), named);
        assert_has!(named, index);
        assert_lacks!(named, "file://");
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
    }
}

/// The steps of README: `check`, `index`, `summary`. What `check` said holds while the packages are the same.
#[test]
fn a_summary_has_what_the_last_check_said_of_the_same_packages() {
    let t = Sandbox::new();
    fs_err::create_dir_all(t.path("set/dist")).unwrap();
    copy_files(&published::sample().dist(), &t.path("set/dist"));
    let described = published::sample().place().join("set.json");
    fs_err::copy(described, t.path("set/set.json")).unwrap();
    // A file that has just been written might change without a sign of it.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let verdict = |line: &str| {
        let page = t.run(&format!("summary set {line}")).ok();
        page.lines().nth(2).unwrap().to_owned()
    };
    t.run("index set").ok();
    assert_eq!(verdict(""), "**not checked**");
    std::thread::sleep(std::time::Duration::from_millis(100));
    t.run("check set").ok();
    t.run("index set").ok();
    assert_eq!(verdict(""), "✅ **check: OK, no problems**");
    assert_has!(t.run("summary set").ok(), "### Device code");
    t.write("known.toml", "[[accept]]\nrule = 'RW303'\nreason = 'known'\nuntil = 2099-01-01\n");
    assert_eq!(verdict("--accept known.toml"), "**not checked**", "another accept list");
    // A check that leaves rules out has not asked everything.
    t.run("check set --ignore RW303").ok();
    assert_eq!(verdict(""), "✅ **check: OK, no problems**");
    // Nothing of it is published.
    t.run("upload set --multi-target --output-dir out").ok();
    let names = tree(&t.path("out"));
    assert!(!names.iter().any(|it| it.contains(".rocwheel-")), "{names:?}");
    std::thread::sleep(std::time::Duration::from_millis(100));
    t.run("check set").ok();
    assert_eq!(verdict(""), "✅ **check: OK, no problems**");
    // The same bytes under the same name are another file, and a package that is gone is none.
    let core = t.path("set/dist/rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl");
    let bytes = fs_err::read(&core).unwrap();
    fs_err::remove_file(&core).unwrap();
    fs_err::write(&core, bytes).unwrap();
    assert_eq!(verdict(""), "**not checked**");
    fs_err::remove_file(&core).unwrap();
    assert_eq!(t.run("check set").code, 1);
    let page = t.run("summary set").ok();
    assert_has!(page, "❌ **check: ");
    assert_lacks!(page, "pip install", "Nothing was published");
}

#[test]
fn a_verdict_about_pages_ends_with_these_pages() {
    let t = Sandbox::new();
    copy_tree(&published::sample().place(), &t.path("set"));
    std::thread::sleep(std::time::Duration::from_millis(100));
    t.run("check set").ok();
    assert_has!(t.run("summary set").ok(), "✅ **check: OK, no problems**");
    damage_page(&t.path("set"));
    assert_has!(t.run("summary set").ok(), "**not checked**");
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(t.run("check set").code, 1);
    let page = t.run("summary set").ok();
    assert_has!(page, "❌ **check: ");
    t.run("index set").ok();
    assert_has!(t.run("summary set").ok(), "**not checked**");
}

/// Another digest on the page of a project.
fn damage_page(set: &Path) {
    let page = set.join("simple/rocm-sdk-core/index.html");
    let mut damaged = fs_err::read_to_string(&page).unwrap();
    let at = damaged.find("#sha256=").unwrap() + 8;
    damaged.replace_range(at..at + 64, &"0".repeat(64));
    fs_err::write(&page, damaged).unwrap();
}

#[test]
fn sizes_are_compared_with_a_directory_or_a_document() {
    let at = published();
    let document = Path::new(&at).join("set.json");
    let json = fs_err::read_to_string(&document).unwrap();
    let mut set: Value = serde_json::from_str(&json).unwrap();
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
    let is_grown = |change: &String| change.starts_with("🔺 +");
    assert!(found[..2].iter().any(is_grown), "{found:?}");
    let is_same = |change: &String| change == "unchanged |";
    assert!(found[2..].iter().all(is_same), "{found:?}");
    assert_eq!(changes(&text(&old.path().join("set.json"))), found);
    let same = changes(&at);
    assert!(same.iter().all(is_same), "{same:?}");
}

#[test]
fn a_set_with_errors_has_a_summary_that_says_so() {
    let t = Sandbox::new();
    let line = "pipeline --sample --output-dir out --require-targets gfx90a --step-summary page.md";
    assert_eq!(t.run(line).code, 1);
    let page = t.read("page.md");
    let head: Vec<&str> = page.lines().take(3).collect();
    insta::assert_snapshot!(head.join("\n"), @"
    ## ROCm Python packages <code>0.99.1.dev0</code> for Linux

    ❌ **check: 1 error** Nothing was published.
    ");
    assert_has!(page, "RW304");
    assert_lacks!(page, "### Install");
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
    assert_lacks!(page, "file:", "set.json");
    let outputs = fs_err::read_to_string(outputs).unwrap();
    let mut lines = outputs.lines();
    assert!(lines.next().unwrap().starts_with("package-index-url<<"));
    assert_eq!(lines.next(), Some(""));
    assert_has!(outputs, "\n0.99.1.dev0\n");
    let whole = published();
    let refused = [
        &["s3://bucket/x", "--workflow-artifact", "kept"][..],
        &[&at, "--workflow-artifact", "a b"],
        &[],
        &["s3://b", "--no-sign-request"],
        &[&whole, "--findings", "Cargo.toml"],
        &[&whole, "--baseline", "Cargo.toml"],
        &[&whole, "--base-index", "https://u@host/"],
    ];
    let refused = refused.map(|line| summary(line).stderr);
    insta::assert_snapshot!(refused.concat(), @r#"
    error: the set is published: `s3://bucket/x`

    hint: `--workflow-artifact` is for packages in a directory
    error: invalid value 'a b' for '--workflow-artifact <NAME>': not a name of letters, digits, `-`, `_` and `.` that begins with a letter or digit: "a b"

    For more information, try '--help'.
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

/// A step of a workflow, in a directory of its own.
fn step() -> Sandbox {
    let t = Sandbox::new();
    let here = t.path("");
    let t = t.with("GITHUB_STEP_SUMMARY", "step.md").with("GITHUB_OUTPUT", "outputs");
    t.with("RUNNER_TEMP", here)
}

fn read(t: &Sandbox, name: &str) -> Option<String> {
    fs_err::read_to_string(t.path(name)).ok()
}

/// Uploads the packages of a set to `to`.
fn upload(set: &TestSet) -> String {
    let packages = set.root().join("packages");
    let packages = packages.display();
    format!("upload --packages-dir '{packages}' --multi-target --output-dir to")
}

#[test]
#[ignore = "slow"]
fn an_upload_says_what_summary_says_about_the_published_set() {
    for set in sets() {
        let (uploaded, again) = (step(), step());
        uploaded.run(&upload(set)).ok();
        let page = uploaded.read("step.md");
        assert_has!(page, "✅ **check: OK, no problems**");
        assert_eq!(uploaded.read("job_summary.md"), page);
        let outputs = uploaded.read("outputs");

        let place = uploaded.path("to/local-linux/python");
        again.run(&format!("summary '{}' --check", place.display())).ok();
        assert_eq!(again.read("step.md"), page);
        assert_eq!(again.read("job_summary.md"), page);
        assert_eq!(again.read("outputs"), outputs);

        // Each step of a job appends to the same file.
        uploaded.run(&upload(set)).ok();
        assert_eq!(uploaded.read("job_summary.md"), page.repeat(2));

        for (flag, said) in [("--no-summary", true), ("--dry-run", false)] {
            let silent = step();
            silent.run(&format!("{} {flag}", upload(set))).ok();
            let pages = ["step.md", "job_summary.md"].map(|it| read(&silent, it));
            assert_eq!(pages, [None, None], "{flag}");
            assert_eq!(read(&silent, "outputs").is_some(), said, "{flag}");
        }
    }
}

#[test]
fn a_set_that_upload_refuses_has_a_summary_and_no_outputs() {
    let t = step();
    let dist = t.path("packages/dist");
    fs_err::create_dir_all(&dist).unwrap();
    copy_files(&published::sample().dist(), &dist);
    let core = "rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl";
    fs_err::remove_file(dist.join(core)).unwrap();
    assert_eq!(t.run("upload packages --multi-target --output-dir to").code, 1);
    let page = t.read("job_summary.md");
    assert_has!(page, "Nothing was published.");
    assert_lacks!(page, "pip install");
    assert_eq!(read(&t, "outputs"), None);
}

#[test]
fn a_directory_of_the_runner_that_is_not_there_costs_only_the_copy() {
    let t = step();
    let upload = upload(published::sample());
    let said = t.run(&format!("{upload} --runner-temp none")).done();
    assert_has!(said.stderr, "warning: the summary is not in `job_summary.md`");
    assert!(t.path("step.md").exists());
}

/// The pages count too: what `check` refuses, `summary --check` does not call good.
#[test]
fn a_summary_asks_what_check_asks() {
    let copy = tempfile::tempdir().unwrap();
    let set = copy.path().join("set");
    copy_tree(&published::sample().place(), &set);
    damage_page(&set);
    let set = text(&set);
    assert_eq!(rocwheel(&["check", &set]).code, 1);
    let said = summary(&[&set, "--check", "--format", "json"]).ok();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_ne!(said["errors"], 0, "{said}");
}

/// A copy of the sample without two of its packages.
fn failing() -> Sandbox {
    let t = Sandbox::new();
    fs_err::create_dir_all(t.path("set/dist")).unwrap();
    copy_files(&published::sample().dist(), &t.path("set/dist"));
    for package in ["rocm_sdk_core", "rocm_sdk_device_gfx942"] {
        let name = format!("set/dist/{package}-0.99.1.dev0-py3-none-linux_x86_64.whl");
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
    let shown = first.iter().map(|it| &it["- ❌ <b>".len()..][..5]);
    let shown: BTreeSet<&str> = shown.collect();
    assert_eq!(shown.len(), first.len(), "each rule once: {page}");
    let report = t.run("check set --format json");
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let errors = findings.filter(|it| it["severity"] == "error");
    let errors: BTreeSet<&str> = errors.map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(shown, errors, "{page}");
    assert_lacks!(page, "pip install");
}

#[test]
fn quiet_hides_no_finding_and_no_warning() {
    let t = failing();
    assert!(t.run("-q check set").stdout.contains("RW201"));
    let refused = t.run("-q upload set --multi-target --output-dir out");
    assert_has!(refused.stderr, "RW201");
    t.write("step.md", "x".repeat(1000 * 1024));
    let summary = format!("-q summary '{}' --step-summary step.md", published());
    let said = t.run(&summary);
    let warning = "warning: the job summary is full";
    assert_has!(said.stderr, warning);
}
