//! Every verb on sets that TheRock's own builder made, as the model in `support::upstream_set` does: what a job takes
//! over from a job of TheRock, and what ours leave to one.

use crate::support::{
    prelude::*,
    published::VERSION,
    upstream_set::{of_families, setuptools_wheel, split},
    web::Manner,
};

/// A sandbox with the packages of a set in `set/dist`, and uv and pip on its `PATH`.
fn sandbox(dist: &Path) -> Sandbox {
    let judges = tool("uv").parent().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap();
    let t = Sandbox::new().with("PATH", format!("{}:{path}", judges.display()));
    let caches = ["uv-cache", "pip-cache"].map(|name| t.path(name));
    let t = t.with("UV_CACHE_DIR", &caches[0]).with("PIP_CACHE_DIR", &caches[1]);
    fs_err::create_dir(t.path("set")).unwrap();
    copy_tree(dist, &t.path("set"));
    t
}

/// The set whose device code is split.
fn split_set() -> Sandbox {
    sandbox(&split(VERSION).join("dist"))
}

/// An index that has setuptools and nothing else.
fn index_with_setuptools(t: &Sandbox) -> Server {
    let wheel = setuptools_wheel();
    let name = wheel.file_name().unwrap().to_str().unwrap();
    t.write(&format!("deps/setuptools/{name}"), fs_err::read(&wheel).unwrap());
    t.write("deps/setuptools/index.html", format!("<a href=\"{name}\">{name}</a>"));
    Server::of_directory(&t.path("deps"), Manner::Ranges)
}

/// The rules of the findings of a set, with how many findings each has.
fn findings(t: &Sandbox, line: &str) -> BTreeMap<String, usize> {
    let said = t.run(&format!("check {line} --format json")).ok();
    let report: Value = serde_json::from_str(&said).unwrap();
    let mut counts = BTreeMap::new();
    for finding in report["findings"].as_array().unwrap() {
        let finding = ["severity", "id", "name"].map(|key| finding[key].as_str().unwrap());
        *counts.entry(finding.join(" ")).or_default() += 1;
    }
    counts
}

/// No license, scripts that lead nowhere, and one file in several packages: `docs/differences.md` has each.
#[test]
fn check_says_of_it_what_is_documented_and_nothing_else() {
    let t = split_set();
    let documented = ["warning RW123 dead-script", "warning RW126 unknown-license"];
    let shared = "warning RW114 shared-path";
    let rules = |t: &Sandbox, line: &str| findings(t, line).into_keys().collect::<Vec<_>>();
    let expected = [shared, documented[0], documented[1]];
    assert_eq!(rules(&t, "set --require-targets gfx942,gfx1100"), expected);
    let said = t.run("check set --select RW126 --all").ok();
    assert_has!(said, "it names no license, and `setuptools (", "in a package of another builder");
    // The sample has code for one target of the second family.
    let t = sandbox(&of_families().join("dist"));
    let expected = [documented[0], documented[1], "warning RW316 uncovered-in-family"];
    assert_eq!(rules(&t, "set"), expected);
}

/// What is in the packages that have the files of ROCm is the same, but for what `docs/differences.md` says.
#[test]
fn diff_with_our_build_of_the_same_artifacts_has_the_documented_differences() {
    let t = split_set();
    let ours = sample().dist();
    let said = t.run(&format!("diff set '{}' --format json", ours.display())).ok();
    let report: Value = serde_json::from_str(&said).unwrap();
    let packages = report["packages"].as_array().unwrap();
    assert!(packages.iter().all(|it| !it["before"].is_null() && !it["after"].is_null()), "{said}");
    let mut gone = BTreeSet::new();
    for file in report["files"].as_array().unwrap() {
        let [fate, package, path] =
            ["fate", "package", "path"].map(|key| file[key].as_str().unwrap());
        let is_of_rocm = path.starts_with("_rocm");
        match fate {
            "gone" => {
                gone.insert(format!("{package}: {path}"));
            }
            "new" => assert!(!is_of_rocm, "{file}"),
            // Run paths, and what stands for a symlink.
            _ => assert!(!is_of_rocm || path.contains(".so") || path.contains("bin/"), "{file}"),
        }
    }
    let expected = [
        "rocm-sdk-devel: rocm_sdk_devel/_cli.py",
        "rocm-sdk-device-gfx1100: _rocm_sdk_libraries/__init__.py",
        "rocm-sdk-device-gfx942: _rocm_sdk_libraries/__init__.py",
        "rocm-sdk-libraries: rocm_sdk_libraries/_cli.py",
    ];
    assert_eq!(gone, expected.map(str::to_owned).into());
}

#[test]
fn it_is_indexed_and_summarised_like_a_set_of_ours() {
    let t = split_set();
    let before = findings(&t, "set");
    t.run("index set").ok();
    assert_eq!(findings(&t, "set"), before);
    let summary = t.run("summary set").ok();
    assert_has!(summary, &sample().install_line("gfx942"), &sample().install_line("gfx1100"));
    assert_lacks!(summary, "gfx1201");
}

