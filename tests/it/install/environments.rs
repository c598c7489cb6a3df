//! What an install does to an environment that exists, and with files that are not those of the set.

use super::{
    assert_installed, built, copy_of, count, install, only_program, packages, sandbox, site,
};
use crate::support::{
    members::{record, unzip, zipped},
    prelude::*,
    published::VERSION,
};

/// The wheel of a project in a set.
pub(super) fn wheel(set: &Path, project: &str) -> PathBuf {
    let mut names = tree(&set.join("dist")).into_iter();
    let is_it = |it: &String| it.starts_with(&format!("{project}-")) && it.ends_with(".whl");
    set.join("dist").join(names.find(is_it).unwrap())
}

/// Writes a wheel again, with a member more: every program accepts it, and it is not the one that was
/// built.
fn replace(wheel: &Path) {
    let script = "import sys, zipfile\n\
        zipfile.ZipFile(sys.argv[1], 'a').writestr('rocm_sdk_libraries/evil.py', 'print(1)')";
    succeed(Command::new(tool("python")).args(["-c", script]).arg(wheel));
}

/// With the check and without it: then pip and uv refuse the file, because its digest is another one.
#[test]
#[ignore = "slow"]
fn a_replaced_wheel_is_never_installed() {
    for set in sets() {
        let t = sandbox();
        let local = copy_of(set, t.path("set"));
        replace(&wheel(&local, "rocm_sdk_libraries"));
        for installer in ["uv", "pip"] {
            for more in ["", "--no-check"] {
                let more = format!("{more} --target {} --installer {installer}", set.targets[0]);
                let said = install(&t, &local, &more).refused(1);
                assert_has!(said, "`rocwheel check HERE/set` says");
                assert_eq!(count(&t.path("")), 1, "{more}");
            }
        }
    }
}

/// `check` refuses the set, although what is installed of it is whole.
#[test]
#[ignore = "slow"]
fn a_set_that_check_refuses_is_not_installed_unless_that_is_accepted() {
    let t = sandbox();
    let local = copy_of(sample(), t.path("set"));
    fs_err::remove_file(wheel(&local, "rocm_sdk_device_gfx1100")).unwrap();
    let said = install(&t, &local, "--target gfx942 --dry-run").refused(1);
    let hint = "a list in the variable `ROCWHEEL_ACCEPT` accepts findings that are known";
    assert_has!(said, hint);
    assert_eq!(t.run("check set").code, 1);
    t.run("check set --write-accept known.toml");
    let list = t.read("known.toml").replace("reason = \"\"", "reason = \"a test\"");
    let list = t.write("known.toml", list);
    install(&t, &local, "--target gfx942 --dry-run --no-check").ok();
    let t = t.with("ROCWHEEL_ACCEPT", list);
    install(&t, &local, "--target gfx942 --dry-run").ok();
}

#[test]
#[ignore = "slow"]
fn an_install_that_fails_leaves_no_new_environment_and_keeps_the_old_one() {
    let t = sandbox();
    install(&t, &built(sample()), "--target gfx942").ok();
    let before = packages(&t.path(".venv"));
    t.write(".venv/bin/mine", "mine");
    let broken = copy_of(sample(), t.path("broken"));
    // Its metadata can be read, so that the installer finds what is wrong.
    let device = wheel(&broken, "rocm_sdk_device_gfx1100");
    let mut bytes = fs_err::read(&device).unwrap();
    bytes[100] ^= 1;
    fs_err::write(device, bytes).unwrap();
    for installer in ["uv", "pip"] {
        let more = format!("--no-check --target gfx1100 --installer {installer} --venv new");
        install(&t, &broken, &more).refused(1);
        assert!(!t.path("new").exists(), "{installer}");
    }
    install(&t, &broken, "--no-check --target gfx1100").refused(1);
    assert_eq!(packages(&t.path(".venv")), before);
    assert_eq!(t.read(".venv/bin/mine"), "mine");
    assert_eq!(count(&t.path("")), 2);
}

