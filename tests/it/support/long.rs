//! How long tests run: for each change a part that differs from run to run, each night all of it.

use std::{ops::Range, path::Path, time::SystemTime};

/// The variable that makes the tests run to their full length; `.ci/run --long` sets it.
const LONG: &str = "ROCWHEEL_LONG_TESTS";
/// The variable that makes the short form of a test try what it tried in another run.
const SEED: &str = "ROCWHEEL_SEED";
/// More numbers than any test takes, and few enough to be multiplied.
const SEEDS: u64 = 1_000_000;

/// Whether the tests run to their full length.
pub(crate) fn is_on() -> bool {
    std::env::var_os(LONG).is_some_and(|value| value != "0" && !value.is_empty())
}

/// How often to repeat something.
pub(crate) fn rounds<T>(short: T, long: T) -> T {
    if is_on() { long } else { short }
}

/// Numbers to derive damage or moments from. In long the same ones each time; in short so many that follow
/// a number which is another one in each run. A test that fails shows that.
#[expect(clippy::print_stdout, reason = "the test harness keeps it")]
pub(crate) fn seeds(short: u64, long: u64) -> Range<u64> {
    if is_on() {
        return 0..long;
    }
    let first = std::env::var(SEED).map_or_else(
        |_| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            u64::from(now.unwrap().subsec_micros()) % SEEDS
        },
        |seed| seed.parse().expect("a number in ROCWHEEL_SEED"),
    );
    println!("to try the same again, set {SEED}={first}");
    first..first + short
}

/// Each test that only `.ci/run --long` runs is ignored otherwise, and `.ci/run` skips it by its name.
#[test]
fn a_test_that_is_only_for_long_runs_has_it_in_its_name() {
    let mut wrong = Vec::new();
    let mut names = 0;
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    for entry in walkdir::WalkDir::new(tests) {
        let file = entry.unwrap().into_path();
        if file.extension().is_none_or(|end| end != "rs") {
            continue;
        }
        let code = fs_err::read_to_string(&file).unwrap();
        let mut is_long = false;
        for line in code.lines() {
            if let Some(name) = line.trim().strip_prefix("fn ") {
                let is_named = name.starts_with("long_");
                names += usize::from(is_named);
                if is_named != is_long {
                    wrong.push(format!("{}: {name}", file.display()));
                }
            }
            let is_attribute = line.trim().starts_with("#[");
            is_long = line.trim() == "#[ignore = \"long\"]" || is_long && is_attribute;
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(names > 20, "{names}");
}
