//! How long tests run: at a desk the halves that find most, in CI all of it.

/// The variable that makes the tests run to their full length; `.ci/run` sets it.
const VARIABLE: &str = "ROCWHEEL_LONG_TESTS";

/// Whether the tests run to their full length.
pub(crate) fn is_on() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value != "0" && !value.is_empty())
}

/// How often to repeat something.
pub(crate) fn rounds<T>(short: T, long: T) -> T {
    if is_on() { long } else { short }
}

/// Says that a test is left out, unless the tests run to their full length.
#[expect(clippy::print_stderr, reason = "a test that did nothing has to say so")]
pub(crate) fn is_left_out() -> bool {
    if !is_on() {
        eprintln!("left out: set {VARIABLE}=1 to run it");
    }
    !is_on()
}
