//! What becomes of a test that needs a program which is not on this machine.

use std::{
    io::{self, Write as _},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Says that the test of this thread is skipped, and how many were so far. With `CI=true` it fails.
pub fn skipped(why: &str) {
    static COUNT: AtomicUsize = AtomicUsize::new(1);
    let is_ci = std::env::var_os("CI").is_some_and(|it| it == "true");
    assert!(!is_ci, "{why}: with CI=true every judge has to be there");
    let (thread, count) = (thread::current(), COUNT.fetch_add(1, Ordering::Relaxed));
    let test = thread.name().unwrap_or_default();
    let line = format!("skipped ({count} so far): {test}: {why}\n");
    // The test harness would keep what a macro prints, because the test passes.
    io::stderr().write_all(line.as_bytes()).unwrap();
}
