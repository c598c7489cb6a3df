//! The sample, from artifacts to packages that real installers install and Python imports.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use crate::{
    judges::tool,
    support::{
        place::{self, text},
        program::{self, command},
        published, sample,
    },
};

mod from_run;
mod keys;
mod refused;

const REQUIREMENT: &str = "rocm[libraries,devel,profiler,device-gfx942]==0.0.1.dev0";
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
    let names: Vec<&str> = lines[..packages]
        .iter()
        .filter_map(|line| line.split("  ").last())
        .collect();
    insta::assert_snapshot!(names.join("\n"), @"
    rocm-0.0.1.dev0.tar.gz
    rocm_profiler-0.0.1.dev0-py3-none-linux_x86_64.whl
    rocm_sdk_core-0.0.1.dev0-py3-none-linux_x86_64.whl
    rocm_sdk_devel-0.0.1.dev0-py3-none-linux_x86_64.whl
    rocm_sdk_device_gfx1100-0.0.1.dev0-py3-none-linux_x86_64.whl
    rocm_sdk_device_gfx942-0.0.1.dev0-py3-none-linux_x86_64.whl
    rocm_sdk_libraries-0.0.1.dev0-py3-none-linux_x86_64.whl
    in 7 packages
    ");
    insta::assert_snapshot!(lines[packages..].join("\n"), @"

    These lines are for gfx1100. Also built: gfx942.

    pip:

        pip install --index-url file://[out]/local-linux/python/simple/ 'rocm[libraries,devel,device-gfx1100]==0.0.1.dev0'

    uv:

        uv pip install --default-index file://[out]/local-linux/python/simple/ 'rocm[libraries,devel,device-gfx1100]==0.0.1.dev0'

    pip, from the find-links page:

        pip install --no-index --find-links file://[out]/local-linux/python/index.html 'rocm[libraries,devel,device-gfx1100]==0.0.1.dev0'

    uv, from the find-links page:

        uv pip install --no-index --find-links file://[out]/local-linux/python/index.html 'rocm[libraries,devel,device-gfx1100]==0.0.1.dev0'
    ");
}

#[test]
fn pip_installs_the_sample_from_a_directory() {
    let url = format!("file://{}", published().display());
    let python = environment("pip-file");
    succeed(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--index-url"])
            .arg(format!("{url}/simple/"))
            .arg(REQUIREMENT),
    );
    check(&python);
}

#[test]
fn pip_installs_the_sample_over_http() {
    let server = Server::start(&published());
    let python = environment("pip-http");
    succeed(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--index-url"])
            .arg(server.url("simple/"))
            .arg(REQUIREMENT),
    );
    check(&python);
}

#[test]
fn pip_installs_the_sample_from_the_one_page() {
    let python = environment("pip-page");
    let page = published().join("index.html");
    succeed(
        Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-index",
                "--find-links",
            ])
            .arg(page)
            .arg(REQUIREMENT),
    );
    check(&python);
}

#[test]
fn uv_installs_the_sample_from_a_directory() {
    let url = format!("file://{}/simple/", published().display());
    uv("uv-file", &url);
}

#[test]
fn uv_installs_the_sample_over_http() {
    let server = Server::start(&published());
    uv("uv-http", &server.url("simple/"));
}

#[test]
fn the_installed_sample_passes_its_own_tests() {
    let python = environment("self-test");
    let page = published().join("index.html");
    succeed(
        Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-index",
                "--find-links",
            ])
            .arg(page)
            .arg(REQUIREMENT),
    );
    let output = succeed(Command::new(python.with_file_name("rocm-sdk")).arg("test"));
    let said =
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(" passed, 0 failed, "), "{said}");
}

#[test]
fn the_strictest_reader_takes_every_wheel() {
    // It reads each member, and refuses one that RECORD does not know or knows otherwise.
    const READ: &str = "import sys; from installer.sources import WheelFile\n\
        for path in sys.argv[1:]:\n    with WheelFile.open(path) as wheel: wheel.validate_record()\n\
        print(len(sys.argv) - 1)";
    let wheels: Vec<PathBuf> = fs_err::read_dir(published().join("dist"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "whl"))
        .collect();
    let output = succeed(
        Command::new(tool("python"))
            .args(["-c", READ])
            .args(&wheels),
    );
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "6\n");
}