/// The installer of this test waits, so that somebody has time to use the same path, and then fails.
#[test]
fn what_somebody_makes_at_the_path_meanwhile_stays() {
    let set = built(sample());
    let line = format!("install '{}' --no-check --target none --venv env", set.display());
    let script = |verb: &str| {
        format!(
            "#!/bin/sh\ncase \"$1 $2\" in\n\
             '--version ') [ {verb} != version ] || touch asked && sleep 1; echo uv 0.9.0;;\n\
             'venv '*) [ {verb} != venv ] || touch asked && sleep 1; exit 0;;\n\
             *) exit 1;;\nesac\n"
        )
    };
    for verb in ["version", "venv"] {
        let t = sandbox();
        let t = only_program(t, "uv", script(verb).as_bytes());
        let path = format!("{}:/usr/bin:/bin", t.path("bin").display());
        let t = t.with("PATH", path);
        let child = t.command(&line).spawn().unwrap();
        while !t.path("asked").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        t.write("env/thesis", "years");
        let output = child.wait_with_output().unwrap();
        assert!(!output.status.success());
        assert_eq!(t.read("env/thesis"), "years", "{verb}");
    }
}

/// `rocwheel install … 2>&1 | head -2`: the installer writes more lines than somebody reads.
#[test]
fn an_install_whose_messages_are_not_read_goes_on() {
    let set = built(sample());
    for installer in ["uv", "pip"] {
        let t = sandbox();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let line = format!("install '{}' --target gfx942 --installer {installer}", set.display());
        let status = t.command(&line).stderr(writer).status().unwrap();
        assert!(status.success(), "{installer}: {status}");
        assert_installed(&t.path(".venv"), &["gfx942"]);
    }
}

#[test]
fn environments_beside_each_other_are_locked_apart() {
    let (t, set) = (sandbox(), built(sample()));
    let more = |name: &str| format!("install '{}' --target none --venv {name}", set.display());
    let first = t.command(&more("one")).spawn().unwrap();
    let second = t.run(&more("two"));
    let first = first.wait_with_output().unwrap();
    assert!(first.status.success());
    second.ok();
    assert_installed(&t.path("two"), &[]);
}

/// What an earlier version of this program left behind after a kill, and took as a reason to remove
/// the directory or to put an old one back.
#[test]
fn work_that_came_after_a_killed_install_stays() {
    let (t, set) = (sandbox(), built(sample()));
    install(&t, &set, "--target gfx942").ok();
    t.write(".venv/.rocwheel-unfinished", "mine");
    let theirs = [".venv/bin/mine", ".rocwheel-kept-.venv/old"].map(|it| t.write(it, "mine"));
    install(&t, &set, "--target gfx942").ok();
    assert!(theirs.iter().all(|it| it.exists()));
}

#[test]
#[ignore = "slow"]
fn an_environment_never_has_packages_of_two_versions() {
    let (t, set) = (sandbox(), built(sample()));
    let pipeline = "pipeline --sample --version 0.99.2 --output-dir later";
    t.run(pipeline).ok();
    let (later, environment) = (t.path("later/packages"), t.path(".venv"));
    let all = "--target gfx942,gfx1100 --extras libraries,devel";
    install(&t, &set, all).ok();
    let said = install(&t, &later, "--target gfx942,gfx1100 --extras libraries").refused(1);
    let error = format!("has `rocm-sdk-devel` {VERSION}, and this is ROCm 0.99.2");
    assert_has!(said, &error);
    let installed = packages(&environment);
    assert!(installed.iter().all(|it| it.ends_with(VERSION)));

    install(&t, &later, all).ok();
    let installed = packages(&environment);
    assert_eq!(installed.len(), 6, "{installed:?}");
    assert!(installed.iter().all(|it| it.ends_with("-0.99.2")), "{installed:?}");
    // A framework that is tied to its version of ROCm, and stays.
    let info = site(&environment).join("torch-2.10+rocm0.0.2.dist-info");
    fs_err::create_dir(&info).unwrap();
    let metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 2.10+rocm0.99.2\n\
        Requires-Dist: rocm[libraries]==0.99.2\n";
    fs_err::write(info.join("METADATA"), metadata).unwrap();
    let said = install(&t, &set, all).refused(1);
    let error = "has `torch` 2.10+rocm0.99.2, which needs `rocm` ==0.99.2, and not ";
    assert_has!(said, &format!("{error}{VERSION}"));
    assert_eq!(packages(&environment), installed);
}

