//! docs/migrate.md names every flag of the scripts, and only flags that our commands have.

use crate::{
    publish::packages::wheel,
    support::{prelude::*, published::VERSION, upstream_set::split},
};

/// The part of the page for some scripts: the rows of its table.
struct Section {
    scripts: Vec<String>,
    /// The words after `rocwheel`: `kpack recombine`.
    command: Vec<String>,
    rows: Vec<Row>,
}

/// Flags of the scripts, and what the page says about them.
struct Row {
    flags: Vec<String>,
    answer: String,
}

impl Row {
    /// `None` for the head of a table and the line below it.
    fn parse(line: &str) -> Option<Self> {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let (flags, answer) = (cells.next()?, cells.next()?);
        let answer = answer.trim_end_matches([' ', '|']).to_owned();
        (flags != "flag").then(|| Self { flags: named(flags), answer })
    }

    /// Whether our command takes the flags as they are.
    fn takes_them(&self) -> bool {
        let takes = ["same", "accepted", "not needed, accepted"];
        takes.iter().any(|it| self.answer.starts_with(it))
    }
}

#[test]
fn every_flag_of_the_scripts_has_its_row_once() {
    let scripts = include_str!("scripts.txt").lines();
    let scripts = scripts.filter(|line| !line.starts_with('#'));
    let expected: BTreeMap<String, Vec<String>> = scripts
        .map(|line| {
            let (script, flags) = line.split_once(' ').unwrap();
            (script.to_owned(), sorted(named(flags)))
        })
        .collect();
    let found = sections().into_iter().flat_map(|section| {
        let flags: Vec<String> = section.rows.into_iter().flat_map(|row| row.flags).collect();
        let of_all = section.scripts.into_iter();
        of_all.map(move |script| (script, flags.clone()))
    });
    let found: BTreeMap<String, Vec<String>> = found.collect();
    let scripts = |map: &BTreeMap<String, Vec<String>>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(scripts(&found), scripts(&expected));
    for section in sections() {
        let theirs = section.scripts.iter().flat_map(|it| expected[it].clone());
        let mut theirs = sorted(theirs.collect());
        theirs.dedup();
        let ours = section.rows.into_iter().flat_map(|row| row.flags);
        assert_eq!(sorted(ours.collect()), theirs, "{:?}", section.scripts);
    }
}

