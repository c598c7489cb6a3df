//! Where the action gets its binary: given, released or built.

use std::os::unix::fs::PermissionsExt;

use super::runner::read;
use crate::support::prelude::*;

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
echo "$PWD: $*" >>"$LOG"
while [ "$1" != --target-dir ]; do shift; done
mkdir -p "$2/release"
cp "$SERVED" "$2/release/rocwheel"
"#;

/// A runner for Linux with the action's tree, and tools that do nothing real.
fn runner(release: &str) -> Sandbox {
    let t = Sandbox::new();
    write(&t, SCRIPT, &read(SCRIPT));
    write(&t, DATA, release);
    write(&t, "served", RELEASED);
    write(&t, "temp/x", "");
    // What the job has checked out, for which cargo would run another compiler.
    let settings = "[build]\nrustc-wrapper = \"./wrapper\"\n";
    t.write("checkout/.cargo/config.toml", settings);
    let nap = "#!/bin/sh\necho slept $1 >>\"$LOG\"\n";
    for (tool, text) in [("bin/curl", CURL), ("bin/cargo", CARGO), ("bin/sleep", nap)] {
        write(&t, tool, text);
    }
    let tools = std::env::var("PATH").unwrap();
    let path = format!("{}:{tools}", t.path("bin").display());
    let places = [
        ("RUNNER_TEMP", "temp"),
        ("RUNNER_TOOL_CACHE", "cache"),
        ("GITHUB_PATH", "paths"),
        ("GITHUB_OUTPUT", "outputs"),
        ("LOG", "log"),
        ("SERVED", "served"),
    ];
    let places = places.map(|(name, it)| (name, t.path(it)));
    let t = t.with("PATH", path).with("RUNNER_OS", "Linux");
    let t = t.with("RUNNER_ARCH", "X64");
    places.into_iter().fold(t, |t, (name, it)| t.with(name, it))
}

/// Writes a file that can be executed.
fn write(t: &Sandbox, name: &str, text: &str) -> PathBuf {
    let path = t.write(name, text);
    write_program(&path, text);
    path
}

fn text(t: &Sandbox, name: &str) -> String {
    fs_err::read_to_string(t.path(name)).unwrap_or_default()
}

/// Runs the script with further variables: its exit code, and what it printed.
fn obtain(t: &Sandbox, variables: &[(&str, &str)]) -> (i32, String) {
    let own = t.command("");
    let mut script = Command::new("bash");
    script.arg(t.path(SCRIPT)).env_clear();
    script.current_dir(t.path("checkout"));
    script.envs(own.get_envs().filter_map(|(name, it)| Some((name, it?))));
    let said = t.outcome(script.envs(variables.iter().copied()));
    (said.code, said.stdout + &said.stderr)
}

fn release() -> String {
    let digest = Sha256::of(RELEASED.as_bytes());
    format!(
        "# A release.\nurl https://example.org/v9.9.9/\nLinux-X64 {digest} rocwheel-linux\nWindows-X64 {digest} rocwheel.exe\n"
    )
}

#[test]
fn a_release_is_downloaded_once_and_verified_each_time() {
    let t = runner(&release());
    let said = obtain(&t, &[]);
    assert_eq!((said.0, said.1.as_str()), (0, "rocwheel 9.9.9\n"));
    let digest = Sha256::of(RELEASED.as_bytes());
    let cached = format!("cache/rocwheel/{digest}/rocwheel");
    let at = |name: &str| t.path(name).display().to_string();
    assert_eq!(text(&t, "outputs"), format!("path={}\n", at(&cached)));
    let directory = Path::new(&cached).parent().unwrap().to_str().unwrap();
    assert_eq!(text(&t, "paths"), format!("{}\n", at(directory)));
    assert!(text(&t, "log").contains("https://example.org/v9.9.9/rocwheel-linux"));
    assert_eq!(obtain(&t, &[]).0, 0);
    assert_eq!(text(&t, "log").lines().count(), 1, "downloaded again");
    write(&t, &cached, "#!/bin/sh\necho evil\n");
    assert_eq!(obtain(&t, &[]).1, "rocwheel 9.9.9\n");
    assert_eq!(text(&t, "log").lines().count(), 2, "not downloaded again");
}

