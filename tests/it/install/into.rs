//! `install --into`: the files of packages without any Python.

use super::{assert_installed, built, sandbox, site};
use crate::publish::packages::wheel;
use crate::support::bare_index::BareIndex;
use crate::support::prelude::*;
use crate::support::{demo::DemoWheel, published::VERSION};

/// Every path below a directory, with the text of a link, or the mode and the digest of a file.
fn described(root: &Path) -> BTreeMap<String, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let entries = walkdir::WalkDir::new(root).min_depth(1).into_iter().map(Result::unwrap);
    let describe = |entry: walkdir::DirEntry| {
        let below = text(entry.path().strip_prefix(root).unwrap()).to_owned();
        let kind = entry.file_type();
        let what = if kind.is_symlink() {
            format!("-> {}", fs_err::read_link(entry.path()).unwrap().display())
        } else if kind.is_dir() {
            "directory".to_owned()
        } else {
            let executable = entry.metadata().unwrap().permissions().mode() & 0o111 != 0;
            let sha256 = Sha256::of(&fs_err::read(entry.path()).unwrap());
            format!("{executable} {sha256}")
        };
        (below, what)
    };
    entries.map(describe).filter(|(path, _)| !path.contains("__pycache__")).collect()
}

/// A program that is linked against the unpacked libraries, and finds all others by their run paths.
#[test]
fn a_program_runs_with_the_unpacked_libraries_and_no_python() {
    let t = Sandbox::new();
    let set = sample();
    let server = Server::start(Site::Directory(set.place()));
    let t = t.shows(server.url.clone(), "SERVER/");
    let source = "int rocblas_answer(void);\nint main(void) { return rocblas_answer() == 0; }\n";
    t.write("program.c", source);
    for (number, from) in [text(&set.place()), &server.url].into_iter().enumerate() {
        let line = format!("install {from} --target gfx942 --into run{number}");
        let dry = t.run(&format!("{line} --dry-run")).ok();
        assert_has!(dry, "ROCm 0.99.1.dev0 for gfx942", "rocm_sdk_device_gfx942-");
        assert_lacks!(dry, ".tar.gz", "devel", "gfx1100");
        assert!(!t.path(format!("run{number}")).exists());
        let done = t.run(&line).done();
        assert_eq!(done.stdout, format!("HERE/run{number}\n"));
        let mut compiler = Command::new("cc");
        let lib = format!("run{number}/_rocm_sdk_libraries/lib");
        compiler.args(["program.c", "-o", "program", "-L", &lib, "-l:librocblas.so.5"]);
        compiler.arg(format!("-Wl,-rpath,{}", t.path(&lib).display()));
        // What these libraries need is found when the program starts.
        compiler.arg("-Wl,--allow-shlib-undefined").current_dir(t.path(""));
        succeed(&mut compiler);
        succeed(Command::new(t.path("program")).env_clear());
        let record: Value =
            serde_json::from_str(&t.read(&format!("run{number}/.rocwheel-into.json"))).unwrap();
        assert_eq!(record["version"], VERSION);
        let core = &record["files"]["_rocm_sdk_core/lib/libamdhip64.so.7"];
        let bytes =
            fs_err::read(t.path(format!("run{number}/_rocm_sdk_core/lib/libamdhip64.so.7")));
        assert_eq!(core, &json!(Sha256::of(&bytes.unwrap()).to_string()));
    }
    assert_eq!(
        described(&t.path("run0/_rocm_sdk_core")),
        described(&t.path("run1/_rocm_sdk_core"))
    );
}

/// The tree of development files is what `rocm-sdk init` makes in an environment.
#[test]
#[ignore = "slow"]
fn development_files_are_those_of_an_environment() {
    for set in sets() {
        let t = sandbox();
        let target = set.targets[0];
        let from = text(&built(set)).to_owned();
        t.run(&format!("install {from} --target {target} --into here --extras libraries,devel"))
            .ok();
        t.run(&format!("install {from} --target {target}")).ok();
        assert_installed(&t.path(".venv"), &[target]);
        let mut init = Command::new(t.path(".venv/bin/rocm-sdk"));
        succeed(init.arg("init"));
        let installed = site(&t.path(".venv"));
        for directory in ["_rocm_sdk_devel", "_rocm_sdk_core", "_rocm_sdk_libraries"] {
            let here = described(&t.path("here").join(directory));
            let there = described(&installed.join(directory));
            assert!(here.len() > 3, "{directory}");
            let differ = |(path, what): &(&String, &String)| there.get(*path) != Some(*what);
            let different: Vec<_> = here.iter().filter(differ).collect();
            let missing: Vec<_> = there.keys().filter(|path| !here.contains_key(*path)).collect();
            assert!(
                different.is_empty() && missing.is_empty(),
                "{directory}: {different:?} {missing:?}"
            );
        }
    }
}