#[test]
#[ignore = "slow"]
fn a_damaged_file_is_not_the_one_of_the_cache() {
    let t = sandbox();
    let cache = t.path("cache");
    let t = t.with("UV_CACHE_DIR", cache);
    let local = copy_of(sample(), t.path("set"));
    let more = "--target gfx942 --installer uv --no-check";
    install(&t, &local, more).ok();
    assert_installed(&t.path(".venv"), &["gfx942"]);
    // What uv has unpacked before has the promised digest, and may be installed again.
    fs_err::remove_dir_all(t.path(".venv")).unwrap();
    replace(&wheel(&local, "rocm_sdk_libraries"));
    install(&t, &local, more);
    let mut files = walkdir::WalkDir::new(t.path(".venv")).into_iter().flatten();
    assert!(files.all(|it| it.file_name() != "evil.py"));
}

#[test]
#[ignore = "slow"]
fn a_set_is_named_by_its_directory_and_by_the_addresses_that_commands_print() {
    let set = sample().place();
    let address = format!("file://{}/", set.display());
    for place in [text(&set), &address, &format!("{address}simple/")] {
        let plan = install(&sandbox(), place.as_ref(), "--target none --dry-run").ok();
        assert!(plan.starts_with(&format!("ROCm {VERSION} ")), "{plan}");
    }
}

/// The extra `devel` does not ask for the libraries, and neither does `device-gfx942`: both packages need them.
#[test]
fn what_packages_need_is_installed_with_them() {
    let (t, set) = (sandbox(), sample().root().join("packages"));
    for (installer, wanted) in [("uv", "none"), ("pip", "gfx942")] {
        let more =
            format!("--extras devel --target {wanted} --installer {installer} --venv {installer}");
        install(&t, &set, &more).ok();
        let installed = packages(&t.path(installer));
        let libraries = format!("rocm_sdk_libraries-{VERSION}");
        assert!(installed.contains(&libraries), "{installed:?}");
    }
}

/// Another project's package comes from the index that `--deps` names, and without it the error says so.
#[test]
#[ignore = "slow"]
fn a_package_that_needs_one_of_others_says_where_that_comes_from() {
    let t = sandbox();
    let set = t.path("set");
    copy_tree(&sample().dist(), &set);
    let profiler = set.join(format!("rocm_profiler-{VERSION}-py3-none-linux_x86_64.whl"));
    let mut members = unzip(&fs_err::read(&profiler).unwrap());
    let metadata = members.iter_mut().find(|it| it.0.ends_with("/METADATA"));
    let headers = &mut metadata.unwrap().2;
    headers.splice(0..0, *b"Requires-Dist: of-others\n");
    record(&mut members);
    fs_err::write(&profiler, zipped(&members)).unwrap();
    for installer in ["uv", "pip"] {
        let more = format!("--extras profiler --target none --installer {installer}");
        let said = install(&t, &set, &more).refused(1);
        assert_has!(said, "of-others", "the index that `--deps` names");
        assert!(!t.path(".venv").exists());
    }
}

