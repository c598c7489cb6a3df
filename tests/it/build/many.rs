//! Sets of very many files: ten times as many take about ten times as long, for files of any kind.

use std::os::unix::fs::symlink;

use super::{place, trouble::unpack};
use crate::support::prelude::*;

const STAGE: &str = "in/blas_lib_generic/math-libs/BLAS/rocBLAS/stage";

/// A step that compares each file with each other one takes a hundred times as long. What grows
/// with the logarithm, and caches that become too small, stay far below this.
const MOST: f64 = 18.0;

#[test]
#[ignore = "slow"]
fn ten_times_as_many_files_take_about_ten_times_as_long() {
    let many = long::rounds(3_000, 100_000);
    let few = seconds_of_steps(many / 10);
    let many = seconds_of_steps(many);
    for ((step, few), (_, many)) in few.iter().zip(&many) {
        // The first tenth is what starting takes, and the grain of the clock.
        let ratio = many / few.max(0.1);
        assert!(ratio < MOST, "{step}: {few} s, then {many} s");
    }
}

/// The CPU seconds of each command.
fn seconds_of_steps(count: usize) -> Vec<(&'static str, f64)> {
    let place = place(&format!("many/{count}"));
    unpack(&place);
    add_files(&place.join(STAGE), count);
    let (artifacts, set) = (["--artifact-dir", "in"], ["--dest-dir", "set"]);
    let build = |rest: &[&'static str]| [&["build"], &artifacts[..], &set, rest].concat();
    let upload = "upload --dry-run --multi-target --platform linux --run-id local \
                  --packages-dir set --output-dir out";
    let steps: [(&str, Vec<&str>); 8] = [
        ("build --plan", build(&["--plan"])),
        ("build", build(&[])),
        ("build --reuse", build(&["--reuse", "set"])),
        ("check", vec!["check", "set"]),
        ("check", vec!["check", "set"]),
        ("index", vec!["index", "set"]),
        ("upload", upload.split_whitespace().collect()),
        ("summary", vec!["summary", "set"]),
    ];
    let took = steps.map(|(name, arguments)| (name, cpu_seconds(&place, &arguments)));
    fs_err::remove_dir_all(place).unwrap();
    took.into()
}

/// Half of them with a directory of their own; and files in one directory, symlinks, libraries and
/// Python.
fn add_files(stage: &Path, count: usize) {
    let directory = |name: &str| -> PathBuf {
        let path = stage.join("lib").join(name);
        fs_err::create_dir_all(&path).unwrap();
        path
    };
    for number in 0..count / 2 {
        let own = directory(&format!("own/d{number}"));
        fs_err::write(own.join("f.dat"), number.to_string()).unwrap();
    }
    let [flat, links, libraries, python] =
        ["flat", "links", "libraries", "python3/many"].map(directory);
    for number in 0..count / 8 {
        let file = format!("f{number}.dat");
        fs_err::write(flat.join(&file), number.to_string()).unwrap();
        symlink(format!("../flat/{file}"), links.join(file)).unwrap();
        let name = format!("libmany{number}.so.1");
        fs_err::write(libraries.join(&name), SharedObject::new(&name).build()).unwrap();
        let module = python.join(format!("m{number}.py"));
        fs_err::write(module, format!("x = {number}\n")).unwrap();
    }
}

/// Of the process alone, because tests run beside it. The shell prints its own seconds, and then
/// those of the programs it ran, such as `0m1.250s 0m0.031s`.
fn cpu_seconds(place: &Path, arguments: &[&str]) -> f64 {
    let mut bash = Command::new("bash");
    bash.args(["-c", r#""$@" >/dev/null && times"#, "bash"]);
    bash.args([ROCWHEEL, "--quiet"]).args(arguments);
    let output = bash.current_dir(place).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    let times = String::from_utf8(output.stdout).unwrap();
    let of_programs = times.lines().last().unwrap().split(' ');
    of_programs
        .map(|time| {
            let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
            60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
        })
        .sum()
}
