//! `install`, seen by the installers that it runs.

mod emitted;
mod environments;
mod families;
mod first_use;
mod into;
mod judged;
mod layouts;
mod registries;
mod runs;
mod stopped;
pub(crate) mod streams;

use rocwheel_test_servers::http::{Answer, serve};

use crate::action::inputs::assert_declared;
use crate::publish::packages::wheel;
use crate::support::prelude::*;
use crate::support::{namespace, published::VERSION};

/// A sandbox with the judges' programs, and no settings of this machine but where its packages come from.
fn sandbox() -> Sandbox {
    let judges = tool("uv").parent().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("uv-cache");
    Sandbox::new().with("PATH", format!("{}:{path}", judges.display())).with("UV_CACHE_DIR", cache)
}

/// Installs from a place, with more words.
fn install(t: &Sandbox, from: &Path, more: &str) -> Outcome {
    t.run(&format!("install '{}' {more}", from.display()))
}

/// Installs with each of these lines in an empty sandbox, and shows the refusals. `SET` is the sample.
fn refusals(t: &Sandbox, lines: &[&str]) -> String {
    let refusals = lines.iter().map(|line| {
        let set = sample().place();
        let refused = t.run(&format!("install {}", line.replace("SET", text(&set))));
        assert!(!t.path(".venv").exists(), "{line}");
        told(line, &refused)
    });
    refusals.collect()
}

/// A line, and what came of it.
fn told(line: &str, outcome: &Outcome) -> String {
    format!("{line} => {}\n{}", outcome.code, outcome.stderr)
}

/// A program in the directory `bin` of a sandbox, which is the only one in `PATH`.
fn only_program(t: Sandbox, name: &str, script: &[u8]) -> Sandbox {
    write_program(&t.write(&format!("bin/{name}"), ""), script);
    std::os::unix::fs::symlink(tool("python"), t.path("bin/python3")).unwrap();
    let programs = t.path("bin");
    t.with("PATH", programs)
}

/// The `site-packages` of an environment.
fn site(environment: &Path) -> PathBuf {
    let mut pythons = fs_err::read_dir(environment.join("lib")).unwrap();
    let python = pythons.next().unwrap().unwrap().path();
    python.join("site-packages")
}

/// The packages of an environment, as their directories say.
fn packages(environment: &Path) -> Vec<String> {
    let entries = fs_err::read_dir(site(environment)).unwrap();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    let names = names.filter_map(|it| it.strip_suffix(".dist-info").map(str::to_owned));
    let mut found: Vec<String> = names.filter(|it| it.starts_with("rocm")).collect();
    found.sort();
    found
}

fn expected(targets: &[&str]) -> Vec<String> {
    let devices = targets.iter().map(|it| format!("rocm_sdk_device_{it}"));
    let others =
        ["rocm", "rocm_sdk_core", "rocm_sdk_devel", "rocm_sdk_libraries"].map(str::to_owned);
    let all = others.into_iter().chain(devices);
    let mut all: Vec<String> = all.map(|it| format!("{it}-{VERSION}")).collect();
    all.sort();
    all
}

/// Fails unless an environment has the packages for these targets, and no others.
#[track_caller]
fn assert_installed(environment: &Path, targets: &[&str]) {
    assert_eq!(packages(environment), expected(targets));
}

/// The packages of a set that were not published.
fn built(set: &TestSet) -> PathBuf {
    set.root().join("packages")
}

/// The number of entries of a directory.
fn count(directory: &Path) -> usize {
    fs_err::read_dir(directory).unwrap().count()
}

/// The packages of a set, which a test may damage.
fn copy_of(set: &TestSet, to: PathBuf) -> PathBuf {
    copy_tree(&built(set), &to);
    to
}

#[test]
fn every_set_installs_for_one_target_with_uv() {
    for set in sets() {
        let t = sandbox();
        let more = format!("--target {} --venv 'venv with spaces'", set.targets[0]);
        let python = install(&t, &built(set), &more).ok();
        assert_eq!(python, "HERE/venv with spaces/bin/python\n");
        assert_installed(&t.path("venv with spaces"), &set.targets[..1]);
        assert_eq!(count(&t.path("")), 1);
    }
}

