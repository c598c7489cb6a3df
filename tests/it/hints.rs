//! What the program prints as a command is run, in the state in which it is printed. Afterwards, what it was
//! printed for is gone.

use crate::support::prelude::*;
use crate::support::published::VERSION;

/// A sandbox with the program, uv and a shell in `PATH`.
fn sandbox() -> Sandbox {
    let judges = tool("uv").parent().unwrap().to_owned();
    let programs = Path::new(env!("CARGO_BIN_EXE_rocwheel")).parent().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("uv-cache");
    Sandbox::new()
        .with("PATH", format!("{}:{}:{path}", programs.display(), judges.display()))
        .with("UV_CACHE_DIR", cache)
}

/// Pastes a line into a shell.
fn paste(t: &Sandbox, line: &str) {
    let mut shell = t.shell(line);
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line}\n{said}");
}

/// What is wrong with an environment: pairs of a problem and what to do.
fn problems(t: &Sandbox, environment: &str) -> Vec<(String, String)> {
    let mut doctor = t.command(&format!("doctor '{environment}' --target gfx942 --format json"));
    let report: Value = serde_json::from_slice(&doctor.output().unwrap().stdout).unwrap();
    let checks = report["checks"].as_array().unwrap().iter();
    let problems = checks.filter(|it| it["status"] == "problem");
    let field = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
    problems.map(|it| (field(it, "found"), field(it, "way-out"))).collect()
}

/// The first file of an environment whose path ends so.
fn file(t: &Sandbox, environment: &str, end: &str) -> PathBuf {
    let root = t.path(environment);
    let path = tree(&root).into_iter().find(|it| it.ends_with(end));
    root.join(path.unwrap_or_else(|| panic!("no {end}")))
}

fn replace_in(file: &Path, from: &str, to: &str) {
    let text = fs_err::read_to_string(file).unwrap();
    // The cache of uv may have the same file.
    fs_err::remove_file(file).unwrap();
    fs_err::write(file, text.replace(from, to)).unwrap();
}

/// What somebody does to an environment.
type Damage = fn(&Sandbox, &str);