#[test]
fn a_second_run_replaces_what_the_first_made_and_nothing_else() {
    let t = Sandbox::new();
    let line = format!("install {} --into run --target", text(&sample().place()));
    t.run(&format!("{line} gfx942")).ok();
    let first = described(&t.path("run"));
    t.write("run/mine/thesis.txt", "mine");
    let other = t.run(&format!("{line} gfx1100")).done();
    assert_has!(other.stderr, "kept 1 file of others in `HERE/run`: `mine/thesis.txt`");
    assert_eq!(t.read("run/mine/thesis.txt"), "mine");
    let kpack =
        |target: &str| t.path(format!("run/_rocm_sdk_libraries/.kpack/blas_lib_{target}.kpack"));
    assert!(kpack("gfx1100").exists() && !kpack("gfx942").exists());

    let changed = "run/_rocm_sdk_core/bin/hipconfig";
    t.write(changed, "mine too");
    let refused = t.run(&format!("{line} gfx942")).refused(1);
    assert_has!(refused, "hipconfig` was changed since it was unpacked");
    assert_eq!(t.read(changed), "mine too");
    fs_err::remove_file(t.path(changed)).unwrap();
    fs_err::remove_dir_all(t.path("run/mine")).unwrap();
    t.run(&format!("{line} gfx942")).ok();
    assert_eq!(described(&t.path("run")), first);
    assert_eq!(tree(&t.path("")).iter().filter(|path| !path.starts_with("run/")).count(), 0);
}

