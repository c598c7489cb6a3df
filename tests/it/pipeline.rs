//! Every set, from artifacts to packages that real installers install and Python imports.

use crate::support::prelude::*;
use rocwheel_test_sets::odd::NAMES;

use crate::support::{place, program, published::sets_in_turn};

mod from_run;
mod keys;
mod opened;
mod refused;

/// Prints what only a whole installation can say: the version, and a number that a library of one
/// package gets from libraries of another, found through their run paths alone.
const TRY: &str = "import ctypes, rocm_sdk; \
    [path] = rocm_sdk.find_libraries('hipblas'); \
    print(rocm_sdk.__version__, ctypes.CDLL(str(path)).hipblas_answer())";

#[test]
fn the_last_lines_say_how_to_install_what_was_made() {
    let out = place("last-lines");
    let output = pipeline(&["--sample", "--output-dir", text(&out)]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let shown = stdout.replace(text(&out), "[out]");
    let lines: Vec<&str> = shown.lines().collect();
    let packages = lines.iter().position(|line| line.is_empty()).unwrap();
    let names: Vec<&str> =
        lines[..packages].iter().filter_map(|line| line.split("  ").last()).collect();
    insta::assert_snapshot!(names.join("\n"), @"
    rocm-0.99.1.dev0.tar.gz
    rocm_profiler-0.99.1.dev0-py3-none-linux_x86_64.whl
    rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl
    rocm_sdk_devel-0.99.1.dev0-py3-none-linux_x86_64.whl
    rocm_sdk_device_gfx1100-0.99.1.dev0-py3-none-linux_x86_64.whl
    rocm_sdk_device_gfx942-0.99.1.dev0-py3-none-linux_x86_64.whl
    rocm_sdk_libraries-0.99.1.dev0-py3-none-linux_x86_64.whl
    in 7 packages
    ");
    insta::assert_snapshot!(lines[packages..].join("\n"), @"
    rocwheel, for the GPU of the machine:

        rocwheel install file://[out]/local-linux/python/

    pip, for gfx942 (also built: gfx1100):

        pip install --index-url file://[out]/local-linux/python/simple/ 'rocm[libraries,devel,device-gfx942]==0.99.1.dev0'
    ");
}

/// Installs a set by pip, all of its targets, and returns the Python that has it.
fn pip(set: &TestSet, place: &str, source: &[&str]) -> PathBuf {
    let python = environment(&format!("pip-{place}-{}", set.name));
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet"]).args(source);
    succeed(pip.arg(set.requirement()));
    python
}

#[test]
fn pip_installs_every_set_from_a_directory() {
    for set in sets_in_turn(0) {
        let index = format!("file://{}/simple/", set.place().display());
        check(set, &pip(set, "file", &["--index-url", &index]));
    }
}

#[test]
#[ignore = "slow"]
fn pip_installs_every_set_over_http() {
    for set in sets_in_turn(1) {
        let server = Server::start(Site::Directory(set.place()));
        let index = format!("{}simple/", server.url);
        check(set, &pip(set, "http", &["--index-url", &index]));
    }
}

#[test]
#[ignore = "slow"]
fn pip_installs_every_set_from_the_one_page_and_it_passes_its_own_tests() {
    for set in sets_in_turn(1) {
        let page = set.place().join("dist/index.html");
        let python = pip(set, "page", &["--no-index", "--find-links", text(&page)]);
        check(set, &python);
        if set.name == published::odd().name {
            passes_its_own_tests(&python);
            what_is_odd_works(set, &python);
        } else if long::is_on() {
            passes_its_own_tests(&python);
        }
    }
}

#[test]
fn uv_installs_every_set_from_a_directory() {
    for set in sets_in_turn(1) {
        let index = format!("file://{}/simple/", set.place().display());
        let python = uv(set, "file", &index);
        if long::is_on() {
            passes_its_own_tests(&python);
        }
    }
}

#[test]
#[ignore = "slow"]
fn uv_installs_every_set_over_http() {
    for set in sets_in_turn(0) {
        let server = Server::start(Site::Directory(set.place()));
        uv(set, "http", &format!("{}simple/", server.url));
    }
}

#[test]
fn the_strictest_reader_takes_every_wheel() {
    // It reads each member, and refuses one that RECORD does not know or knows otherwise.
    const READ: &str = "import sys; from installer.sources import WheelFile\n\
        for path in sys.argv[1:]:\n    with WheelFile.open(path) as wheel: wheel.validate_record()\n\
        print(len(sys.argv) - 1)";
    for set in sets() {
        let files = fs_err::read_dir(set.place().join("dist")).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        let wheels = files.filter(|path| path.extension().is_some_and(|end| end == "whl"));
        let mut python = Command::new(tool("python"));
        let output = succeed(python.args(["-c", READ]).args(wheels));
        let count = format!("{}\n", set.packages() - 1);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), count);
    }
}

/// What `pipeline` wrote, without what its test keeps beside it.
fn results(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut results = contents_without_caches(root);
    let results_of = ["artifacts/", "packages/", "local-linux/"];
    results.retain(|path, _| results_of.iter().any(|start| path.starts_with(start)));
    results
}

#[test]
fn the_same_artifacts_give_the_same_bytes() {
    for set in sets() {
        // From archives on disk, in another place, and with another number of workers.
        let (archives, out) = (place("same/archives"), place("same/another place"));
        set.write_archives(&archives);
        let input = ["--artifact-dir", text(&archives), "--jobs", "1"];
        pipeline(&[&input[..], &["--output-dir", text(&out)]].concat());
        let (first, second) = (results(set.root()), results(&out));
        assert!(first.len() > 200, "{}", first.len());
        let different = first.iter().filter(|(path, bytes)| second.get(*path) != Some(bytes));
        let different: Vec<_> = different.map(|(path, _)| path).collect();
        assert!(different.is_empty(), "{}: {different:?}", set.name);
        assert_eq!(first.len(), second.len());
    }
}

#[test]
#[ignore = "slow"]
fn a_second_run_into_the_same_directory_changes_nothing() {
    for set in sets() {
        let out = place("again").join(set.name);
        succeed(Command::new("cp").arg("-a").arg(set.root()).arg(&out));
        let before = contents_without_caches(&out);
        let source = set.source();
        let source: Vec<&str> = source.iter().map(String::as_str).collect();
        pipeline(&[&source[..], &["--output-dir", text(&out)]].concat());
        assert!(before == contents_without_caches(&out), "{}", set.name);
    }
}

fn pipeline(arguments: &[&str]) -> Output {
    let mut command = command();
    program::succeed(command.arg("pipeline").args(arguments))
}

fn uv(set: &TestSet, place: &str, index: &str) -> PathBuf {
    let python = environment(&format!("uv-{place}-{}", set.name));
    let mut uv = Command::new(tool("uv"));
    uv.args(["pip", "install", "--quiet", "--no-cache"]);
    uv.args(["--default-index", index, "--python"]).arg(&python);
    succeed(uv.arg(set.requirement()));
    check(set, &python);
    python
}

/// The directory of the development files, which has everything.
fn root(python: &Path) -> PathBuf {
    let root = succeed(Command::new(python.with_file_name("rocm-sdk")).args(["path", "--root"]));
    PathBuf::from(String::from_utf8(root.stdout).unwrap().trim_end())
}

/// `rocm-sdk test`, which opens every library for every target.
pub(crate) fn passes_its_own_tests(python: &Path) {
    let output = succeed(Command::new(python.with_file_name("rocm-sdk")).arg("test"));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert_has!(said, " passed, 0 failed, ");
}

/// Asks an installation what only a whole one can answer.
fn check(set: &TestSet, python: &Path) {
    let output = succeed(Command::new(python).args(["-c", TRY]));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "0.99.1.dev0 5\n");
    let root = root(python);
    let files = ["include/hip/hip_runtime.h", "llvm/bin/clang++"];
    let code = ["gfx942:xnack+"].iter().chain(set.targets);
    let code = code.map(|target| format!(".kpack/blas_lib_{target}.kpack"));
    for file in files.map(str::to_owned).into_iter().chain(code) {
        assert!(root.join(&file).exists(), "{}: {file}", set.name);
    }
    let compiler = succeed(Command::new(python.with_file_name("amdclang++")).arg("--help"));
    let said = String::from_utf8(compiler.stdout).unwrap();
    assert_has!(said, "clang LLVM compiler");
}