#[test]
fn the_same_artifacts_give_the_same_bytes() {
    let (first, second) = (place("same/one"), place("same/another place"));
    pipeline(&["--sample", "--jobs", "1", "--output-dir", text(&first)]);
    // From archives on disk, and with another number of workers.
    let archives = place("same/archives");
    sample::write_archives(&archives);
    let arguments = [
        "--artifact-dir",
        text(&archives),
        "--jobs",
        "4",
        "--output-dir",
        text(&second),
    ];
    pipeline(&arguments);
    let (first, second) = (contents(&first), contents(&second));
    assert!(first.len() > 200, "{}", first.len());
    let different: Vec<_> = first
        .iter()
        .filter(|(path, bytes)| second.get(*path) != Some(bytes))
        .map(|(path, _)| path)
        .collect();
    assert!(different.is_empty(), "{different:?}");
    assert_eq!(first.len(), second.len());
}

#[test]
fn a_second_run_into_the_same_directory_changes_nothing() {
    let out = place("again");
    pipeline(&["--sample", "--output-dir", text(&out)]);
    let before = contents(&out);
    pipeline(&["--sample", "--output-dir", text(&out)]);
    assert!(before == contents(&out));
}

/// The published sample.
fn published() -> PathBuf {
    published::sample().place()
}

fn pipeline(arguments: &[&str]) -> Output {
    let output = try_pipeline(arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn try_pipeline(arguments: &[&str]) -> Output {
    let mut command = command();
    command.arg("pipeline").args(arguments).output().unwrap()
}

fn uv(name: &str, url: &str) {
    let python = environment(name);
    succeed(
        Command::new(tool("uv"))
            .args([
                "pip",
                "install",
                "--quiet",
                "--no-cache",
                "--default-index",
                url,
            ])
            .arg("--python")
            .arg(&python)
            .arg(REQUIREMENT),
    );
    check(&python);
}

/// Asks an installation what only a whole one can answer.
fn check(python: &Path) {
    let output = succeed(Command::new(python).args(["-c", TRY]));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "0.0.1.dev0 5\n");
    let root = succeed(Command::new(python.with_file_name("rocm-sdk")).args(["path", "--root"]));
    let root = PathBuf::from(String::from_utf8(root.stdout).unwrap().trim_end());
    for file in [
        "include/hip/hip_runtime.h",
        ".kpack/blas_lib_gfx942:xnack+.kpack",
        "llvm/bin/clang++",
    ] {
        assert!(root.join(file).exists(), "{file}");
    }
    let compiler = succeed(Command::new(python.with_file_name("amdclang++")).arg("--help"));
    assert!(
        String::from_utf8(compiler.stdout)
            .unwrap()
            .contains("clang LLVM compiler")
    );
}

/// The Python of a new environment that has pip and no setuptools to help it.
pub(crate) fn environment(name: &str) -> PathBuf {
    let place = place(name);
    succeed(
        Command::new(tool("uv"))
            .args([
                "venv", "--quiet", "--clear", "--seed", "--python", "python3",
            ])
            .arg(&place),
    );
    place.join("bin/python")
}

pub(crate) fn succeed(command: &mut Command) -> Output {
    // Neither the user's index nor a cache may help.
    for variable in [
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
        "PIP_FIND_LINKS",
        "UV_INDEX_URL",
    ] {
        command.env_remove(variable);
    }
    program::succeed(command.env("PIP_NO_CACHE_DIR", "1"))
}

/// A plain web server of a directory, on this machine only.
struct Server {
    process: Child,
    port: String,
}

impl Server {
    fn start(directory: &Path) -> Self {
        let mut process = Command::new("python3")
            .args([
                "-u",
                "-m",
                "http.server",
                "0",
                "--bind",
                "127.0.0.1",
                "--directory",
            ])
            .arg(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port = line
            .split_whitespace()
            .skip_while(|word| *word != "port")
            .nth(1)
            .unwrap()
            .to_owned();
        Self { process, port }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Every file and link below a directory, with its bytes or its text.
fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs_err::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let kind = fs_err::symlink_metadata(&path).unwrap();
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_symlink() {
                let text = fs_err::read_link(&path).unwrap();
                found.insert(name, text.to_str().unwrap().as_bytes().to_vec());
            } else {
                found.insert(name, fs_err::read(&path).unwrap());
            }
        }
    }
    found
}

/// An empty directory for one test.
fn place(name: &str) -> PathBuf {
    place::empty(&format!("pipeline/{name}"))
}