#[test]
fn it_is_uploaded_in_both_layouts() {
    for (layout, place) in [("dist", "python/dist"), ("flat", "python")] {
        let t = split_set();
        let upload =
            "upload set --run-id 7 --platform linux --multi-target --offline --output-dir out";
        t.run(&format!("{upload} --layout {layout}")).ok();
        let published = t.path("out/7-linux").join(place);
        for (name, bytes) in contents(&t.path("set/dist")) {
            assert_eq!(fs_err::read(published.join(&name)).unwrap(), bytes, "{layout}: {name}");
        }
        assert!(!findings(&t, "out/7-linux/python").keys().any(|it| it.starts_with("error")));
    }
}

/// The promoted set is the one that upstream's builder would have made of the release, but for the times in the
/// archive of the development files.
#[test]
fn it_is_promoted_to_what_a_build_of_the_release_would_be() {
    let t = sandbox(&split("0.99.1rc1").join("dist"));
    t.run("promote set --to release --into release").ok();
    let built = split("0.99.1").join("dist");
    let said = t.run(&format!("diff release '{}' --format json", built.display())).ok();
    let report: Value = serde_json::from_str(&said).unwrap();
    let files = report["files"].as_array().unwrap().iter();
    let files: Vec<&str> = files.map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(files, ["rocm_sdk_devel/_devel.tar"], "{said}");
    assert_eq!(report["metadata"], json!([]), "{said}");
}

#[test]
fn a_framework_is_tied_to_it() {
    let t = split_set();
    let wheel = DemoWheel::new().write(&t.path(""));
    t.run(&format!("framework tie --set set --output-dir tied '{}'", wheel.display())).ok();
    let tied = fs_err::read_dir(t.path("tied")).unwrap().next().unwrap().unwrap().path();
    t.run(&format!("check set --with '{}'", tied.display())).ok();
}

/// Installs with one installer, and uses what is installed as a user does.
fn installs_with(installer: &str, from: &str, more: &str) {
    let t = split_set();
    let deps = index_with_setuptools(&t);
    t.run("index set").ok();
    let extras = "--extras libraries,devel,profiler --target gfx942";
    let line = format!("install {from} {extras} --installer {installer} {more}");
    t.run(&format!("{line} --deps {}", deps.url)).ok();
    let doctor = "doctor .venv --target gfx942";
    assert_has!(t.run(doctor).ok(), "nothing is wrong with");
    let python = "import rocm_sdk; rocm_sdk.preload_libraries('amdhip64', 'hipblas', 'miopen')";
    succeed(Command::new(t.path(".venv/bin/python")).args(["-c", python]));
    let run = |line: &str| {
        let output =
            succeed(t.shell(&format!(".venv/bin/{line}")).stderr(std::process::Stdio::null()));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run("rocm-sdk version"), format!("{VERSION}\n"));
    run("rocm-sdk init");
    assert_has!(run("rocm-sdk path --root"), "/_rocm_sdk_devel");
    assert_has!(run("amdclang++ --help"), "clang LLVM compiler");
    assert_has!(run("rocprof-sys-run"), "rocprof-sys-run v1.3");
    // Their scripts write RECORD as text, without quotes around the sample's file with a comma in its name.
    assert_has!(t.run(doctor).ok(), "nothing is wrong with");
}

#[test]
#[ignore = "slow"]
fn uv_installs_it_and_doctor_is_silent_before_and_after_init() {
    installs_with("uv", "set", "");
}

#[test]
#[ignore = "slow"]
fn pip_installs_it_and_doctor_is_silent_before_and_after_init() {
    installs_with("pip", "set/simple", "");
}

#[test]
#[ignore = "slow"]
fn without_an_index_that_has_setuptools_the_hint_says_what_is_missing() {
    let t = split_set();
    for installer in ["uv", "pip"] {
        let said =
            t.run(&format!("install set --target gfx942 --installer {installer}")).refused(1);
        assert_has!(said, "setuptools", "name an index that has it with `--deps`");
        assert!(!t.path(".venv").exists());
    }
}

/// `rocm` names the packages of Windows too.
#[test]
fn the_code_of_a_target_that_only_windows_has_is_not_installed_on_linux() {
    let t = split_set();
    let line = "install set --target gfx1201 --dry-run";
    let refused = t.run(line).refused(1);
    insta::assert_snapshot!(refused, @"
    error: ROCm 0.99.1.dev0 has no device code for gfx1201 on linux

    hint: it has code for gfx1100, gfx942; `--target none` installs without device code
    ");
    t.run("install set --target gfx1100,gfx1201 --dry-run").refused(1);
    let extra = "install set --extras device-gfx1201 --target none --dry-run";
    assert_has!(t.run(extra).refused(1), "does not have the extra `device-gfx1201`");
}

/// In a directory, and where upstream's uploader puts it.
#[test]
fn the_target_chooses_the_family_of_a_set_whose_device_code_is_not_split() {
    let t = sandbox(&of_families().join("dist"));
    let upload = "upload set --run-id 9 --platform linux --multi-target --offline --output-dir out";
    t.run(&format!("{upload} --layout flat")).ok();
    for set in ["set", "out/9-linux/python"] {
        for (target, libraries) in [("gfx942", "gfx94x_dcgpu"), ("gfx1100", "gfx110x_all")] {
            let plan = t.run(&format!("install {set} --target {target} --dry-run")).ok();
            assert_has!(plan, &format!("rocm_sdk_libraries_{libraries}-{VERSION}"));
            assert_eq!(plan.matches("rocm_sdk_libraries_").count(), 1, "{plan}");
        }
    }
}