#[test]
fn a_python_that_no_wheel_supports_is_refused_and_leaves_nothing() {
    let t = sandbox();
    let set = t.path("packages");
    let wheel = wheel(&set, "demo", "1.0", "");
    fs_err::rename(wheel, set.join("demo-1.0-cp39-cp39-linux_x86_64.whl")).unwrap();
    for installer in ["uv", "pip"] {
        let more = format!("--target none --package demo --installer {installer}");
        let said = install(&t, &set, &more).refused(1);
        assert_has!(said, "error: nothing was installed: `");
        assert_eq!(count(&t.path("")), 1);
    }
}

#[test]
#[ignore = "slow"]
fn what_the_set_does_not_have_is_refused_before_anything_is_made() {
    let t = sandbox().shows(text(&sample().place()), "SET");
    let lines = [
        "SET --target gfx950",
        "SET --target gfx94x",
        "SET --target gfx120X-all",
        "SET --target none --extras libaries",
        "SET --target none --version 9.9",
        "SET --target none --package torch",
        "SET --target none --package torch --deps https://pypi.org/simple",
        "SET --target none --package 'torch; python_version == \"3.12\"' --deps https://PyPI.org:443/simple",
        "SET --run-id 7",
        "SET --latest",
        "SET --stream nightly",
        "SET --target none --python ./no-such-python",
        "SET --target none --package 'torch ==' --deps none",
        "7 --target none",
    ];
    insta::assert_snapshot!(refusals(&t, &lines));
}

#[test]
#[ignore = "slow"]
fn the_targets_are_those_that_are_named_or_those_of_the_machine() {
    let set = built(sample());
    for (name, installed) in [
        ("GFX942", "for gfx942"),
        ("gfx942:xnack+", "for gfx942"),
        ("gfx94x-DCGPU", "for gfx942"),
        ("gfx11", "for gfx1100"),
        ("gfx9-4-generic,gfx1100", "for gfx942, gfx1100"),
        ("all", "for gfx942, gfx1100"),
        ("none", "without device code"),
    ] {
        let plan = install(&sandbox(), &set, &format!("--target {name} --dry-run")).ok();
        assert_has!(plan, &format!("ROCm {VERSION} {installed}, from "));
    }
    // Of the last two, the set has no code.
    let told = ["gfx942", "gfx1100,gfx942", "gfx1100,gfx1032", "gfx1151"].map(|gpus| {
        let t = sandbox().with("ROCM_BOOTSTRAP_FORCE_GFX_ARCH", gpus);
        let outcome = install(&t, &set, "--dry-run");
        let plan = outcome.stdout.split(", from").next().unwrap();
        let said = outcome.stderr.lines().filter(|it| !it.contains("Checked"));
        let said = said.collect::<Vec<_>>().join("\n");
        format!("{gpus} => {} {plan}\n{said}\n", outcome.code)
    });
    let t = sandbox().with("ROCM_BOOTSTRAP_DISABLE_DETECTION", "1");
    let none = install(&t, &set, "--dry-run").stderr;
    insta::assert_snapshot!(told.concat() + &none);
    // The directory around the packages.
    let around = install(&t, sample().root(), "--target gfx942").stderr;
    assert_has!(around, &format!("hint: pass `{}`, which has packages\n", text(&set)));
}

#[test]
fn what_is_no_environment_is_not_touched() {
    let set = sample().place();
    let t = sandbox().shows(text(&set), "SET");
    t.write("thesis/text", "years");
    t.write("unfinished/pyvenv.cfg", "");
    std::os::unix::fs::symlink("/nowhere/env", t.path("dangling")).unwrap();
    install(&t, &set, "--target gfx942").ok();
    let lines = [
        "--venv thesis",
        "--venv thesis/text",
        "--venv 'line\nbreak'",
        "--venv unfinished",
        "--venv dangling",
        "--venv /",
        "--python 3.8",
    ];
    let refusals = lines.map(|line| {
        let refused = install(&t, &set, &format!("--target gfx942 {line}"));
        told(line, &refused)
    });
    let versions = Regex::new("Python 3[.0-9]+").unwrap();
    insta::assert_snapshot!(versions.replace_all(&refusals.concat(), "Python 3.X"));
    assert_eq!(t.read("thesis/text"), "years");
    assert_installed(&t.path(".venv"), &["gfx942"]);
    assert_eq!(count(&t.path("")), 4);
}