const DAMAGES: [(&str, Damage); 17] = [
    ("`rocm-sdk-device-gfx942` is not installed", |t, environment| {
        let python = t.path(environment).join("bin/python");
        let mut uninstall = t.shell(&format!(
            "uv pip uninstall --quiet --python '{}' rocm-sdk-device-gfx942",
            python.display()
        ));
        succeed(&mut uninstall);
    }),
    // As pip would take it from PyPI, in the version of the set.
    ("is a stub", |t, environment| {
        let info = file(t, environment, "rocm_sdk_device_gfx942-0.99.1.dev0.dist-info/RECORD");
        let site = info.parent().unwrap().parent().unwrap().to_owned();
        let record = fs_err::read_to_string(&info).unwrap();
        for path in record.lines().filter_map(|it| it.split(',').next()) {
            let _ = fs_err::remove_file(site.join(path));
        }
        fs_err::create_dir_all(info.parent().unwrap()).unwrap();
        let metadata =
            format!("Metadata-Version: 2.1\nName: rocm-sdk-device-gfx942\nVersion: {VERSION}\n");
        fs_err::write(info.with_file_name("METADATA"), metadata).unwrap();
        fs_err::write(info.with_file_name("WHEEL"), "Wheel-Version: 1.0\nTag: py3-none-any\n")
            .unwrap();
        fs_err::write(info, "rocm_sdk_device_gfx942-0.99.1.dev0.dist-info/METADATA,,\n").unwrap();
    }),
    ("1 file is missing", |t, environment| {
        fs_err::remove_file(file(t, environment, "lib/libamdhip64.so.7")).unwrap();
    }),
    ("1 file is changed", |t, environment| {
        let file = file(t, environment, "rocm_sdk_core/_dist_info.py");
        replace_in(&file, "import", "import  ");
    }),
    ("(RW204)", |t, environment| {
        let metadata = file(t, environment, "rocm_sdk_devel-0.99.1.dev0.dist-info/METADATA");
        replace_in(&metadata, "Version: 0.99.1.dev0", "Version: 0.99.2.dev0");
        let info = metadata.parent().unwrap();
        let name = info.to_str().unwrap().replace("0.99.1.dev0", "0.99.2.dev0");
        fs_err::rename(info, &name).unwrap();
        replace_in(&Path::new(&name).join("RECORD"), "0.99.1.dev0", "0.99.2.dev0");
    }),
    ("1 file is missing: `_rocm_sdk_devel/", |t, environment| {
        succeed(&mut t.shell(&format!("'{environment}/bin/rocm-sdk' init")));
        assert_eq!(problems(t, environment), []);
        let header = file(t, environment, "_rocm_sdk_devel/__init__.py");
        let root = header.parent().unwrap();
        let files = tree(root).into_iter().map(|it| root.join(it));
        let mut files = files.filter(|it| fs_err::symlink_metadata(it).unwrap().is_file());
        fs_err::remove_file(files.find(|it| *it != header).unwrap()).unwrap();
    }),
    ("has no RECORD", |t, environment| {
        fs_err::remove_file(info(t, environment, "rocm_sdk_libraries").join("RECORD")).unwrap();
    }),
    ("has no METADATA", |t, environment| {
        fs_err::remove_file(info(t, environment, "rocm_sdk_libraries").join("METADATA")).unwrap();
    }),
    ("only files of it are there", |t, environment| {
        fs_err::remove_dir_all(info(t, environment, "rocm_sdk_libraries")).unwrap();
    }),
    ("files are missing", |t, environment| {
        let module = file(t, environment, "_rocm_sdk_libraries/__init__.py");
        fs_err::remove_dir_all(module.parent().unwrap()).unwrap();
    }),
    ("`rocm-sdk-core` is there 2 times", |t, environment| {
        let info = info(t, environment, "rocm_sdk_core");
        let other = info.with_file_name("rocm_sdk_core-0.98.0.dist-info");
        copy_tree(&info, &other);
        replace_in(&other.join("METADATA"), "Version: 0.99.1.dev0", "Version: 0.98.0");
    }),
    ("`rocm` 0.99.1.dev0, which was installed here, is gone", |t, environment| {
        let uninstall = format!("uv pip uninstall -q --python '{environment}/bin/python' rocm");
        succeed(&mut t.shell(&uninstall));
    }),
    ("the development files are of ROCm 0.1.0", |t, environment| {
        let module = file(t, environment, "rocm_sdk_devel/__init__.py");
        let tree = module.parent().unwrap().with_file_name("_rocm_sdk_devel");
        let _ = fs_err::remove_dir_all(&tree);
        fs_err::create_dir_all(tree.join(".info")).unwrap();
        fs_err::write(tree.join(".info/version"), "0.1.0").unwrap();
    }),
    ("it was moved or copied", |t, environment| {
        let program = t.path(environment).join("bin/rocm-sdk");
        let script = fs_err::read_to_string(&program).unwrap();
        let (_, code) = script.split_once('\n').unwrap();
        write_program(&program, format!("#!/elsewhere/bin/python\n{code}").as_bytes());
    }),
    ("the development files are of ROCm 0.98.0", |t, environment| {
        succeed(&mut t.shell(&format!("'{environment}/bin/rocm-sdk' init")));
        let version = file(t, environment, "_rocm_sdk_devel/.info/version");
        fs_err::remove_file(&version).unwrap();
        fs_err::write(version, "0.98.0").unwrap();
    }),
    ("`rocm` 0.99.1.dev0 needs `rocm-profiler`", |t, environment| {
        let info = info(t, environment, "rocm_sdk_core").with_file_name("foo-1.dist-info");
        fs_err::create_dir(&info).unwrap();
        let metadata =
            "Metadata-Version: 2.1\nName: foo\nVersion: 1\nRequires-Dist: rocm[profiler]\n";
        fs_err::write(info.join("METADATA"), metadata).unwrap();
        fs_err::write(info.join("RECORD"), "").unwrap();
    }),
    ("the Python of the environment is gone", |t, environment| {
        let python = t.path(environment).join("bin/python");
        fs_err::remove_file(&python).unwrap();
        std::os::unix::fs::symlink("/nowhere/python3", python).unwrap();
    }),
];

/// The `.dist-info` directory of a package.
fn info(t: &Sandbox, environment: &str, package: &str) -> PathBuf {
    file(t, environment, &format!("{package}-{VERSION}.dist-info/RECORD")).with_file_name("")
}

/// Does what an advice says: removes what it names, and pastes the command after it.
fn follow(t: &Sandbox, advice: &str) {
    let command = match advice.split_once(", and then: ") {
        Some((removal, command)) => {
            assert!(removal.starts_with("remove "), "{advice}");
            for path in removal.split('`').filter(|part| part.starts_with('/')) {
                fs_err::remove_dir_all(path).unwrap();
            }
            command
        }
        None => advice,
    };
    paste(t, command);
}

