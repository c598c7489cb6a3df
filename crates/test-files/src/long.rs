//! How long tests run: for each change a part that differs from run to run, each night all of it.

use std::{ops::Range, time::SystemTime};

/// The variable that makes the tests run to their full length; `.ci/run --long` sets it.
const LONG: &str = "ROCWHEEL_LONG_TESTS";
/// The variable that makes the short form of a test try what it tried in another run.
const SEED: &str = "ROCWHEEL_SEED";
/// More numbers than any test takes, and few enough to be multiplied.
const SEEDS: u64 = 1_000_000;

/// Whether the tests run to their full length.
pub fn is_on() -> bool {
    std::env::var_os(LONG).is_some_and(|value| value != "0" && !value.is_empty())
}

/// How often to repeat something.
pub fn rounds<T>(short: T, long: T) -> T {
    if is_on() { long } else { short }
}

/// Numbers to derive damage or moments from. In long the same ones each time; in short so many that follow
/// a number which is another one in each run. A test that fails shows that.
#[expect(clippy::print_stdout, reason = "the test harness keeps it")]
pub fn seeds(short: u64, long: u64) -> Range<u64> {
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