/// pyenv puts a `python3` into `PATH` that only says that no Python is chosen.
#[test]
fn without_a_python_that_runs_the_hint_says_what_to_install() {
    let shim = |t: Sandbox| only_program(t, "uv", b"#!/bin/sh\nexit 1\n");
    let t = shim(sandbox());
    fs_err::remove_file(t.path("bin/python3")).unwrap();
    let missing = install(&t, &built(sample()), "--target gfx942 --no-check").refused(2);
    write_program(&t.write("bin/python3", ""), b"#!/bin/sh\nexit 127\n");
    let idle = install(&t, &built(sample()), "--target gfx942 --no-check").refused(2);
    let named = "--target gfx942 --no-check --python 3.12";
    let named = install(&t, &built(sample()), named).refused(2);
    insta::assert_snapshot!([missing, idle, named].join("\n"), @"
    error: failed to run `python3`
      caused by: No such file or directory (os error 2)

    hint: install uv, or Python 3.10 or newer

    error: failed to run `python3`
      caused by: it ended with exit status: 127

    hint: install uv, or Python 3.10 or newer

    error: failed to run `python3.12`
      caused by: No such file or directory (os error 2)

    hint: install uv, or name a Python 3.10 or newer with `--python`
    ");
    assert_eq!(count(&t.path("")), 1);
}

#[test]
fn an_environment_whose_settings_python_cannot_read_is_refused() {
    let t = sandbox();
    install(&t, &built(sample()), "--target none").ok();
    let mut settings = fs_err::read(t.path(".venv/pyvenv.cfg")).unwrap();
    settings.extend(b"# caf\xe9\n");
    t.write(".venv/pyvenv.cfg", settings);
    let said = install(&t, &built(sample()), "--target none --no-check").refused(2);
    let position = Regex::new("from index [0-9]+").unwrap();
    insta::assert_snapshot!(position.replace(&said, "from index N"), @"
    error: the Python of `HERE/.venv` does not run
      caused by: failed to read `HERE/.venv/pyvenv.cfg`: not UTF-8: invalid utf-8 sequence of 1 bytes from index N

    hint: make the environment again, or name another directory
    ");
}

#[test]
fn a_full_disk_is_said_in_words() {
    let t = sandbox();
    let Some(mut command) = namespace::with_mounts() else {
        return;
    };
    fs_err::create_dir(t.path("small")).unwrap();
    let set = built(sample());
    let script = format!(
        "mount -t tmpfs -o size=64k tmpfs small || exit 9; {ROCWHEEL} install '{}' --no-check --target gfx942 --venv small/env",
        set.display()
    );
    command.current_dir(t.path(""));
    let said = t.outcome(command.args(["sh", "-c", &script])).refused(2);
    assert_has!(said, "the disk of `HERE/small/env` is full, with ", "hint: free disk space");
}

/// The platform of a set is compared before a GPU is looked for.
#[test]
fn a_set_for_another_platform_is_refused_as_that() {
    let t = sandbox().with("ROCM_BOOTSTRAP_DISABLE_DETECTION", "1");
    let t = t.shows(text(&built(sample())), "SET");
    let said = install(&t, &built(sample()), "--platform windows --dry-run").refused(1);
    insta::assert_snapshot!(said, @"
    error: `SET` has no packages for windows, only for other platforms

    hint: name a set for windows, or the platform of this set with `--platform`
    ");
}

#[test]
fn a_wheel_under_another_name_says_how_the_set_is_checked() {
    let t = sandbox();
    let set = copy_of(sample(), t.path("set"));
    let core = environments::wheel(&set, "rocm_sdk_core");
    fs_err::rename(&core, core.with_file_name("renamed-1-py3-none-any.whl")).unwrap();
    let said = install(&t, &set, "--target gfx942 --no-check --dry-run").refused(2);
    insta::assert_snapshot!(said, @"
    error: failed to read the metadata of `rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl`
      caused by: it is gone

    hint: `rocwheel check HERE/set` says whether the set is complete
    ");
}

/// A sign-in page, an empty page, and a page of other packages, each in place of every page of the set.
#[test]
fn pages_that_list_no_package_of_the_set_are_refused_before_the_installer_runs() {
    let others = "<a href=\"../torch-2.9.0-cp312-cp312-linux_x86_64.whl\">torch</a>";
    let mut refusals = BTreeSet::new();
    for page in ["<form>Sign in</form>", "", others] {
        let port = serve(move |request| {
            let path = &request.path;
            if path.ends_with('/') || path.ends_with(".html") {
                return Answer::new(200, "text/html", page.into());
            }
            match fs_err::read(sample().place().join(path.trim_start_matches('/'))) {
                Ok(file) => Answer::new(200, "application/octet-stream", file).part(request),
                Err(_) => Answer::new(404, "text/plain", Vec::new()),
            }
        });
        let place = format!("http://127.0.0.1:{port}");
        let t = sandbox().shows(&place, "PLACE");
        let line = format!("install {place} --target gfx942 --no-check");
        refusals.insert(t.run(&line).refused(2));
        assert_eq!(count(&t.path("")), 0, "{page}");
        t.run(&format!("promote {place} --to same --into copy")).ok();
        t.run("install copy --target gfx942 --dry-run").ok();
    }
    insta::assert_snapshot!(refusals.into_iter().collect::<String>(), @"
    error: installers cannot find the packages of `PLACE/`
      caused by: `PLACE/dist/index.html` has no link to a package of `rocm`

    hint: copy it to a directory with `rocwheel promote PLACE/ --to same --into DIR`, and install `DIR`
    ");
}

#[test]
fn a_dry_run_prints_everything_and_makes_nothing() {
    let t = sandbox().shows(text(&sample().place()), "SET");
    let more = "--target gfx942,gfx1100 --dry-run --venv 'a b'";
    let plan = install(&t, &sample().place(), more).ok();
    assert_eq!(count(&t.path("")), 0);
    insta::assert_snapshot!(plan, @"
    ROCm 0.99.1.dev0 for gfx942, gfx1100, from SET
    create `HERE/a b` with uv
      rocm-0.99.1.dev0.tar.gz
      rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl
      rocm_sdk_devel-0.99.1.dev0-py3-none-linux_x86_64.whl
      rocm_sdk_device_gfx1100-0.99.1.dev0-py3-none-linux_x86_64.whl
      rocm_sdk_device_gfx942-0.99.1.dev0-py3-none-linux_x86_64.whl
      rocm_sdk_libraries-0.99.1.dev0-py3-none-linux_x86_64.whl
    ");
}

/// An index with the placeholder that the public registry has for the name, beside the set, in both
/// orders: as the index of other packages, and as a page that an installer's own settings name.
#[test]
#[ignore = "slow"]
fn the_placeholder_of_the_registry_is_never_installed() {
    let t = sandbox();
    let registry = registry(&t.path(""));
    let settings = format!("[global]\nextra-index-url = {registry}\n[install]\ndry-run = true\n");
    let settings = t.write("settings/pip.conf", settings);
    let t = t
        .with("PIP_EXTRA_INDEX_URL", &registry)
        .with("PIP_PRE", "0")
        .with("PIP_DRY_RUN", "1")
        .with("PIP_CONFIG_FILE", settings)
        .with("UV_NO_BUILD", "1")
        .with("UV_INDEX", &registry);
    for installer in ["uv", "pip"] {
        let more = format!("--target gfx942 --deps {registry} --installer {installer}");
        let more = format!("{more} --venv {installer}");
        install(&t, &built(sample()), &more).ok();
        assert_installed(&t.path(installer), &["gfx942"]);
    }
}

/// A `simple/` index with `rocm` 0.1.0 and two of its packages, as wheels. They are in `placeholders` too.
fn registry(root: &Path) -> String {
    let (simple, all) = (root.join("registry/simple"), root.join("placeholders"));
    for project in ["rocm", "rocm-sdk-core", "rocm-sdk-libraries"] {
        let extras = "Provides-Extra: libraries\nProvides-Extra: device-gfx942\n";
        wheel(&all, project, "0.1.0", extras);
    }
    streams::publish_index(&simple, &all);
    format!("file://{}/", simple.display())
}

/// `rocm` is an sdist, so that code of a package runs while it is installed.
#[test]
fn an_installer_sees_no_secret_of_the_job() {
    for (installer, program) in [("uv", "uv"), ("pip", "python")] {
        let t = sandbox();
        // It answers what it is asked first, and ends before it makes anything.
        let script =
            "#!/bin/sh\n/usr/bin/env >>\"$HOME/seen\"\n[ \"$1\" = --version ] && echo uv 0.13.8\n";
        write_program(&t.write(&format!("bin/{program}3.12"), ""), script);
        write_program(&t.write(&format!("bin/{program}"), ""), script);
        let programs = t.path("bin");
        let t = [
            "GITHUB_TOKEN",
            "GH_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "ACTIONS_RUNTIME_TOKEN",
            "UV_PUBLISH_TOKEN",
        ]
        .into_iter()
        .fold(t, |t, name| t.with(name, "hush"));
        let home = t.path("");
        let t =
            t.with("HOME", home).with("PATH", programs).with("https_proxy", "http://proxy.example");
        let line = format!("--target gfx942 --python 3.12 --installer {installer}");
        install(&t, &built(sample()), &line).refused(2);
        let seen = t.read("seen");
        assert_lacks!(seen, "hush");
        assert_has!(seen, "https_proxy=http://proxy.example", "HOME=", "PIP_CONFIG_FILE=/dev/null");
    }
}

#[test]
fn programs_and_the_next_steps_of_a_job_learn_what_is_installed() {
    let t = sandbox();
    let output = t.path("output");
    let t = t.with("GITHUB_OUTPUT", output);
    let answer = install(&t, &sample().place(), "--target gfx942 --format json").ok();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["venv"], "HERE/.venv");
    assert_eq!(answer["python"], "HERE/.venv/bin/python");
    assert_eq!(answer["version"], VERSION);
    assert_eq!(answer["targets"], json!(["gfx942"]));
    let files = answer["files"].as_array().unwrap();
    assert_eq!(files.len(), 5, "{answer}");
    let has_digest = |it: &Value| it["sha256"].as_str().unwrap().len() == 64;
    assert!(files.iter().all(has_digest), "{answer}");

    let outputs = t.read("output");
    assert_declared(&outputs);
    let environment = fs_err::canonicalize(t.path(".venv")).unwrap();
    for (name, value) in [
        ("venv", text(&environment)),
        ("python", text(&environment.join("bin/python"))),
        ("version", VERSION),
        ("targets", "gfx942"),
    ] {
        let (_, rest) = outputs.split_once(&format!("{name}<<")).unwrap();
        assert_eq!(rest.lines().nth(1).unwrap(), value, "{name}");
    }
}

/// It is a wrong argument, as for every command, and no answer of a place.
#[test]
fn a_directory_without_packages_is_refused_as_check_refuses_it() {
    let t = sandbox();
    fs_err::create_dir(t.path("empty")).unwrap();
    let said = ["check empty", "install empty"].map(|line| t.run(line).refused(2));
    assert_eq!(said[0], said[1]);
    assert_has!(said[1], "no wheel or sdist in `empty`");
    t.run("pipeline --sample --output-dir out").ok();
    let said = ["check out", "install out"].map(|line| t.run(line).refused(2));
    assert_eq!(said[0], said[1]);
    assert_has!(said[1], "hint: pass `out/packages`, which has packages");
}