/// The environment has a name that a shell would take apart.
#[test]
#[ignore = "slow"]
fn each_command_of_doctor_mends_what_it_was_printed_for() {
    let (t, environment) = (sandbox(), "my $(touch evil) env");
    let set = sample().root().join("packages");
    let install = format!(
        "install '{}' --target gfx942 --extras libraries,devel --venv '{environment}'",
        set.display()
    );
    t.run(&install).ok();
    assert_eq!(problems(&t, environment), []);
    for (wanted, damage) in DAMAGES {
        damage(&t, environment);
        let found = problems(&t, environment);
        assert!(found.iter().any(|it| it.0.contains(wanted)), "{wanted}: {found:?}");
        let is_command = |advice: &str| {
            advice.contains("rocwheel install ") || advice.ends_with(" -m rocm_sdk init")
        };
        let advices: Vec<&String> =
            found.iter().map(|it| &it.1).filter(|advice| is_command(advice)).collect();
        // What follows from a cause is not said again.
        assert_eq!(advices.len(), 1, "{found:?}");
        follow(&t, advices[0]);
        assert_eq!(problems(&t, environment), [], "{wanted}");
    }
    assert!(!t.path("evil").exists());
}

/// uv links packages from its cache: who changes a file of an environment changes the cache.
#[test]
#[ignore = "slow"]
fn damaged_files_of_the_cache_are_not_installed() {
    let t = sandbox();
    let cache = t.path("cache");
    let t = t.with("UV_CACHE_DIR", cache);
    let set = sample().root().join("packages");
    let install = format!("install '{}' --target gfx942 --installer uv", set.display());
    t.run(&format!("{install} --venv one")).ok();
    let library = file(&t, "one", "lib/libamdhip64.so.7");
    fs_err::write(&library, "damaged in place").unwrap();
    t.run(&format!("{install} --venv two")).ok();
    for (environment, count) in [("two", 0), ("one", 1)] {
        let found = problems(&t, environment);
        assert!(found.len() >= count, "{environment}: {found:?}");
        for (_, command) in found.iter().filter(|it| it.1.starts_with("rocwheel install ")) {
            paste(&t, command);
        }
        assert_eq!(problems(&t, environment), [], "{environment}");
    }
}

/// Another program has installed another version since: the record of the environment says nothing about it.
#[test]
#[ignore = "slow"]
fn the_record_of_another_version_is_no_source() {
    let t = sandbox();
    let set = sample().root().join("packages");
    t.run(&format!("install '{}' --target gfx942 --venv env", set.display())).ok();
    t.run("pipeline --sample --version 7.14.0 --output-dir later").ok();
    let later =
        "--no-index --find-links later/packages/dist 'rocm[libraries,device-gfx942]==7.14.0'";
    paste(&t, &format!("uv pip install --quiet --python env/bin/python {later}"));
    paste(&t, "uv pip uninstall --quiet --python env/bin/python rocm-sdk-device-gfx942");
    let found = problems(&t, "env");
    assert_has!(
        found[0].1,
        "install `rocm-sdk-device-gfx942` from the index that this ROCm came from"
    );
    assert_eq!(t.run("install --venv env --target gfx942").code, 2);
}

/// The next install, without a source, takes the one of the environment; and `rocm-sdk` names it.
#[test]
#[ignore = "slow"]
fn rocm_sdk_prints_a_command_that_installs_what_is_missing() {
    let t = sandbox();
    let set = sample().root().join("packages");
    t.run(&format!("install '{}' --target gfx942 --extras libraries --venv env", set.display()))
        .ok();
    let refused = t.shell("env/bin/rocm-sdk path --root").output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    let (_, command) = said.split_once("install them with: ").unwrap();
    assert_has!(command, "rocwheel install ", "--extras libraries,devel");
    paste(&t, command.trim());
    paste(&t, "env/bin/rocm-sdk path --root");
    t.run("install --venv env --target gfx1100").ok();
    let kept = fs_err::read_to_string(t.path("env/rocwheel-install.json")).unwrap();
    assert_has!(kept, "gfx942", "gfx1100", "devel");
}