#[test]
fn a_download_that_breaks_is_tried_again_and_one_that_is_refused_is_not() {
    let t = runner(&release());
    write(&t, "failures", "56\n6\n");
    assert_eq!(obtain(&t, &[]).1, "rocwheel 9.9.9\n");
    let slept = |t: &Sandbox| {
        let log = text(t, "log");
        let naps = log.lines().filter_map(|line| line.strip_prefix("slept "));
        naps.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(slept(&t), "1 2");
    for (failures, naps) in [("22\n", ""), ("28\n28\n28\n28\n28\n", "1 2 4 8")] {
        let t = runner(&release());
        write(&t, "failures", failures);
        let said = obtain(&t, &[]);
        assert_eq!((said.0, slept(&t).as_str()), (2, naps));
        insta::allow_duplicates! {
            insta::assert_snapshot!(said.1, @"::error title=rocwheel::could not download https://example.org/v9.9.9/rocwheel-linux");
        }
    }
}

#[test]
fn what_was_not_released_is_not_run() {
    let t = runner(&release());
    write(&t, "served", "#!/bin/sh\necho evil\n");
    let said = obtain(&t, &[]);
    assert_eq!(said.0, 2);
    insta::assert_snapshot!(said.1, @"::error title=rocwheel::https://example.org/v9.9.9/rocwheel-linux is not what was released: its sha256 is 371ee1e216c6db0e75b5563ebf71ef0f20aefdaabf1b2a7aa1e6b0c9a730afc5 instead of 3cfc8d549dbe03a5bb5c088fff5526fcd20292f10c39883c7a89827eaa474455");
    assert_eq!(text(&t, "paths"), "");
    assert_eq!(text(&t, "outputs"), "");
    let arm = [("RUNNER_ARCH", "ARM64"), ("BUILD_FROM_SOURCE", "false")];
    let other = obtain(&t, &arm);
    insta::assert_snapshot!(other.1, @"::error title=rocwheel::no release of rocwheel is for Linux-ARM64, and it is built where there is Rust: install it in an earlier step");
}

#[test]
#[ignore = "slow"]
fn what_the_release_workflow_writes_is_what_is_read() {
    let t = runner("");
    for (target, ending) in TARGETS {
        let text = match ending {
            "" => RELEASED,
            _ => "#!/bin/sh\necho rocwheel 9.9.9 for Windows\n",
        };
        write(&t, &format!("work/built/{target}/rocwheel{ending}"), text);
    }
    let mut python = Command::new("python3");
    python.arg(root().join(".github/binary/release.py"));
    python.args(["gather", DOWNLOADS, "built", "dist"]);
    succeed(python.current_dir(t.path("work")));
    write(&t, DATA, &text(&t, "work/dist/release.txt"));
    assert_eq!(obtain(&t, &[]).1, "rocwheel 9.9.9\n");
    let address = format!("{DOWNLOADS}/rocwheel-x86_64-unknown-linux-musl");
    let log = text(&t, "log");
    assert_has!(log, &address);
    let windows = "work/dist/rocwheel-x86_64-pc-windows-msvc.exe";
    let served = t.path(windows).display().to_string();
    let said = obtain(&t, &[("RUNNER_OS", "Windows"), ("SERVED", &served)]);
    assert_eq!(said.1, "rocwheel 9.9.9 for Windows\n");
    let mut sums = Command::new("sha256sum");
    succeed(sums.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(t.path("work/dist")));
    for (target, ending) in TARGETS {
        let url = binstall(target, ending);
        let name = url.strip_prefix(&format!("{DOWNLOADS}/")).unwrap();
        assert!(t.path("work/dist").join(name).is_file(), "{url}");
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
    values.iter().fold(url, |url, (name, value)| url.replace(&format!("{{ {name} }}"), value))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_container_with_an_old_curl_downloads_with_another_program() {
    let t = runner(&release());
    write(&t, "failures", "2\n");
    let wget = "#!/bin/sh\necho \"wget $*\" >>\"$LOG\"\ncp \"$SERVED\" \"$3\"\n";
    write(&t, "bin/wget", wget);
    assert_eq!(obtain(&t, &[]).1, "rocwheel 9.9.9\n");
    assert!(text(&t, "log").contains("wget -q -O"));
    // What another program brings is verified, too.
    write(&t, "failures", "2\n");
    write(&t, "served", "#!/bin/sh\necho evil\n");
    fs_err::remove_dir_all(t.path("cache")).unwrap();
    assert_eq!(obtain(&t, &[]).0, 2);
}

#[test]
fn on_windows_the_program_has_its_ending() {
    let t = runner(&release());
    write(&t, "bin/cygpath", "#!/bin/sh\necho \"C:$2\"\n");
    let said = obtain(&t, &[("RUNNER_OS", "Windows")]);
    assert_eq!(said.0, 0, "{}", said.1);
    assert!(text(&t, "log").contains("/rocwheel.exe"));
    let outputs = text(&t, "outputs");
    assert!(outputs.starts_with("path=C:/"), "{outputs}");
    assert!(outputs.ends_with("/rocwheel.exe\n"), "{outputs}");
    assert!(text(&t, "paths").starts_with("C:/"));
}

#[test]
fn a_binary_that_is_there_is_taken_as_it_is() {
    let t = runner(&read(DATA));
    let own = write(&t, "my tools/rocwheel", RELEASED);
    let said = obtain(&t, &[("BINARY", own.to_str().unwrap())]);
    assert_eq!((said.0, said.1.as_str()), (0, "rocwheel 9.9.9\n"));
    let directory = format!("{}\n", own.parent().unwrap().display());
    assert_eq!(text(&t, "paths"), directory);
    let none = obtain(&t, &[("BINARY", "nowhere")]);
    assert_eq!(none.0, 2);
    fs_err::set_permissions(&own, PermissionsExt::from_mode(0o644)).unwrap();
    let plain = obtain(&t, &[("BINARY", own.to_str().unwrap())]);
    let lines = write(&t, "two\nlines", RELEASED);
    let lines = obtain(&t, &[("BINARY", lines.to_str().unwrap())]);
    assert_eq!((lines.0, text(&t, "outputs").lines().count()), (2, 1));
    assert_has!(lines.1, "the input `binary` has more than one line");
    insta::assert_snapshot!(none.1 + &plain.1, @r"
    ::error title=rocwheel::the input `binary` names no file: nowhere
    ::error title=rocwheel::the input `binary` names a file that cannot be executed: HERE/my tools/rocwheel
    ");
}

#[test]
fn it_is_built_without_a_release_or_when_that_is_asked_for() {
    let t = runner(&read(DATA));
    let refused = obtain(&t, &[("BUILD_FROM_SOURCE", "false")]);
    assert_eq!(refused.0, 2);
    let odd = obtain(&t, &[("BUILD_FROM_SOURCE", "yes%0Aplease")]);
    insta::assert_snapshot!(refused.1 + &odd.1, @"
    ::error title=rocwheel::rocwheel has no release yet, and is built where there is Rust: install it in an earlier step
    ::error title=rocwheel::the input `build-from-source` is none of `auto`, `true`, `false`: yes%250Aplease
    ");
    for variables in [&[][..], &[("BUILD_FROM_SOURCE", "true")]] {
        let said = obtain(&t, variables);
        assert_eq!((said.0, said.1.as_str()), (0, "rocwheel 9.9.9\n"));
        let log = text(&t, "log");
        let log = log.replace(t.path("").to_str().unwrap().trim_end_matches('/'), "HERE");
        // In the directory of the action, and not in that of the job.
        let built = "HERE: build --locked --release --package rocwheel --bin rocwheel --target-dir HERE/temp/rocwheel";
        assert_eq!(log.lines().last(), Some(built));
    }
    let released = runner(&release());
    assert_eq!(obtain(&released, &[]).1, "rocwheel 9.9.9\n");
    assert!(!text(&released, "log").contains("build"));
}
