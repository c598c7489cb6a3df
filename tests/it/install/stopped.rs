//! Installs that are killed, or interrupted by Ctrl-C, at any moment.

use std::{
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::Stdio,
    thread::sleep,
    time::Instant,
};

use super::{built, count, expected, install, packages, sandbox};
use crate::support::prelude::*;

/// How the end of a program is asked for: as by the system, and as by a terminal, which asks the
/// installer too.
const SIGNALS: [(&str, &str); 3] = [("-KILL", ""), ("-INT", ""), ("-INT", "-")];

/// Installs after an install that was killed, once the installer of that has ended: it holds the
/// lock.
fn install_after(t: &Sandbox, line: &str) -> i32 {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let next = t.run(line);
        if !next.stderr.contains("another install is running") || Instant::now() > deadline {
            return next.code;
        }
        sleep(Duration::from_millis(100));
    }
}

#[test]
#[ignore = "slow"]
fn an_install_that_is_stopped_at_any_moment_can_be_run_again() {
    let t = sandbox();
    let set = built(sample());
    let install = format!("install {} --no-check --target gfx942", text(&set));
    let new = format!("{install} --extras libraries");
    let update = format!("{install} --extras libraries,devel");
    let (environment, begin) = (t.path(".venv"), Instant::now());
    t.run(&new).ok();
    let time = begin.elapsed();
    let turns = long::rounds(6, 54);
    for turn in 0..turns {
        let (signal, group) = SIGNALS[turn % SIGNALS.len()];
        let is_update = turn / SIGNALS.len() % 2 == 1;
        let line = if is_update { &update } else { &new };
        if is_update {
            t.write(".venv/bin/mine", "mine");
        } else {
            fs_err::remove_dir_all(&environment).unwrap();
        }
        let mut child = t.command(line);
        child.stderr(Stdio::null()).stdout(Stdio::null());
        let mut child = child.process_group(0).spawn().unwrap();
        let moment = u32::try_from(turn * 37 % turns).unwrap();
        sleep(time * moment / u32::try_from(turns).unwrap());
        let id = format!("{group}{}", child.id());
        let mut kill = Command::new("kill");
        kill.args([signal, "--", &id]).stderr(Stdio::null());
        kill.status().unwrap();
        let status = child.wait().unwrap();
        let what = format!("turn {turn}: {signal} {group} {status}");
        if signal == "-INT" {
            // By the signal itself, before the program could listen.
            let is_early = status.signal().is_some();
            assert!(is_early || matches!(status.code(), Some(0 | 130)), "{what}");
            let is_made = is_update || status.code() == Some(0);
            assert_eq!(count(&t.path("")), usize::from(is_made), "{what}");
        }
        // What a kill leaves of a new environment is either one, or is refused and left alone.
        if install_after(&t, line) != 0 {
            assert!(signal == "-KILL" && !is_update, "{what}");
            fs_err::remove_dir_all(&environment).unwrap();
            assert_eq!(install_after(&t, line), 0, "{what}");
        }
        let mut wanted = expected(&["gfx942"]);
        wanted.retain(|package| is_update || !package.starts_with("rocm_sdk_devel"));
        assert_eq!(packages(&environment), wanted, "{what}");
        assert_eq!(environment.join("bin/mine").exists(), is_update, "{what}");
    }
}

/// Ctrl-C in a terminal ends the Python that is asked for its version, too.
#[test]
fn what_fails_after_an_interruption_is_no_failure() {
    let t = sandbox();
    t.write(".venv/pyvenv.cfg", "");
    let python = t.write(".venv/bin/python", "");
    write_program(&python, "#!/bin/sh\nkill -INT $PPID\nexit 1\n");
    let done = install(&t, &built(sample()), "--target gfx942 --python 3.12");
    let said = done.refused(130);
    assert!(said.trim_end().ends_with("\nerror: interrupted"), "{said}");
}