/// A line that fails, the command in its hint, and the exit code of the command: it may be there to say what is
/// wrong.
const HINTS: [(&str, &str, i32); 9] = [
    ("install set --target mi300x --dry-run", "rocwheel targets all --emit table", 0),
    (
        "build --artifact-dir artifacts --output-dir new --release-type nightly",
        "rocwheel version --release-type nightly --base-version 0.99.1",
        0,
    ),
    ("man nothing", "rocwheel --help", 0),
    ("check broken", "rocwheel check explain RW701", 0),
    ("index broken", "rocwheel check explain RW202", 0),
    (
        "upload broken --multi-target --run-id 7 --offline --output-dir out",
        "rocwheel check explain RW701",
        0,
    ),
    ("install broken --target gfx942 --dry-run", "rocwheel check broken", 1),
    ("install damaged --no-check --target gfx942", "rocwheel check damaged", 1),
    ("pipeline --artifact-dir small --output-dir out", "rocwheel check out/packages", 1),
];

#[test]
#[ignore = "slow"]
fn each_command_in_the_hint_of_an_error_runs() {
    let t = sandbox();
    t.run("pipeline --sample --output-dir run").ok();
    let set = t.path("run/packages");
    for name in ["set", "broken", "damaged"] {
        copy_tree(&set, &t.path(name));
    }
    let wheel = |set: &str, project: &str| {
        let name = format!("dist/{project}-{VERSION}-py3-none-linux_x86_64.whl");
        t.path(set).join(name)
    };
    fs_err::remove_file(wheel("broken", "rocm_sdk_device_gfx1100")).unwrap();
    let device = wheel("damaged", "rocm_sdk_device_gfx942");
    let mut bytes = fs_err::read(&device).unwrap();
    bytes[100] ^= 1;
    fs_err::write(device, bytes).unwrap();
    copy_tree(&t.path("run/artifacts"), &t.path("artifacts"));
    copy_tree(&t.path("run/artifacts"), &t.path("small"));
    let manifest = file(&t, "artifacts", "therock_manifest.json");
    let text = fs_err::read_to_string(&manifest).unwrap();
    fs_err::write(&manifest, text.replace("\"rocm_package_version\"", "\"unknown\"")).unwrap();
    fs_err::remove_dir_all(t.path("small/rccl_lib_gfx1100")).unwrap();
    for (line, command, code) in HINTS {
        let said = t.run(line);
        assert_ne!(said.code, 0, "{line}");
        let all = said.all();
        assert!(all.contains(&format!("`{command}`")), "{line}: no `{command}` in\n{all}");
        let output = t.shell(command).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{command}: {said}");
    }
}

/// Commands in texts of the program that are no whole command: the reader knows the rest.
const NAMES: [&str; 29] = [
    "rocwheel build",
    "rocwheel build --on-collision last",
    "rocwheel build --version",
    "rocwheel check",
    "rocwheel check --format json",
    "rocwheel check --write-accept",
    "rocwheel deps update",
    "rocwheel fetch",
    "rocwheel fetch --find",
    "rocwheel fetch --run-id ID --output-dir {}",
    "rocwheel framework tie",
    "rocwheel index",
    "rocwheel place",
    "rocwheel promote --layout product",
    "rocwheel split",
    "rocwheel summary --base-index URL",
    "rocwheel upload",
    "rocwheel upload --layout {} --overwrite",
    "rocwheel upload --overwrite",
    // Whole, and run above or by the tests of private buckets.
    "rocwheel --help",
    "rocwheel check explain {}",
    "rocwheel check {0}",
    "rocwheel check {place}",
    "rocwheel check {shown}",
    "rocwheel check {}",
    "rocwheel promote {self} --to same --into DIR",
    "rocwheel targets all --emit table",
    "rocwheel version --release-type {kind} --base-version {base}{number}",
    // A command of this program; a unit test looks for each.
    "rocwheel {command}",
];

/// Whoever writes a further command into a text decides here whether a test can run it.
#[test]
fn each_command_in_a_text_is_known() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut commands = BTreeSet::new();
    for path in tree(&root).iter().filter(|it| it.ends_with(".rs") && !it.contains("tests")) {
        let source = fs_err::read_to_string(root.join(path)).unwrap();
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in lines {
            for part in line.split("`rocwheel ").skip(1) {
                let command = part.split(['`', '"']).next().unwrap_or_default();
                commands.insert(format!("rocwheel {command}").trim_end().to_owned());
            }
        }
    }
    let known: BTreeSet<String> = NAMES.iter().map(|it| (*it).to_owned()).collect();
    // What looks for such a command in a text.
    commands.remove("rocwheel");
    assert_eq!(commands, known);
}
