//! Where the action gets its binary: given, released or built.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use rocwheel::digest::Sha256;
use tempfile::TempDir;

use super::runner::read;

const SCRIPT: &str = ".github/binary/obtain.sh";
const DATA: &str = ".github/binary/release.txt";
/// Stands for a release: a program that knows its version.
const RELEASED: &str = "#!/bin/sh\necho rocwheel 9.9.9\n";
/// Downloads what the variable `SERVED` names, if it is asked as it should be; it is as old as that of
/// Enterprise Linux 8, and fails at first as often as there are lines in `failures`.
const CURL: &str = r#"#!/bin/sh
echo "$*" >>"$LOG"
case "$*" in *--retry-all-errors*) exit 2 ;; *"--proto =https"*"--fail"*) ;; *) exit 9 ;; esac
failures=${0%/*}/../failures
if [ -s "$failures" ]; then
  code=$(head -n 1 "$failures")
  sed -i 1d "$failures"
  exit "$code"
fi
while [ "$1" != --output ]; do shift; done
cp "$SERVED" "$2"
"#;
/// The targets of a release, and the endings of their programs.
const TARGETS: [(&str, &str); 5] = [
    ("x86_64-unknown-linux-musl", ""),
    ("aarch64-unknown-linux-musl", ""),
    ("x86_64-apple-darwin", ""),
    ("aarch64-apple-darwin", ""),
    ("x86_64-pc-windows-msvc", ".exe"),
];
const DOWNLOADS: &str = "https://example.org/a/b/releases/download/v9.9.9";
const CARGO: &str = r#"#!/bin/sh
echo "$*" >>"$LOG"
while [ "$1" != --target-dir ]; do shift; done
mkdir -p "$2/release"
cp "$SERVED" "$2/release/rocwheel"
"#;

/// A runner with the action's tree, and tools that do nothing real.
struct Runner {
    place: TempDir,
}

struct Said {
    code: i32,
    text: String,
}

impl Runner {
    fn new(release: &str) -> Self {
        let runner = Self {
            place: tempfile::tempdir().unwrap(),
        };
        runner.write(SCRIPT, &read(SCRIPT));
        runner.write(DATA, release);
        runner.write("served", RELEASED);
        let nap = "#!/bin/sh\necho slept $1 >>\"$LOG\"\n";
        for (tool, text) in [("bin/curl", CURL), ("bin/cargo", CARGO), ("bin/sleep", nap)] {
            runner.write(tool, text);
        }
        runner
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, text).unwrap();
        fs_err::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    fn text(&self, name: &str) -> String {
        fs_err::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Runs the script on a Linux runner, with further variables.
    fn obtain(&self, variables: &[(&str, &str)]) -> Said {
        let tools = std::env::var("PATH").unwrap();
        let output = Command::new("bash")
            .arg(self.path(SCRIPT))
            .env_clear()
            .env("PATH", format!("{}:{tools}", self.path("bin").display()))
            .env("RUNNER_OS", "Linux")
            .env("RUNNER_ARCH", "X64")
            .env("RUNNER_TEMP", self.write("temp/x", "").parent().unwrap())
            .env("RUNNER_TOOL_CACHE", self.path("cache"))
            .env("GITHUB_PATH", self.path("paths"))
            .env("GITHUB_OUTPUT", self.path("outputs"))
            .env("LOG", self.path("log"))
            .env("SERVED", self.path("served"))
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let text =
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        let text = text.replace(self.place.path().to_str().unwrap(), "HERE");
        Said {
            code: output.status.code().unwrap(),
            text,
        }
    }
}

fn release() -> String {
    let digest = Sha256::of(RELEASED.as_bytes());
    format!(
        "# A release.\nurl https://example.org/v9.9.9/\nLinux-X64 {digest} rocwheel-linux\nWindows-X64 {digest} rocwheel.exe\n"
    )
}

#[test]
fn without_a_release_it_says_what_to_do() {
    let runner = Runner::new(&read(DATA));
    let said = runner.obtain(&[("BUILD_FROM_SOURCE", "false")]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(said.text, @"::error title=rocwheel::rocwheel has no release yet, and is built where there is Rust: install it in an earlier step");
}

#[test]
fn a_release_is_downloaded_once_and_verified_each_time() {
    let runner = Runner::new(&release());
    let said = runner.obtain(&[]);
    assert_eq!((said.code, said.text.as_str()), (0, "rocwheel 9.9.9\n"));
    let digest = Sha256::of(RELEASED.as_bytes());
    let cached = format!("cache/rocwheel/{digest}/rocwheel");
    let at = |name: &str| runner.path(name).display().to_string();
    assert_eq!(runner.text("outputs"), format!("path={}\n", at(&cached)));
    let directory = Path::new(&cached).parent().unwrap().to_str().unwrap();
    assert_eq!(runner.text("paths"), format!("{}\n", at(directory)));
    assert!(
        runner
            .text("log")
            .contains("https://example.org/v9.9.9/rocwheel-linux")
    );
    assert_eq!(runner.obtain(&[]).code, 0);
    assert_eq!(runner.text("log").lines().count(), 1, "downloaded again");
    runner.write(&cached, "#!/bin/sh\necho evil\n");
    assert_eq!(runner.obtain(&[]).text, "rocwheel 9.9.9\n");
    assert_eq!(
        runner.text("log").lines().count(),
        2,
        "not downloaded again"
    );
}

#[test]
fn a_download_that_breaks_is_tried_again_and_one_that_is_refused_is_not() {
    let runner = Runner::new(&release());
    runner.write("failures", "56\n6\n");
    assert_eq!(runner.obtain(&[]).text, "rocwheel 9.9.9\n");
    let slept = |runner: &Runner| {
        let log = runner.text("log");
        let naps = log.lines().filter_map(|line| line.strip_prefix("slept "));
        naps.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(slept(&runner), "1 2");
    for (failures, naps) in [("22\n", ""), ("28\n28\n28\n28\n28\n", "1 2 4 8")] {
        let runner = Runner::new(&release());
        runner.write("failures", failures);
        let said = runner.obtain(&[]);
        assert_eq!((said.code, slept(&runner).as_str()), (2, naps));
        insta::allow_duplicates! {
            insta::assert_snapshot!(said.text, @"::error title=rocwheel::could not download https://example.org/v9.9.9/rocwheel-linux");
        }
    }
}

#[test]
fn what_was_not_released_is_not_run() {
    let runner = Runner::new(&release());
    runner.write("served", "#!/bin/sh\necho evil\n");
    let said = runner.obtain(&[]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(said.text, @"::error title=rocwheel::https://example.org/v9.9.9/rocwheel-linux is not what was released: its sha256 is 371ee1e216c6db0e75b5563ebf71ef0f20aefdaabf1b2a7aa1e6b0c9a730afc5 instead of 3cfc8d549dbe03a5bb5c088fff5526fcd20292f10c39883c7a89827eaa474455");
    assert_eq!(runner.text("paths"), "");
    assert_eq!(runner.text("outputs"), "");
    let other = runner.obtain(&[("RUNNER_ARCH", "ARM64"), ("BUILD_FROM_SOURCE", "false")]);
    insta::assert_snapshot!(other.text, @"::error title=rocwheel::no release of rocwheel is for Linux-ARM64, and it is built where there is Rust: install it in an earlier step");
}

#[test]
fn what_the_release_workflow_writes_is_what_is_read() {
    let runner = Runner::new("");
    for (target, ending) in TARGETS {
        let text = match ending {
            "" => RELEASED,
            _ => "#!/bin/sh\necho rocwheel 9.9.9 for Windows\n",
        };
        runner.write(&format!("work/built/{target}/rocwheel{ending}"), text);
    }
    let output = Command::new("python3")
        .arg(root().join(".github/binary/release.py"))
        .args(["gather", DOWNLOADS])
        .args(["built", "dist"])
        .current_dir(runner.path("work"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    runner.write(DATA, &runner.text("work/dist/release.txt"));
    assert_eq!(runner.obtain(&[]).text, "rocwheel 9.9.9\n");
    let address = format!("{DOWNLOADS}/rocwheel-x86_64-unknown-linux-musl");
    let log = runner.text("log");
    assert!(log.contains(&address), "{log}");
    let windows = "work/dist/rocwheel-x86_64-pc-windows-msvc.exe";
    let served = runner.path(windows).display().to_string();
    let said = runner.obtain(&[("RUNNER_OS", "Windows"), ("SERVED", &served)]);
    assert_eq!(said.text, "rocwheel 9.9.9 for Windows\n");
    let sums = Command::new("sha256sum")
        .args(["--check", "--quiet", "SHA256SUMS"])
        .current_dir(runner.path("work/dist"))
        .status();
    assert!(sums.unwrap().success());
    for (target, ending) in TARGETS {
        let url = binstall(target, ending);
        let name = url.strip_prefix(&format!("{DOWNLOADS}/")).unwrap();
        assert!(runner.path("work/dist").join(name).is_file(), "{url}");
    }
}

/// Where `cargo binstall rocwheel` looks for the program.
fn binstall(target: &str, ending: &str) -> String {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let settings = &manifest["package"]["metadata"]["binstall"];
    assert_eq!(settings["pkg-fmt"].as_str(), Some("bin"));
    let values = [
        ("repo", "https://example.org/a/b"),
        ("version", "9.9.9"),
        ("target", target),
        ("binary-ext", ending),
    ];
    let url = settings["pkg-url"].as_str().unwrap().to_owned();
    values.iter().fold(url, |url, (name, value)| {
        url.replace(&format!("{{ {name} }}"), value)
    })
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn without_a_release_it_is_built_where_there_is_rust() {
    let runner = Runner::new(&read(DATA));
    assert_eq!(runner.obtain(&[]).text, "rocwheel 9.9.9\n");
    assert!(runner.text("log").starts_with("build --locked --release"));
    let released = Runner::new(&release());
    assert_eq!(released.obtain(&[]).text, "rocwheel 9.9.9\n");
    assert!(!released.text("log").contains("build"));
}

#[test]
fn a_container_with_an_old_curl_downloads_with_another_program() {
    let runner = Runner::new(&release());
    runner.write("failures", "2\n");
    let wget = "#!/bin/sh\necho \"wget $*\" >>\"$LOG\"\ncp \"$SERVED\" \"$3\"\n";
    runner.write("bin/wget", wget);
    assert_eq!(runner.obtain(&[]).text, "rocwheel 9.9.9\n");
    assert!(runner.text("log").contains("wget -q -O"));
    // What another program brings is verified, too.
    runner.write("failures", "2\n");
    runner.write("served", "#!/bin/sh\necho evil\n");
    fs_err::remove_dir_all(runner.path("cache")).unwrap();
    assert_eq!(runner.obtain(&[]).code, 2);
}

#[test]
fn on_windows_the_program_has_its_ending() {
    let runner = Runner::new(&release());
    runner.write("bin/cygpath", "#!/bin/sh\necho \"C:$2\"\n");
    let said = runner.obtain(&[("RUNNER_OS", "Windows")]);
    assert_eq!(said.code, 0, "{}", said.text);
    assert!(runner.text("log").contains("/rocwheel.exe"));
    let outputs = runner.text("outputs");
    assert!(
        outputs.starts_with("path=C:/") && outputs.ends_with("/rocwheel.exe\n"),
        "{outputs}"
    );
    assert!(runner.text("paths").starts_with("C:/"));
}

#[test]
fn it_is_built_when_that_is_asked_for() {
    let runner = Runner::new(&read(DATA));
    let said = runner.obtain(&[("BUILD_FROM_SOURCE", "true")]);
    assert_eq!((said.code, said.text.as_str()), (0, "rocwheel 9.9.9\n"));
    let log = runner
        .text("log")
        .replace(runner.place.path().to_str().unwrap(), "HERE");
    insta::assert_snapshot!(log, @"build --locked --release --bin rocwheel --manifest-path HERE/.github/binary/../../Cargo.toml --target-dir HERE/temp/rocwheel");
    let said = runner.obtain(&[("BUILD_FROM_SOURCE", "yes%0Aplease")]);
    insta::assert_snapshot!(said.text, @"::error title=rocwheel::the input `build-from-source` is none of `auto`, `true`, `false`: yes%250Aplease");
}

#[test]
fn a_binary_that_is_there_is_taken_as_it_is() {
    let runner = Runner::new(&read(DATA));
    let own = runner.write("my tools/rocwheel", RELEASED);
    let said = runner.obtain(&[("BINARY", own.to_str().unwrap())]);
    assert_eq!((said.code, said.text.as_str()), (0, "rocwheel 9.9.9\n"));
    assert_eq!(
        runner.text("paths"),
        format!("{}\n", own.parent().unwrap().display())
    );
    let none = runner.obtain(&[("BINARY", "nowhere")]);
    assert_eq!(none.code, 2);
    fs_err::set_permissions(&own, PermissionsExt::from_mode(0o644)).unwrap();
    let plain = runner.obtain(&[("BINARY", own.to_str().unwrap())]);
    insta::assert_snapshot!(none.text + &plain.text, @r"
    ::error title=rocwheel::the input `binary` names no file: nowhere
    ::error title=rocwheel::the input `binary` names a file that cannot be executed: HERE/my tools/rocwheel
    ");
}