#[test]
fn what_cannot_be_unpacked_is_refused_and_leaves_nothing() {
    let t = Sandbox::new();
    let place = t.path("place");
    copy_tree(&sample().place(), &place);
    let mut portable = DemoWheel::bare("portable");
    portable.version = format!("1.0+rocm{VERSION}");
    portable.platform = "any".to_owned();
    portable.add("portable/__init__.py", "x = 1\n");
    portable.write(&place.join("dist"));
    t.write("foreign/thesis.txt", "mine");
    t.write("file", "");
    let torch = format!("torch-2.13.0+rocm{VERSION}-cp312-cp312-linux_x86_64.whl");
    let made = wheel(&t.path("made"), "torch", &format!("2.13.0+rocm{VERSION}"), "");
    fs_err::rename(t.path("made").join(made), place.join("dist").join(torch)).unwrap();
    t.run("index place --no-check").ok();
    t.run("install place --target none --into portable --package portable --no-check").ok();
    assert!(t.path("portable/portable/__init__.py").exists());
    // One byte of a library.
    let damaged = t.path("damaged");
    copy_tree(&sample().place(), &damaged);
    let core = damaged.join(format!("dist/rocm_sdk_core-{VERSION}-py3-none-linux_x86_64.whl"));
    let mut bytes = fs_err::read(&core).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs_err::remove_file(&core).unwrap();
    fs_err::write(&core, bytes).unwrap();
    let lines = [
        "place --into foreign",
        "place --into file",
        "place --into new --package torch",
        "place --into new --package jax",
        "place --into new --venv v",
        "damaged --into new",
    ];
    let refusals = lines.map(|line| {
        let refused = t.run(&format!("install {line} --target none --no-check"));
        assert!(!t.path("new").exists(), "{line}");
        format!("{line} => {}\n{}", refused.code, refused.stderr)
    });
    assert_eq!(tree(&t.path("foreign")), ["thesis.txt"]);
    let digest = Regex::new("[0-9a-f]{64}").unwrap();
    insta::assert_snapshot!(digest.replace_all(&refusals.concat(), "DIGEST"), @"
    place --into foreign => 2
    error: `HERE/foreign` has files, and no record of an earlier `--into`

    hint: name a directory that is empty or does not exist
    place --into file => 2
    error: no directory to write to: `HERE/file`
      caused by: failed to create directory `HERE/file`: File exists (os error 17)

    hint: choose another directory
    place --into new --package torch => 1
    error: `torch-2.13.0+rocm0.99.1.dev0-cp312-cp312-linux_x86_64.whl` is for a Python, and here is none

    hint: install it into an environment, without `--into`
    place --into new --package jax => 1
    error: `place` does not have `jax`

    hint: name a package of this set, which needs no Python
    place --into new --venv v => 2
    error: the argument '--into <DIR>' cannot be used with '--venv <DIR>'

    Usage: rocwheel install --into <DIR> --target <LIST> --no-check <SET>

    For more information, try '--help'.
    damaged --into new => 1
    error: `rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl` has the SHA-256 DIGEST, and the source says DIGEST: this is not the file that was built

    hint: `rocwheel check damaged` says whether the set is complete
    ");
}

/// An index without digests is read once, and what was read is unpacked.
#[test]
fn an_index_without_digests_is_trusted_on_first_use() {
    let index = BareIndex::start();
    let t = Sandbox::new();
    let cache = t.path("cache");
    let t = t.with("XDG_CACHE_HOME", cache);
    let line = format!("install {} --target gfx942 --into", index.url);
    let first = t.run(&format!("{line} one")).done();
    assert_has!(first.stderr, "does not say the SHA-256 of 3 files", "trust on first use");
    assert_eq!(index.take_sent(), 2);
    let second = t.run(&format!("{line} two")).done();
    assert_lacks!(second.stderr, "first use");
    assert_eq!(described(&t.path("one/_rocm_sdk_core")), described(&t.path("two/_rocm_sdk_core")));
}

/// What somebody has put where a new file has to be, and a link to a directory.
#[test]
fn files_and_links_of_others_are_not_replaced() {
    let t = Sandbox::new();
    let line = format!("install {} --no-check --into", text(&sample().place()));
    t.run(&format!("{line} run --target none")).ok();
    let code = "run/_rocm_sdk_libraries/.kpack/blas_lib_gfx942.kpack";
    t.write(code, "mine");
    let refused = t.run(&format!("{line} run --target gfx942")).refused(1);
    assert_has!(refused, "blas_lib_gfx942.kpack` is of others, and a file has to be there");
    assert_eq!(t.read(code), "mine");
    fs_err::remove_file(t.path(code)).unwrap();
    fs_err::rename(t.path("run/_rocm_sdk_core"), t.path("big")).unwrap();
    std::os::unix::fs::symlink("../big", t.path("run/_rocm_sdk_core")).unwrap();
    assert_has!(
        t.run(&format!("{line} run --target none")).refused(1),
        "_rocm_sdk_core` was changed since it was unpacked",
    );
    assert!(t.path("run/_rocm_sdk_core").is_symlink());

    fs_err::create_dir(t.path("data")).unwrap();
    std::os::unix::fs::symlink("data", t.path("link")).unwrap();
    t.run(&format!("{line} link --target none")).ok();
    assert!(t.path("link").is_symlink() && t.path("data/_rocm_sdk_core").is_dir());
    assert_has!(t.run(&format!("{line} . --target none")).refused(2), "is the current directory");
    let other = "--package rocm-profiler==9.9.9";
    let refused = t.run(&format!("{line} new --target none {other}")).refused(1);
    assert_has!(refused, "has `rocm-profiler` 0.99.1.dev0, and not `rocm-profiler==9.9.9`");
}

/// A set without pages, which no installer could read.
#[test]
fn a_set_without_pages_is_unpacked_and_listed() {
    let t = Sandbox::new();
    copy_tree(&sample().place(), &t.path("set"));
    fs_err::remove_dir_all(t.path("set/simple")).unwrap();
    fs_err::remove_file(t.path("set/dist/index.html")).unwrap();
    let server = Server::start(Site::Directory(t.path("set")));
    t.run(&format!("install {} --target none --into run", server.url)).ok();
    assert_has!(t.run(&format!("list {}", server.url)).ok(), "linux: whole");
    t.run("list --target gfx942").refused(2);
}

#[test]
fn two_packages_may_have_the_same_file_and_no_different_one() {
    let t = Sandbox::new();
    let place = t.path("place");
    copy_tree(&sample().place(), &place);
    for (name, shared) in [("one", "x = 1\n"), ("same", "x = 1\n"), ("other", "x = 2\n")] {
        let mut wheel = DemoWheel::bare(name);
        wheel.version = format!("1.0+rocm{VERSION}");
        wheel.platform = "any".to_owned();
        wheel.add("shared/__init__.py", shared);
        wheel.write(&place.join("dist"));
    }
    t.run("index place --no-check").ok();
    let line = "install place --target none --no-check --into new --package one --package";
    let refused = t.run(&format!("{line} other")).refused(1);
    assert_has!(refused, "have different files called `shared/__init__.py`");
    assert!(!t.path("new").exists());
    t.run(&format!("{line} same")).ok();
    assert_eq!(t.read("new/shared/__init__.py"), "x = 1\n");
}