/// What the odd set has and the sample does not, where it is installed.
fn what_is_odd_works(set: &TestSet, python: &Path) {
    let root = root(python);
    for artifact in ["base_run_generic", "blas_lib_generic", "prim_dev_generic"] {
        for folder in ["", " (symlink)"].map(|end| format!("share/odd {artifact}{end}")) {
            let names = NAMES.iter().chain(&["hard link.txt", "symlink, 2.txt"]);
            for name in names {
                let file = root.join(&folder).join(name);
                assert!(file.is_file(), "{}", file.display());
            }
            let empty = root.join(&folder).join("an empty directory/and, another");
            assert!(empty.is_dir(), "{}", empty.display());
        }
    }
    for header in ["Header.h", "header.h"] {
        let header = root.join("include/odd").join(header);
        assert!(header.is_file(), "{}", header.display());
    }
    for source in ["odd-setup.sh", "Odd.pm"] {
        let text = fs_err::read_to_string(root.join("bin").join(source)).unwrap();
        assert!(text.contains("read by others"), "{source}");
    }
    let bindings = root.join("lib/python3/dist-packages");
    let import = format!(
        "import sys; sys.path[:0] = [{:?}]; import rsmiBindings as it; assert it.ANSWER == 42",
        text(&bindings)
    );
    succeed(Command::new(python).args(["-c", &import]));
    let load = "import ctypes, sys; [ctypes.CDLL(it) for it in sys.argv[1:]]";
    let libraries = ["lib/libamd_smi.so.26", "share/amd_smi/amdsmi/libamd_smi.so"];
    let device = set.targets.iter();
    let device = device.map(|it| format!("lib/hipblaslt/library/libtensile_{it}.so"));
    let libraries = libraries.map(str::to_owned).into_iter().chain(device);
    let libraries = libraries.map(|it| root.join(it));
    succeed(Command::new(python).args(["-c", load]).args(libraries));
}

/// The Python of a new environment that has pip and no setuptools to help it.
pub(crate) fn environment(name: &str) -> PathBuf {
    let place = place(name);
    let mut uv = Command::new(tool("uv"));
    uv.args(["venv", "--quiet", "--clear", "--seed", "--python"]);
    succeed(uv.arg("python3").arg(&place));
    place.join("bin/python")
}

pub(crate) fn succeed(command: &mut Command) -> Output {
    // Neither the user's index nor a cache may help.
    for variable in ["INDEX_URL", "EXTRA_INDEX_URL", "FIND_LINKS"] {
        command.env_remove(format!("PIP_{variable}"));
    }
    command.env_remove("UV_INDEX_URL");
    program::succeed(command.env("PIP_NO_CACHE_DIR", "1"))
}

/// An empty directory for one test.
fn place(name: &str) -> PathBuf {
    place::empty(&format!("pipeline/{name}"))
}