#[test]
#[ignore = "slow"]
fn every_flag_of_ours_is_in_the_help_of_its_command() {
    let mut seen = 0;
    for section in sections() {
        let command: Vec<&str> = section.command.iter().map(String::as_str).collect();
        let help = told(&[&command[..], &["--help"]].concat());
        for row in &section.rows {
            let old = row.answer.contains("opposite");
            for flag in named(&row.answer) {
                seen += 1;
                let shown = [format!("{flag} "), format!("{flag}\n")];
                let is_shown = shown.iter().any(|it| help.contains(it));
                let is_known = is_shown || old && takes(&command, &flag);
                assert!(is_known, "`{flag}` is not in the help of {command:?}");
            }
            if row.takes_them() {
                for flag in &row.flags {
                    assert!(takes(&command, flag), "{command:?} does not take `{flag}`");
                }
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// The steps of TheRock's workflow, with other names of programs, a directory for a bucket, and its layout. Values
/// that the workflow leaves empty are empty.
#[test]
fn a_job_of_therock_works_with_other_names_of_programs() {
    let t = Sandbox::new().with("GITHUB_RUN_ID", "42");
    sample().write_archives(&t.path("bucket"));
    let here = t.path("");
    let t = t.with("GITHUB_REPOSITORY", "ROCm/TheRock").with("RUNNER_TEMP", here);
    let t = t.with("GITHUB_OUTPUT", "outputs").with("GITHUB_STEP_SUMMARY", "summary");
    let run = |line: &str| drop(t.run(line).ok());
    run("targets --amdgpu-families=gfx94X-dcgpu;gfx110X-all --output-mode=device-extras");
    run(
        "fetch --run-id=42 --run-github-repo= --stage=all --platform=linux --expand-family-to-targets \
         --amdgpu-families=gfx942;gfx1100 --output-dir=artifacts --input-dir=bucket",
    );
    run("build --artifact-dir=artifacts --dest-dir=packages --version= \
         --linux-amdgpu-families= --windows-amdgpu-families=");
    run("upload --input-packages-dir=packages --artifact-group=multi-arch-release --run-id=42 \
         --platform=linux --multiarch --output-dir=published --layout=flat");
    for name in ["device_extras", "package_find_links_url", "kpack_split"] {
        assert_has!(t.read("outputs"), &format!("\n{name}<<"));
    }
    assert!(t.path("job_summary.md").exists());
    assert!(t.path("published/42-linux/python/rocm-0.99.1.dev0.tar.gz").exists());
}

/// A script of the table of commands, and the command of its row as somebody would run it on the sample.
const COMMANDS_OF_ROWS: [(&str, &str); 17] = [
    (
        "fetch_artifacts.py",
        "fetch --artifact-group multi-arch-release --run-id 42 --input-dir bucket --output-dir artifacts",
    ),
    (
        "artifact_manager.py fetch",
        "fetch --amdgpu-families gfx94X-dcgpu --run-id 42 --input-dir bucket --output-dir few",
    ),
    (
        "install_rocm_from_artifacts.py",
        "fetch --flatten --run-id 42 --input-dir bucket --output-dir rocm",
    ),
    ("compute_rocm_package_version.py", "version --release-type nightly --base-version 7.14.0"),
    ("build_python_packages.py", "build --artifact-dir artifacts --output-dir packages"),
    (
        "upload_python_packages.py",
        "upload packages --artifact-group multi-arch-release --layout flat --run-id 42 --output-dir published",
    ),
    ("indexer.py", "index packages"),
    ("write_artifacts_bucket_info.py", "place --run-id 42 --offline"),
    ("expand_amdgpu_families.py", "targets --amdgpu-families gfx94X-dcgpu"),
    ("verify_artifacts.py", "diff packages packages"),
    ("promote_packages.py", "promote candidate --to release --into promoted"),
    (
        "publish_rocm_to_release_buckets.py",
        "promote candidate --to same --layout product --into stream",
    ),
    (
        "publish_pytorch_to_release_bucket.py",
        "upload frameworks --product pytorch --release-type nightly --no-check --output-dir bucket2",
    ),
    ("write_product_release_bucket_info.py", "place --product pytorch --release-type nightly"),
    ("determine_version.py", "framework version 2.12.0 --set packages"),
    ("write_torch_versions.py", "framework version frameworks"),
    ("none", "check packages"),
];
/// The rows whose commands need a network, a wheel that links ROCm, or binaries with device code; other tests run
/// these.
const ROWS_OF_OTHER_TESTS: [&str; 10] = [
    "find_latest_artifacts.py",
    "find_artifacts_for_commit.py",
    "packaging/python/generate_s3_index.py",
    "manage.py",
    "update_dependencies.py",
    "setup_venv.py",
    "split_artifacts.py",
    "kpack_tool.py list",
    "split_python_wheels.py",
    "windows_patch_fat_wheel.py",
];

#[test]
#[ignore = "slow"]
fn the_command_of_each_script_runs() {
    let t = Sandbox::new().with("GITHUB_REPOSITORY", "ROCm/TheRock");
    sample().write_archives(&t.path("bucket"));
    wheel(&t.path("frameworks"), "torch", "2.12.0", "");
    let page = fs_err::read_to_string(super::root().join("docs/migrate.md")).unwrap();
    let (_, table) = page.split_once("## Which command?\n").unwrap();
    let rows = table.lines().skip(1).skip_while(|line| !line.starts_with("| ")).skip(2);
    let rows = rows.map_while(|line| line.strip_prefix("| "));
    for row in rows {
        let mut cells = row.split(" | ");
        let script = cells.next().unwrap().split(',').next().unwrap();
        let script = script.split('`').nth(1).unwrap_or(script);
        let command = cells.next().unwrap();
        if ROWS_OF_OTHER_TESTS.contains(&script) {
            continue;
        }
        let line = COMMANDS_OF_ROWS.iter().find(|(name, _)| *name == script);
        let (_, line) = line.unwrap_or_else(|| panic!("no line for `{script}`"));
        // The command of the row with the same verb, and all of its flags.
        let verb = line.split(' ').next().unwrap();
        let mut commands = command.split('`').filter_map(|it| it.strip_prefix("rocwheel "));
        let words = commands.find(|it| it.split(' ').next() == Some(verb));
        let words = words.unwrap_or_else(|| panic!("`{script}`: no `rocwheel {verb}`"));
        let names = words.split(' ').filter(|it| !it.chars().all(|c| c.is_ascii_uppercase()));
        for name in names.filter(|it| !it.contains("://")) {
            assert!(line.contains(name), "`{script}`: `{line}` lacks `{name}`");
        }
        if script == "promote_packages.py" {
            t.run("build --artifact-dir artifacts --version 7.14.0rc1 --output-dir candidate").ok();
        }
        t.run(&format!("{line} --quiet")).ok();
    }
}

/// On the packages of upstream's builder, where upstream's uploader puts them.
#[test]
fn the_first_step_runs_without_our_builder() {
    let t = Sandbox::new();
    let place = t.path("bucket/21440027240-linux");
    fs_err::create_dir_all(&place).unwrap();
    copy_tree(&split(VERSION).join("dist"), &place.join("python"));
    let page = fs_err::read_to_string(super::root().join("docs/migrate.md")).unwrap();
    let commands = super::commands_of(&page);
    assert_eq!(commands.len(), 3, "{commands:?}");
    for command in commands {
        let line = command.strip_prefix("rocwheel ").unwrap();
        t.run(&format!("{line} --platform linux --input-dir bucket")).ok();
    }
    assert_has!(t.read("known.toml"), "RW114", "RW123", "RW126");
    assert_has!(t.read("findings.md"), "## Check of <code>", "**OK, no problems, ");
}

#[test]
fn every_output_that_the_page_names_is_one_of_the_action() {
    let page = fs_err::read_to_string(super::root().join("docs/migrate.md")).unwrap();
    let action = fs_err::read_to_string(super::root().join("action.yml")).unwrap();
    let (_, outputs) = action.split_once("\noutputs:\n").unwrap();
    let (_, table) = page.split_once("| outputs | of |\n").unwrap();
    let rows = table.lines().skip(1).map_while(|line| line.strip_prefix("| "));
    let cells: Vec<&str> = rows.filter_map(|row| row.split(" | ").next()).collect();
    let names = cells.iter().flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 7, "{names:?}");
    for name in names {
        assert!(outputs.contains(&format!("  {name}: {{")), "{name}");
    }
}

#[test]
fn every_input_that_the_page_names_is_one_of_the_workflow() {
    let page = fs_err::read_to_string(super::root().join("docs/migrate.md")).unwrap();
    let name = Regex::new("`([a-z-]+)`").unwrap();
    let mut seen = 0;
    let parts = page.split("\n### ").map(|it| it.split_once('\n').unwrap());
    for (head, table) in parts.filter(|(head, _)| head.contains("](../.github/workflows/")) {
        let (_, file) = head.split_once("](../").unwrap();
        let file = super::root().join(file.trim_end_matches(')'));
        let workflow = fs_err::read_to_string(file).unwrap();
        let table = table.split("\n## ").next().unwrap();
        let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
        for ours in rows.filter_map(|row| row.split(" | ").nth(1)) {
            for found in name.captures_iter(ours).filter(|found| &found[1] != "flat") {
                seen += 1;
                let input = format!("\n      {}:\n", &found[1]);
                assert!(workflow.contains(&input), "{head}: `{}`", &found[1]);
            }
        }
    }
    assert!(seen > 15, "{seen}");
}

#[test]
fn flags_that_people_have_in_their_fingers_are_accepted() {
    for (command, flag) in [
        ("build", "--output-dir"),
        ("check", "--packages-dir"),
        ("check", "--input-packages-dir"),
        ("index", "--packages-dir"),
        ("index", "--input-packages-dir"),
        ("summary", "--input-packages-dir"),
        ("upload", "--multiarch"),
    ] {
        assert!(takes(&[command], flag), "{command} {flag}");
    }
    assert!(!takes(&["index"], "--multiarch"));
    for command in ["check", "index"] {
        let said = told(&[command, "--packages-dir", "not there"]);
        assert_eq!(said, told(&[command, "not there"]));
        assert_has!(said, "`not there`");
        let said = told(&[command]);
        assert_has!(said, "required arguments were not provided");
    }
}

fn sections() -> Vec<Section> {
    let page = fs_err::read_to_string(super::root().join("docs/migrate.md")).unwrap();
    let heads = page.split("\n### ").skip(1);
    heads
        .filter_map(|text| {
            let (head, body) = text.split_once('\n')?;
            let (scripts, command) = head.split_once("`: `rocwheel ")?;
            let scripts = scripts.split(", ").map(|it| it.replace('`', ""));
            let words = command.trim_end_matches('`').split(' ').map(str::to_owned);
            let body = body.split("\n## ").next().unwrap();
            Some(Section {
                scripts: scripts.collect(),
                command: words.collect(),
                rows: body.lines().filter_map(Row::parse).collect(),
            })
        })
        .collect()
}

/// The flags that a text names, without their values.
fn named(text: &str) -> Vec<String> {
    let flag = Regex::new(r"--[a-z][a-z0-9-]*").unwrap();
    let found = flag.find_iter(text);
    found.map(|it| it.as_str().to_owned()).collect()
}

fn sorted(mut flags: Vec<String>) -> Vec<String> {
    flags.sort();
    flags
}

/// Whether a command knows a flag. The flag for help keeps it from doing anything.
fn takes(command: &[&str], flag: &str) -> bool {
    let said = told(&[command, &[flag, "--help"]].concat());
    !said.contains(&format!("unexpected argument '{flag}'"))
}

fn told(arguments: &[&str]) -> String {
    let said = rocwheel(arguments);
    said.stdout + &said.stderr
}