/// A set whose device code is not split has libraries for each family, and a `rocm` for each.
#[test]
#[ignore = "slow"]
fn the_libraries_of_a_family_are_those_of_the_target() {
    let t = sandbox();
    let families = [("gfx942", "gfx94X-dcgpu"), ("gfx1100", "gfx110X-all")];
    crate::python::legacy::write_run(&t.path("artifacts"), &families);
    t.run("build --artifact-dir artifacts --output-dir set").ok();
    let upload = "upload set --multi-target --run-id 9 --offline --output-dir out --no-check";
    t.run(upload).ok();
    for set in ["set", "out/9-linux/python"] {
        for (target, family) in families {
            for name in [target, family, &family.to_lowercase()] {
                let line = format!("install {set} --no-check --target {name} --dry-run");
                let said = t.run(&line).ok();
                let libraries = family.to_lowercase().replace('-', "_");
                assert_has!(said, &format!("for {family}, from "));
                assert_has!(said, &format!("rocm_sdk_libraries_{libraries}-{VERSION}"));
                assert_eq!(said.matches("rocm_sdk_libraries_").count(), 1, "{said}");
            }
        }
    }
    t.run("install set --no-check --target gfx942 --extras libraries,devel").ok();
    let installed = packages(&t.path(".venv"));
    assert!(
        installed.contains(&format!("rocm_sdk_libraries_gfx94x_dcgpu-{VERSION}")),
        "{installed:?}"
    );
    // The set of one family.
    crate::python::legacy::write_run(&t.path("one"), &families[..1]);
    t.run("build --artifact-dir one --output-dir single").ok();
    let said = t.run("install single --no-check --target gfx1100 --dry-run").refused(1);
    assert_has!(said, "has no device code for gfx1100, only for gfx94x-dcgpu");
    let said = t.run("install single --no-check --target gfx942 --dry-run").ok();
    assert_has!(said, "rocm_sdk_libraries_gfx94x_dcgpu-");
}

/// As uv does it: the environment that is active.
#[test]
#[ignore = "slow"]
fn the_active_environment_is_used_and_each_package_is_installed_again_when_asked() {
    let t = sandbox();
    let active = t.path("active");
    let t = t.with("VIRTUAL_ENV", &active);
    install(&t, &sample().place(), "--target gfx942 --extras libraries").ok();
    assert!(!t.path(".venv").exists());
    let core = site(&active).join("_rocm_sdk_core/lib/libamdhip64.so.7");
    let bytes = fs_err::read(&core).unwrap();
    // The size and so everything that is looked at stays.
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    for installer in ["uv", "pip"] {
        fs_err::remove_file(&core).unwrap();
        fs_err::write(&core, &damaged).unwrap();
        if installer == "pip" {
            let said = install(&t, &sample().place(), "--target gfx942 --installer pip").refused(2);
            assert_has!(said, "the environment of HERE/active/bin/python has no pip that runs");
            succeed(&mut t.shell("active/bin/python -m ensurepip >/dev/null"));
        }
        let again = format!("--target gfx942 --extras libraries --installer {installer}");
        install(&t, &sample().place(), &again).ok();
        assert_eq!(fs_err::read(&core).unwrap(), damaged, "{installer}");
        install(&t, &sample().place(), &format!("{again} --reinstall")).ok();
        assert_eq!(fs_err::read(&core).unwrap(), bytes, "{installer}");
    }
    // A name is stronger.
    install(&t, &sample().place(), "--target none --venv named --dry-run").ok();
}

/// GitHub is not asked about a run whose packages are in a directory, and a flag names the group.
#[test]
fn the_packages_of_a_run_in_a_directory_need_no_network() {
    let t = sandbox().with("GITHUB_API_URL", "http://127.0.0.1:9");
    let run = "--run-id 7 --platform linux --output-dir out";
    let set = built(sample());
    let upload = format!("upload '{}' {run} --ignore=other-run --no-check", set.display());
    t.run(&format!("{upload} --artifact-group gfx94X-dcgpu")).ok();
    let line = "install --run-id 7 --input-dir out --target gfx942 --dry-run --no-check";
    t.run(line).refused(1);
    let plan = t.run(&format!("{line} --artifact-group gfx94X-dcgpu")).ok();
    assert_has!(plan, "ROCm 0.99.1.dev0 for gfx942", "python/gfx94X-dcgpu");
}

/// What builds the sdist of TheRock's scripts comes from the other index, and nothing else does: every package has
/// its digest, also of a directory that says none.
#[test]
fn only_what_builds_a_package_comes_from_another_index() {
    let t = sandbox();
    copy_tree(&sample().dist(), &t.path("set"));
    let emit = "install set --no-check --target none --emit requirements";
    assert_lacks!(t.run(emit).ok(), "--index-url");
    let deps = "http://127.0.0.1:9/simple/";
    let pins = t.run(&format!("{emit} --deps {deps}")).ok();
    assert_has!(pins, &format!("--index-url {deps}"), "--find-links");
    assert_eq!(pins.matches("--hash=sha256:").count(), pins.matches("==").count(), "{pins}");
}
